// SPDX-License-Identifier: Apache-2.0
//
// Rescaling: a cut of any parallelism restores at any other, exactly, with operator state that goes
// to every subtask and does not grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "cairn/timers.h"
#include "checkpoint/savepoint.h"
#include "restore_world.h"

namespace cairn::checkpoint {
namespace {

using testing::DeclareSlot;
using testing::RestoreWorld;
using testing::RowMap;

constexpr uint32_t kParallelismMax = 16;

uint64_t SeedOfTest() {
  const char* given = std::getenv("CAIRN_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// Two slots of one operator, one of a second, one with a frame a key group of a third, and
/// operator state.
std::vector<SlotDescriptor> ManySlots() {
  std::vector<SlotDescriptor> slots = {
      DeclareSlot("job/count/0", "first"), DeclareSlot("job/count/0", "second"),
      DeclareSlot("job/sum/1", "agg"), DeclareSlot("job/top/2", "topn"),
      DeclareSlot("job/source", "pos", SlotKind::kOperatorValue)};
  slots[3].frame_per_group = true;
  return slots;
}
constexpr size_t kKeyedSlots = 4, kPositions = 4;

/// A key of 0 to 20 random bytes.
std::string RandomKey(std::mt19937_64* random) {
  std::string key((*random)() % 21, '\0');
  for (char& byte : key) byte = static_cast<char>((*random)());
  return key;
}

void ChangeSome(RestoreWorld* world, std::mt19937_64* random, int changes) {
  for (int i = 0; i < changes; ++i) {
    const size_t slot = (*random)() % kKeyedSlots;
    if ((*random)() % 4 == 0 && !world->model[slot].empty()) {
      auto victim = world->model[slot].lower_bound(RandomKey(random));
      if (victim == world->model[slot].end()) victim = world->model[slot].begin();
      world->Erase(slot, std::string(victim->first));
    } else {
      world->Put(slot, RandomKey(random), "v" + std::to_string((*random)() % 1000));
    }
  }
}

void ExpectKeyedModels(const RestoreWorld& world) {
  for (size_t slot = 0; slot < kKeyedSlots; ++slot) {
    ASSERT_EQ(world.Contents(slot), world.model[slot]) << "slot " << slot;
  }
}

TEST(Rescale, Behaviour55AnyParallelismToAnyOtherKeepsEveryRowOfEveryOperator) {
  std::mt19937_64 random(SeedOfTest());
  RestoreWorld world(ManySlots());
  ASSERT_TRUE(world.Start(1).ok());
  ChangeSome(&world, &random, 500);
  ASSERT_TRUE(world.Checkpoint().ok());
  for (uint32_t p = 1; p <= kParallelismMax; ++p) {
    ASSERT_TRUE(world.Start(p).ok());
    ChangeSome(&world, &random, 60);
    ASSERT_TRUE(world.Checkpoint().ok());
    for (uint32_t q = 1; q <= kParallelismMax; ++q) {
      const Status started = world.Start(q);
      ASSERT_TRUE(started.ok()) << p << " -> " << q << ": " << started.ToString();
      ExpectKeyedModels(world);
    }
  }
}

TEST(Rescale, AnyNumberOfKeyGroupsUpTo32768) {
  std::mt19937_64 random(SeedOfTest());
  for (uint32_t key_groups : {1u, 2u, 127u, 128u, 129u, 255u, 256u, 1000u, 32768u}) {
    RestoreWorld world(ManySlots(), key_groups);
    for (uint32_t p : {1u, 3u, 16u, 2u}) {
      const Status started = world.Start(std::min(p, key_groups));
      ASSERT_TRUE(started.ok()) << key_groups << " groups: " << started.ToString();
      ExpectKeyedModels(world);
      ChangeSome(&world, &random, 100);
      ASSERT_TRUE(world.Checkpoint().ok());
    }
  }
}

TEST(Rescale, Behaviour53RangesCoverEveryGroupOnceAndAgreeWithTheOwner) {
  for (uint32_t key_groups : {1u, 5u, 128u, 1000u, 32768u}) {
    for (uint32_t p = 1; p <= std::min(kParallelismMax, key_groups); ++p) {
      uint32_t next = 0;
      for (uint32_t i = 0; i < p; ++i) {
        const KeyGroupRange range = KeyGroupsOfSubtask(i, p, key_groups);
        EXPECT_EQ(range.first, next);
        for (uint32_t group = range.first; group < range.last; ++group) {
          ASSERT_EQ(OwnerOfKeyGroup(group, p, key_groups), i);
        }
        next = range.last;
      }
      EXPECT_EQ(next, key_groups);
    }
  }
  // From 2 to 4 each half is cut in two.
  EXPECT_EQ(KeyGroupsOfSubtask(0, 2, 128).last, KeyGroupsOfSubtask(1, 4, 128).last);
}

TEST(Rescale, Case08SparseGroupsRestoreTo128SubtasksMostOfThemEmpty) {
  RestoreWorld world({DeclareSlot("job/count/0", "rows")});
  ASSERT_TRUE(world.Start(2).ok());
  std::set<uint32_t> groups;
  for (int i = 0; groups.size() < 3; ++i) {
    const std::string key = "k" + std::to_string(i);
    const uint32_t group = KeyGroupOf(key, 128);
    if ((group == 2 || group == 3 || group == 127) && groups.insert(group).second) {
      world.Put(0, key, "v");
    }
  }
  ASSERT_TRUE(world.Checkpoint().ok());
  for (uint32_t p : {1u, 2u, 128u}) {
    ASSERT_TRUE(world.Start(p).ok());
    EXPECT_EQ(world.Contents(0), world.model[0]);
  }
}

/// Rows of the slot's operator state that are saved in the latest cut.
uint64_t SavedOperatorRows(RestoreWorld* world, size_t slot) {
  uint64_t rows = 0;
  for (auto& subtask : world->subtasks) {
    rows += subtask.operator_state.at(slot)->CountRows(subtask.domain->Capture());
  }
  return rows;
}

TEST(Rescale, Case05EachSubtaskKeepsItsOwnRowAndSeesAllPartitionsAfterARestart) {
  RestoreWorld world(ManySlots());
  ASSERT_TRUE(world.Start(4).ok());
  for (uint32_t i = 0; i < 4; ++i) {
    OperatorStateTable& state = *world.subtasks[i].operator_state[kPositions];
    ASSERT_TRUE(state.Put("pos", std::to_string((i + 1) * 10)).ok());
    ASSERT_TRUE(state.Put("p" + std::to_string(2 * i), "x").ok());
    ASSERT_TRUE(state.Put("p" + std::to_string(2 * i + 1), "y").ok());
  }
  ASSERT_TRUE(world.Checkpoint().ok());
  ASSERT_TRUE(world.Start(4).ok());
  for (uint32_t i = 0; i < 4; ++i) {
    OperatorStateTable& state = *world.subtasks[i].operator_state[kPositions];
    EXPECT_EQ(state.Find("pos"), std::to_string((i + 1) * 10)) << "own row wins";
    for (int partition = 0; partition < 8; ++partition) {
      EXPECT_TRUE(state.Find("p" + std::to_string(partition)).has_value());
    }
  }
}

TEST(Rescale, Case10PendingKeysAreResumedByTheOwnersOfTheirGroupsOnly) {
  RestoreWorld world(ManySlots());
  ASSERT_TRUE(world.Start(1).ok());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        world.subtasks[0].operator_state[kPositions]->Put("key" + std::to_string(i), "p").ok());
  }
  ASSERT_TRUE(world.Checkpoint().ok());
  ASSERT_TRUE(world.Start(3).ok());
  std::set<std::string> resumed;
  for (uint32_t i = 0; i < 3; ++i) {
    const KeyGroupRange owned = KeyGroupsOfSubtask(i, 3, 128);
    size_t seen = 0;
    world.subtasks[i].operator_state[kPositions]->ForEach([&](const OperatorStateRow& row) {
      ++seen;
      EXPECT_FALSE(row.own);
      if (!owned.Contains(KeyGroupOf(row.logical_key, 128))) return;
      EXPECT_TRUE(resumed.insert(std::string(row.logical_key)).second) << row.logical_key;
    });
    EXPECT_EQ(seen, 100u);
  }
  EXPECT_EQ(resumed.size(), 100u);
}

TEST(Rescale, Case11OperatorStateDoesNotGrowOverRecoveriesAndRescales) {
  RestoreWorld world(ManySlots());
  ASSERT_TRUE(world.Start(10).ok());
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(world.subtasks[i]
                    .operator_state[kPositions]
                    ->Put("row" + std::to_string(i), std::to_string(i))
                    .ok());
  }
  ASSERT_TRUE(world.Checkpoint().ok());
  for (uint32_t p : {10u, 10u, 10u, 10u, 10u, 3u, 16u, 1u, 7u, 10u}) {
    ASSERT_TRUE(world.Start(p).ok());
    EXPECT_EQ(SavedOperatorRows(&world, kPositions), 10u) << "at parallelism " << p;
    ASSERT_TRUE(world.Checkpoint().ok());
    for (uint32_t i = 0; i < 10; ++i) {
      EXPECT_EQ(world.subtasks[0].operator_state[kPositions]->Find("row" + std::to_string(i)),
                std::to_string(i));
    }
  }
}

TEST(Rescale, Behaviour63RowsAreSkippedOnlyByASubtaskThatDoesNotOwnThem) {
  RestoreWorld world({DeclareSlot("job/count/0", "rows")});
  ASSERT_TRUE(world.Start(2).ok());
  for (int i = 0; i < 300; ++i) world.Put(0, "key" + std::to_string(i), "v");
  ASSERT_TRUE(world.Checkpoint().ok());
  const auto skipped = [&] {
    uint64_t rows = 0;
    for (const LoadReceipt& receipt : world.receipts) {
      for (const FrameReceipt& frame : receipt.frames) rows += frame.skipped;
    }
    return rows;
  };
  ASSERT_TRUE(world.Start(2).ok());
  EXPECT_EQ(skipped(), 0u);
  ASSERT_TRUE(world.Start(3).ok());
  EXPECT_GT(skipped(), 0u);
}

TEST(Rescale, Case55ObjectsThatWereSwappedAreRefused) {
  RestoreWorld world({DeclareSlot("job/count/0", "rows")});
  ASSERT_TRUE(world.Start(1).ok());
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 50; ++i) world.Put(0, "key" + std::to_string(i), std::to_string(round));
    ASSERT_TRUE(world.Checkpoint().ok());
  }
  world.Stop();
  const std::string cuts = "/place/nodes/1/checkpoints/0000000000000000000";
  const std::string first = cuts + "1/state.arrow", second = cuts + "2/state.arrow";
  ASSERT_TRUE(world.disk.Rename(first, "/place/other").ok());
  ASSERT_TRUE(world.disk.Rename(second, first).ok());
  ASSERT_TRUE(world.disk.Rename("/place/other", second).ok());
  EXPECT_EQ(world.Start(1).code(), StatusCode::kCorruption);
}

TEST(Rescale, Behaviour54RescalingLeavesTheCutItReadsByteForByte) {
  std::mt19937_64 random(SeedOfTest());
  RestoreWorld world(ManySlots());
  ASSERT_TRUE(world.Start(1).ok());
  ChangeSome(&world, &random, 300);
  ASSERT_TRUE(world.Checkpoint().ok());
  const auto objects = [&] {
    RowMap found;
    for (auto& [path, bytes] : world.disk.AllFiles()) {
      if (path.find("/nodes/") != std::string::npos) found[path] = bytes;
    }
    return found;
  };
  const RowMap before = objects();
  for (uint32_t p : {4u, 1u, 16u}) {
    ASSERT_TRUE(world.Start(p).ok());
    EXPECT_EQ(objects(), before);
  }
}

/// A job of timers alone: one service a subtask.
struct TimerJob {
  using Timers = TimerService<int64_t, int64_t>;

  TimerJob() {
    options.pipeline.job = "test";
    options.pipeline.components = {{"source", "in", "{}", false},
                                   {"operator", "job/window/0", "{}", false}};
    options.random = &random;
  }

  /// Open `place` at parallelism `p`, restored from what it holds.
  Status Start(const std::string& place, uint32_t key_groups, uint32_t p) {
    services.clear();
    domains.clear();
    store.reset();
    options.key_groups = key_groups;
    CAIRN_ASSIGN_OR_RETURN(store, OpenStoreAt(&disk, place, options));
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Cut> cut, store->Recover());
    std::vector<std::vector<StateTable*>> tables;
    for (uint32_t i = 0; i < p; ++i) {
      SlotDescriptor slot = DeclareSlot("job/window/0", "timers");
      slot.key_codec = slot.value_codec = "int64";
      TableOptions table;
      table.key_groups = key_groups;
      table.range = KeyGroupsOfSubtask(i, p, key_groups);
      table.slot_hash_seed = store->slot_hash_seed();
      domains.push_back(StateDomain::Create({}));
      services.push_back(std::make_unique<Timers>(domains.back().get(), slot, table));
      tables.push_back({services.back().get()});
    }
    if (cut == nullptr) return {};
    return LoadState(*cut, tables, &executor).status();
  }

  Status Save() {
    CapturedCut captured;
    captured.parallelism = static_cast<uint32_t>(services.size());
    captured.sources.push_back({"in", {{"file#0", "7", false}}, false});
    for (uint32_t i = 0; i < services.size(); ++i) {
      CapturedSubtask one;
      one.subtask = i;
      one.tables = {services[i].get()};
      one.view = domains[i]->Capture();
      captured.subtasks.push_back(std::move(one));
    }
    CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id, store->NextId());
    CAIRN_ASSIGN_OR_RETURN(const PersistedCut persisted, store->Persist(id, captured, &executor));
    return store->Commit(persisted);
  }

  /// Keys whose timers fire until `time`, each as often as it does.
  std::multiset<int64_t> Advance(int64_t time) {
    std::multiset<int64_t> fired;
    for (const auto& service : services) {
      const Status status = service->Advance(
          TimeDomain::kEvent, time, [&](const Timers::Timer& timer) { fired.insert(timer.key); });
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return fired;
  }

  env::MemoryFileSystem disk;
  env::SeededRandom random{42};
  StoreOptions options;
  InlineExecutor executor;
  std::unique_ptr<CheckpointStore> store;
  std::vector<std::unique_ptr<StateDomain>> domains;
  std::vector<std::unique_ptr<Timers>> services;
};

// A timer follows the group of its user key, not of its row's key, also when the groups are others.
TEST(Rescale, TimersFireOnceWhateverTheNumberOfGroups) {
  constexpr int64_t kTimers = 300;
  TimerJob job;
  ASSERT_TRUE(job.Start("/place", 128, 2).ok());
  std::multiset<int64_t> every, early;
  for (int64_t key = 0; key < kTimers; ++key) {
    for (const auto& service : job.services) {
      const Status registered = service->Register(TimeDomain::kEvent, key, key, -key);
      if (registered.ok()) every.insert(key);  // the subtask that owns the key takes it
    }
    if (key <= 99) early.insert(key);
  }
  ASSERT_EQ(every.size(), static_cast<size_t>(kTimers));
  ASSERT_TRUE(job.Save().ok());
  std::string from = "/place";
  for (const uint32_t key_groups : {1000u, 32768u, 1u, 128u}) {
    SCOPED_TRACE(std::to_string(key_groups) + " key groups");
    job.store.reset();
    const std::string to = "/place-" + std::to_string(key_groups);
    const auto reader = OpenSavepoint(&job.disk, from, 0);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    auto writer = CreateSavepoint(&job.disk, to, {.like = from, .key_groups = key_groups});
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    ASSERT_TRUE((*writer)->CopyRest(**reader).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
    for (const uint32_t p : {1u, 3u, 16u}) {
      if (p > key_groups) continue;
      const Status started = job.Start(to, key_groups, p);
      ASSERT_TRUE(started.ok()) << started.ToString();
      EXPECT_EQ(job.Advance(99), early);
      EXPECT_EQ(job.Advance(99).size(), 0u);
      EXPECT_EQ(job.Advance(kTimers).size(), every.size() - early.size());
    }
    from = to;
  }
}

}  // namespace
}  // namespace cairn::checkpoint
