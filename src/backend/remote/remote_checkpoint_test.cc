// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of the remote backend among others: rescale, purges, what is given up, old readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/remote/remote_testing.h"
#include "env/manual_clock.h"

namespace cairn::backend::remote {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RemoteRead, RescalesByKeyGroupsAndBuildsOnTheMergedParts) {
  RemoteWorld world;
  for (const auto& [p, q] : {std::pair(1u, 3u), {3u, 2u}, {2u, 5u}, {4u, 1u}, {3u, 3u}}) {
    SCOPED_TRACE(std::to_string(p) + " -> " + std::to_string(q));
    RowMap model;
    std::vector<RestorePart> parts;
    for (uint32_t i = 0; i < p; ++i) {
      auto task = world.Open(i, p);
      const KeyGroupRange owned = KeyGroupsOfSubtask(i, p, kDefaultKeyGroups);
      for (int k = 0; k < 500; ++k) {
        const std::string key = KeyOf(k);
        if (!owned.Contains(static_cast<uint8_t>(key[0]))) continue;
        ASSERT_TRUE(task.backend->Put(kOp, key, "first").ok());
        model[key] = "first";
        if (k % 100 == 0) MustSnapshot(task.backend.get(), 1 + k);
        if (k % 3 != 0) continue;
        ASSERT_TRUE(task.backend->Erase(kOp, key).ok());
        model.erase(key);
      }
      ASSERT_TRUE(task.backend->Put(kOp, OperatorKeyOf("pos"), std::to_string(i)).ok());
      ASSERT_TRUE(task.backend->Put(kOp, OperatorKeyOf("part" + std::to_string(i)), "x").ok());
      parts.push_back({MustSnapshot(task.backend.get(), 600), i, p});
    }
    RowMap seen;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < q; ++i) {
      auto task = world.Open(i, q);
      const RestoreCounts counts = MustRestore(task.backend.get(), parts);
      RowMap own = *ScanAll(task.backend.get(), kOp);
      EXPECT_EQ(counts.rows, own.size());
      EXPECT_EQ(own[OperatorKeyOf("pos")], std::to_string(i < p ? i : 0)) << "its own row wins";
      for (uint32_t j = 0; j < p; ++j) {
        EXPECT_TRUE(own.contains(OperatorKeyOf("part" + std::to_string(j))));
      }
      // The first commit after the restore holds all of it.
      ASSERT_TRUE(task.backend->Put(kOp, OperatorKeyOf("pos"), "moved").ok());
      own[OperatorKeyOf("pos")] = "moved";
      const BackendSnapshot snapshot = MustSnapshot(task.backend.get(), 601);
      auto fresh = world.Open(i, q);
      MustRestore(fresh.backend.get(), {{snapshot, i, q}});
      EXPECT_EQ(*ScanAll(fresh.backend.get(), kOp), own);
      std::erase_if(own, [](const auto& row) { return row.first[0] == '\xFF'; });
      rows += own.size();
      seen.merge(own);
    }
    EXPECT_EQ(seen, model);
    EXPECT_EQ(rows, model.size()) << "no key lies at two subtasks";
  }
}

TEST(RemoteRead, RefusesToRestoreACheckpointThatIsNotThereAndKeepsItsState) {
  RemoteWorld world;
  auto task = world.Open();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
  BackendSnapshot missing;
  missing.checkpoint_id = 77;
  missing.form = SnapshotForm::kStored;
  const RestorePart parts[] = {{missing}};
  EXPECT_EQ(task.backend->Restore(parts).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), "a");
}

TEST(RemoteRead, CarriesSchemaStampsThroughCheckpointAndRestore) {
  RemoteWorld world;
  auto task = world.Open();
  const std::vector<StateStamp> stamps = {{kOp, "count", 3, "s"}};
  ASSERT_TRUE(task.backend->stamps()->Set(stamps).ok());
  const BackendSnapshot snapshot = MustSnapshot(task.backend.get(), 1);
  auto fresh = world.Open();
  MustRestore(fresh.backend.get(), {{snapshot}});
  EXPECT_EQ(fresh.backend->stamps()->restored(), stamps);
  const BackendSnapshot again = MustSnapshot(fresh.backend.get(), 2);
  MustRestore(task.backend.get(), {{again}});
  EXPECT_EQ(task.backend->stamps()->restored(), stamps);
  EXPECT_EQ(task.backend->stamps()->Set({{kOp, "a|b", 1, ""}}).code(),
            StatusCode::kInvalidArgument);
}

TEST(RemoteRead, PurgesACheckpointOnlyWhenNothingReadsIt) {
  RemoteWorld world;
  auto task = world.Open();
  SnapshotPlace* place = task.backend->snapshot_place();
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), "a").ok());
  MustSnapshot(task.backend.get(), 1);
  ASSERT_TRUE(place->Purge(1).ok());
  EXPECT_THAT(*place->List(), ElementsAre(1)) << "cold reads are made from it";
  EXPECT_EQ(task.backend->stats().purges_waiting, 1u);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), "b").ok());
  MustSnapshot(task.backend.get(), 2);
  EXPECT_THAT(*place->List(), ElementsAre(2));
  EXPECT_EQ(*ScanAll(task.backend.get(), kOp), (RowMap{{KeyOf(1), "a"}, {KeyOf(2), "b"}}));
  EXPECT_TRUE(place->Purge(12345).ok());
  EXPECT_EQ(task.backend->stats().purges_waiting, 0u);
}

TEST(RemoteRead, LeavesNothingOfACheckpointThatWasGivenUpWhileOrAfterItWasSaved) {
  RemoteWorld world;
  auto task = world.Open();
  SnapshotPlace* place = task.backend->snapshot_place();
  uint64_t id = 0;
  std::optional<size_t> bytes_after_warm_up;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(task.backend->Put(kOp, KeyOf(i), std::to_string(round % 10)).ok());
    }
    const uint64_t aborted = ++id;
    const bool during = round % 2 == 0;
    task.pool->before_commit = [&](uint64_t committing) {
      if (!during || committing != aborted) return Status();
      // The decision to give up comes from another thread while the write is under way.
      std::thread([&] { EXPECT_TRUE(place->Purge(aborted).ok()); }).join();
      return Status();
    };
    MustSnapshot(task.backend.get(), aborted);
    if (!during) {
      ASSERT_TRUE(place->Purge(aborted).ok());
    }
    const uint64_t kept = ++id;
    MustSnapshot(task.backend.get(), kept);
    ASSERT_THAT(*place->List(), ElementsAre(kept)) << "round " << round;
    ASSERT_TRUE(place->Purge(kept).ok());
    if (round == 10) bytes_after_warm_up = world.store->bytes();
    if (round > 10) {
      ASSERT_LE(world.store->bytes(), 2 * *bytes_after_warm_up);
    }
  }
}

TEST(RemoteRead, KeepsTryingAPurgeThatFailed) {
  RemoteWorld world;
  auto task = world.Open();
  SnapshotPlace* place = task.backend->snapshot_place();
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), std::to_string(id)).ok());
    MustSnapshot(task.backend.get(), id);
  }
  task.pool->before_purge = [] { return Status::Unavailable("503"); };
  ASSERT_TRUE(place->Purge(1).ok());
  EXPECT_THAT(*place->List(), ElementsAre(1, 2));
  task.pool->before_purge = nullptr;
  MustSnapshot(task.backend.get(), 3);
  EXPECT_THAT(*place->List(), ElementsAre(2, 3));
}

TEST(RemoteRead, BoundsWhatALongExportKeepsAndEndsItWhenItIsTooOld) {
  constexpr uint64_t kBudget = 64 << 20;
  MemoryBudget budget(kBudget);
  env::ManualClock clock;
  auto store = std::make_shared<LayeredPoolStore>(&budget);
  RemoteReadOptions options;
  options.backend.budget = &budget;
  options.clock = &clock;
  options.reader_age_max_ms = 1000;
  options.hot_max_bytes = 8 << 20;
  options.io_threads = 1;
  auto backend = *RemoteReadBackend::OverPool(
      std::make_shared<LayeredPool>(store, "export", format::KeyLayout(), KeyGroupRange{0, 128}),
      options);
  SnapshotPlace* place = backend->snapshot_place();
  uint64_t id = 0;
  uint64_t most = 0;
  // 4 MiB of rows, on more than one page of the export.
  std::vector<std::string> keys;
  for (int i = 0; i < 1100; ++i) keys.push_back(KeyOf(i));
  const auto overwrite_all = [&](char with) {
    const std::string value(4096, with);
    for (const std::string& key : keys) {
      ASSERT_TRUE(backend->Put(kOp, key, value).ok());
      most = std::max(most, budget.total());
    }
    MustSnapshot(backend.get(), ++id);
    if (id > 1) {
      ASSERT_TRUE(place->Purge(id - 1).ok());
    }
    most = std::max(most, budget.total());
  };
  overwrite_all('a');
  uint64_t rows = 0;
  const auto visit = [&](OperatorId, std::string_view, std::string_view value) {
    EXPECT_EQ(value[0], 'a') << "the cut does not change";
    if (++rows != 1) return true;
    for (int mib = 0; mib < 1024; mib += 4) overwrite_all(static_cast<char>('b' + mib % 20));
    EXPECT_EQ(backend->stats().open_readers, 1u);
    clock.Advance(900);
    EXPECT_EQ(backend->stats().oldest_reader_ms, 900);
    EXPECT_THAT(*place->List(), ElementsAre(1, id)) << "the export's and the newest";
    clock.Advance(200);
    overwrite_all('z');
    EXPECT_THAT(*place->List(), ElementsAre(id)) << "let go when the export is too old";
    return true;
  };
  const Status status = backend->ExportLive(visit);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("at most 1000"));
  EXPECT_GT(rows, 1u);
  EXPECT_LE(most, kBudget + kBudget / 5);
  EXPECT_EQ(backend->stats().open_readers, 0u);
}

}  // namespace
}  // namespace cairn::backend::remote
