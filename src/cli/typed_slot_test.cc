// SPDX-License-Identifier: Apache-2.0
#include "cli/typed_slot.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/coding.h"
#include "cairn/ordered_codec.h"
#include "cli/slot_json.h"
#include "cli/slot_row.h"
#include "format/row_codec.h"
#include "format/topn_codec.h"

namespace cairn::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string Le64(int64_t value) {
  std::string bytes;
  base::AppendLE(&bytes, value);
  return bytes;
}

SlotDescriptor CountSlot() {
  SlotDescriptor slot;
  slot.operator_uid = "counts/group-aggregate/0";
  slot.operator_id = OperatorIdOf(slot.operator_uid);
  slot.name = "groups";
  slot.key_codec = slot.value_codec = "row";
  slot.key_columns = {{"auction", "bigint", false}};
  slot.value_columns = {{"n", "bigint", false}};
  return slot;
}

SlotDescriptor TopSlot() {
  SlotDescriptor slot = CountSlot();
  slot.value_codec = "topn";
  slot.value_columns = {{"price", "bigint", true}, {"url", "text", true}};
  return slot;
}

std::string PriceRow(int64_t price, std::string_view url) {
  std::string row;
  format::AppendFixedField(price, true, &row);
  format::AppendBytesField(url, true, &row);
  return row;
}

/// Two ranked rows with made-up sort keys.
std::string TopValue() {
  const std::string first = PriceRow(9, "u1");
  const std::string second = PriceRow(8, "u2");
  const std::vector<format::TopNRow> rows{{"\x01", first}, {"\x02", second}};
  std::string value(format::EncodedTopNBytes(rows), '\0');
  format::EncodeTopN(rows, value.data());
  return value;
}

std::shared_ptr<arrow::RecordBatch> Decode(const SlotDescriptor& slot, const Rows& rows) {
  auto decoder = TypedSlotDecoder::Make(slot);
  EXPECT_TRUE(decoder.ok());
  for (const auto& [key, value] : rows) EXPECT_TRUE(decoder->Append(key, value).ok());
  return *decoder->Finish();
}

Status Encode(const SlotDescriptor& slot, const arrow::RecordBatch& batch, Rows* rows) {
  CAIRN_ASSIGN_OR_RETURN(
      TypedSlotEncoder encoder,
      TypedSlotEncoder::Make(slot, [rows](std::string_view key, std::string_view value) -> Status {
        rows->emplace_back(key, value);
        return {};
      }));
  CAIRN_RETURN_IF_ERROR(encoder.Append(batch));
  return encoder.Finish();
}

TEST(TypedSlotTest, AnAggregateBecomesItsKeyAndValueColumns) {
  const auto batch = Decode(CountSlot(), {{Le64(7), Le64(3)}, {Le64(-1), Le64(5)}});
  EXPECT_EQ(batch->schema()->field(0)->name(), "auction");
  EXPECT_EQ(batch->schema()->field(1)->name(), "n");
  EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch->column(0)).Value(1), -1);
  EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch->column(1)).Value(0), 3);
}

TEST(TypedSlotTest, ATopNValueBecomesARowForEachRank) {
  const auto batch = Decode(TopSlot(), {{Le64(7), TopValue()}});
  ASSERT_EQ(batch->num_rows(), 2);
  EXPECT_EQ(batch->schema()->ToString(false).find("auction: int64 not null\nprice: int64\n"
                                                  "url: string\nrank: int64 not null\n"
                                                  "sort_key: binary not null"),
            0u)
      << batch->schema()->ToString(false);
  EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("rank")).Value(1), 2);
  EXPECT_EQ(static_cast<const arrow::StringArray&>(*batch->GetColumnByName("url")).GetView(1),
            "u2");
}

TEST(TypedSlotTest, WhatIsDecodedEncodesBackToTheSameBytes) {
  for (const auto& [slot, rows] :
       {std::pair(CountSlot(), Rows{{Le64(7), Le64(3)}, {Le64(-1), Le64(5)}}),
        std::pair(TopSlot(), Rows{{Le64(1), TopValue()}, {Le64(2), TopValue()}})}) {
    Rows back;
    ASSERT_TRUE(Encode(slot, *Decode(slot, rows), &back).ok());
    EXPECT_EQ(back, rows);
  }
}

TEST(TypedSlotTest, CodecsWithoutColumnsHaveOneColumnASide) {
  SlotDescriptor slot = CountSlot();
  slot.key_columns = slot.value_columns = {};
  slot.key_codec = "int64";
  slot.value_codec = "mystery";
  const auto batch = Decode(slot, {{Le64(7), "\xff"}});
  EXPECT_EQ(batch->schema()->field(0)->ToString(), "key: int64 not null");
  EXPECT_EQ(batch->schema()->field(1)->ToString(), "value: binary not null");
  slot.key_codec = "string";
  EXPECT_EQ(Decode(slot, {{"abc", ""}})->schema()->field(0)->ToString(), "key: string not null");
}

SlotDescriptor ListSlot() {
  SlotDescriptor slot = CountSlot();
  slot.kind = SlotKind::kKeyedList;
  slot.name = "events";
  return slot;
}

/// Rows of a list of two elements, as its table saves them.
Rows ListRows() {
  const SlotDescriptor slot = ListSlot();
  Rows rows;
  const SavedSlotRow header = HeaderRow(Le64(7), 2, 5);
  rows.emplace_back(header.key, header.value);
  for (const int64_t index : {3, 4}) {
    SlotRow row;
    const std::string key = Le64(7);
    const std::string element = OrderedElementKey(slot, Le64(index));
    const std::string value = Le64(index * 10);
    row.user_key = key;
    row.element_key = element;
    row.value = value;
    const SavedSlotRow saved = PutTogether(slot, row);
    rows.emplace_back(saved.key, saved.value);
  }
  return rows;
}

TEST(TypedSlotTest, AListBecomesARowForEachElementWithItsIndex) {
  const auto batch = Decode(ListSlot(), ListRows());
  ASSERT_EQ(batch->num_rows(), 2);
  EXPECT_EQ(batch->schema()->field_names(), (std::vector<std::string>{"auction", "index", "n"}));
  EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch->column(0)).Value(1), 7);
  EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch->column(1)).Value(1), 4);
  EXPECT_EQ(static_cast<const arrow::Int64Array&>(*batch->column(2)).Value(1), 40);
}

TEST(TypedSlotTest, AListEncodesBackToItsElementsAndItsHeader) {
  Rows rows;
  ASSERT_TRUE(Encode(ListSlot(), *Decode(ListSlot(), ListRows()), &rows).ok());
  Rows expected = ListRows();
  std::rotate(expected.begin(), expected.begin() + 1, expected.end());  // the header comes last
  EXPECT_EQ(rows, expected);
}

TEST(TypedSlotTest, MapKeysOfEveryNumberGoRoundTrip) {
  SlotDescriptor slot = ListSlot();
  slot.kind = SlotKind::kKeyedMap;
  for (const std::string codec : {"ordered_int64", "ordered_double", "int64"}) {
    slot.element_key_codec = codec;
    for (const int64_t key : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{77}}) {
      const std::string plain = Le64(key);
      if (!HasOrderedElementKeys(slot)) continue;
      const std::string ordered = OrderedElementKey(slot, plain);
      EXPECT_EQ(*PlainElementKey(slot, ordered), plain) << codec << " " << key;
    }
    EXPECT_EQ(ElementColumnOf(slot).type, codec == "ordered_double" ? "double" : "bigint");
  }
  std::string ordered(8, '\0');
  OrderedInt64Codec().Encode(-5, ordered.data());
  slot.element_key_codec = "ordered_int64";
  EXPECT_EQ(*PlainElementKey(slot, ordered), Le64(-5)) << "as the state's own codec writes it";
  OrderedDoubleCodec().Encode(-2.5, ordered.data());
  slot.element_key_codec = "ordered_double";
  double number = 0;
  std::memcpy(&number, PlainElementKey(slot, ordered)->data(), 8);
  EXPECT_EQ(number, -2.5);
}

TEST(TypedSlotTest, ATtlAddsTheDeadlineAndHidesWhatHasExpired) {
  SlotDescriptor slot = CountSlot();
  slot.ttl.ttl_ms = 100;
  slot.ttl_time_ms = 500;
  slot.ttl_first_ms = 450;
  const Rows rows{{Le64(1), Le64(500) + Le64(10)},
                  {Le64(2), Le64(501) + Le64(20)},
                  {Le64(3), Le64(INT64_MAX) + Le64(30)}};
  const auto batch = Decode(slot, rows);
  EXPECT_EQ(batch->schema()->field_names().back(), "expires_at_ms");
  ASSERT_EQ(batch->num_rows(), 2) << "500 <= 500 is dead";
  const auto& expires = static_cast<const arrow::Int64Array&>(*batch->column(2));
  EXPECT_EQ(expires.Value(0), 501);
  EXPECT_EQ(expires.Value(1), 550) << "written before the first time, 450";
  Rows encoded;
  ASSERT_TRUE(Encode(slot, *batch, &encoded).ok());
  EXPECT_EQ(encoded.front(), rows[1]);
}

TEST(TypedSlotTest, AValueTooShortForItsDeadlineIsCorruption) {
  SlotDescriptor slot = CountSlot();
  slot.ttl.ttl_ms = 100;
  auto decoder = TypedSlotDecoder::Make(slot);
  ASSERT_TRUE(decoder.ok());
  EXPECT_EQ(decoder->Append(Le64(1), "short").code(), StatusCode::kCorruption);
}

TEST(TypedSlotTest, NamesThatComeTwiceAreNumbered) {
  SlotDescriptor slot = TopSlot();
  slot.value_columns = {{"auction", "bigint", true}, {"rank", "text", true}};
  const auto schema = *TypedSchemaOf(slot);
  EXPECT_EQ(schema->field_names(),
            (std::vector<std::string>{"auction", "auction_2", "rank", "rank_2", "sort_key"}));
}

TEST(TypedSlotTest, TheSchemaCarriesTheSlotsDescription) {
  const auto schema = *TypedSchemaOf(TopSlot());
  const auto slot = SlotFromText(*schema->metadata()->Get(std::string(kSlotMetadataKey)));
  ASSERT_TRUE(slot.ok()) << slot.status().ToString();
  EXPECT_EQ(slot->operator_uid, TopSlot().operator_uid);
  EXPECT_EQ(slot->value_columns, TopSlot().value_columns);
  EXPECT_EQ(slot->value_codec, "topn");
}

TEST(TypedSlotTest, BytesThatDoNotDecodeAreCorruptionAndNamed) {
  auto decoder = TypedSlotDecoder::Make(CountSlot());
  ASSERT_TRUE(decoder.ok());
  const Status status = decoder->Append(Le64(7), "short");
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  for (const char* part : {"counts/group-aggregate/0", "groups", "0x07", "row"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(TypedSlotTest, ATableOfOtherColumnsIsRefused) {
  Rows back;
  const auto batch = Decode(CountSlot(), {{Le64(7), Le64(3)}});
  EXPECT_EQ(Encode(TopSlot(), *batch, &back).code(), StatusCode::kInvalidArgument);
  SlotDescriptor text = CountSlot();
  text.value_columns[0].type = "text";
  EXPECT_EQ(Encode(text, *batch, &back).code(), StatusCode::kInvalidArgument);
}

TEST(TypedSlotTest, RanksThatDoNotCountFromOneAreRefused) {
  Rows back;
  const auto batch = Decode(TopSlot(), {{Le64(1), TopValue()}});
  const Status status = Encode(TopSlot(), *batch->Slice(1), &back);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("rank 2 follows 0 rows"), std::string::npos) << status.message();
  EXPECT_TRUE(back.empty());
}

}  // namespace
}  // namespace cairn::cli
