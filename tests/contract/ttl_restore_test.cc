// SPDX-License-Identifier: Apache-2.0
//
// Time to live across restores, one behaviour a test: what deadlines become, what stays dead, and
// what another TTL makes of saved state.
#include "ttl_world.h"

namespace cairn::ttl {
namespace {

TEST(TtlRestore, KeepsTheAbsoluteDeadline) {
  World world(0);
  const SlotDescriptor slot = Ttl({.ttl_ms = 100});
  Values values(world.get(), slot);
  ASSERT_TRUE(values.Put(1, 1).ok());
  world.At(60);
  MemorySink base;
  ASSERT_TRUE(values.EncodeBase(world.get()->Capture(), kEvery, &base).ok());
  World later(60);
  Values restored(later.get(), slot);
  Restore(base, &restored);
  later.At(99);
  EXPECT_NE(restored.Find(1), nullptr);
  later.At(100);
  EXPECT_EQ(restored.Find(1), nullptr);
}

TEST(TtlRestore, RestoredRowsAreSweptToo) {
  World world(0);
  const SlotDescriptor slot = Ttl({.ttl_ms = 100});
  Values values(world.get(), slot);
  Lists lists(world.get(), Ttl({.ttl_ms = 100}, "lists"));
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(values.Put(i, i).ok());
    ASSERT_TRUE(lists.Append(i, i).ok());
  }
  const View view = world.get()->Capture();
  MemorySink value_rows, list_rows;
  ASSERT_TRUE(values.EncodeBase(view, kEvery, &value_rows).ok());
  ASSERT_TRUE(lists.EncodeBase(view, kEvery, &list_rows).ok());
  World later;
  Values restored(later.get(), slot);
  Lists restored_lists(later.get(), Ttl({.ttl_ms = 100}, "lists"));
  Restore(value_rows, &restored);
  Restore(list_rows, &restored_lists);
  later.At(1000);
  while (restored.Maintain(10) + restored_lists.Maintain(10) > 0) {
  }
  EXPECT_EQ(restored.size(), 0u);
  EXPECT_EQ(restored_lists.size(), 0u);
}

TEST(TtlRestore, WhatWasSavedBeforeTheFirstTimeKeepsItsDeadline) {
  World world;
  const SlotDescriptor slot = Ttl({.ttl_ms = 100});
  Values values(world.get(), slot);
  Lists lists(world.get(), slot);
  ASSERT_TRUE(values.Put(1, 1).ok());
  ASSERT_TRUE(lists.Append(1, 1).ok());
  const View before = world.get()->Capture();
  MemorySink value_rows, list_rows;
  ASSERT_TRUE(values.EncodeBase(before, kEvery, &value_rows).ok());
  ASSERT_TRUE(lists.EncodeBase(before, kEvery, &list_rows).ok());
  world.At(5000);
  world.At(5060);
  const View later_view = world.get()->Capture();  // its delta says nothing of the two rows
  SlotDescriptor saved = slot;
  saved.ttl_time_ms = later_view.TimeOf(TtlClock::kEvent);
  saved.ttl_first_ms = later_view.FirstTimeOf(TtlClock::kEvent);
  EXPECT_EQ(saved.ttl_first_ms, 5000);
  World later;
  Values restored(later.get(), slot);
  Lists restored_lists(later.get(), slot);
  Restore(value_rows, &restored, &saved);
  Restore(list_rows, &restored_lists, &saved);
  later.At(5080);
  EXPECT_EQ(later.get()->Capture().FirstTimeOf(TtlClock::kEvent), 5000);
  later.At(5099);
  EXPECT_NE(restored.Find(1), nullptr);
  EXPECT_EQ(restored_lists.Size(1), 1u);
  later.At(5100);
  EXPECT_EQ(restored.Find(1), nullptr);
  EXPECT_EQ(restored_lists.Size(1), 0u);
}

TEST(TtlRestore, AKeyOrAnElementThatIsSavedTwiceIsDamageAndNamed) {
  World world(0);
  const SlotDescriptor slot = Ttl({.ttl_ms = 100});
  Values values(world.get(), slot);
  Lists lists(world.get(), slot);
  Maps maps(world.get(), slot);
  ASSERT_TRUE(values.Put(1, 1).ok());
  ASSERT_TRUE(lists.Append(1, 1).ok());
  ASSERT_TRUE(maps.Put(1, 1, 1).ok());
  const View view = world.get()->Capture();
  World later(0);
  Values other_values(later.get(), slot);
  Lists other_lists(later.get(), slot);
  Maps other_maps(later.get(), slot);
  for (const auto& [from, to] : {std::pair<StateTable*, StateTable*>(&values, &other_values),
                                 {&lists, &other_lists},
                                 {&maps, &other_maps}}) {
    MemorySink base;
    ASSERT_TRUE(from->EncodeBase(view, kEvery, &base).ok());
    Restore(base, to);
    // Each row again: of a collection its header, then its element.
    const SavedRowSpan all = base.parts().front()->rows.Span();
    for (size_t i = 0; i < all.rows; ++i) {
      SavedRowSpan one = all;
      if (one.kinds != nullptr) one.kinds += i;
      one.key_offsets += i;
      one.value_offsets += i;
      one.rows = 1;
      LoadCounts counts;
      const Status status = to->Load(one, 2, 2, &counts);
      EXPECT_EQ(status.code(), StatusCode::kCorruption) << i << ": " << status.ToString();
      EXPECT_NE(status.ToString().find("twice"), std::string::npos) << status.ToString();
      EXPECT_NE(status.ToString().find("0x01"), std::string::npos) << status.ToString();
    }
  }
}

TEST(TtlRestore, AnElementWithoutItsHeaderIsDamage) {
  World world(0);
  Lists lists(world.get(), Ttl({}));
  ASSERT_TRUE(lists.Append(1, 1).ok());
  MemorySink base;
  ASSERT_TRUE(lists.EncodeBase(world.get()->Capture(), kEvery, &base).ok());
  SavedRowSpan element = base.parts().front()->rows.Span();
  ASSERT_EQ(element.rows, 2u);
  if (element.kinds != nullptr) ++element.kinds;
  ++element.key_offsets;
  ++element.value_offsets;
  element.rows = 1;
  World later(0);
  Lists restored(later.get(), Ttl({}));
  LoadCounts counts;
  EXPECT_EQ(restored.Load(element, 2, 2, &counts).code(), StatusCode::kCorruption);
}

TEST(TtlSwitch, WhatHasDiedByTheCutStaysDeadUnderEveryOtherTtl) {
  const TtlConfig fifty{.ttl_ms = 50};
  const TtlConfig off{};
  const TtlConfig longer{.ttl_ms = 100};
  const TtlConfig by_wall{.ttl_ms = 50, .clock = TtlClock::kWall};
  for (const TtlConfig& now : {off, longer, by_wall, fifty}) {
    World world(0);
    const SlotDescriptor slot = Ttl(fifty);
    Values values(world.get(), slot);
    Lists lists(world.get(), slot);
    ASSERT_TRUE(values.Put(1, 1).ok());
    ASSERT_TRUE(lists.Append(1, 1).ok());
    View view = world.get()->Capture();
    MemorySink value_rows, list_rows;
    ASSERT_TRUE(values.EncodeBase(view, kEvery, &value_rows).ok());
    ASSERT_TRUE(lists.EncodeBase(view, kEvery, &list_rows).ok());
    world.At(60);
    view = world.get()->Capture();  // nothing is swept: the cut still has the base's rows
    SlotDescriptor saved = slot;
    saved.ttl_time_ms = view.TimeOf(TtlClock::kEvent);
    saved.ttl_first_ms = view.FirstTimeOf(TtlClock::kEvent);
    World later;
    Values restored(later.get(), Ttl(now));
    Lists restored_lists(later.get(), Ttl(now));
    Restore(value_rows, &restored, &saved);
    Restore(list_rows, &restored_lists, &saved);
    EXPECT_EQ(restored.Find(1), nullptr) << now.ttl_ms;
    EXPECT_EQ(restored_lists.Size(1), 0u) << now.ttl_ms;
  }
}

TEST(TtlSwitch, OnOffAndToAnotherLengthOverExistingState) {
  const TtlConfig off{};
  const TtlConfig hundred{.ttl_ms = 100};
  const TtlConfig fifty{.ttl_ms = 50};
  struct Case {
    TtlConfig saved;
    TtlConfig now;
    int64_t alive_until;  // with a restore at 20 of what was written at 0
  };
  constexpr int64_t kForEver = 1000000;
  for (const Case& one : {Case{off, hundred, 119}, Case{hundred, off, kForEver},
                          Case{hundred, fifty, 49}, Case{fifty, hundred, 99}}) {
    World world(0);
    const SlotDescriptor saved = Ttl(one.saved);
    Values values(world.get(), saved);
    Lists lists(world.get(), saved);
    ASSERT_TRUE(values.Put(1, 42).ok());
    ASSERT_TRUE(lists.Append(1, 42).ok());
    const View view = world.get()->Capture();
    MemorySink value_rows, list_rows;
    ASSERT_TRUE(values.EncodeBase(view, kEvery, &value_rows).ok());
    ASSERT_TRUE(lists.EncodeBase(view, kEvery, &list_rows).ok());
    World later(20);
    Values restored(later.get(), Ttl(one.now));
    Lists restored_lists(later.get(), Ttl(one.now));
    Restore(value_rows, &restored, &saved);
    Restore(list_rows, &restored_lists, &saved);
    later.At(one.alive_until);
    ASSERT_NE(restored.Find(1), nullptr) << one.saved.ttl_ms << " to " << one.now.ttl_ms;
    EXPECT_EQ(*restored.Find(1), 42);
    EXPECT_EQ(restored_lists.Size(1), 1u);
    if (one.alive_until == kForEver) continue;
    later.At(one.alive_until + 1);
    EXPECT_EQ(restored.Find(1), nullptr);
    EXPECT_EQ(restored_lists.Size(1), 0u);
  }
}

TEST(TtlRestore, AStampThatIsCutShortIsAnErrorThatNamesTheKey) {
  World world(0);
  Values plain(world.get(), Ttl({}));
  ASSERT_TRUE(plain.Put(1, 42).ok());
  MemorySink base;
  ASSERT_TRUE(plain.EncodeBase(world.get()->Capture(), kEvery, &base).ok());
  World later(0);
  Values restored(later.get(), Ttl({.ttl_ms = 100}));
  LoadCounts counts;
  const Status status = restored.Load(base.parts().front()->rows.Span(), 2, 2, &counts);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.ToString().find("slot slot"), std::string::npos) << status.ToString();
}

TEST(TtlKinds, AFoldRestartsFromItsInitialValue) {
  World world(0);
  ReducingState<int64_t, int64_t, std::plus<int64_t>> sums(world.get(), Ttl({.ttl_ms = 10}));
  ASSERT_TRUE(sums.Add(1, 5).ok());
  ASSERT_TRUE(sums.Add(1, 6).ok());
  world.At(10);
  ASSERT_TRUE(sums.Add(1, 7).ok());
  EXPECT_EQ(*sums.Find(1), 7);
}

TEST(TtlKinds, AContainerInAValueLivesAndDiesAsAWhole) {
  World world(0);
  ValueState<int64_t, std::vector<int64_t>, Codec<int64_t>, NumbersCodec> lists(
      world.get(), Ttl({.ttl_ms = 10}));
  const auto append = [&](int64_t value) {
    return lists.Update(1, [&](std::vector<int64_t>& list, bool) { list.push_back(value); });
  };
  ASSERT_TRUE(append(1).ok());
  world.At(6);
  ASSERT_TRUE(append(2).ok()) << "an append refreshes the whole list";
  world.At(12);
  ASSERT_NE(lists.Find(1), nullptr) << "a read does not";
  EXPECT_EQ(*lists.Find(1), (std::vector<int64_t>{1, 2}));
  world.At(16);
  EXPECT_EQ(lists.Find(1), nullptr);
  ASSERT_TRUE(append(3).ok());
  EXPECT_EQ(*lists.Find(1), std::vector<int64_t>{3});
}

TEST(TtlKinds, APlainTableRefusesRowsSavedWithATtl) {
  World world;
  Table<int64_t, int64_t> table(world.get(), Ttl({}));
  EXPECT_EQ(table.ExpectSaved(Ttl({.ttl_ms = 5})).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::ttl
