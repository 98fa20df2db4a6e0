// SPDX-License-Identifier: Apache-2.0
//
// Arrays for tests of the row codec: one column of every type.
#pragma once

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_decimal.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/builder_time.h>
#include <arrow/memory_pool.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/row_codec.h"

namespace cairn::format {

using Arrays = std::vector<std::shared_ptr<arrow::Array>>;

template <class Builder, class Value>
std::shared_ptr<arrow::Array> ArrayOf(const std::vector<std::optional<Value>>& values) {
  Builder builder;
  for (const auto& value : values) {
    EXPECT_TRUE((value ? builder.Append(*value) : builder.AppendNull()).ok());
  }
  return *builder.Finish();
}
inline std::shared_ptr<arrow::Array> Bigints(const std::vector<std::optional<int64_t>>& values) {
  return ArrayOf<arrow::Int64Builder, int64_t>(values);
}
inline std::shared_ptr<arrow::Array> Texts(const std::vector<std::optional<std::string>>& values) {
  return ArrayOf<arrow::StringBuilder, std::string>(values);
}
inline std::shared_ptr<arrow::Array> Doubles(const std::vector<std::optional<double>>& values) {
  return ArrayOf<arrow::DoubleBuilder, double>(values);
}

/// Every column type, nullable and not, three rows.
inline std::vector<ColumnSpec> AllColumns() {
  return {{"b", "bigint", false},         {"i", "integer", true},    {"d", "double", false},
          {"o", "boolean", true},         {"ts", "timestamp", true}, {"day", "date", false},
          {"dec", "decimal(10,2)", true}, {"t", "text", true},       {"y", "bytes", false}};
}
inline Arrays AllArrays() {
  arrow::TimestampBuilder ts(arrow::timestamp(arrow::TimeUnit::MICRO),
                             arrow::default_memory_pool());
  EXPECT_TRUE(ts.Append(1'700'000'000'000'000).ok() && ts.AppendNull().ok() && ts.Append(-1).ok());
  arrow::Decimal128Builder dec(arrow::decimal128(10, 2));
  EXPECT_TRUE(dec.Append(arrow::Decimal128(12345)).ok() && dec.Append(arrow::Decimal128(-1)).ok() &&
              dec.AppendNull().ok());
  return {Bigints({1, -2, std::numeric_limits<int64_t>::max()}),
          ArrayOf<arrow::Int32Builder, int32_t>({7, std::nullopt, -7}),
          Doubles({0.5, -0.0, 1e300}),
          ArrayOf<arrow::BooleanBuilder, bool>({true, false, std::nullopt}),
          *ts.Finish(),
          ArrayOf<arrow::Date32Builder, int32_t>({19'000, 0, -1}),
          *dec.Finish(),
          Texts({"grün", std::nullopt, ""}),
          ArrayOf<arrow::BinaryBuilder, std::string>({std::string("\0\xff", 2), "", "x"})};
}

}  // namespace cairn::format
