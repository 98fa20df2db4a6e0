// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/hash.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SlotDescriptor Declared(std::vector<ColumnSpec> value) {
  SlotDescriptor slot;
  slot.operator_uid = "counts/0";
  slot.operator_id = OperatorIdOf(slot.operator_uid);
  slot.name = "agg";
  slot.key_codec = slot.value_codec = "row";
  slot.key_columns = {{"auction", "bigint", true}};
  slot.value_columns = std::move(value);
  return slot;
}

/// The same slot as a snapshot stream has it.
SlotDescriptor InStream(uint32_t version = 1) {
  SlotDescriptor slot = Declared({});
  slot.operator_uid.clear();
  slot.key_codec = "bytes";
  slot.key_columns.clear();
  slot.version = version;
  return slot;
}

TEST(SlotAlignment, ASlotOfAStreamIsReadWithTheColumnsOfTheOtherSide) {
  const SlotDescriptor declared = Declared({{"n", "bigint", false}});
  for (const bool stream_first : {true, false}) {
    const AlignedSlots aligned =
        stream_first ? AlignSlots({InStream()}, {declared}) : AlignSlots({declared}, {InStream()});
    for (const SlotDescriptor& slot : {aligned.a[0], aligned.b[0]}) {
      ASSERT_THAT(slot.value_columns, SizeIs(1));
      EXPECT_EQ(slot.value_columns[0].name, "n");
      EXPECT_EQ(slot.operator_uid, "counts/0");
      EXPECT_EQ(slot.key_codec, "row");
    }
  }
}

TEST(SlotAlignment, BothSidesAreBytesWhenTheStreamMayHoldSomethingElse) {
  SlotDescriptor with_ttl = Declared({{"n", "bigint", false}});
  with_ttl.ttl.ttl_ms = 100;
  for (const auto& [stream, declared] : {std::pair(InStream(2), Declared({{"n", "bigint", false}})),
                                         std::pair(InStream(), with_ttl)}) {
    const AlignedSlots aligned = AlignSlots({stream}, {declared});
    for (const SlotDescriptor& slot : {aligned.a[0], aligned.b[0]}) {
      EXPECT_THAT(slot.key_columns, IsEmpty());
      EXPECT_THAT(slot.value_columns, IsEmpty());
      EXPECT_EQ(slot.key_codec, "bytes");
      EXPECT_FALSE(slot.ttl.enabled());
    }
  }
}

TEST(SlotAlignment, ARenamedColumnHasTheNameOfTheFirstSideAndIsSaid) {
  const AlignedSlots aligned =
      AlignSlots({Declared({{"n", "bigint", false}, {"x", "text", true}})},
                 {Declared({{"total", "bigint", false}, {"x", "text", true}})});
  EXPECT_EQ(aligned.b[0].value_columns[0].name, "n");
  ASSERT_THAT(aligned.notes, SizeIs(1));
  EXPECT_THAT(aligned.notes[0], HasSubstr("column n is total in B"));
}

TEST(SlotAlignment, AnotherTypeAndAColumnThatOnlyMovedAreNoRename) {
  AlignedSlots aligned =
      AlignSlots({Declared({{"n", "bigint", false}})}, {Declared({{"total", "text", false}})});
  EXPECT_EQ(aligned.b[0].value_columns[0].name, "total");
  aligned = AlignSlots({Declared({{"n", "bigint", false}, {"m", "bigint", false}})},
                       {Declared({{"m", "bigint", false}, {"n", "bigint", false}})});
  EXPECT_EQ(aligned.b[0].value_columns[0].name, "m");
  EXPECT_THAT(aligned.notes, IsEmpty());
}

TEST(SlotAlignment, SlotsOfOneSideOnlyStayAsTheyAre) {
  SlotDescriptor other = InStream();
  other.name = "other";
  const AlignedSlots aligned = AlignSlots({other}, {Declared({{"n", "bigint", false}})});
  EXPECT_EQ(aligned.a[0].key_codec, "bytes");
  EXPECT_EQ(aligned.b[0].value_columns[0].name, "n");
}

}  // namespace
}  // namespace cairn::cli
