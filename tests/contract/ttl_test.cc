// SPDX-License-Identifier: Apache-2.0
//
// Behaviours of time to live, one a test: which clock counts, what refreshes, what is saved, what a
// sweep gives back.
#include "ttl_world.h"

namespace cairn::ttl {
namespace {

// --- deadlines ---------------------------------------------------------------------------------

TEST(TtlDeadline, WithoutATtlValuesCarryNoStamp) {
  World world;
  Values values(world.get(), Ttl({}));
  ASSERT_TRUE(values.Put(1, 42).ok());
  MemorySink base;
  ASSERT_TRUE(values.EncodeBase(world.get()->Capture(), kEvery, &base).ok());
  EXPECT_EQ(base.parts().front()->rows.Span().value(0).size(), 8u);
}

TEST(TtlDeadline, ASavedValueIsItsDeadlineAndTheValue) {
  World world(1000);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  ASSERT_TRUE(values.Put(1, 42).ok());
  MemorySink base;
  ASSERT_TRUE(values.EncodeBase(world.get()->Capture(), kEvery, &base).ok());
  const std::string_view bytes = base.parts().front()->rows.Span().value(0);
  ASSERT_EQ(bytes.size(), 16u);
  int64_t deadline, value;
  std::memcpy(&deadline, bytes.data(), 8);
  std::memcpy(&value, bytes.data() + 8, 8);
  EXPECT_EQ(deadline, 1100);
  EXPECT_EQ(value, 42);
}

TEST(TtlDeadline, IsInclusive) {
  World world(1000);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  ASSERT_TRUE(values.Put(1, 42).ok());
  world.At(1099);
  ASSERT_NE(values.Find(1), nullptr);
  world.At(1100);
  EXPECT_EQ(values.Find(1), nullptr);
  EXPECT_EQ(values.size(), 0u) << "finding a dead row erases it";
}

TEST(TtlDeadline, AScanSkipsTheDeadAndErasesNothing) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10}));
  ASSERT_TRUE(values.Put(1, 1).ok());
  world.At(5);
  ASSERT_TRUE(values.Put(2, 2).ok());
  world.At(10);
  std::vector<int64_t> keys;
  values.ScanNow(kEvery, [&](int64_t key, int64_t) { keys.push_back(key); });
  EXPECT_EQ(keys, std::vector<int64_t>{2});
  EXPECT_EQ(values.size(), 2u);
}

TEST(TtlDeadline, WhoWantsExpiryBeforeTheFirstWatermarkStartsTheClockAtZero) {
  World world;
  world.At(0);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  ASSERT_TRUE(values.Put(1, 1).ok());
  world.At(5000);
  EXPECT_EQ(values.Find(1), nullptr) << "its deadline was 100";
}

TEST(TtlDeadline, TimeNeverGoesBack) {
  World world(1000);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  ASSERT_TRUE(values.Put(1, 42).ok());
  world.At(1100);
  world.At(50);
  EXPECT_EQ(world.get()->TimeOf(TtlClock::kEvent), 1100);
  EXPECT_EQ(values.Find(1), nullptr);
}

TEST(TtlDeadline, ALateRecordOnADeadRowStartsAnew) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10}));
  ASSERT_TRUE(values.Put(1, 42).ok());
  world.At(10);
  ASSERT_TRUE(values
                  .Update(1,
                          [](int64_t& value, bool inserted) {
                            EXPECT_TRUE(inserted);
                            EXPECT_EQ(value, 0);
                            value = 7;
                          })
                  .ok());
  EXPECT_EQ(*values.Find(1), 7);
}

TEST(TtlDeadline, ABatchStartsDeadRowsAnew) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10}));
  const int64_t keys[] = {1, 2, 1};
  const auto bump = [&] {
    return values.UpdateBatch(
        3, [&](size_t i) { return keys[i]; },
        [&](size_t i) { return detail::FnvOfObject(keys[i]); },
        [](size_t, int64_t& value, bool) noexcept { ++value; });
  };
  ASSERT_TRUE(bump().ok());
  world.At(5);
  ASSERT_TRUE(bump().ok());
  EXPECT_EQ(*values.Find(1), 4);
  world.At(15);
  ASSERT_TRUE(bump().ok());
  EXPECT_EQ(*values.Find(1), 2);
  EXPECT_EQ(*values.Find(2), 1);
}

TEST(TtlDeadline, BeforeTheFirstTimeNothingDiesAndThenAWholeTtlIsLeft) {
  World world;
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  ASSERT_TRUE(values.Put(1, 42).ok());
  EXPECT_EQ(values.Maintain(100), 0u);
  EXPECT_NE(values.Find(1), nullptr);
  world.At(5000);
  values.Maintain(100);
  EXPECT_NE(values.Find(1), nullptr);
  world.At(5099);
  EXPECT_NE(values.Find(1), nullptr);
  world.At(5100);
  EXPECT_EQ(values.Find(1), nullptr);
}

TEST(TtlDeadline, Case53SaturatesAtExtremeTimes) {
  World world(std::numeric_limits<int64_t>::min() + 1);
  Values values(world.get(), Ttl({.ttl_ms = std::numeric_limits<int64_t>::max()}));
  ASSERT_TRUE(values.Put(1, 1).ok());
  world.At(-2);
  EXPECT_NE(values.Find(1), nullptr);
  ASSERT_TRUE(values.Put(2, 2).ok());
  world.At(std::numeric_limits<int64_t>::max() - 2);
  EXPECT_EQ(values.Find(1), nullptr);
  ASSERT_TRUE(values.Put(3, 3).ok());
  while (values.Maintain(10) > 0) {
  }
  EXPECT_NE(values.Find(3), nullptr) << "a deadline that does not fit is not in the past";
}

// --- clocks ------------------------------------------------------------------------------------

TEST(TtlClocks, EachSlotGoesByItsOwn) {
  World world(0);
  world.get()->AdvanceWallTime(1000000);
  Values event(world.get(), Ttl({.ttl_ms = 10, .clock = TtlClock::kEvent}));
  Values wall(world.get(), Ttl({.ttl_ms = 10, .clock = TtlClock::kWall}, "wall"));
  ASSERT_TRUE(event.Put(1, 1).ok());
  ASSERT_TRUE(wall.Put(1, 1).ok());
  world.get()->AdvanceWallTime(1000010);
  EXPECT_NE(event.Find(1), nullptr);
  EXPECT_EQ(wall.Find(1), nullptr);
  world.At(10);
  EXPECT_EQ(event.Find(1), nullptr);
}

TEST(TtlClocks, Case52AnOutageCountsByTheWallAndNotByTheStoppedClock) {
  constexpr int64_t kMinute = 60000;
  for (const TtlClock clock : {TtlClock::kWall, TtlClock::kStoppedWhileDown}) {
    World world;
    world.get()->AdvanceWallTime(0);
    const SlotDescriptor slot = Ttl({.ttl_ms = 10 * kMinute, .clock = clock});
    Values values(world.get(), slot);
    ASSERT_TRUE(values.Put(1, 1).ok());
    world.get()->AdvanceWallTime(2 * kMinute);
    const View view = world.get()->Capture();
    MemorySink base;
    ASSERT_TRUE(values.EncodeBase(view, kEvery, &base).ok());
    World later;
    Values restored(later.get(), slot);
    SlotDescriptor saved = slot;
    saved.ttl_time_ms = view.TimeOf(clock);
    saved.ttl_first_ms = view.FirstTimeOf(clock);
    Restore(base, &restored, &saved);
    later.get()->AdvanceWallTime(13 * kMinute);
    EXPECT_EQ(restored.Find(1) != nullptr, clock == TtlClock::kStoppedWhileDown);
    later.get()->AdvanceWallTime(21 * kMinute - 1);
    EXPECT_EQ(restored.Find(1) != nullptr, clock == TtlClock::kStoppedWhileDown);
    later.get()->AdvanceWallTime(21 * kMinute);
    EXPECT_EQ(restored.Find(1), nullptr) << "8 minutes were left";
  }
}

TEST(TtlClocks, BesideASlotOfTheWallClockTheStoppedOneCountsNoOutage) {
  World world;
  const SlotDescriptor wall = Ttl({.ttl_ms = 1000, .clock = TtlClock::kWall}, "wall");
  const SlotDescriptor stopped = Ttl({.ttl_ms = 1000, .clock = TtlClock::kStoppedWhileDown});
  Values by_wall(world.get(), wall);
  Values by_stopped(world.get(), stopped);
  SlotDescriptor saved_wall = wall;
  saved_wall.ttl_time_ms = saved_wall.ttl_first_ms = 70000;
  SlotDescriptor saved_stopped = stopped;
  saved_stopped.ttl_time_ms = 500;
  saved_stopped.ttl_first_ms = 0;
  ASSERT_TRUE(by_wall.ExpectSaved(saved_wall).ok());
  ASSERT_TRUE(by_stopped.ExpectSaved(saved_stopped).ok());
  world.get()->AdvanceWallTime(90000);
  EXPECT_EQ(world.get()->TimeOf(TtlClock::kStoppedWhileDown), 500);
  world.get()->AdvanceWallTime(90010);
  EXPECT_EQ(world.get()->TimeOf(TtlClock::kStoppedWhileDown), 510);
  EXPECT_EQ(world.get()->TimeOf(TtlClock::kWall), 90010);
}

// --- refresh -----------------------------------------------------------------------------------

TEST(TtlRefresh, AWriteMovesTheDeadlineUnlessToldNot) {
  for (const bool refresh : {true, false}) {
    World world(0);
    Values values(world.get(), Ttl({.ttl_ms = 10, .refresh_on_write = refresh}));
    Maps maps(world.get(), Ttl({.ttl_ms = 10, .refresh_on_write = refresh}, "maps"));
    ASSERT_TRUE(values.Put(1, 1).ok());
    ASSERT_TRUE(maps.Put(1, 1, 1).ok());
    world.At(6);
    ASSERT_TRUE(values.Put(1, 2).ok());
    ASSERT_TRUE(maps.Put(1, 1, 2).ok());
    world.At(12);
    EXPECT_EQ(values.Find(1) != nullptr, refresh);
    EXPECT_EQ(maps.Find(1, 1) != nullptr, refresh);
  }
}

TEST(TtlRefresh, AReadMovesItOnlyWhenAskedTo) {
  for (const bool refresh : {true, false}) {
    World world(0);
    Values values(world.get(), Ttl({.ttl_ms = 10, .refresh_on_read = refresh}));
    Maps maps(world.get(), Ttl({.ttl_ms = 10, .refresh_on_read = refresh}, "maps"));
    ASSERT_TRUE(values.Put(1, 1).ok());
    ASSERT_TRUE(maps.Put(1, 1, 1).ok());
    world.At(6);
    EXPECT_NE(values.Find(1), nullptr);
    EXPECT_NE(maps.Find(1, 1), nullptr);
    world.At(12);
    EXPECT_EQ(values.Find(1) != nullptr, refresh);
    EXPECT_EQ(maps.Find(1, 1) != nullptr, refresh);
  }
}

TEST(TtlRefresh, BatchedReadsHideTheDeadAndRefreshTheLiving) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10, .refresh_on_read = true}));
  ASSERT_TRUE(values.Put(1, 1).ok());
  world.At(5);
  ASSERT_TRUE(values.Put(2, 2).ok());
  world.At(10);
  std::vector<bool> found;
  values.FindBatch(
      2, [](size_t i) { return static_cast<int64_t>(i + 1); },
      [](size_t i) { return detail::FnvOfObject(static_cast<int64_t>(i + 1)); },
      [&](size_t, const int64_t* value) { found.push_back(value != nullptr); });
  EXPECT_EQ(found, (std::vector<bool>{false, true}));
  world.At(19);
  EXPECT_NE(values.Find(2), nullptr);
}

TEST(TtlRefresh, AViewKeepsTheTimeOfItsCaptureAndRefreshesNothing) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10, .refresh_on_read = true}));
  ASSERT_TRUE(values.Put(1, 1).ok());
  const View view = world.get()->Capture();
  const auto shown = [&] { return values.Get(view, 1, [](const int64_t&) {}); };
  EXPECT_TRUE(shown());
  world.At(10);
  EXPECT_TRUE(shown()) << "alive when the view was taken";
  EXPECT_EQ(values.Find(1), nullptr);
  EXPECT_TRUE(shown()) << "erased since";
  const View later = world.get()->Capture();
  EXPECT_FALSE(values.Get(later, 1, [](const int64_t&) {}));
}

TEST(TtlViews, WhatAViewTakesForDeadIsSweptWithoutAPreImage) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10}));
  for (int64_t key = 0; key < 10000; ++key) ASSERT_TRUE(values.Put(key, key).ok());
  world.At(10);
  const View view = world.get()->Capture();
  while (values.Maintain(1000) > 0) {
  }
  ASSERT_TRUE(values.Put(7, 70).ok());
  EXPECT_EQ(values.size(), 1u);
  EXPECT_LT(world.get()->ViewBytes(), 10000u) << "bytes of rows that no reader can see";
  EXPECT_EQ(values.CountRows(view), 0u);
  EXPECT_FALSE(values.Get(view, 7, [](const int64_t&) {}));
  MemorySink delta;
  ASSERT_TRUE(values.EncodeDelta(view, 0, kEvery, &delta).ok());
  for (const auto& part : delta.parts()) {
    const SavedRowSpan rows = part->rows.Span();
    for (size_t i = 0; i < rows.rows; ++i) EXPECT_EQ(rows.kind(i), SavedRowKind::kErase);
  }
}

TEST(TtlViews, WhatAnOlderViewSeesAliveIsKeptForIt) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 10}));
  ASSERT_TRUE(values.Put(1, 11).ok());
  const View older = world.get()->Capture();
  world.At(10);
  const View newer = world.get()->Capture();
  ASSERT_TRUE(values.Put(1, 12).ok());
  int64_t seen = 0;
  EXPECT_TRUE(values.Get(older, 1, [&](const int64_t& value) { seen = value; }));
  EXPECT_EQ(seen, 11);
  EXPECT_FALSE(values.Get(newer, 1, [](const int64_t&) {}));
}

TEST(TtlViews, ADeadRowThatIsBornAgainShowsNoPreImageOfAnEarlierLife) {
  World world(0);
  Texts texts(world.get(), Ttl({.ttl_ms = 10}));
  ASSERT_TRUE(texts.Put(1, "first").ok());
  View earlier = world.get()->Capture();
  ASSERT_TRUE(texts.Put(1, "second").ok());  // the first is kept for that view
  earlier.Release();
  world.get()->Poll(1000);  // and given back with it
  world.At(10);
  const View view = world.get()->Capture();
  ASSERT_TRUE(texts.Put(1, "third").ok());
  EXPECT_FALSE(texts.Get(view, 1, [](const std::string&) {}));
  EXPECT_EQ(*texts.Find(1), "third");
}

// --- sweep -------------------------------------------------------------------------------------

TEST(TtlSweep, Case47GivesBackAMillionKeysInBoundedSteps) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 1000}));
  constexpr int64_t kKeys = 1000000;
  for (int64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(values.Put(i * 7919, i).ok());
  const uint64_t full = values.MemoryBytes();
  world.At(11000);
  View view = world.get()->Capture();
  MemorySink dead;
  ASSERT_TRUE(values.EncodeBase(view, kEvery, &dead).ok());
  EXPECT_EQ(Rows(dead), 0u) << "not swept yet, and not saved";
  EXPECT_EQ(values.CountRows(view), 0u);
  view.Release();
  EXPECT_EQ(values.Maintain(1000), 1000u);
  EXPECT_EQ(values.size(), static_cast<uint64_t>(kKeys - 1000));
  for (int i = 0; i < 2000; ++i) values.Maintain(1000);
  EXPECT_EQ(values.size(), 0u);
  // The erased keys are tombstones until their erase is committed.
  view = world.get()->Capture();
  world.get()->SetCommitted(view.epoch());
  view.Release();
  for (int i = 0; i < 2000; ++i) values.Maintain(1000);
  EXPECT_LT(values.MemoryBytes(), full / 100);
}

TEST(TtlSweep, NeverTakesALiveRowAndLooksAtOneOnceABucket) {
  World world(0);
  Texts texts(world.get(), Ttl({.ttl_ms = 6400}));
  for (int64_t i = 0; i < 1000; ++i) ASSERT_TRUE(texts.Put(i, "old").ok());
  size_t steps = 0;
  for (int64_t now = 100; now <= 64000; now += 100) {
    world.At(now);
    for (int64_t i = 0; i < 500; ++i) ASSERT_TRUE(texts.Put(i, "new").ok());
    steps += texts.Maintain(100000);
  }
  EXPECT_EQ(texts.size(), 500u);
  for (int64_t i = 0; i < 500; ++i) ASSERT_NE(texts.Find(i), nullptr);
  EXPECT_LT(steps, 500u + 500u * 12) << "a live row is looked at once a TTL";
}

TEST(TtlSweep, LeavesSiblingSlotsAlone) {
  World world(0);
  Values one(world.get(), Ttl({.ttl_ms = 10}, "seen"));
  Values longer(world.get(), Ttl({.ttl_ms = 100}, "seen2"));
  Values forever(world.get(), Ttl({}, "n"));
  for (Values* slot : {&one, &longer, &forever}) ASSERT_TRUE(slot->Put(1, 1).ok());
  world.At(50);
  EXPECT_EQ(one.Maintain(100), 1u);
  EXPECT_EQ(one.size(), 0u);
  EXPECT_EQ(longer.size() + forever.size(), 2u);
}

TEST(TtlSweep, ARowBornAgainIsNotSweptForItsPredecessor) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  ASSERT_TRUE(values.Put(1, 1).ok());
  ASSERT_TRUE(values.Erase(1));
  world.At(90);
  ASSERT_TRUE(values.Put(1, 2).ok());
  world.At(110);
  values.Maintain(1000);
  EXPECT_NE(values.Find(1), nullptr);
}

TEST(TtlSweep, EmptiedCollectionsAreGoneFromMemoryAndFiles) {
  World world(0);
  Lists lists(world.get(), Ttl({.ttl_ms = 100}));
  Maps maps(world.get(), Ttl({.ttl_ms = 100}, "maps"));
  for (int64_t key = 0; key < 200; ++key) {
    for (int64_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(lists.Append(key, i).ok());
      ASSERT_TRUE(maps.Put(key, i, i).ok());
    }
  }
  const uint64_t full_list = lists.MemoryBytes();
  const uint64_t full_map = maps.MemoryBytes();
  world.At(1000);
  EXPECT_EQ(lists.Size(7), 0u);
  EXPECT_EQ(maps.Size(7), 0u);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) {
      lists.Maintain(100);
      maps.Maintain(100);
    }
    View view = world.get()->Capture();
    MemorySink list_rows, map_rows;
    ASSERT_TRUE(lists.EncodeBase(view, kEvery, &list_rows).ok());
    ASSERT_TRUE(maps.EncodeBase(view, kEvery, &map_rows).ok());
    EXPECT_EQ(Rows(list_rows) + Rows(map_rows), 0u);
    world.get()->SetCommitted(view.epoch());
    view.Release();
  }
  EXPECT_EQ(lists.size() + maps.size(), 0u);
  EXPECT_LT(lists.MemoryBytes(), full_list / 20);
  EXPECT_LT(maps.MemoryBytes(), full_map / 20);
}

TEST(TtlSweep, ElementsDieOneByOneAndTheListKeepsItsOrder) {
  World world(0);
  Lists lists(world.get(), Ttl({.ttl_ms = 100}));
  for (int64_t i = 0; i < 300; ++i) {
    world.At(i);
    ASSERT_TRUE(lists.Append(1, i).ok());
    lists.Maintain(10);
  }
  EXPECT_EQ(lists.Size(1), 100u);
  int64_t next = 200;
  lists.ForEach(1, [&](uint64_t index, int64_t value) {
    EXPECT_EQ(value, next++);
    EXPECT_EQ(index, static_cast<uint64_t>(value));
  });
  EXPECT_EQ(next, 300);
}

TEST(TtlSweep, ADeltaErasesWhatTheBaseStillHas) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  for (int64_t i = 0; i < 10; ++i) ASSERT_TRUE(values.Put(i, i).ok());
  View view = world.get()->Capture();
  world.get()->SetCommitted(view.epoch());
  view.Release();
  world.At(500);
  while (values.Maintain(100) > 0) {
  }
  MemorySink delta;
  ASSERT_TRUE(
      values.EncodeDelta(world.get()->Capture(), world.get()->committed_epoch(), kEvery, &delta)
          .ok());
  ASSERT_EQ(Rows(delta), 10u);
  EXPECT_EQ(delta.parts().front()->rows.Span().kind(0), SavedRowKind::kErase);
}

TEST(TtlSweep, StatisticsCountLiveExpiredAndWhatWillExpire) {
  World world(0);
  Values values(world.get(), Ttl({.ttl_ms = 100}));
  Lists lists(world.get(), Ttl({.ttl_ms = 100}, "lists"));
  for (int64_t i = 0; i < 30; ++i) {
    world.At(i * 10);
    ASSERT_TRUE(values.Put(i, i).ok());
    ASSERT_TRUE(lists.Append(i % 3, i).ok());
  }
  // Now 290: what was written at 190 or before is dead.
  const View view = world.get()->Capture();
  for (const TtlStatistics& counts : {values.Statistics(view, 340), lists.Statistics(view, 340)}) {
    EXPECT_EQ(counts.live, 10u);
    EXPECT_EQ(counts.expired, 20u);
    EXPECT_EQ(counts.will_expire, 5u);
    EXPECT_GT(counts.bytes, 0u);
  }
}

TEST(TtlSweep, TablesTakeTurnsWithinTheBudgetOfACall) {
  World world(0);
  std::vector<std::unique_ptr<Values>> slots;
  std::vector<StateTable*> tables;
  for (int i = 0; i < 40; ++i) {
    slots.push_back(
        std::make_unique<Values>(world.get(), Ttl({.ttl_ms = 10}, "slot" + std::to_string(i))));
    tables.push_back(slots.back().get());
    for (int64_t key = 0; key < 100; ++key) ASSERT_TRUE(slots.back()->Put(key, key).ok());
  }
  world.At(10);
  StateSweep sweep;
  EXPECT_EQ(sweep.Run(tables, 150), 150u);
  EXPECT_EQ(slots[0]->size(), 0u);
  EXPECT_EQ(slots[1]->size(), 50u);
  size_t swept = 150;
  for (int i = 0; i < 100; ++i) swept += sweep.Run(tables, 150);
  EXPECT_EQ(swept, 4000u);
  for (const auto& slot : slots) EXPECT_EQ(slot->size(), 0u);
  EXPECT_EQ(sweep.Run({}, 10), 0u);
}

}  // namespace
}  // namespace cairn::ttl
