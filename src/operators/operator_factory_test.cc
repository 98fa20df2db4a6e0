// SPDX-License-Identifier: Apache-2.0
#include "operators/operator_factory.h"

#include <arrow/compute/expression.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::operators {
namespace {

const std::shared_ptr<arrow::Schema>& FactoryInput() {
  static const auto schema = arrow::schema(
      {arrow::field("auction", arrow::int64()), arrow::field("price", arrow::int64())});
  return schema;
}

stream::GroupAggregateNode Group() {
  stream::GroupAggregateNode node;
  node.keys = {0};
  node.calls = {{stream::AggregateFunction::kCountStar, -1, false, "n", arrow::int64()},
                {stream::AggregateFunction::kMax, 1, false, "hi", arrow::int64()}};
  node.output = arrow::schema({FactoryInput()->field(0), arrow::field("n", arrow::int64()),
                               arrow::field("hi", arrow::int64())});
  return node;
}

stream::TopNNode Top() {
  stream::TopNNode node;
  node.partition = {0};
  node.sort = {{1, true, true}};
  node.limit = 10;
  node.output = FactoryInput();
  return node;
}

stream::CalcNode Moves() {
  stream::CalcNode node;
  node.projections = {
      arrow::compute::field_ref(arrow::FieldRef(1)).Bind(*FactoryInput()).ValueOrDie()};
  node.output = arrow::schema({FactoryInput()->field(1)});
  node.text = "SELECT price";
  return node;
}

std::unique_ptr<stream::OperatorFactory> Make(const stream::PlanNode& node, bool updates = false) {
  auto factory = MakeOperator(node, FactoryInput(), updates);
  EXPECT_TRUE(factory.ok()) << factory.status().ToString();
  return *std::move(factory);
}

TEST(OperatorFactoryTest, SaysWhatTheOperatorIs) {
  EXPECT_EQ(Make(Group())->name(), "group-aggregate");
  EXPECT_TRUE(Make(Group())->keyed());
  EXPECT_TRUE(Make(Group())->updating());
  EXPECT_EQ(Make(Top())->name(), "top-n");
  EXPECT_TRUE(Make(Top())->keyed());
  EXPECT_TRUE(Make(Top())->updating());
  EXPECT_EQ(Make(Moves())->name(), "calc");
  EXPECT_FALSE(Make(Moves())->keyed());
  EXPECT_EQ(Make(Group())->output_schema()->field_names(),
            (std::vector<std::string>{"auction", "n", "hi"}));
}

TEST(OperatorFactoryTest, ACalcUpdatesWhenItsInputDoes) {
  EXPECT_FALSE(Make(Moves(), false)->updating());
  EXPECT_TRUE(Make(Moves(), true)->updating());
}

TEST(OperatorFactoryTest, AGroupWithoutCallsUpdatesOnlyWhenItsInputDoes) {
  stream::GroupAggregateNode distinct;
  distinct.keys = {0};
  distinct.output = arrow::schema({FactoryInput()->field(0)});
  EXPECT_FALSE(Make(distinct, false)->updating());
  EXPECT_TRUE(Make(distinct, true)->updating());
}

TEST(OperatorFactoryTest, IdentityIsJsonAndStable) {
  const auto json = nlohmann::json::parse(Make(Group())->Identity());
  EXPECT_EQ(json["operator"], "group-aggregate");
  EXPECT_EQ(json["keys"], nlohmann::json::array({"auction"}));
  EXPECT_EQ(json["calls"][1]["function"], "max");
  EXPECT_EQ(json["calls"][1]["column"], "price");
  EXPECT_EQ(Make(Group())->Identity(), Make(Group())->Identity());
  EXPECT_EQ(nlohmann::json::parse(Make(Moves())->Identity())["text"], "SELECT price");
}

TEST(OperatorFactoryTest, IdentityChangesWithWhatDecidesTheState) {
  stream::TopNNode limit = Top();
  limit.limit = 11;
  EXPECT_NE(Make(limit)->Identity(), Make(Top())->Identity());
  stream::TopNNode direction = Top();
  direction.sort[0].descending = false;
  EXPECT_NE(Make(direction)->Identity(), Make(Top())->Identity());
  stream::GroupAggregateNode function = Group();
  function.calls[1].function = stream::AggregateFunction::kMin;
  EXPECT_NE(Make(function)->Identity(), Make(Group())->Identity());
}

TEST(OperatorFactoryTest, SavedRanksServeTheSameOrderAndAsManyRows) {
  const std::string saved = Make(Top())->Identity();
  const auto serves = [&saved](const stream::TopNNode& node) {
    return CheckSavedState(saved, Make(node)->Identity()).ok();
  };
  stream::TopNNode more = Top();
  more.limit = Top().limit + 1;
  EXPECT_FALSE(serves(more)) << "rows behind the first ones were not kept";
  stream::TopNNode fewer = Top();
  fewer.limit = Top().limit - 1;
  EXPECT_FALSE(serves(fewer));
  stream::TopNNode direction = Top();
  direction.sort[0].descending = !direction.sort[0].descending;
  EXPECT_FALSE(serves(direction));
  stream::TopNNode nulls = Top();
  nulls.sort[0].nulls_first = !nulls.sort[0].nulls_first;
  EXPECT_FALSE(serves(nulls));
}

TEST(OperatorFactoryTest, RefusesAnUnboundExpression) {
  stream::CalcNode node = Moves();
  node.projections = {arrow::compute::field_ref("price")};
  EXPECT_EQ(MakeOperator(node, FactoryInput(), false).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace cairn::operators
