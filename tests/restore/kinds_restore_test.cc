// SPDX-License-Identifier: Apache-2.0
//
// Lists, maps and values with a TTL through a checkpoint place: bases, deltas, restores at other
// parallelisms, other TTLs and other versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/state_sweep.h"
#include "cairn/value_state.h"
#include "restore_world.h"

namespace cairn::checkpoint {
namespace {

using testing::DeclareSlot;

using Lists = ListState<Bytes, std::string>;
using Maps = MapState<Bytes, std::string, int64_t, Codec<Bytes>, OrderedTextCodec<std::string>>;
using Values = ValueState<Bytes, std::string>;

/// What the state of all subtasks shows: by key, one text.
using Shown = std::map<std::string, std::string>;

class KindsPlace {
 public:
  explicit KindsPlace(TtlConfig ttl = {}) {
    for (SlotDescriptor* slot : {&list_slot, &map_slot, &value_slot}) slot->ttl = ttl;
    options.pipeline.job = "kinds";
    options.pipeline.components = {{"source", "in", "{}", false},
                                   {"operator", "job/kinds/0", "{}", false}};
    options.random = &random;
    options.clock = &clock;
  }

  Status Start(uint32_t p) {
    subtasks.clear();
    store.reset();
    CAIRN_ASSIGN_OR_RETURN(store, OpenStoreAt(&disk, "/place", options));
    CAIRN_ASSIGN_OR_RETURN(const auto cut, store->Recover());
    std::vector<std::vector<StateTable*>> tables;
    for (uint32_t i = 0; i < p; ++i) {
      TableOptions table;
      table.key_groups = options.key_groups;
      table.range = KeyGroupsOfSubtask(i, p, options.key_groups);
      table.slot_hash_seed = store->slot_hash_seed();
      Subtask& one = subtasks.emplace_back();
      one.domain = StateDomain::Create({});
      one.lists = std::make_unique<Lists>(one.domain.get(), list_slot, table);
      one.maps = std::make_unique<Maps>(one.domain.get(), map_slot, table);
      one.values = std::make_unique<Values>(one.domain.get(), value_slot, table);
      tables.push_back(one.tables());
    }
    if (cut == nullptr) return {};
    CAIRN_ASSIGN_OR_RETURN(const auto receipts, LoadState(*cut, tables, &executor));
    rows_loaded = 0;
    for (const LoadReceipt& receipt : receipts) rows_loaded += receipt.rows;
    for (Subtask& one : subtasks) {
      one.committed = one.domain->Capture().epoch();
      one.domain->SetCommitted(*one.committed);
    }
    return {};
  }

  Status Checkpoint() {
    CapturedCut captured;
    captured.parallelism = static_cast<uint32_t>(subtasks.size());
    for (uint32_t i = 0; i < subtasks.size(); ++i) {
      CapturedSubtask one;
      one.subtask = i;
      for (StateTable* table : subtasks[i].tables()) one.tables.push_back(table);
      one.view = subtasks[i].domain->Capture();
      one.committed_epoch = subtasks[i].committed;
      captured.subtasks.push_back(std::move(one));
    }
    captured.sources.push_back({"in", {{"file#0", "7", false}}, false});
    CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id, store->NextId());
    CAIRN_ASSIGN_OR_RETURN(last, store->Persist(id, captured, &executor));
    CAIRN_RETURN_IF_ERROR(store->Commit(last));
    for (size_t i = 0; i < subtasks.size(); ++i) {
      subtasks[i].committed = captured.subtasks[i].view.epoch();
      subtasks[i].domain->SetCommitted(*subtasks[i].committed);
    }
    return store->Retire().status();
  }

  struct Subtask {
    std::unique_ptr<StateDomain> domain;
    std::unique_ptr<Lists> lists;
    std::unique_ptr<Maps> maps;
    std::unique_ptr<Values> values;
    std::optional<uint64_t> committed;
    std::vector<StateTable*> tables() const { return {lists.get(), maps.get(), values.get()}; }
  };

  Subtask& Of(std::string_view key) {
    return subtasks[OwnerOfKeyGroup(KeyGroupOf(key, options.key_groups),
                                    static_cast<uint32_t>(subtasks.size()), options.key_groups)];
  }
  void EventTime(int64_t time_ms) {
    for (Subtask& one : subtasks) one.domain->AdvanceEventTime(time_ms);
  }
  void WallTime(int64_t time_ms) {
    for (Subtask& one : subtasks) one.domain->AdvanceWallTime(time_ms);
  }
  void Fill(const std::string& key) {
    Subtask& one = Of(key);
    ASSERT_TRUE(one.lists->Append(key, "e").ok());
    ASSERT_TRUE(one.maps->Put(key, "k", 1).ok());
    ASSERT_TRUE(one.values->Put(key, "v").ok());
  }
  /// How many of list, map and value of `key` are there.
  int Alive(const std::string& key) {
    Subtask& one = Of(key);
    return (one.lists->Size(key) > 0 ? 1 : 0) + (one.maps->Size(key) > 0 ? 1 : 0) +
           (one.values->Find(key) != nullptr ? 1 : 0);
  }

  Shown Show() {
    Shown shown;
    for (Subtask& one : subtasks) {
      const View view = one.domain->Capture();
      const KeyGroupRange range = one.lists->key_groups();
      one.lists->Scan(view, range, [&](const Bytes& key, uint64_t index, const std::string& value) {
        shown["list " + key.ToString()] += std::to_string(index) + "=" + value + " ";
      });
      one.maps->Scan(view, range, [&](const Bytes& key, const std::string& map_key, int64_t value) {
        shown["map " + key.ToString()] += map_key + "=" + std::to_string(value) + " ";
      });
      one.values->Scan(view, range, [&](const Bytes& key, const std::string& value) {
        shown["value " + key.ToString()] += value + " ";
      });
    }
    return shown;
  }

  SlotDescriptor list_slot = DeclareSlot("job/kinds/0", "list");
  SlotDescriptor map_slot = DeclareSlot("job/kinds/0", "map");
  SlotDescriptor value_slot = DeclareSlot("job/kinds/0", "value");
  StoreOptions options;
  env::MemoryFileSystem disk;
  env::ManualClock clock;
  env::SeededRandom random{42};
  InlineExecutor executor;
  std::unique_ptr<CheckpointStore> store;
  std::vector<Subtask> subtasks;
  PersistedCut last;
  uint64_t rows_loaded = 0;  ///< by the last restore
};

uint64_t SeedOfKinds() {
  const char* given = std::getenv("CAIRN_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

void ChangeAtRandom(KindsPlace* place, std::mt19937_64* random) {
  const std::string key = "key" + std::to_string((*random)() % 40);
  const std::string element = "e" + std::to_string((*random)() % 20);
  KindsPlace::Subtask& one = place->Of(key);
  switch ((*random)() % 8) {
    case 0:
      ASSERT_TRUE(one.lists->Clear(key).ok());
      break;
    case 1:
      ASSERT_TRUE(one.lists->PopFront(key).ok());
      break;
    case 2:
      ASSERT_TRUE(one.maps->Remove(key, element).ok());
      break;
    case 3:
      ASSERT_TRUE(one.maps->Clear(key).ok());
      break;
    case 4:
      one.values->Erase(key);
      break;
    case 5:
      ASSERT_TRUE(one.values->Put(key, element).ok());
      break;
    case 6:
      ASSERT_TRUE(one.maps->Put(key, element, static_cast<int64_t>((*random)() % 100)).ok());
      break;
    default:
      ASSERT_TRUE(one.lists->Append(key, element).ok());
      break;
  }
}

TEST(KindsRestore, EveryRescaleKeepsEveryElementThroughBasesAndDeltas) {
  std::mt19937_64 random(SeedOfKinds());
  for (const TtlConfig ttl : {TtlConfig{}, TtlConfig{.ttl_ms = 40}}) {
    KindsPlace place(ttl);
    ASSERT_TRUE(place.Start(1).ok());
    int64_t now_ms = 1000;
    for (int round = 0; round < 60; ++round) {
      place.EventTime(now_ms += static_cast<int64_t>(random() % 20));
      for (int i = 0; i < 50; ++i) ChangeAtRandom(&place, &random);
      if (random() % 3 == 0) {
        for (KindsPlace::Subtask& one : place.subtasks) StateSweep().Run(one.tables(), 50);
      }
      const Status saved = place.Checkpoint();
      ASSERT_TRUE(saved.ok()) << saved.ToString();
      if (random() % 2 == 0) continue;
      const Shown before = place.Show();
      const Status started = place.Start(1 + static_cast<uint32_t>(random() % 5));
      ASSERT_TRUE(started.ok()) << started.ToString();
      ASSERT_EQ(place.Show(), before) << "round " << round;
    }
  }
}

TEST(KindsRestore, ARestoredListContinuesItsSequenceAtEveryParallelism) {
  KindsPlace place;
  ASSERT_TRUE(place.Start(2).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(place.Of("k").lists->Append("k", "old").ok());
  ASSERT_TRUE(place.Of("k").lists->RemoveAt("k", 2).ok());
  ASSERT_TRUE(place.Checkpoint().ok());
  ASSERT_TRUE(place.Start(3).ok());
  ASSERT_TRUE(place.Of("k").lists->Append("k", "new").ok());
  EXPECT_EQ(place.Show()["list k"], "0=old 1=old 3=new ") << "index 2 was taken";
}

TEST(KindsRestore, AClockThatGoesOnDoesNotMakeEveryCheckpointABase) {
  KindsPlace place({.ttl_ms = 1'000'000});
  ASSERT_TRUE(place.Start(1).ok());
  place.EventTime(0);
  for (int i = 0; i < 1000; ++i) place.Fill("key" + std::to_string(i));
  ASSERT_TRUE(place.Checkpoint().ok());
  place.EventTime(10);
  place.Fill("key7");
  ASSERT_TRUE(place.Checkpoint().ok());
  EXPECT_LE(place.last.rows_new, 5u) << "a value, and a header and an element of list and map";
}

TEST(KindsRestore, RowsSavedBeforeTheFirstWatermarkKeepTheDeadlineThatItGaveThem) {
  KindsPlace place({.ttl_ms = 100});
  ASSERT_TRUE(place.Start(2).ok());
  place.Fill("early");
  ASSERT_TRUE(place.Checkpoint().ok());
  place.EventTime(5000);
  place.Fill("late");
  ASSERT_TRUE(place.Checkpoint().ok());  // a delta without the early rows
  ASSERT_TRUE(place.Start(3).ok());
  place.EventTime(5099);
  EXPECT_EQ(place.Alive("early"), 3);
  ASSERT_TRUE(place.Checkpoint().ok());
  ASSERT_TRUE(place.Start(1).ok());
  place.EventTime(5100);
  EXPECT_EQ(place.Alive("early"), 0);
}

TEST(KindsRestore, Case52AnOutageLongerThanTheTtlIsDecidedByTheClockOfTheSlot) {
  constexpr int64_t kMinute = 60'000;
  struct Policy {
    TtlClock clock;
    int alive_after;
  };
  for (const Policy policy : {Policy{TtlClock::kWall, 0}, Policy{TtlClock::kStoppedWhileDown, 3},
                              Policy{TtlClock::kEvent, 3}}) {
    KindsPlace place({.ttl_ms = 10 * kMinute, .clock = policy.clock});
    ASSERT_TRUE(place.Start(1).ok());
    place.WallTime(100 * kMinute);
    place.EventTime(0);
    place.Fill("k");
    place.WallTime(102 * kMinute);
    place.EventTime(2 * kMinute);
    ASSERT_TRUE(place.Checkpoint().ok());
    ASSERT_TRUE(place.Start(1).ok());
    place.WallTime(113 * kMinute);
    EXPECT_EQ(place.Alive("k"), policy.alive_after) << NameOf(policy.clock);
    if (policy.alive_after == 0) continue;
    // Eight minutes are left, of the clock's own.
    place.WallTime(121 * kMinute - 1);
    place.EventTime(10 * kMinute - 1);
    EXPECT_EQ(place.Alive("k"), 3) << NameOf(policy.clock);
    place.WallTime(121 * kMinute);
    place.EventTime(10 * kMinute);
    EXPECT_EQ(place.Alive("k"), 0) << NameOf(policy.clock);
  }
}

TEST(KindsRestore, Case47WhatExpiredIsInNoLaterCutAndInNoMemory) {
  KindsPlace place({.ttl_ms = 1000});
  ASSERT_TRUE(place.Start(2).ok());
  place.EventTime(0);
  for (int i = 0; i < 2000; ++i) place.Fill("key" + std::to_string(i));
  ASSERT_TRUE(place.Checkpoint().ok());
  place.EventTime(11'000);
  for (KindsPlace::Subtask& one : place.subtasks) {
    while (StateSweep().Run(one.tables(), 1000) > 0) {
    }
  }
  ASSERT_TRUE(place.Checkpoint().ok());
  place.Fill("last");
  ASSERT_TRUE(place.Checkpoint().ok());
  for (KindsPlace::Subtask& one : place.subtasks) {
    const View view = one.domain->Capture();
    for (StateTable* table : one.tables()) EXPECT_LE(table->CountRows(view), 2u);
  }
  ASSERT_TRUE(place.Start(1).ok());
  EXPECT_LE(place.rows_loaded, 5u) << "a value, and a header and an element of list and map";
}

TEST(KindsRestore, ATtlIsSwitchedOverSavedStateAndTheNextCutIsReadAsItIsWritten) {
  for (const TtlConfig next : {TtlConfig{}, TtlConfig{.ttl_ms = 50}}) {
    KindsPlace place({.ttl_ms = 100});
    ASSERT_TRUE(place.Start(1).ok());
    place.EventTime(0);
    place.Fill("dead");
    place.EventTime(80);
    place.Fill("alive");
    ASSERT_TRUE(place.Checkpoint().ok());
    place.EventTime(100);
    ASSERT_TRUE(place.Checkpoint().ok());
    for (SlotDescriptor* slot : {&place.list_slot, &place.map_slot, &place.value_slot}) {
      slot->ttl = next;
    }
    ASSERT_TRUE(place.Start(2).ok());
    EXPECT_EQ(place.Alive("dead"), 0);
    EXPECT_EQ(place.Alive("alive"), 3);
    place.EventTime(101);
    place.Fill("new");
    ASSERT_TRUE(place.Checkpoint().ok());
    ASSERT_TRUE(place.Start(3).ok());
    EXPECT_EQ(place.Alive("dead"), 0);
    EXPECT_EQ(place.Alive("alive"), 3);
    EXPECT_EQ(place.Alive("new"), 3);
    place.EventTime(130);
    EXPECT_EQ(place.Alive("alive"), next.enabled() ? 0 : 3) << "written at 80";
  }
}

TEST(KindsRestore, Case49AbsentEmptyAndZeroBytesStayThreeThings) {
  KindsPlace place;
  ASSERT_TRUE(place.Start(1).ok());
  KindsPlace::Subtask& one = place.Of("k");
  ASSERT_TRUE(one.lists->Append("", "").ok());
  ASSERT_TRUE(one.lists->Append("emptied", "x").ok());
  ASSERT_TRUE(one.lists->Clear("emptied").ok());
  ASSERT_TRUE(one.maps->Put("k", "", 0).ok());
  ASSERT_TRUE(one.maps->Put("k", "b", 1).ok());
  ASSERT_TRUE(one.values->Put("zero", "").ok());
  const Shown before = place.Show();
  EXPECT_EQ(before.size(), 3u);
  ASSERT_TRUE(place.Checkpoint().ok());
  ASSERT_TRUE(place.Start(2).ok());
  EXPECT_EQ(place.Show(), before);
}

TEST(KindsRestore, AMigrationConvertsElementsAndLeavesHeadersAndDeadlinesAlone) {
  for (const TtlConfig ttl : {TtlConfig{}, TtlConfig{.ttl_ms = 100}}) {
    KindsPlace place(ttl);
    ASSERT_TRUE(place.Start(1).ok());
    place.EventTime(0);
    ASSERT_TRUE(place.Of("k").lists->Append("k", "a").ok());
    ASSERT_TRUE(place.Of("k").lists->Append("k", "b").ok());
    ASSERT_TRUE(place.Of("k").values->Put("k", "v").ok());
    ASSERT_TRUE(place.Checkpoint().ok());
    auto migrations = std::make_shared<MigrationRegistry>();
    ASSERT_TRUE(migrations
                    ->Register("text", 1, 2,
                               [](std::string_view value) -> Result<std::string> {
                                 return std::string(value) + "+";
                               })
                    .ok());
    place.options.migrations = migrations;
    place.list_slot.version = place.value_slot.version = 2;
    const Status started = place.Start(2);
    ASSERT_TRUE(started.ok()) << started.ToString();
    EXPECT_EQ(place.Show()["list k"], "0=a+ 1=b+ ");
    EXPECT_EQ(place.Show()["value k"], "v+ ");
    ASSERT_TRUE(place.Of("k").lists->Append("k", "c").ok());
    EXPECT_EQ(place.Show()["list k"], "0=a+ 1=b+ 2=c ");
    if (!ttl.enabled()) continue;
    place.EventTime(100);
    EXPECT_EQ(place.Of("k").values->Find("k"), nullptr);
  }
}

}  // namespace
}  // namespace cairn::checkpoint
