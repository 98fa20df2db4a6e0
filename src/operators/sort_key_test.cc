// SPDX-License-Identifier: Apache-2.0
#include "operators/sort_key.h"

#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/hash.h"
#include "operators/operator_harness.h"

namespace cairn::operators {
namespace {

/// Values of `column` ascend in SQL's order; the last is null.
struct OrderedColumn {
  std::shared_ptr<arrow::DataType> type;
  std::string ascending;
};

std::vector<OrderedColumn> OrderedColumns() {
  return {
      {arrow::int64(), R"([-9223372036854775808, -256, -1, 0, 1, 255, 256, 9223372036854775807])"},
      {arrow::int32(), R"([-2147483648, -1, 0, 7, 2147483647])"},
      {arrow::float64(), R"([-Inf, -1e300, -1.5, -1e-300, 0, 1e-300, 2.5, 1e300, Inf, NaN])"},
      {arrow::boolean(), R"([false, true])"},
      {arrow::date32(), R"([-5, 0, 19000])"},
      {arrow::timestamp(arrow::TimeUnit::MICRO), R"([-5, 0, 1700000000000000])"},
      {arrow::decimal128(38, 2), R"(["-12345678901234567890.12", "-0.01", "0.00", "0.01",
                                     "99999999999999999999.99"])"},
      {arrow::utf8(), R"(["", "\u0000", "\u0000\u0000", "\u0000a", "a", "a\u0000", "aa",
                          "aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaab", "b", "ü"])"},
  };
}

std::string KeyOf(const SortKeyEncoder& encoder, int64_t row) {
  std::string key;
  encoder.AppendKey(row, &key);
  return key;
}

TEST(SortKeyTest, KeysOrderAsSqlDoesForEveryTypeDirectionAndPlaceOfNulls) {
  for (const OrderedColumn& column : OrderedColumns()) {
    const auto values =
        arrow::json::ArrayFromJSONString(column.type, column.ascending).ValueOrDie();
    const auto null = arrow::MakeNullScalar(column.type);
    const auto nulls = arrow::MakeArrayFromScalar(*null, 1).ValueOrDie();
    const auto array = arrow::Concatenate({values, nulls}).ValueOrDie();
    const auto schema = arrow::schema({arrow::field("c", column.type)});
    const auto batch = arrow::RecordBatch::Make(schema, array->length(), {array});
    for (bool descending : {false, true}) {
      for (bool nulls_first : {false, true}) {
        SCOPED_TRACE(column.type->ToString() + (descending ? " desc" : " asc") +
                     (nulls_first ? " nulls first" : " nulls last"));
        auto encoder = SortKeyEncoder::Make(*schema, {{0, descending, nulls_first}});
        ASSERT_TRUE(encoder.ok());
        encoder->Bind(*batch);
        std::vector<int64_t> order;
        for (int64_t i = 0; i + 1 < array->length(); ++i) order.push_back(i);
        if (descending) std::reverse(order.begin(), order.end());
        order.insert(nulls_first ? order.begin() : order.end(), array->length() - 1);
        for (size_t i = 1; i < order.size(); ++i) {
          const std::string before = KeyOf(*encoder, order[i - 1]);
          const std::string after = KeyOf(*encoder, order[i]);
          EXPECT_LT(before, after) << i;
          EXPECT_FALSE(after.starts_with(before));
          EXPECT_LE(encoder->Prefix(order[i - 1]), encoder->Prefix(order[i]));
        }
      }
    }
  }
}

TEST(SortKeyTest, ThePrefixIsTheFirstSixteenBytesOfTheKey) {
  for (const OrderedColumn& column : OrderedColumns()) {
    const auto values =
        arrow::json::ArrayFromJSONString(column.type, column.ascending).ValueOrDie();
    for (bool nullable : {false, true}) {
      const auto schema = arrow::schema({arrow::field("c", column.type, nullable)});
      const auto batch = arrow::RecordBatch::Make(schema, values->length(), {values});
      for (const std::vector<stream::SortSpec>& sort :
           {std::vector<stream::SortSpec>{{0, false, false}},
            {{0, true, false}},
            {{0, true, false}, {0, false, true}, {0, false, false}}}) {
        auto encoder = SortKeyEncoder::Make(*schema, sort);
        ASSERT_TRUE(encoder.ok());
        encoder->Bind(*batch);
        for (int64_t row = 0; row < values->length(); ++row) {
          const std::string key = KeyOf(*encoder, row);
          EXPECT_EQ(encoder->Prefix(row), SortPrefixOf(key)) << column.type->ToString();
          if (encoder->fixed_bytes() != 0) {
            EXPECT_EQ(key.size(), encoder->fixed_bytes());
          }
          std::string stored(std::min(key.size(), kSortPrefixBytes), '\0');
          StoreSortPrefix(encoder->Prefix(row), stored.size(), stored.data());
          EXPECT_EQ(stored, key.substr(0, kSortPrefixBytes));
        }
      }
    }
  }
}

TEST(SortKeyTest, WritesTheDocumentedBytes) {
  const auto schema = arrow::schema({arrow::field("price", arrow::int64())});
  auto encoder = SortKeyEncoder::Make(*schema, {{0, true, true}});
  ASSERT_TRUE(encoder.ok());
  const auto batch = BatchFromJson(schema, "[[7], [null]]");
  encoder->Bind(*batch);
  EXPECT_EQ(base::ToHex(KeyOf(*encoder, 0)), "017ffffffffffffff8");
  EXPECT_EQ(base::ToHex(KeyOf(*encoder, 1)), "000000000000000000");
  EXPECT_TRUE(encoder->prefix_is_key());
}

TEST(SortKeyTest, NegativeZeroEqualsZero) {
  const auto schema = arrow::schema({arrow::field("x", arrow::float64(), false)});
  auto encoder = SortKeyEncoder::Make(*schema, {{0, false, false}});
  ASSERT_TRUE(encoder.ok());
  const auto batch = BatchFromJson(schema, "[[-0.0], [0.0]]");
  encoder->Bind(*batch);
  EXPECT_EQ(KeyOf(*encoder, 0), KeyOf(*encoder, 1));
}

TEST(SortKeyTest, ReadsSlicedColumns) {
  const auto schema =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::utf8()),
                     arrow::field("c", arrow::boolean())});
  const auto batch =
      BatchFromJson(schema, R"([[1, "x", true], [null, null, null], [3, "zz", false]])");
  const std::vector<stream::SortSpec> sort = {{2, false, false}, {1, true, true}, {0, true, false}};
  auto whole = SortKeyEncoder::Make(*schema, sort);
  auto sliced = SortKeyEncoder::Make(*schema, sort);
  ASSERT_TRUE(whole.ok() && sliced.ok());
  const auto slice = batch->Slice(1);
  whole->Bind(*batch);
  sliced->Bind(*slice);
  EXPECT_EQ(KeyOf(*sliced, 0), KeyOf(*whole, 1));
  EXPECT_EQ(KeyOf(*sliced, 1), KeyOf(*whole, 2));
}

TEST(SortKeyTest, RefusesAColumnWithoutAnOrder) {
  const auto schema = arrow::schema({arrow::field("l", arrow::list(arrow::int64()))});
  const auto encoder = SortKeyEncoder::Make(*schema, {{0, false, false}});
  EXPECT_EQ(encoder.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(encoder.status().ToString().find("'l'"), std::string::npos);
}

}  // namespace
}  // namespace cairn::operators
