// SPDX-License-Identifier: Apache-2.0
#include "backend/remote/remote_read_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "backend/remote/remote_testing.h"

namespace cairn::backend::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RemoteRead, AnswersAHotKeyWithoutTheRemoteTier) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a");
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(2)), std::nullopt);
  EXPECT_EQ(task.pool->reads + task.pool->batch_reads, 0u);
  EXPECT_EQ(task.backend->stats().hot_hits, 1u);
}

TEST(RemoteRead, FetchesAColdKeyOnceAndHasItHotThen) {
  RemoteWorld world;
  BackendSnapshot snapshot;
  {
    auto task = world.Open();
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
    snapshot = MustSnapshot(task.backend.get(), 1);
  }
  auto task = world.Open();
  MustRestore(task.backend.get(), {{snapshot}});
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a");
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a");
  EXPECT_EQ(task.pool->reads, 1u);
}

TEST(RemoteRead, LoadsNoValueAtRestoreAndFetchesAtTheFirstRead) {
  RemoteWorld world;
  auto first = world.Open();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(first.backend->Put(kOp, KeyOf(i), "v").ok());
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  auto task = world.Open();
  EXPECT_EQ(MustRestore(task.backend.get(), {{snapshot}}).rows, 100u);
  EXPECT_EQ(task.backend->stats().hot.rows, 0u);
  EXPECT_EQ(task.pool->reads + task.pool->batch_reads + task.pool->pages, 0u);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(42)), "v");
  EXPECT_EQ(task.backend->stats().hot.rows, 1u);
}

TEST(RemoteRead, ScansTheDurableRowsAfterALazyRestore) {
  RemoteWorld world;
  auto first = world.Open();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(first.backend->Put(kOp, KeyOf(i), "v" + std::to_string(i)).ok());
  }
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(first.backend->Put(kOther, OperatorKeyOf("p" + std::to_string(i)), "7").ok());
  }
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  auto task = world.Open();
  MustRestore(task.backend.get(), {{snapshot}});
  EXPECT_EQ(ScanAll(task.backend.get(), kOp)->size(), 1000u);
  EXPECT_EQ(ScanAll(task.backend.get(), kOther)->size(), 4u);

  for (int i = 0; i < 10; ++i) ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), "new").ok());
  for (int i = 10; i < 15; ++i) ASSERT_TRUE(task.backend->Erase(kOp, KeyOf(i)).ok());
  const RowMap rows = *ScanAll(task.backend.get(), kOp);
  EXPECT_EQ(rows.size(), 995u);
  EXPECT_EQ(rows.at(KeyOf(3)), "new");
  EXPECT_EQ(rows.at(KeyOf(500)), "v500");
  EXPECT_FALSE(rows.contains(KeyOf(12)));
}

TEST(RemoteRead, ScansARangeInOrderOfKeyBytesOverManyPages) {
  RemoteWorld world;
  auto task = world.Open();
  RowMap expected;
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), std::to_string(i)).ok());
    expected[KeyOf(i)] = std::to_string(i);
    if (i % 1500 == 0) MustSnapshot(task.backend.get(), 1 + i);
  }
  const std::string first(1, '\x10');
  const std::string last(1, '\x70');
  std::erase_if(expected, [&](const auto& row) { return row.first < first || row.first >= last; });
  std::vector<std::string> keys;
  RowMap rows;
  ASSERT_TRUE(task.backend
                  ->Scan(kOp, {first, last},
                         [&](std::string_view key, std::string_view value) {
                           keys.emplace_back(key);
                           rows.emplace(key, value);
                           return true;
                         })
                  .ok());
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(rows, expected);
}

TEST(RemoteRead, EndsAScanWhenTheVisitorSaysSoOrThrows) {
  RemoteWorld world;
  auto task = world.Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), "v").ok());
  int visits = 0;
  const auto stop_at_three = [&](std::string_view, std::string_view) { return ++visits < 3; };
  ASSERT_TRUE(task.backend->Scan(kOp, ScanRange::All(), stop_at_three).ok());
  EXPECT_EQ(visits, 3);
  const auto throwing = [](std::string_view, std::string_view) -> bool {
    throw std::runtime_error("socket closed");
  };
  const Status thrown = task.backend->Scan(kOp, ScanRange::All(), throwing);
  EXPECT_EQ(thrown.code(), StatusCode::kInternal);
  EXPECT_EQ(task.backend->stats().open_readers, 0u);
}

TEST(RemoteRead, NeverEvictsAKeyThatNoCheckpointHolds) {
  RemoteWorld world;
  auto task = world.Open(0, 1, {.hot_max_bytes = 4096});
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), std::string(100, 'x')).ok());
  }
  EXPECT_EQ(task.backend->stats().hot.rows, 200u);
  EXPECT_EQ(task.backend->stats().hot.evictions, 0u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(MustGet(task.backend.get(), KeyOf(i))->size(), 100u);
  EXPECT_EQ(task.pool->reads, 0u);
}

TEST(RemoteRead, KeepsCapturedKeysInMemoryUntilTheyArePersisted) {
  RemoteWorld world;
  auto task = world.Open(0, 1, {.hot_max_bytes = 4096});
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), "v").ok());
  auto captured = MustCapture(task.backend.get(), 1);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(MustGet(task.backend.get(), KeyOf(i)), "v");
  EXPECT_EQ(task.backend->stats().hot.rows, 200u);
  EXPECT_EQ(task.pool->reads, 0u);
  ASSERT_TRUE(captured->Persist().ok());
  EXPECT_LE(task.backend->stats().hot.resident_bytes, 4096u);
}

TEST(RemoteRead, ComesBackWithinItsBytesAfterTheCheckpointOfABurstAndFetchesWhatItEvicted) {
  RemoteWorld world;
  auto task = world.Open(0, 1, {.hot_max_bytes = 8192});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), std::to_string(i)).ok());
  }
  EXPECT_GT(task.backend->stats().hot.resident_bytes, 8192u);
  MustSnapshot(task.backend.get(), 1);
  EXPECT_LE(task.backend->stats().hot.resident_bytes, 8192u);
  EXPECT_GT(task.backend->stats().hot.rows, 0u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(MustGet(task.backend.get(), KeyOf(i)), std::to_string(i));
  EXPECT_GT(task.pool->reads, 900u);
  EXPECT_LE(task.backend->stats().hot.resident_bytes, 8192u);
}

TEST(RemoteRead, RefusesAWriteWhenTheBudgetIsFullOfDirtyKeysAndTakesItAfterACheckpoint) {
  RemoteWorld world(/*budget_bytes=*/100'000);
  auto task = world.Open();
  Status refused;
  int written = 0;
  while (refused.ok()) {
    refused = task.backend->Put(kOp, KeyOf(written), std::string(1000, 'x'));
    if (refused.ok()) ++written;
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.ToString(), HasSubstr("hot tier"));
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(written)), std::nullopt);
  for (int i = 0; i < written; ++i) EXPECT_EQ(MustGet(task.backend.get(), KeyOf(i))->size(), 1000u);
  MustSnapshot(task.backend.get(), 1);
  EXPECT_TRUE(task.backend->Put(kOp, KeyOf(written), std::string(1000, 'x')).ok());
  task.backend.reset();
  EXPECT_EQ(world.budget.total(), 0u);
}

TEST(RemoteRead, ReadsAnErasedKeyAsAbsentBeforeWhileAndAfterItsCheckpointIsSaved) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
  MustSnapshot(task.backend.get(), 1);
  ASSERT_TRUE(task.backend->Erase(kOp, KeyOf(1)).ok());
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), std::nullopt);
  auto captured = MustCapture(task.backend.get(), 2);
  task.pool->before_commit = [&](uint64_t) {
    EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), std::nullopt);
    return Status();
  };
  ASSERT_TRUE(captured->Persist().ok());
  EXPECT_EQ(task.pool->rows_deleted, 1u);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), std::nullopt);
  EXPECT_THAT(*ScanAll(task.backend.get(), kOp), IsEmpty());
}

TEST(RemoteRead, RollsLaterWritesBackAndClearsTheHotTierAtRestore) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "old").ok());
  const BackendSnapshot snapshot = MustSnapshot(task.backend.get(), 1);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "new").ok());
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "new").ok());
  auto captured = MustCapture(task.backend.get(), 2);
  MustRestore(task.backend.get(), {{snapshot}});
  EXPECT_EQ(task.backend->stats().hot.rows, 0u);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "old");
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(2)), std::nullopt);
  EXPECT_EQ(captured->Persist().status().code(), StatusCode::kCancelled);
}

TEST(RemoteRead, BuildsOnTheRestoredCheckpointAndNotOnOnesGivenUp) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "one").ok());
  const BackendSnapshot one = MustSnapshot(task.backend.get(), 1);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "two").ok());
  MustSnapshot(task.backend.get(), 2);
  MustRestore(task.backend.get(), {{one}});
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(3), "three").ok());
  const BackendSnapshot three = MustSnapshot(task.backend.get(), 3);
  auto fresh = world.Open();
  EXPECT_EQ(MustRestore(fresh.backend.get(), {{three}}).rows, 2u);
  EXPECT_EQ(*ScanAll(fresh.backend.get(), kOp), (RowMap{{KeyOf(1), "one"}, {KeyOf(3), "three"}}));
}

TEST(RemoteRead, WritesOnlyWhatChangedSinceTheLastCheckpoint) {
  RemoteWorld world;
  auto task = world.Open();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), "v").ok());
  MustSnapshot(task.backend.get(), 1);
  task.pool->rows_changed = 0;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), "w").ok());
  MustSnapshot(task.backend.get(), 2);
  EXPECT_EQ(task.pool->rows_changed, 5u);
}

TEST(RemoteRead, KeepsTheWritesOfAFailedCommitAndPutsThemIntoTheNext) {
  RemoteWorld world;
  for (const bool made_but_unknown : {false, true}) {
    auto task = world.Open();
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "b").ok());
    auto hook = [](uint64_t id) { return id == 1 ? Status::Unavailable("503") : Status(); };
    (made_but_unknown ? task.pool->after_commit : task.pool->before_commit) = hook;
    const Result<BackendSnapshot> failed = task.backend->Snapshot(1);
    EXPECT_EQ(failed.status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a");
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "c").ok());
    const BackendSnapshot next = MustSnapshot(task.backend.get(), 2);
    auto fresh = world.Open();
    MustRestore(fresh.backend.get(), {{next}});
    EXPECT_EQ(*ScanAll(fresh.backend.get(), kOp), (RowMap{{KeyOf(1), "a"}, {KeyOf(2), "c"}}));
  }
}

TEST(RemoteRead, MayPersistAgainAfterAnError) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
  auto captured = MustCapture(task.backend.get(), 1);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "later").ok());
  task.pool->before_commit = [](uint64_t) -> Status { throw std::runtime_error("broken pipe"); };
  const Status thrown = captured->Persist().status();
  EXPECT_EQ(thrown.code(), StatusCode::kInternal);
  EXPECT_THAT(thrown.ToString(), HasSubstr("broken pipe"));
  task.pool->before_commit = nullptr;
  const Result<BackendSnapshot> snapshot = captured->Persist();
  ASSERT_TRUE(snapshot.ok());
  auto fresh = world.Open();
  MustRestore(fresh.backend.get(), {{*snapshot}});
  EXPECT_EQ(MustGet(fresh.backend.get(), KeyOf(1)), "a");
}

TEST(RemoteRead, PersistsCapturesInAnyOrder) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a1").ok());
  auto first = MustCapture(task.backend.get(), 1);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a2").ok());
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "b2").ok());
  auto second = MustCapture(task.backend.get(), 2);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "b3").ok());
  const Result<BackendSnapshot> two = second->Persist();
  const Result<BackendSnapshot> one = first->Persist();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a2");
  auto fresh = world.Open();
  MustRestore(fresh.backend.get(), {{*one}});
  EXPECT_EQ(*ScanAll(fresh.backend.get(), kOp), (RowMap{{KeyOf(1), "a1"}}));
  MustRestore(fresh.backend.get(), {{*two}});
  EXPECT_EQ(*ScanAll(fresh.backend.get(), kOp), (RowMap{{KeyOf(1), "a2"}, {KeyOf(2), "b2"}}));
}

TEST(RemoteRead, GivesTheWrittenValueToAReadThatAWriteOvertook) {
  RemoteWorld world;
  auto first = world.Open();
  ASSERT_TRUE(first.backend->Put(kOp, KeyOf(1), "old").ok());
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  // While the load is under way the key is written, committed and evicted.
  auto task = world.Open(0, 1, {.hot_max_bytes = 2000});
  MustRestore(task.backend.get(), {{snapshot}});
  bool overtaken = false;
  task.pool->before_read = [&]() -> Status {
    if (std::exchange(overtaken, true)) return {};
    EXPECT_TRUE(task.backend->Put(kOp, KeyOf(1), "new").ok());
    MustSnapshot(task.backend.get(), 2);
    for (int i = 10; i < 40; ++i) EXPECT_TRUE(task.backend->Put(kOp, KeyOf(i), "fill").ok());
    EXPECT_GT(task.backend->stats().hot.evictions, 0u);
    // What the load will answer is of the checkpoint before.
    return {};
  };
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "new");
  EXPECT_EQ(task.pool->reads, 2u);
}

TEST(RemoteRead, ReportsAReadThatCouldNotBeMadeAndNeverCallsItAbsent) {
  RemoteWorld world;
  auto first = world.Open();
  ASSERT_TRUE(first.backend->Put(kOp, KeyOf(1), "a").ok());
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  auto task = world.Open();
  MustRestore(task.backend.get(), {{snapshot}});
  const auto check = [&](StatusCode code) {
    EXPECT_EQ(task.backend->Get(kOp, KeyOf(1)).status().code(), code);
    EXPECT_EQ(task.backend->Merge(kOp, KeyOf(1), "b").code(), code);
    const std::string keys[] = {KeyOf(1), KeyOf(2)};
    const std::string_view views[] = {keys[0], keys[1]};
    std::vector<StateValue> values;
    EXPECT_EQ(task.backend->GetMany(kOp, views, &values).code(), code);
    EXPECT_THAT(values, IsEmpty());
    EXPECT_EQ(ScanAll(task.backend.get(), kOp).status().code(), code);
  };
  task.pool->before_read = [] { return Status::Unavailable("503"); };
  check(StatusCode::kUnavailable);
  task.pool->before_read = []() -> Status { throw std::runtime_error("reset"); };
  check(StatusCode::kInternal);
  task.pool->before_read = []() -> Status { throw std::bad_alloc(); };
  check(StatusCode::kResourceExhausted);
  task.pool->before_read = nullptr;
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a");
}

TEST(RemoteRead, MergesOntoTheDurableValue) {
  RemoteWorld world;
  auto task = world.Open(0, 1, {.hot_max_bytes = 1});
  ASSERT_TRUE(task.backend->Merge(kOp, KeyOf(1), "a").ok());
  MustSnapshot(task.backend.get(), 1);
  EXPECT_EQ(task.backend->stats().hot.rows, 0u);
  ASSERT_TRUE(task.backend->Merge(kOp, KeyOf(1), "b").ok());
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "ab");
}

TEST(RemoteRead, RefusesAWholeBatchForOneMalformedKey) {
  RemoteWorld world;
  auto task = world.Open();
  WriteBatch batch;
  batch.Put(kOp, KeyOf(1), "a");
  std::string wrong = KeyOf(2);
  wrong[0] = static_cast<char>(wrong[0] ^ 1);
  batch.Put(kOp, wrong, "b");
  size_t applied = 9;
  EXPECT_EQ(task.backend->Apply(batch, &applied).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(applied, 0u);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), std::nullopt);
}

TEST(RemoteRead, ExportsThePoolUnderTheWritesSince) {
  RemoteWorld world;
  auto task = world.Open();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), "pool").ok());
  ASSERT_TRUE(task.backend->Put(kOther, OperatorKeyOf("p"), "7").ok());
  MustSnapshot(task.backend.get(), 1);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(0), "hot").ok());
  ASSERT_TRUE(task.backend->Erase(kOp, KeyOf(1)).ok());
  auto captured = MustCapture(task.backend.get(), 2);  // masks from a frozen delta too
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(9), "hot").ok());
  ASSERT_TRUE(task.backend->Erase(kOp, KeyOf(2)).ok());
  std::map<std::pair<uint64_t, std::string>, std::string> rows;
  const auto collect = [&](OperatorId op, std::string_view key, std::string_view value) {
    EXPECT_TRUE(rows.emplace(std::pair(op.value, std::string(key)), value).second);
    return true;
  };
  ASSERT_TRUE(task.backend->ExportLive(collect).ok());
  const std::map<std::pair<uint64_t, std::string>, std::string> expected = {
      {{7, KeyOf(0)}, "hot"},  {{7, KeyOf(3)}, "pool"}, {{7, KeyOf(4)}, "pool"},
      {{7, KeyOf(5)}, "pool"}, {{7, KeyOf(9)}, "hot"},  {{8, OperatorKeyOf("p")}, "7"}};
  EXPECT_EQ(rows, expected);
}

/// Answers "loaded <key>" for every key but those that begin with 'n'.
class EchoLoader final : public RemoteLoader {
 public:
  Result<StateValue> Load(StateKeyRef key) override {
    ++loads;
    if (fail) throw std::runtime_error("service is down");
    if (key.key.find("|n") != std::string_view::npos) return StateValue();
    return StateValue("loaded " + std::string(key.key.substr(3)));
  }
  std::atomic<int> loads{0};
  std::atomic<bool> fail{false};
};

RemoteReadOptions LoaderOptions(MemoryBudget* budget) {
  RemoteReadOptions options;
  options.backend.budget = budget;
  options.io_threads = 1;
  return options;
}

TEST(RemoteReadOverLoader, ReadsThroughAndHoldsItsOwnWritesAbove) {
  MemoryBudget budget(0);
  auto loader = std::make_shared<EchoLoader>();
  auto backend = *RemoteReadBackend::OverLoader(loader, LoaderOptions(&budget));
  EXPECT_EQ(MustGet(backend.get(), StoredKeyOf("a")), "loaded a");
  EXPECT_EQ(MustGet(backend.get(), StoredKeyOf("a")), "loaded a");
  EXPECT_EQ(loader->loads, 1);
  EXPECT_EQ(MustGet(backend.get(), StoredKeyOf("none")), std::nullopt);
  ASSERT_TRUE(backend->Put(kOp, StoredKeyOf("b"), "own").ok());
  ASSERT_TRUE(backend->Erase(kOp, StoredKeyOf("c")).ok());
  const BackendSnapshot snapshot = MustSnapshot(backend.get(), 1);
  ASSERT_TRUE(backend->Put(kOp, StoredKeyOf("b"), "later").ok());
  MustRestore(backend.get(), {{snapshot}});
  EXPECT_EQ(MustGet(backend.get(), StoredKeyOf("b")), "own");
  EXPECT_EQ(MustGet(backend.get(), StoredKeyOf("c")), std::nullopt);
  EXPECT_EQ(MustGet(backend.get(), StoredKeyOf("d")), "loaded d");
}

TEST(RemoteReadOverLoader, RefusesAnExportAndAScanOfKeyedState) {
  MemoryBudget budget(0);
  auto backend =
      *RemoteReadBackend::OverLoader(std::make_shared<EchoLoader>(), LoaderOptions(&budget));
  ASSERT_TRUE(backend->Put(kOp, StoredKeyOf("a"), "x").ok());
  ASSERT_TRUE(backend->Put(kOp, OperatorKeyOf("offset"), "5").ok());
  const auto all = [](OperatorId, std::string_view, std::string_view) { return true; };
  EXPECT_EQ(backend->ExportLive(all).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ScanAll(backend.get(), kOp).status().code(), StatusCode::kInvalidArgument);
  RowMap offsets;
  const auto collect = [&](std::string_view key, std::string_view value) {
    return offsets.emplace(key, value).second;
  };
  ASSERT_TRUE(backend->Scan(kOp, ScanRange::OfPrefix("\xFF"), collect).ok());
  EXPECT_EQ(offsets, (RowMap{{OperatorKeyOf("offset"), "5"}}));
}

TEST(RemoteReadOverLoader, ReportsALoaderThatThrows) {
  MemoryBudget budget(0);
  auto loader = std::make_shared<EchoLoader>();
  loader->fail = true;
  auto backend = *RemoteReadBackend::OverLoader(loader, LoaderOptions(&budget));
  const Status status = backend->Get(kOp, StoredKeyOf("a")).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.ToString(), HasSubstr("service is down"));
}

TEST(RemoteRead, RefusesCallsAfterClose) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Close().ok());
  EXPECT_EQ(task.backend->Get(kOp, KeyOf(1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(task.backend->Put(kOp, KeyOf(1), "a").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(task.backend->Capture(1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ScanAll(task.backend.get(), kOp).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(task.backend->Restore({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(task.backend->Close().ok());
}

}  // namespace
}  // namespace cairn::backend::remote
