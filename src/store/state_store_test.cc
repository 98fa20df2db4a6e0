// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <deque>
#include <thread>

#include "store/store_testing.h"

namespace cairn {
namespace {

using store::testing::StoreWorld;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A store of one partition with one slot: counts by name.
struct CountingService {
  std::unique_ptr<StateStore> store;
  Partition* partition = nullptr;
  KeyedState<std::string, int64_t>* counts = nullptr;
  Recovered start;

  static CountingService Start(StoreWorld* world, StateStoreOptions options = StateStoreOptions()) {
    CountingService service;
    auto store = world->Open(std::move(options));
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    service.store = *std::move(store);
    service.partition = *service.store->OpenPartition(0);
    service.counts =
        *service.partition->Operator("count")->keyed_state<std::string, int64_t>("counts");
    Result<Recovered> start = service.partition->Recover();
    EXPECT_TRUE(start.ok()) << start.status().ToString();
    if (start.ok()) service.start = *std::move(start);
    return service;
  }

  void Count(std::string_view name) {
    EXPECT_TRUE(counts->Update(name, [](int64_t& n, bool) noexcept { ++n; }).ok());
  }
  int64_t CountOf(std::string_view name) const {
    const int64_t* n = counts->Find(name);
    return n == nullptr ? 0 : *n;
  }
};

TEST(StateStore, GivesStateAndOffsetsOfOneCutBack) {
  StoreWorld world;
  {
    CountingService service = CountingService::Start(&world);
    EXPECT_EQ(service.start.checkpoint, 0U);
    EXPECT_EQ(service.start.offsets, "");
    service.Count("a");
    service.Count("a");
    Result<CheckpointHandle> handle = service.partition->Checkpoint("line 2");
    ASSERT_TRUE(handle.ok());
    ASSERT_TRUE(handle->Wait().ok());
    service.Count("a");  // after the cut: read again from line 2
  }
  CountingService service = CountingService::Start(&world);
  EXPECT_EQ(service.start.offsets, "line 2");
  EXPECT_EQ(service.start.rows, 1U);
  EXPECT_EQ(service.CountOf("a"), 2);
}

TEST(StateStore, IsSeededFromRows) {
  StoreWorld world;
  {
    auto scratch = *StateStore::Open("memory://");
    auto* counts = *(*scratch->OpenPartition(0))
                        ->Operator("count")
                        ->keyed_state<std::string, int64_t>("counts");
    auto writer = store::SeedStore({&world.files, &world.clock, &world.random, {}}, "/place",
                                   StateStoreOptions(), "line 1000");
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    const Result<size_t> slot = (*writer)->AddSlot(counts->descriptor());
    ASSERT_TRUE(slot.ok());
    for (int64_t i = 0; i < 1000; ++i) {
      std::string value(sizeof(i), '\0');
      Codec<int64_t>().Encode(i, value.data());
      ASSERT_TRUE((*writer)->Put(*slot, "user" + std::to_string(i), value).ok());
    }
    const Result<SavepointSummary> done = (*writer)->Commit();
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->rows, 1000U);
  }
  CountingService service = CountingService::Start(&world);
  EXPECT_EQ(service.start.offsets, "line 1000");
  EXPECT_EQ(service.start.rows, 1000U);
  EXPECT_EQ(service.CountOf("user321"), 321);
  service.Count("user321");
  EXPECT_TRUE(service.partition->Checkpoint("line 1001")->Wait().ok());
}

TEST(StateStore, KeepsOffsetsOfAnyBytes) {
  StoreWorld world;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  {
    CountingService service = CountingService::Start(&world);
    ASSERT_TRUE(service.partition->Checkpoint(bytes)->Wait().ok());
  }
  EXPECT_EQ(CountingService::Start(&world).start.offsets, bytes);
}

TEST(StateStore, TellsEmptyOffsetsFromNoCheckpoint) {
  StoreWorld world;
  {
    CountingService service = CountingService::Start(&world);
    ASSERT_TRUE(service.partition->Checkpoint("")->Wait().ok());
  }
  const Recovered start = CountingService::Start(&world).start;
  EXPECT_EQ(start.checkpoint, 1U);
  EXPECT_EQ(start.offsets, "");
}

TEST(StateStore, PersistsInsidePollWithoutAnExecutor) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  Result<CheckpointHandle> handle = service.partition->Checkpoint("1");
  ASSERT_TRUE(handle.ok());
  EXPECT_FALSE(handle->done());
  EXPECT_EQ(handle->result().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(service.store->Poll());
  EXPECT_TRUE(handle->done());
  EXPECT_TRUE(handle->result().ok());
  EXPECT_FALSE(service.store->Poll());
  EXPECT_EQ(service.store->stats().committed, 1U);
}

TEST(StateStore, PersistsOnTheExecutorAndNowhereElse) {
  StoreWorld world;
  std::deque<std::function<void()>> tasks;
  StateStoreOptions options;
  options.executor = [&](std::function<void()> task) { tasks.push_back(std::move(task)); };
  CountingService service = CountingService::Start(&world, options);
  Result<CheckpointHandle> handle = service.partition->Checkpoint("1");
  ASSERT_TRUE(handle.ok());
  EXPECT_FALSE(service.store->Poll());
  EXPECT_FALSE(handle->done());
  ASSERT_EQ(tasks.size(), 1U);
  tasks.front()();
  EXPECT_TRUE(handle->result().ok());
}

TEST(StateStore, FailsTheCheckpointWhoseExecutorThrows) {
  StoreWorld world;
  StateStoreOptions options;
  options.executor = [](const std::function<void()>&) { throw std::runtime_error("pool is gone"); };
  CountingService service = CountingService::Start(&world, options);
  Result<CheckpointHandle> handle = service.partition->Checkpoint("1");
  ASSERT_TRUE(handle.ok());
  EXPECT_THAT(handle->result().ToString(), HasSubstr("pool is gone"));
  EXPECT_TRUE(service.partition->Checkpoint("2").ok());
}

TEST(StateStore, CallsBackOnceWhetherAskedBeforeOrAfterTheEnd) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  Result<CheckpointHandle> handle = service.partition->Checkpoint("1");
  int calls = 0;
  const auto count = [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    ++calls;
  };
  handle->OnDone(count);
  EXPECT_EQ(calls, 0);
  service.store->Poll();
  EXPECT_EQ(calls, 1);
  handle->OnDone(count);
  EXPECT_EQ(calls, 2);
}

TEST(StateStore, TakesOneCheckpointAtATimeAndCountsTheOthers) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  Result<CheckpointHandle> first = service.partition->Checkpoint("1");
  EXPECT_EQ(service.partition->Checkpoint("2").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(service.store->stats().skipped, 1U);
  ASSERT_TRUE(first->Wait().ok());
  EXPECT_TRUE(service.partition->Checkpoint("2").ok());
}

TEST(StateStore, IsDueOnceTheIntervalHasPassed) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  EXPECT_FALSE(service.partition->CheckpointDue());
  world.clock.Advance(10'000);
  EXPECT_TRUE(service.partition->CheckpointDue());
  Result<CheckpointHandle> handle = service.partition->Checkpoint("1");
  EXPECT_FALSE(service.partition->CheckpointDue());
  ASSERT_TRUE(handle->Wait().ok());
  EXPECT_FALSE(service.partition->CheckpointDue());
  world.clock.Advance(10'000);
  EXPECT_TRUE(service.partition->CheckpointDue());
}

TEST(StateStore, PutsChangesOfAFailedCheckpointIntoTheNext) {
  StoreWorld world;
  {
    CountingService service = CountingService::Start(&world);
    service.Count("a");
    ASSERT_TRUE(service.partition->Checkpoint("1")->Wait().ok());
    service.Count("b");
    world.files.Arm({0, env::FaultKind::kFail, true, {}});
    const Status failed = service.partition->Checkpoint("2")->Wait();
    EXPECT_EQ(failed.code(), StatusCode::kUnavailable) << failed.ToString();
    world.files.Disarm();
    service.Count("a");
    ASSERT_TRUE(service.partition->Checkpoint("3")->Wait().ok());
    EXPECT_EQ(service.store->stats().failed, 1U);
  }
  CountingService service = CountingService::Start(&world);
  EXPECT_EQ(service.start.offsets, "3");
  EXPECT_EQ(service.CountOf("a"), 2);
  EXPECT_EQ(service.CountOf("b"), 1);
}

TEST(StateStore, WritesOnlyWhatChangedSinceTheLastCheckpoint) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  for (int i = 0; i < 20'000; ++i) service.Count("key " + std::to_string(i));
  ASSERT_TRUE(service.partition->Checkpoint("1")->Wait().ok());
  const uint64_t base = service.store->stats().bytes_written;
  service.Count("key 7");
  ASSERT_TRUE(service.partition->Checkpoint("2")->Wait().ok());
  EXPECT_LT(service.store->stats().bytes_written - base, base / 50);
}

TEST(StateStore, WritesDeltasAfterARestartToo) {
  StoreWorld world;
  uint64_t base = 0;
  {
    CountingService service = CountingService::Start(&world);
    for (int i = 0; i < 20'000; ++i) service.Count("key " + std::to_string(i));
    ASSERT_TRUE(service.partition->Checkpoint("1")->Wait().ok());
    base = service.store->stats().bytes_written;
  }
  CountingService service = CountingService::Start(&world);
  EXPECT_EQ(service.start.rows, 20'000U);
  service.Count("key 7");
  ASSERT_TRUE(service.partition->Checkpoint("2")->Wait().ok());
  EXPECT_LT(service.store->stats().bytes_written, base / 50);
}

TEST(StateStore, GoesBackToARetainedCheckpointOnRequest) {
  StoreWorld world;
  {
    CountingService service = CountingService::Start(&world);
    for (int i = 1; i <= 3; ++i) {
      service.Count("a");
      ASSERT_TRUE(service.partition->Checkpoint(std::to_string(i))->Wait().ok());
    }
  }
  StateStoreOptions options;
  options.recover_at = 2;
  CountingService service = CountingService::Start(&world, options);
  EXPECT_EQ(service.start.offsets, "2");
  EXPECT_EQ(service.CountOf("a"), 2);
}

TEST(StateStore, GivesThePlaceBackThoughAHandleLivesOn) {
  StoreWorld world;
  std::optional<CheckpointHandle> handle;
  {
    CountingService service = CountingService::Start(&world);
    handle = *service.partition->Checkpoint("1");
  }
  EXPECT_TRUE(handle->done());
  EXPECT_EQ(handle->result().code(), StatusCode::kCancelled);
  EXPECT_TRUE(world.Open().ok());
}

TEST(StateStore, IsRefusedWhileAnotherHasThePlace) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  EXPECT_EQ(world.Open().status().code(), StatusCode::kFenced);
}

TEST(StateStore, RefusesThePlaceOfAnotherPipeline) {
  StoreWorld world;
  {
    checkpoint::StoreOptions other;
    other.pipeline.job = "job";
    other.pipeline.components.push_back({"source", "bids", "{}", false});
    other.clock = &world.clock;
    other.random = &world.random;
    auto job = *checkpoint::OpenStoreAt(&world.files, "/place", other);
    ASSERT_TRUE(job->Recover().ok());
    checkpoint::CapturedCut cut;
    cut.sources.push_back({"bids", {{"bids.ndjson#0", "7", false}}});
    checkpoint::InlineExecutor executor;
    auto persisted = job->Persist(*job->NextId(), cut, &executor);
    ASSERT_TRUE(persisted.ok()) << persisted.status().ToString();
    ASSERT_TRUE(job->Commit(*persisted).ok());
  }
  const Status status = world.Open().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("bids"));
}

TEST(StateStore, TakesNoCheckpointWithoutAPlace) {
  Result<std::unique_ptr<StateStore>> store = StateStore::Open("memory://");
  ASSERT_TRUE(store.ok());
  Partition* partition = *(*store)->OpenPartition(0);
  ASSERT_TRUE(partition->Recover().ok());
  EXPECT_FALSE(partition->CheckpointDue());
  EXPECT_THAT(partition->Checkpoint("1").status().ToString(), HasSubstr("file://DIR"));
}

TEST(StateStore, RefusesOptionsOutOfBounds) {
  StateStoreOptions options;
  options.partitions = 0;
  EXPECT_EQ(StateStore::Open("memory://", options).status().code(), StatusCode::kInvalidArgument);
  options.partitions = 1;
  options.checkpoint.retained = 17;
  EXPECT_EQ(StateStore::Open("memory://", options).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(StateStore::Open("tape://x").status().ToString(), HasSubstr("memory://"));
}

TEST(StateStoreOptions, AreSetByTheirNamesInText) {
  StateStoreOptions options;
  EXPECT_TRUE(options.Set("checkpoint.interval", "3s").ok());
  EXPECT_EQ(options.checkpoint.interval, std::chrono::seconds(3));
  EXPECT_TRUE(options.Set("state.key_groups", "512").ok());
  EXPECT_EQ(options.state.key_groups, 512U);
  EXPECT_TRUE(options.Set("fs.fsync", "false").ok());
  EXPECT_FALSE(options.fs.fsync);
  EXPECT_FALSE(options.Set("checkpoint.retained", "17").ok());
  EXPECT_EQ(options.checkpoint.retained, 3U);
  EXPECT_TRUE(options.Set("view.staleness", "0ms").ok());
  EXPECT_EQ(options.view.staleness, std::chrono::milliseconds(0));
  EXPECT_THAT(options.Set("state.async_snapshots", "true").ToString(), HasSubstr("of jobs"));
}

TEST(Partition, IsOpenedOnceAndUsedByItsThreadOnly) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  EXPECT_EQ(service.store->OpenPartition(0).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(service.store->OpenPartition(1).status().code(), StatusCode::kInvalidArgument);
  Status elsewhere;
  std::thread([&] { elsewhere = service.partition->Checkpoint("1").status(); }).join();
  EXPECT_EQ(elsewhere.code(), StatusCode::kInvalidArgument);
}

TEST(Partition, RefusesStateDeclaredTwiceBadlyOrTooLate) {
  StoreWorld world;
  auto store = world.Open();
  Partition* partition = *(*store)->OpenPartition(0);
  RuntimeContext* context = partition->Operator("op");
  EXPECT_EQ(partition->Operator("op"), context);
  EXPECT_TRUE((context->keyed_state<int64_t, int64_t>("a")).ok());
  EXPECT_FALSE((context->keyed_state<int64_t, int64_t>("a")).ok());
  EXPECT_FALSE((context->keyed_state<int64_t, int64_t>("a|b")).ok());
  EXPECT_FALSE((context->keyed_state<int64_t, int64_t>("")).ok());
  ASSERT_TRUE(partition->Recover().ok());
  EXPECT_THAT((context->keyed_state<int64_t, int64_t>("b")).status().ToString(),
              HasSubstr("before it is restored"));
  EXPECT_FALSE((partition->Operator("new")->keyed_state<int64_t, int64_t>("b")).ok());
  EXPECT_FALSE(partition->Recover().ok());
}

TEST(Partition, TakesNoCheckpointOfAStateThatDidNotLoad) {
  StoreWorld world;
  {
    CountingService service = CountingService::Start(&world);
    service.Count("a");
    ASSERT_TRUE(service.partition->Checkpoint("1")->Wait().ok());
  }
  {
    auto store = world.Open();
    Partition* partition = *(*store)->OpenPartition(0);
    ASSERT_TRUE((partition->Operator("count")->keyed_state<std::string, int64_t>("counts")).ok());
    world.files.Arm({0, env::FaultKind::kFail, true, {}});
    EXPECT_FALSE(partition->Recover().ok());
    world.files.Disarm();
    EXPECT_FALSE(partition->CheckpointDue());
    EXPECT_THAT(partition->Checkpoint("0").status().ToString(), HasSubstr("Recover"));
    EXPECT_FALSE(partition->Recover().ok());
  }
  EXPECT_EQ(CountingService::Start(&world).CountOf("a"), 1);
}

TEST(Partition, NamesSavedStateThatNobodyDeclares) {
  StoreWorld world;
  {
    CountingService service = CountingService::Start(&world);
    service.Count("a");
    ASSERT_TRUE(service.partition->Checkpoint("1")->Wait().ok());
  }
  auto store = world.Open();
  Partition* partition = *(*store)->OpenPartition(0);
  const Status status = partition->Recover().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("count"));
}

struct Session {
  int64_t begun_ms;
  int64_t events;
};

TEST(Partition, RefusesAStructThatGrew) {
  struct Wider {
    int64_t begun_ms;
    int64_t events;
    int64_t more;
  };
  StoreWorld world;
  {
    auto store = world.Open();
    Partition* partition = *(*store)->OpenPartition(0);
    auto* sessions = *partition->Operator("op")->keyed_state<int64_t, Session>("sessions");
    ASSERT_TRUE(partition->Recover().ok());
    ASSERT_TRUE(sessions->Update(1, [](Session& s, bool) noexcept { s = {5, 6}; }).ok());
    ASSERT_TRUE(partition->Checkpoint("1")->Wait().ok());
  }
  auto store = world.Open();
  Partition* partition = *(*store)->OpenPartition(0);
  ASSERT_TRUE((partition->Operator("op")->keyed_state<int64_t, Wider>("sessions")).ok());
  EXPECT_THAT(partition->Recover().status().ToString(), HasSubstr("raw:16"));
}

TEST(RuntimeContext, RefusesStateWithoutABackend) {
  RuntimeContext context({.uid = "out/sessions/0"});
  EXPECT_FALSE(context.has_backend());
  const Status status = (context.keyed_state<int64_t, int64_t>("a")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("no state backend"));
}

TEST(Partition, PublishesViewsForReadersOnDemandAndNotTooOften) {
  StoreWorld world;
  CountingService service = CountingService::Start(&world);
  service.Count("a");
  EXPECT_FALSE(service.partition->LatestView());
  service.partition->Maintain();
  View view = service.partition->LatestView();
  ASSERT_TRUE(view);
  service.Count("a");
  service.partition->Maintain();  // wanted again, but the last one is fresh enough
  EXPECT_EQ(service.partition->LatestView().epoch(), view.epoch());
  world.clock.Advance(50);
  service.partition->Maintain();
  const View newer = service.partition->LatestView();
  int64_t seen = 0;
  std::thread([&] {
    EXPECT_TRUE(service.counts->Get(newer, "a", [&](int64_t n) { seen = n; }));
  }).join();
  EXPECT_EQ(seen, 2);
  EXPECT_TRUE(service.counts->Get(view, "a", [&](int64_t n) { seen = n; }));
  EXPECT_EQ(seen, 1);
}

TEST(Partition, MaintainGivesMemoryOfReleasedViewsBack) {
  StoreWorld world;
  StateStoreOptions options;
  options.state.memory_budget = uint64_t{256} << 20;
  CountingService service = CountingService::Start(&world, options);
  for (int i = 0; i < 50'000; ++i) service.Count("key " + std::to_string(i));
  View view = service.partition->Capture();
  for (int i = 0; i < 50'000; ++i) service.Count("key " + std::to_string(i));
  view.Release();
  const uint64_t held = service.partition->MemoryBytes();
  service.partition->Maintain(std::chrono::seconds(10));
  EXPECT_LE(service.partition->MemoryBytes(), held);
}

/// `partitions` threads count keys of their own groups, then meet for a checkpoint.
void CountWithPartitions(StoreWorld* world, uint32_t partitions, int keys,
                         std::vector<Recovered>* starts, std::map<std::string, int64_t>* after) {
  StateStoreOptions options;
  options.partitions = partitions;
  auto store = *world->Open(options);
  std::barrier meet(static_cast<std::ptrdiff_t>(partitions));
  std::mutex mutex;
  starts->resize(partitions);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < partitions; ++i) {
    threads.emplace_back([&, i] {
      Partition* partition = *store->OpenPartition(i);
      auto* counts = *partition->Operator("count")->keyed_state<std::string, int64_t>("counts");
      auto start = partition->Recover();
      ASSERT_TRUE(start.ok()) << start.status().ToString();
      (*starts)[i] = *start;
      meet.arrive_and_wait();
      for (int k = 0; k < keys; ++k) {
        const std::string key = "key " + std::to_string(k);
        if (store->PartitionOf(key) != i) continue;
        ASSERT_TRUE(counts->Update(key, [](int64_t& n, bool) noexcept { ++n; }).ok());
      }
      auto handle = partition->Checkpoint("offset of " + std::to_string(i));
      ASSERT_TRUE(handle.ok()) << handle.status().ToString();
      const Status committed = handle->Wait();
      ASSERT_TRUE(committed.ok()) << committed.ToString();
      std::lock_guard lock(mutex);
      counts->ScanNow(partition->key_groups(),
                      [&](const Bytes& key, const int64_t& n) { (*after)[key.ToString()] += n; });
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(StateStore, JoinsThePartitionsOfManyThreadsIntoOneCheckpoint) {
  StoreWorld world;
  std::vector<Recovered> starts;
  std::map<std::string, int64_t> after;
  CountWithPartitions(&world, 4, 1000, &starts, &after);
  after.clear();
  CountWithPartitions(&world, 4, 1000, &starts, &after);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(starts[i].offsets, "offset of " + std::to_string(i));
    EXPECT_EQ(starts[i].checkpoint, 1U);
  }
  ASSERT_EQ(after.size(), 1000U);
  for (const auto& [key, n] : after) EXPECT_EQ(n, 2) << key;
}

TEST(StateStore, GivesAnotherNumberOfPartitionsAllOffsets) {
  StoreWorld world;
  std::vector<Recovered> starts;
  std::map<std::string, int64_t> after;
  CountWithPartitions(&world, 2, 1000, &starts, &after);
  after.clear();
  CountWithPartitions(&world, 3, 1000, &starts, &after);
  uint64_t rows = 0;
  for (const Recovered& start : starts) {
    EXPECT_EQ(start.offsets, "");
    EXPECT_THAT(start.all_offsets, ElementsAre("offset of 0", "offset of 1"));
    rows += start.rows;
  }
  EXPECT_EQ(rows, 1000U);
  for (const auto& [key, n] : after) EXPECT_EQ(n, 2) << key;
}

TEST(StateStore, GivesUpACheckpointThatAPartitionDoesNotJoinInTime) {
  StoreWorld world;
  StateStoreOptions options;
  options.partitions = 2;
  auto store = *world.Open(options);
  Partition* first = *store->OpenPartition(0);
  Partition* second = *store->OpenPartition(1);
  ASSERT_TRUE(first->Recover().ok());
  ASSERT_TRUE(second->Recover().ok());
  auto handle = first->Checkpoint("1");
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(handle->Wait().code(), StatusCode::kInvalidArgument);  // it would wait for itself
  EXPECT_TRUE(second->CheckpointDue());                            // the other waits for it
  world.clock.Advance(120'000);
  EXPECT_TRUE(store->Poll());
  EXPECT_THAT(handle->result().ToString(), HasSubstr("partition 1 did not join"));
  ASSERT_TRUE(second->Checkpoint("2").ok());
  auto both = first->Checkpoint("2");
  ASSERT_TRUE(both.ok());
  EXPECT_TRUE(both->Wait().ok());
}

}  // namespace
}  // namespace cairn
