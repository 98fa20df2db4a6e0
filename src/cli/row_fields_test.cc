// SPDX-License-Identifier: Apache-2.0
//
// Rows as named values: what differs is named, and nothing else.
#include "cli/row_fields.h"

#include <gtest/gtest.h>

#include "base/coding.h"
#include "cairn/element_row_key.h"

namespace cairn::cli {
namespace {

RowFields Row(std::vector<std::pair<std::string, std::string>> fields) {
  return {"{}", std::move(fields)};
}

TEST(RowFieldsTest, OnlyFieldsThatDifferAreChanges) {
  const auto changes = ChangesOf(Row({{"a", "1"}, {"b", "2"}}), Row({{"a", "1"}, {"b", "3"}}));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].name, "b");
  EXPECT_EQ(changes[0].before, "2");
  EXPECT_EQ(changes[0].after, "3");
}

TEST(RowFieldsTest, AFieldOfOneSideAloneIsAbsentOnTheOther) {
  const auto changes = ChangesOf(Row({{"old", "1"}}), Row({{"new", "null"}}));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].name, "old");
  EXPECT_EQ(changes[0].after, "");
  EXPECT_EQ(changes[1].name, "new");
  EXPECT_EQ(changes[1].before, "");
  EXPECT_EQ(changes[1].after, "null") << "null is a value";
}

TEST(RowFieldsTest, EqualFieldsAreNoChangeWhateverTheirOrder) {
  EXPECT_TRUE(ChangesOf(Row({{"a", "1"}, {"b", "2"}}), Row({{"b", "2"}, {"a", "1"}})).empty());
}

TEST(RowFieldsTest, RankedRowsAreAListWithoutTheDeadline) {
  const RowFields row =
      Row({{"rank 1", R"({"price":9})"}, {"rank 2", R"({"price":7})"}, {"expires_at_ms", "5"}});
  EXPECT_EQ(row.ValueText(true), R"([{"price":9},{"price":7}])");
  EXPECT_EQ(row.ValueText(false),
            R"({"rank 1":{"price":9},"rank 2":{"price":7},"expires_at_ms":5})");
}

/// A map of an embedded store: uid "m", keys and values of text, a TTL of a second by the wall.
SlotDescriptor MapSlot() {
  SlotDescriptor slot;
  slot.operator_uid = "m";
  slot.name = "visits";
  slot.kind = SlotKind::kKeyedMap;
  slot.key_codec = "string";
  slot.element_key_codec = "ordered_int64";
  slot.value_codec = "string";
  slot.ttl = {.ttl_ms = 1000, .clock = TtlClock::kWall};
  slot.ttl_time_ms = 0;
  return slot;
}

TEST(RowFieldsTest, AnElementOfAMapHasItsMapKeyInTheKeyAndItsDeadlineAsAField) {
  std::string key;
  key.resize(ElementRowKey::Size(3, 0));
  ElementRowKey::Write(key.data(), "ada", ElementRowKey::kElement);
  key += std::string("\x80\0\0\0\0\0\0\x07", 8);
  std::string value;
  base::AppendLE<int64_t>(&value, 4711);
  value += "seven";
  auto reader = RowFieldsReader::Make(MapSlot());
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const auto row = (*reader)->Read(key, value);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->key, R"({"key":"ada","map_key":7})");
  ASSERT_EQ(row->fields.size(), 2u);
  EXPECT_EQ(row->fields[0].second, "\"seven\"");
  EXPECT_EQ(row->fields[1], std::pair(std::string("expires_at_ms"), std::string("4711")));
}

}  // namespace
}  // namespace cairn::cli
