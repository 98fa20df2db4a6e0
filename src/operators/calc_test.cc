// SPDX-License-Identifier: Apache-2.0
#include "operators/calc.h"

#include <arrow/compute/api_scalar.h>
#include <arrow/compute/expression.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operators/operator_harness.h"

namespace cairn::operators {
namespace {

using arrow::compute::call;
using arrow::compute::Expression;
using arrow::compute::field_ref;
using arrow::compute::literal;
using stream::RowKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::shared_ptr<arrow::Schema>& CalcInput() {
  static const auto schema =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::int64()),
                     arrow::field("s", arrow::utf8())});
  return schema;
}

Expression Bound(const Expression& expression) {
  static const bool ready = arrow::compute::Initialize().ok();
  EXPECT_TRUE(ready);
  auto bound = expression.Bind(*CalcInput());
  EXPECT_TRUE(bound.ok()) << bound.status().ToString();
  return *bound;
}

Expression Column(int index) { return field_ref(arrow::FieldRef(index)); }

stream::CalcNode Node(std::optional<Expression> filter,
                      const std::vector<Expression>& projections) {
  stream::CalcNode node;
  if (filter.has_value()) node.filter = Bound(*filter);
  arrow::FieldVector fields;
  for (const Expression& projection : projections) {
    node.projections.push_back(Bound(projection));
    fields.push_back(arrow::field("p" + std::to_string(fields.size()),
                                  node.projections.back().type()->GetSharedPtr()));
  }
  node.output = projections.empty() ? CalcInput() : arrow::schema(fields);
  return node;
}

stream::Batch CalcBatch(const std::string& json) {
  stream::Batch batch;
  batch.rows = BatchFromJson(CalcInput(), json);
  return batch;
}

TEST(CalcTest, SharesColumnsThatItOnlyMoves) {
  OperatorHarness calc(Node({}, {Column(2), Column(0)}), CalcInput());
  const stream::Batch batch = CalcBatch(R"([[1, 2, "x"], [3, 4, "y"]])");
  const auto out = calc.FeedRaw(batch);
  ASSERT_TRUE(out.ok() && out->size() == 1);
  EXPECT_EQ((*out)[0].rows->column_data(0), batch.rows->column_data(2));
  EXPECT_EQ((*out)[0].rows->column_data(1), batch.rows->column_data(0));
}

TEST(CalcTest, AFilterNarrowsTheSelectionAndCopiesNothing) {
  OperatorHarness calc(Node(greater(Column(0), literal(int64_t{1})), {}), CalcInput());
  const stream::Batch batch =
      CalcBatch(R"([[1, 0, "x"], [2, 0, "y"], [null, 0, "n"], [3, 0, "z"]])");
  const auto out = calc.FeedRaw(batch);
  ASSERT_TRUE(out.ok() && out->size() == 1);
  EXPECT_EQ((*out)[0].rows, batch.rows);
  ASSERT_NE((*out)[0].selection, nullptr);
  EXPECT_THAT(*(*out)[0].selection, ElementsAre(1, 3));
}

TEST(CalcTest, AFilterKeepsToTheSelectionItGets) {
  OperatorHarness calc(Node(greater(Column(0), literal(int64_t{1})), {Column(2)}), CalcInput());
  stream::Batch batch = CalcBatch(R"([[5, 0, "x"], [2, 0, "y"], [1, 0, "n"], [3, 0, "z"]])");
  batch.selection = std::make_shared<std::vector<uint32_t>>(std::vector<uint32_t>{1, 2, 3});
  const auto changes = calc.Feed(batch);
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(*changes, ElementsAre(TextChange{"+I", {"y"}}, TextChange{"+I", {"z"}}));
}

TEST(CalcTest, ComputesColumnsAndLiterals) {
  OperatorHarness calc(Node({}, {call("add", {Column(0), Column(1)}), literal("k"),
                                 call("utf8_upper", {Column(2)})}),
                       CalcInput());
  const auto changes = calc.Feed(CalcBatch(R"([[1, 2, "x"], [null, 4, null]])"));
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(*changes, ElementsAre(TextChange{"+I", {"3", "k", "X"}},
                                    TextChange{"+I", {"null", "k", "null"}}));
}

TEST(CalcTest, EmitsNothingWhenNoRowPasses) {
  OperatorHarness none(Node(equal(Column(0), literal(int64_t{9})), {}), CalcInput());
  OperatorHarness never(Node(literal(false), {}), CalcInput());
  EXPECT_THAT(*none.FeedRaw(CalcBatch(R"([[1, 2, "x"]])")), IsEmpty());
  EXPECT_THAT(*never.FeedRaw(CalcBatch(R"([[1, 2, "x"]])")), IsEmpty());
}

TEST(CalcTest, ComputesOnlyTheSelectedRowsOfASparseBatch) {
  OperatorHarness calc(
      Node(equal(Column(0), literal(int64_t{9})), {call("negate", {Column(1)}), Column(2)}),
      CalcInput());
  const auto out = calc.FeedRaw(
      CalcBatch(R"([[1, 2, "a"], [1, 2, "b"], [1, 2, "c"], [9, 5, "d"], [1, 2, "e"]])"));
  ASSERT_TRUE(out.ok() && out->size() == 1);
  EXPECT_EQ((*out)[0].rows->num_rows(), 1);
  EXPECT_THAT(ChangesOf(*out), ElementsAre(TextChange{"+I", {"-5", "d"}}));
}

TEST(CalcTest, KeepsTheKindsOfAnUpdatingInput) {
  OperatorHarness calc(Node({}, {Column(0)}), CalcInput(), true);
  stream::Batch batch = CalcBatch(R"([[1, 0, "x"], [2, 0, "y"], [3, 0, "z"]])");
  batch.kinds = std::make_shared<std::vector<RowKind>>(
      std::vector<RowKind>{RowKind::kUpdateBefore, RowKind::kUpdateAfter, RowKind::kDelete});
  const auto changes = calc.Feed(batch);
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(*changes, ElementsAre(TextChange{"-U", {"1"}}, TextChange{"+U", {"2"}},
                                    TextChange{"-D", {"3"}}));
}

TEST(CalcTest, HalfAnUpdatePairBecomesADeleteOrAnInsert) {
  OperatorHarness calc(Node(less(Column(0), literal(int64_t{10})), {Column(0)}), CalcInput(), true);
  stream::Batch batch = CalcBatch(
      R"([[1, 0, ""], [2, 0, ""], [3, 0, ""], [30, 0, ""], [40, 0, ""], [4, 0, ""],
          [50, 0, ""], [60, 0, ""], [5, 0, ""]])");
  using enum RowKind;
  batch.kinds = std::make_shared<std::vector<RowKind>>(
      std::vector<RowKind>{kUpdateBefore, kUpdateAfter, kUpdateBefore, kUpdateAfter, kUpdateBefore,
                           kUpdateAfter, kUpdateBefore, kUpdateAfter, kInsert});
  const auto changes = calc.Feed(batch);
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(*changes,
              ElementsAre(TextChange{"-U", {"1"}}, TextChange{"+U", {"2"}}, TextChange{"-D", {"3"}},
                          TextChange{"+I", {"4"}}, TextChange{"+I", {"5"}}));
}

TEST(CalcTest, ARowThatTheFilterDropsCannotFailAProjection) {
  OperatorHarness calc(Node(not_equal(Column(1), literal(int64_t{0})),
                            {call("divide", {Column(0), Column(1)}), Column(2)}),
                       CalcInput());
  const auto changes = calc.Feed(CalcBatch(R"([[8, 2, "x"], [1, 0, "y"], [9, 3, "z"]])"));
  ASSERT_TRUE(changes.ok()) << changes.status().ToString();
  EXPECT_THAT(*changes, ElementsAre(TextChange{"+I", {"4", "x"}}, TextChange{"+I", {"3", "z"}}));
}

TEST(CalcTest, TheRightSideOfAndOrSeesOnlyRowsThatReachIt) {
  const Expression quotient = call("divide", {Column(0), Column(1)});
  const std::string rows = R"([[8, 2, "a"], [1, 0, "b"], [9, 9, "c"], [1, null, "d"]])";
  OperatorHarness both(Node(call("and_kleene", {not_equal(Column(1), literal(int64_t{0})),
                                                greater(quotient, literal(int64_t{2}))}),
                            {Column(2)}),
                       CalcInput());
  OperatorHarness either(Node(call("or_kleene", {equal(Column(1), literal(int64_t{0})),
                                                 greater(quotient, literal(int64_t{2}))}),
                              {Column(2)}),
                         CalcInput());
  EXPECT_THAT(*both.Feed(CalcBatch(rows)), ElementsAre(TextChange{"+I", {"a"}}));
  EXPECT_THAT(*either.Feed(CalcBatch(rows)),
              ElementsAre(TextChange{"+I", {"a"}}, TextChange{"+I", {"b"}}));
}

TEST(CalcTest, ABranchOfCaseSeesOnlyRowsThatReachIt) {
  const Expression zero = equal(Column(1), literal(int64_t{0}));
  const Expression quotient = call("divide", {Column(0), Column(1)});
  const Expression one =
      call("case_when", {call("make_struct", {zero}, arrow::compute::MakeStructOptions({"c"})),
                         literal(int64_t{-1}), quotient});
  const Expression two =
      call("add", {call("if_else", {zero, literal(int64_t{-1}), quotient}), literal(int64_t{1})});
  OperatorHarness calc(Node({}, {one, two}), CalcInput());
  const auto changes = calc.Feed(CalcBatch(R"([[8, 2, "a"], [1, 0, "b"], [9, null, "c"]])"));
  ASSERT_TRUE(changes.ok()) << changes.status().ToString();
  EXPECT_THAT(*changes, ElementsAre(TextChange{"+I", {"4", "5"}}, TextChange{"+I", {"-1", "0"}},
                                    TextChange{"+I", {"null", "null"}}));
}

TEST(CalcTest, AFailingExpressionNamesOperatorAndColumn) {
  OperatorHarness calc(Node({}, {Column(0), call("divide", {Column(0), Column(1)})}), CalcInput());
  const auto changes = calc.Feed(CalcBatch(R"([[8, 0, "x"]])"));
  EXPECT_EQ(changes.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(changes.status().ToString(), HasSubstr("operator sink/calc/0"));
  EXPECT_THAT(changes.status().ToString(), HasSubstr("'p1'"));
  EXPECT_THAT(changes.status().ToString(), HasSubstr("divide by zero"));
}

TEST(CalcTest, AFailureNamesTheFirstRowThatFails) {
  const Expression quotient = call("divide", {Column(0), Column(1)});
  const char* rows = R"([[8, 2, "x"], [1, 1, "w"], [9, 0, "y"], [1, 3, "v"], [7, 0, "z"]])";
  OperatorHarness projects(Node({}, {quotient}), CalcInput());
  EXPECT_THAT(projects.Feed(CalcBatch(rows)).status().message(),
              HasSubstr("; row: a = 9, b = 0, s = y"));
  OperatorHarness filters(Node(greater(quotient, literal(int64_t{0})), {}), CalcInput());
  stream::Batch selected = CalcBatch(rows);
  selected.selection = std::make_shared<std::vector<uint32_t>>(std::vector<uint32_t>{0, 3, 4});
  EXPECT_THAT(filters.Feed(std::move(selected)).status().message(),
              HasSubstr("; row: a = 7, b = 0, s = z"));
}

TEST(CalcTest, AFailingFilterNamesTheOperator) {
  OperatorHarness calc(
      Node(greater(call("divide", {Column(0), Column(1)}), literal(int64_t{0})), {}), CalcInput());
  const auto changes = calc.Feed(CalcBatch(R"([[8, 0, "x"]])"));
  EXPECT_EQ(changes.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(changes.status().ToString(), HasSubstr("operator sink/calc/0: WHERE"));
}

}  // namespace
}  // namespace cairn::operators
