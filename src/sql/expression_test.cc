// SPDX-License-Identifier: Apache-2.0
//
// Expressions are compiled, executed over a few rows with NULLs and extremes, and compared with
// what DuckDB made of them (testdata/sql/make_expressions.py), or, where the meaning differs on
// purpose, with the values of docs/sql.md.
#include <arrow/array/array_base.h>
#include <arrow/array/array_binary.h>
#include <arrow/array/array_decimal.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/builder_base.h>
#include <arrow/array/util.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/expression.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "sql/compile.h"
#include "sql/data_type.h"

namespace cairn::sql {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTable =
    "CREATE TABLE t (i INTEGER, a BIGINT, b BIGINT, c DECIMAL(10,2), d DOUBLE, s TEXT, u TEXT, "
    "ts TIMESTAMP, f DATE, g BOOLEAN, m DECIMAL(38,0), nn BIGINT NOT NULL) "
    "WITH (connector = 'none');\n";

// One row a line, in the order of make_expressions.py; "-" is NULL.
struct Row {
  const char *i, *a, *b, *c, *d, *s, *u, *ts, *f, *g, *m;
};
constexpr Row kRows[] = {
    {"1", "7", "2", "1.25", "0.5", "apple", "a|b", "2020-02-29 10:11:12.345678", "2020-02-29",
     "true", "99999999999999999999999999999999999999"},
    {"-3", "-7", "2", "-0.05", "-2.5", "Éclair", "", "1969-12-31 23:59:59.999999", "1969-12-31",
     "false", "1"},
    {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
    {"2147483647", "9000000000000000000", "-3", "99999999.99", "1e18", "  pad  ", "u1x",
     "2200-01-01 00:00:00", "2000-01-01", "-", "0"},
    {"0", "0", "5", "0.00", "0.0", "", "%_", "1970-01-01 00:00:00", "1970-01-01", "true", "-5"},
    {"10", "-", "1", "2.50", "2.5", "line\nbreak", "a_b", "-", "2024-12-30", "false", "7"},
    {"-2147483648", "-9000000000000000000", "7", "-99999999.99", "-1e-7", "ab", "AB",
     "2026-07-04 23:00:00.5", "-", "true", "12"},
};

std::shared_ptr<arrow::Array> ColumnOf(const char* Row::* column,
                                       const std::shared_ptr<arrow::DataType>& type) {
  auto builder = *arrow::MakeBuilder(type);
  for (const Row& row : kRows) {
    const std::string text = row.*column;
    if (text == "-") {
      EXPECT_TRUE(builder->AppendNull().ok());
    } else if (type->id() == arrow::Type::DECIMAL128) {
      arrow::Decimal128 value;
      int32_t precision = 0;
      int32_t scale = 0;
      EXPECT_TRUE(arrow::Decimal128::FromString(text, &value, &precision, &scale).ok());
      value = *value.Rescale(scale, static_cast<const arrow::DecimalType&>(*type).scale());
      EXPECT_TRUE(builder->AppendScalar(arrow::Decimal128Scalar(value, type)).ok());
    } else {
      EXPECT_TRUE(builder->AppendScalar(**arrow::Scalar::Parse(type, text)).ok());
    }
  }
  return *builder->Finish();
}

std::shared_ptr<arrow::RecordBatch> Input(const stream::TableDefinition& table) {
  const auto type = [&](size_t i) { return table.columns[i].type; };
  std::vector<std::shared_ptr<arrow::Array>> columns = {
      ColumnOf(&Row::i, type(0)), ColumnOf(&Row::a, type(1)),  ColumnOf(&Row::b, type(2)),
      ColumnOf(&Row::c, type(3)), ColumnOf(&Row::d, type(4)),  ColumnOf(&Row::s, type(5)),
      ColumnOf(&Row::u, type(6)), ColumnOf(&Row::ts, type(7)), ColumnOf(&Row::f, type(8)),
      ColumnOf(&Row::g, type(9)), ColumnOf(&Row::m, type(10))};
  columns.push_back(*arrow::MakeArrayFromScalar(arrow::Int64Scalar(4), std::size(kRows)));
  return arrow::RecordBatch::Make(stream::SchemaOf(table), std::size(kRows), std::move(columns));
}

std::string DecimalText(const arrow::Decimal128& value, int32_t scale) {
  std::string digits = value.ToIntegerString();
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (scale > 0) {
    const auto places = static_cast<size_t>(scale);
    if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
    digits.insert(digits.size() - places, 1, '.');
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return negative ? "-" + digits : digits;
}

// The spelling of make_expressions.py.
std::string Spell(const arrow::Array& array, int64_t row) {
  if (array.IsNull(row)) return "NULL";
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false";
    case arrow::Type::INT32:
      return std::to_string(static_cast<const arrow::Int32Array&>(array).Value(row));
    case arrow::Type::INT64:
      return std::to_string(static_cast<const arrow::Int64Array&>(array).Value(row));
    case arrow::Type::TIMESTAMP:
      return std::to_string(static_cast<const arrow::TimestampArray&>(array).Value(row));
    case arrow::Type::DATE32:
      return std::to_string(static_cast<const arrow::Date32Array&>(array).Value(row));
    case arrow::Type::DOUBLE: {
      char text[17];
      const double value = static_cast<const arrow::DoubleArray&>(array).Value(row) + 0.0;
      std::snprintf(text, sizeof text, "%016llx",
                    static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
      return text;
    }
    case arrow::Type::DECIMAL128: {
      const auto& decimals = static_cast<const arrow::Decimal128Array&>(array);
      return DecimalText(arrow::Decimal128(decimals.GetValue(row)),
                         static_cast<const arrow::DecimalType&>(*array.type()).scale());
    }
    case arrow::Type::STRING: {
      std::string out = "'";
      for (char c : static_cast<const arrow::StringArray&>(array).GetView(row)) {
        if (c == '\n')
          out += "\\n";
        else if (c == '\t')
          out += "\\t";
        else if (c == '\\')
          out += "\\\\";
        else
          out += c;
      }
      return out + "'";
    }
    default:
      return "a value of type " + array.type()->ToString();
  }
}

struct Outcome {
  std::string error;  ///< of compiling or running
  std::string type;
  std::vector<std::string> values;
};

// Compile SELECT expression FROM t and run its projection over the rows.
Outcome Eval(const std::string& expression) {
  Outcome outcome;
  const auto plan = Compile(kTable + ("SELECT " + expression + " AS v FROM t"));
  if (!plan.ok()) {
    outcome.error = plan.status().message();
    return outcome;
  }
  const stream::Pipeline& pipeline = plan->pipelines.front();
  auto batch = *Input(plan->tables.front())->SelectColumns(pipeline.scan.columns);
  EXPECT_TRUE(batch->schema()->Equals(*pipeline.scan.output)) << expression;
  std::shared_ptr<arrow::Array> column = batch->column(0);
  for (const stream::PlanNode& node : pipeline.nodes) {
    const auto& calc = std::get<stream::CalcNode>(node);
    EXPECT_EQ(calc.projections.size(), 1u);
    const auto value = arrow::compute::ExecuteScalarExpression(calc.projections.front(),
                                                               arrow::compute::ExecBatch(*batch));
    if (!value.ok()) {
      outcome.error = value.status().message();
      return outcome;
    }
    column = value->is_scalar() ? *arrow::MakeArrayFromScalar(*value->scalar(), batch->num_rows())
                                : value->make_array();
  }
  EXPECT_TRUE(column->ValidateFull().ok()) << expression;
  EXPECT_TRUE(column->type()->Equals(*pipeline.sink.columns.front().type)) << expression;
  EXPECT_TRUE(pipeline.sink.columns.front().nullable || column->null_count() == 0) << expression;
  outcome.type = SqlTypeName(*column->type());
  for (int64_t row = 0; row < column->length(); ++row) {
    outcome.values.push_back(Spell(*column, row));
  }
  return outcome;
}

void ExpectValues(const std::string& expression, const std::string& type,
                  const std::vector<std::string>& values) {
  const Outcome outcome = Eval(expression);
  EXPECT_EQ(outcome.error, "") << expression;
  EXPECT_EQ(outcome.type, type) << expression;
  EXPECT_EQ(outcome.values, values) << expression;
}

std::vector<std::string> Repeat(const std::string& value) {
  return std::vector<std::string>(std::size(kRows), value);
}

TEST(Expressions, GiveWhatDuckDbGives) {
  std::ifstream file("testdata/sql/expressions.tsv");
  ASSERT_TRUE(file.is_open()) << "run from the repository's root";
  std::string line;
  int count = 0;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string expression;
    std::getline(fields, expression, '\t');
    std::vector<std::string> expected;
    for (std::string value; std::getline(fields, value, '\t');) expected.push_back(value);
    const Outcome outcome = Eval(expression);
    EXPECT_EQ(outcome.error, "") << expression;
    EXPECT_EQ(outcome.values, expected) << expression;
    ++count;
  }
  EXPECT_GE(count, 220);
}

TEST(Expressions, IntegerDivisionTruncates) {
  ExpectValues("b / 2", "BIGINT", {"1", "1", "NULL", "-1", "2", "0", "3"});
  ExpectValues("i / 2", "INTEGER", {"0", "-1", "NULL", "1073741823", "0", "5", "-1073741824"});
}

TEST(Expressions, DivisionAndModuloByZeroGiveNull) {
  ExpectValues("nn / 0", "BIGINT", Repeat("NULL"));
  ExpectValues("nn % 0", "BIGINT", Repeat("NULL"));
  ExpectValues("CAST(nn AS DOUBLE) / 0", "DOUBLE", Repeat("NULL"));
  ExpectValues("1.5 / 0.00", "DOUBLE", Repeat("NULL"));
  ExpectValues("1.5 % 0.00", "DECIMAL(3,2)", Repeat("NULL"));
  ExpectValues("10 / a", "BIGINT", {"1", "-1", "NULL", "0", "NULL", "NULL", "0"});
  ExpectValues("10 % a", "BIGINT", {"3", "3", "NULL", "10", "NULL", "NULL", "10"});
}

TEST(Expressions, TheSmallestIntegerDividedByMinusOneFailsAndItsModuloIsZero) {
  EXPECT_THAT(Eval("(-9223372036854775807 - 1) / -1").error, HasSubstr("overflow"));
  ExpectValues("(-9223372036854775807 - 1) % -1", "BIGINT", Repeat("0"));
}

TEST(Expressions, IntegerOverflowIsAnError) {
  EXPECT_THAT(Eval("a + a").error, HasSubstr("overflow"));
  EXPECT_THAT(Eval("a * 2").error, HasSubstr("overflow"));
  EXPECT_THAT(Eval("-(i - 1)").error, HasSubstr("overflow"));
  EXPECT_THAT(Eval("i + i").error, HasSubstr("overflow"));
  EXPECT_THAT(Eval("9223372036854775807 + 1").error, HasSubstr("2:28: overflow"));
}

TEST(Expressions, AnIntegerConstantTakesTheTypeBesideIt) {
  EXPECT_EQ(Eval("i % 7").type, "INTEGER");
  EXPECT_EQ(Eval("i % 3000000000").type, "BIGINT");
  EXPECT_EQ(Eval("CASE WHEN g THEN i ELSE 0 END").type, "INTEGER");
  EXPECT_EQ(Eval("1").type, "BIGINT");
  EXPECT_EQ(Eval("1.50").type, "DECIMAL(3,2)");
  EXPECT_EQ(Eval("15e-1").type, "DOUBLE");
  EXPECT_EQ(Eval("9223372036854775808").type, "DECIMAL(19,0)");
}

TEST(Expressions, DecimalsKeepEveryDigit) {
  ExpectValues(
      "c * c", "DECIMAL(21,4)",
      {"1.5625", "0.0025", "NULL", "9999999998000000.0001", "0", "6.25", "9999999998000000.0001"});
  EXPECT_EQ(Eval("a * 0.908").type, "DECIMAL(23,3)");
  EXPECT_EQ(Eval("c + 0.5").type, "DECIMAL(11,2)");
  ExpectValues("(m - 1) * 0 + 5", "DECIMAL(38,0)", {"5", "5", "NULL", "5", "5", "5", "5"});
  ExpectValues("m - 1", "DECIMAL(38,0)",
               {"99999999999999999999999999999999999998", "0", "NULL", "-1", "-6", "6", "11"});
}

TEST(Expressions, ADecimalThatNeedsMoreThan38DigitsIsAnError) {
  EXPECT_THAT(Eval("m + 1").error, HasSubstr("precision"));
  EXPECT_THAT(Eval("m * 1.5").error, HasSubstr("precision"));
  EXPECT_THAT(Eval("m * 0.00000000000000000001 * 0.00000000000000000001").error,
              HasSubstr("more than 38 digits after the point"));
  EXPECT_THAT(Eval("1.0000000000000000000000000000000000000001").error,
              HasSubstr("has more than 38 digits"));
}

TEST(Expressions, DecimalsOfAnyShapeCompare) {
  ExpectValues("m > 5.00000000000000000001", "BOOLEAN",
               {"true", "false", "NULL", "false", "false", "true", "true"});
  ExpectValues("m IN (7.0, 1.00)", "BOOLEAN",
               {"false", "true", "NULL", "false", "false", "true", "false"});
  ExpectValues("m IN (7, 1.0000000000000000000001)", "BOOLEAN",
               {"false", "false", "NULL", "false", "false", "true", "false"});
}

TEST(Expressions, CastsRoundOrFailAndNeverWrap) {
  ExpectValues("CAST(2.5 AS BIGINT)", "BIGINT", Repeat("3"));
  ExpectValues("CAST(-2.5 AS BIGINT)", "BIGINT", Repeat("-3"));
  ExpectValues("CAST(25e-1 AS BIGINT)", "BIGINT", Repeat("2"));
  ExpectValues("CAST(99.99 AS DECIMAL(4,1))", "DECIMAL(4,1)", Repeat("100"));
  EXPECT_THAT(Eval("CAST(99.99 AS DECIMAL(3,1))").error, HasSubstr("does not fit"));
  EXPECT_THAT(Eval("CAST(a AS INTEGER)").error, HasSubstr("not in range"));
  EXPECT_THAT(Eval("CAST(a AS DECIMAL(10,2))").error, HasSubstr("precision"));
  EXPECT_THAT(Eval("CAST(1e300 AS BIGINT)").error, HasSubstr("2:8: "));
  EXPECT_THAT(Eval("CAST(s AS BIGINT)").error, HasSubstr("Failed to parse string"));
  EXPECT_THAT(Eval("CAST(a AS DATE)").error, HasSubstr("cannot cast BIGINT to DATE"));
  EXPECT_THAT(Eval("'12x'::BIGINT").error, HasSubstr("2:8: '12x' is not a valid BIGINT"));
  EXPECT_THAT(Eval("ts > 'yesterday'").error, HasSubstr("'yesterday' is not a valid TIMESTAMP"));
}

TEST(Expressions, NumbersReadAsTextAreTheirShortestSpelling) {
  ExpectValues("CAST(d AS TEXT)", "TEXT",
               {"'0.5'", "'-2.5'", "NULL", "'1e+18'", "'0'", "'2.5'", "'-1e-7'"});
  ExpectValues("CAST(0.000000001 AS TEXT)", "TEXT", Repeat("'0.000000001'"));
  ExpectValues("CAST(CAST(b AS DECIMAL(38,10)) AS TEXT)", "TEXT",
               {"'2.0000000000'", "'2.0000000000'", "NULL", "'-3.0000000000'", "'5.0000000000'",
                "'1.0000000000'", "'7.0000000000'"});
}

TEST(Expressions, ABackslashEscapesInLikePatterns) {
  ExpectValues(R"(u LIKE '\%\_')", "BOOLEAN",
               {"false", "false", "NULL", "false", "true", "false", "false"});
  ExpectValues(R"(u LIKE 'a\_%')", "BOOLEAN",
               {"false", "false", "NULL", "false", "false", "true", "false"});
  EXPECT_THAT(Eval(R"(u LIKE 'a\')").error, HasSubstr("must not end with its escape"));
  EXPECT_THAT(Eval("u LIKE s").error, HasSubstr("2:15: LIKE needs a constant string"));
}

TEST(Expressions, IntervalsAddUp) {
  ExpectValues(
      "TIMESTAMP '2020-01-01' + INTERVAL '1 day 02:03:04.5' - TIMESTAMP '2020-01-01' = "
      "INTERVAL '93784500 ms'",
      "BOOLEAN", Repeat("true"));
  ExpectValues("extract(epoch FROM INTERVAL '1.5 hours')", "DOUBLE", Repeat("40b5180000000000"));
  EXPECT_THAT(Eval("ts + INTERVAL '1 month'").error, HasSubstr("INTERVAL '1 month' is not"));
  EXPECT_THAT(Eval("ts - ts").error, HasSubstr("an INTERVAL cannot be a column"));
}

TEST(Expressions, ABranchThatNoRowTakesMayHoldAConstantThatFails) {
  const auto plan = Compile(kTable + std::string("SELECT CASE WHEN a IS NULL THEN "
                                                 "9223372036854775807 + 1 ELSE 0 END FROM t"));
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
}

struct ExpressionRefusal {
  const char* expression;
  const char* message;
};

TEST(Expressions, WhatIsNotSupportedIsRefusedAtItsPlace) {
  const ExpressionRefusal refusals[] = {
      {"a + s", "2:10: there is no operator BIGINT + TEXT"},
      {"g + 1", "2:10: there is no operator BOOLEAN + BIGINT"},
      {"a = s", "2:10: BIGINT and TEXT do not fit together in a comparison with =: write a CAST"},
      {"a AND g", "2:8: an operand of AND must be BOOLEAN, not BIGINT"},
      {"CASE WHEN a THEN 1 END", "2:18: WHEN must be BOOLEAN, not BIGINT"},
      {"CASE WHEN g THEN 1 ELSE s END", "2:8: TEXT and BIGINT do not fit together in CASE"},
      {"COALESCE(a, s)", "2:8: BIGINT and TEXT do not fit together in COALESCE"},
      {"a IN (1, 'x')", "2:17: 'x' is not a valid BIGINT"},
      {"a IN (SELECT 1)", "2:10: a subquery in an expression is not supported"},
      {"(SELECT 1)", "2:8: a subquery in an expression is not supported"},
      {"EXISTS (SELECT 1)", "2:8: a subquery in an expression is not supported"},
      {"a = ANY (ARRAY[1])", "2:10: = ANY (...) and = ALL (...) are not supported: use IN"},
      {"ARRAY[1]", "2:8: ARRAY is not supported"},
      {"(a, b) = (1, 2)", "2:8: a row of several values is not supported here"},
      {"$1", "2:8: parameters ($1) are not supported"},
      {"s COLLATE \"C\"", "COLLATE is not supported"},
      {"CURRENT_TIMESTAMP", "2:8: the current time and user are not supported"},
      {"now()", "2:8: now() is not supported: a restart would give other rows"},
      {"random()", "2:8: random() is not supported"},
      {"s SIMILAR TO 'x'", "2:10: SIMILAR TO is not supported: use LIKE"},
      {"s ~ 'x'", "2:10: operator ~ is not supported"},
      {"a & 1", "2:10: operator & is not supported"},
      {"a OPERATOR(pg_catalog.+) 1", "OPERATOR(schema.op) is not supported"},
      {"nosuch(a)", "2:8: function nosuch() does not exist; the functions are abs, "},
      {"upper(a)", "2:8: there is no function upper(BIGINT)"},
      {"upper(s, s)", "2:8: there is no function upper(TEXT, TEXT)"},
      {"substring(s, a)", "2:21: argument 2 of substring() must be a constant integer"},
      {"replace(s, u, 'x')", "2:19: argument 2 of replace() must be a constant string"},
      {"extract(fortnight FROM ts)", "2:16: \"fortnight\" is not a field of a time"},
      {"date_trunc('decade', ts)", "2:19: date_trunc cannot cut to \"decade\""},
      {"s LIKE 'x' ESCAPE 'ab'", "ESCAPE must be one character"},
      {"count(*) OVER ()", "2:8: ROW_NUMBER() stands in a subquery in FROM"},
      {"upper(DISTINCT s)", "DISTINCT inside a function call is not supported"},
      {"concat(VARIADIC s)", "VARIADIC is not supported"},
      {"s[1]", "a subscript or field selection is not supported"},
      {"x'1f'", "2:8: bit strings are not supported"},
      {"CAST(a AS SMALLINT)", "2:18: SMALLINT is not supported: use INTEGER"},
      {"CAST(a AS VARCHAR(3))", "2:18: VARCHAR(n) is not supported: use TEXT"},
      {"CAST(a AS DECIMAL)", "2:18: DECIMAL needs its digits"},
      {"CAST(a AS DECIMAL(39,0))", "2:18: DECIMAL(39,0) is out of range"},
      {"CAST(a AS BIGINT[])", "an array type is not supported"},
      {"CAST(ts AS TIMESTAMPTZ)", "2:19: TIMESTAMP WITH TIME ZONE is not supported"},
      {"CAST(a AS nosuch)", "2:18: type \"nosuch\" does not exist; the types are BIGINT"},
      {"CAST(g AS DOUBLE)", "2:8: cannot cast BOOLEAN to DOUBLE"},
      {"-s", "2:8: there is no operator - TEXT"},
      {"ts + ts", "2:11: there is no operator TIMESTAMP + TIMESTAMP"},
  };
  for (const ExpressionRefusal& refusal : refusals) {
    EXPECT_THAT(Eval(refusal.expression).error, HasSubstr(refusal.message)) << refusal.expression;
  }
}

TEST(Expressions, NestingIsBounded) {
  std::string deep = "a";
  for (int level = 0; level < 150; ++level) deep = "(" + deep + " % 2)";
  EXPECT_EQ(Eval(deep).error, "");
  std::string deeper = "a";
  for (int level = 0; level < 300; ++level) deeper = "(" + deeper + " % 2)";
  EXPECT_THAT(Eval(deeper).error, HasSubstr("nests deeper than 200 levels here"));
  std::string deepest = "a";
  for (int level = 0; level < 60000; ++level) deepest += "+1";
  EXPECT_THAT(Eval(deepest).error, HasSubstr("nests too deep here"));
}

TEST(Expressions, LongListsAndChainsAreFine) {
  std::string list = "a IN (1";
  std::string chain = "a = 1";
  for (int n = 2; n <= 5000; ++n) {
    list += "," + std::to_string(n);
    if (n % 4 == 0) chain += " OR a = " + std::to_string(n);
  }
  EXPECT_EQ(Eval(list + ")").values,
            (std::vector<std::string>{"true", "false", "NULL", "false", "false", "NULL", "false"}));
  EXPECT_EQ(Eval(chain).values, (std::vector<std::string>{"false", "false", "NULL", "false",
                                                          "false", "NULL", "false"}));
}

}  // namespace
}  // namespace cairn::sql
