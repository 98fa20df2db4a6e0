// SPDX-License-Identifier: Apache-2.0
#include "format/row_evolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::format {
namespace {

using ::testing::HasSubstr;
using ColumnList = std::vector<ColumnSpec>;

const ColumnSpec kIdColumn{"id", "bigint", false};
const ColumnSpec kNameColumn{"name", "text", true};
const ColumnSpec kCountColumn{"n", "integer", false};

Status CheckEvolution(ColumnList from, ColumnList to) {
  return RowEvolution::Make(std::move(from), std::move(to)).status();
}

std::string Converted(ColumnList from, ColumnList to, const std::string& row) {
  const auto evolution = RowEvolution::Make(std::move(from), std::move(to));
  EXPECT_TRUE(evolution.ok()) << evolution.status().ToString();
  std::string out;
  const Status converted = evolution->Convert(row, &out);
  EXPECT_TRUE(converted.ok()) << converted.ToString();
  return out;
}

std::string EncodedRow(int64_t id, std::string_view name, int32_t count) {
  std::string row;
  AppendFixedField<int64_t>(id, false, &row);
  AppendBytesField(name, true, &row);
  AppendFixedField<int32_t>(count, false, &row);
  return row;
}

TEST(RowEvolution, Behaviour89AddsNullableColumnsWidensIntegersAndMovesColumns) {
  const ColumnList to = {
      {"added", "bytes", true}, {"n", "bigint", true}, kNameColumn, {"id", "bigint", true}};
  std::string expected;
  AppendNullField(&expected);
  AppendFixedField<int64_t>(-3, true, &expected);
  AppendBytesField("abc", true, &expected);
  AppendFixedField<int64_t>(7, true, &expected);
  EXPECT_EQ(Converted({kIdColumn, kNameColumn, kCountColumn}, to, EncodedRow(7, "abc", -3)),
            expected);
}

TEST(RowEvolution, KeepsNullsAndEmptyTextsApart) {
  std::string empty, null;
  AppendBytesField("", true, &empty);
  AppendNullField(&null);
  EXPECT_EQ(Converted({kNameColumn}, {kNameColumn}, empty), empty);
  EXPECT_EQ(Converted({kNameColumn}, {kNameColumn}, null), null);
}

TEST(RowEvolution, WidensDecimalsOfOneScale) {
  std::string row(16, '\x11');
  EXPECT_EQ(Converted({{"d", "decimal(10,2)", false}}, {{"d", "decimal(12,2)", false}}, row), row);
  EXPECT_FALSE(
      CheckEvolution({{"d", "decimal(10,2)", false}}, {{"d", "decimal(12,3)", false}}).ok());
  EXPECT_FALSE(
      CheckEvolution({{"d", "decimal(12,2)", false}}, {{"d", "decimal(10,2)", false}}).ok());
}

TEST(RowEvolution, Behaviour89RefusesRemovalNarrowingAndNonNullAdditions) {
  EXPECT_THAT(CheckEvolution({kIdColumn, kNameColumn}, {kIdColumn}).message(),
              HasSubstr("column 'name' was removed"));
  EXPECT_THAT(CheckEvolution({kIdColumn}, {kIdColumn, kCountColumn}).message(),
              HasSubstr("column 'n' is new and NOT NULL"));
  EXPECT_THAT(CheckEvolution({{"n", "bigint", false}}, {kCountColumn}).message(),
              HasSubstr("column 'n' narrows from bigint to integer"));
  EXPECT_THAT(CheckEvolution({kNameColumn}, {{"name", "bytes", true}}).message(),
              HasSubstr("column 'name' changes from text to bytes"));
  EXPECT_THAT(CheckEvolution({kNameColumn}, {{"name", "text", false}}).message(),
              HasSubstr("column 'name' was nullable and is NOT NULL"));
}

TEST(RowEvolution, RefusesARowThatDoesNotDecode) {
  const auto evolution = RowEvolution::Make({kIdColumn}, {kIdColumn, kNameColumn});
  std::string out;
  EXPECT_EQ(evolution->Convert("short", &out).code(), StatusCode::kCorruption);
  EXPECT_EQ(DescribeColumns({kIdColumn, kNameColumn}), "(id bigint not null, name text)");
}

}  // namespace
}  // namespace cairn::format
