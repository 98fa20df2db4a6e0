// SPDX-License-Identifier: Apache-2.0
#include "operators/operator_factory.h"

#include <arrow/type.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "operators/calc.h"
#include "operators/group_aggregate.h"
#include "operators/topn.h"

namespace cairn::operators {
namespace {

using Json = nlohmann::json;

/// Columns as the pipeline's identity names them: a renamed or retyped column is another pipeline.
Json ColumnsOf(const arrow::Schema& schema) {
  Json columns = Json::array();
  for (const auto& field : schema.fields()) {
    columns.push_back({{"name", field->name()},
                       {"type", field->type()->ToString()},
                       {"nullable", field->nullable()}});
  }
  return columns;
}

Json Names(const arrow::Schema& schema, const std::vector<int>& columns) {
  Json names = Json::array();
  for (int column : columns) names.push_back(schema.field(column)->name());
  return names;
}

class CalcFactory final : public stream::OperatorFactory {
 public:
  CalcFactory(stream::CalcNode node, bool input_updates)
      : node_(std::make_shared<const stream::CalcNode>(std::move(node))),
        updating_(input_updates) {}
  std::string name() const override { return "calc"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return node_->output; }
  bool keyed() const override { return false; }
  bool updating() const override { return updating_; }
  std::unique_ptr<stream::Operator> Create() const override {
    return std::make_unique<Calc>(node_);
  }
  std::string Identity() const override {
    return Json{{"operator", "calc"}, {"text", node_->text}, {"output", ColumnsOf(*node_->output)}}
        .dump();
  }

 private:
  std::shared_ptr<const stream::CalcNode> node_;
  bool updating_;
};

class GroupAggregateFactory final : public stream::OperatorFactory {
 public:
  explicit GroupAggregateFactory(std::shared_ptr<const GroupAggregateSpec> spec)
      : spec_(std::move(spec)) {}
  std::string name() const override { return "group-aggregate"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return spec_->node.output; }
  bool keyed() const override { return true; }
  /// Without calls (SELECT DISTINCT) a key that is there never changes.
  bool updating() const override { return spec_->input_updates || !spec_->node.calls.empty(); }
  std::unique_ptr<stream::Operator> Create() const override { return MakeGroupAggregate(spec_); }
  std::string Identity() const override {
    Json calls = Json::array();
    for (const stream::AggregateCall& call : spec_->node.calls) {
      Json entry = {{"function", stream::AggregateFunctionName(call.function)},
                    {"name", call.name},
                    {"type", call.type->ToString()}};
      if (call.column >= 0) entry["column"] = spec_->input->field(call.column)->name();
      calls.push_back(std::move(entry));
    }
    return Json{{"operator", "group-aggregate"},
                {"keys", Names(*spec_->input, spec_->node.keys)},
                {"calls", std::move(calls)},
                {"input_updates", spec_->input_updates},
                {"output", ColumnsOf(*spec_->node.output)}}
        .dump();
  }

 private:
  std::shared_ptr<const GroupAggregateSpec> spec_;
};

class TopNFactory final : public stream::OperatorFactory {
 public:
  explicit TopNFactory(std::shared_ptr<const TopNSpec> spec) : spec_(std::move(spec)) {}
  std::string name() const override { return "top-n"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return spec_->node.output; }
  bool keyed() const override { return true; }
  bool updating() const override { return true; }
  std::unique_ptr<stream::Operator> Create() const override { return MakeTopN(spec_); }
  std::string Identity() const override {
    Json sort = Json::array();
    for (const stream::SortSpec& column : spec_->node.sort) {
      sort.push_back({{"column", spec_->input->field(column.column)->name()},
                      {"descending", column.descending},
                      {"nulls_first", column.nulls_first}});
    }
    return Json{{"operator", "top-n"},
                {"partition", Names(*spec_->input, spec_->node.partition)},
                {"sort", std::move(sort)},
                {"limit", spec_->node.limit},
                {"rank", spec_->node.emit_rank},
                {"input", ColumnsOf(*spec_->input)},
                {"output", ColumnsOf(*spec_->node.output)}}
        .dump();
  }

 private:
  std::shared_ptr<const TopNSpec> spec_;
};

using FactoryResult = Result<std::unique_ptr<stream::OperatorFactory>>;

struct Maker {
  const std::shared_ptr<arrow::Schema>& input;
  bool input_updates;

  FactoryResult operator()(const stream::CalcNode& node) const {
    for (const auto& projection : node.projections) {
      if (!projection.IsBound()) return Status::Internal("projection is not bound");
    }
    if (node.filter.has_value() && !node.filter->IsBound()) {
      return Status::Internal("filter is not bound");
    }
    return FactoryResult(std::make_unique<CalcFactory>(node, input_updates));
  }
  FactoryResult operator()(const stream::GroupAggregateNode& node) const {
    CAIRN_ASSIGN_OR_RETURN(auto spec, MakeGroupAggregateSpec(node, input, input_updates));
    return FactoryResult(std::make_unique<GroupAggregateFactory>(std::move(spec)));
  }
  FactoryResult operator()(const stream::TopNNode& node) const {
    CAIRN_ASSIGN_OR_RETURN(auto spec, MakeTopNSpec(node, input, input_updates));
    return FactoryResult(std::make_unique<TopNFactory>(std::move(spec)));
  }
};

}  // namespace

Result<std::unique_ptr<stream::OperatorFactory>> MakeOperator(const stream::PlanNode& node,
                                                              std::shared_ptr<arrow::Schema> input,
                                                              bool input_updates) {
  return std::visit(Maker{input, input_updates}, node);
}

namespace {

/// Place of a sort column in the input: a column may be renamed.
Json SortOf(const Json& definition) {
  Json sort = Json::array();
  for (const Json& column : definition.value("sort", Json::array())) {
    size_t index = 0;
    for (const Json& input : definition.value("input", Json::array())) {
      if (input.value("name", "") == column.value("column", "")) break;
      ++index;
    }
    sort.push_back({index, column.value("descending", false), column.value("nulls_first", false)});
  }
  return sort;
}

Status CheckSavedRanks(const Json& saved, const Json& now) {
  if (SortOf(saved) != SortOf(now)) {
    return Status::InvalidArgument(
        "its rows were ranked in another order, so those that rank now were not all kept");
  }
  const auto saved_limit = saved.value("limit", int64_t{0});
  const auto limit = now.value("limit", int64_t{0});
  if (limit == saved_limit) return {};
  return Status::InvalidArgument(
      "it keeps " + std::to_string(limit) + " rows of each partition, and up to " +
      std::to_string(saved_limit) +
      (limit < saved_limit ? " were saved" : " were kept: those behind them are gone"));
}

}  // namespace

Status CheckSavedState(const std::string& saved_identity, const std::string& identity) {
  const Json saved = Json::parse(saved_identity, nullptr, /*allow_exceptions=*/false);
  const Json now = Json::parse(identity, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || !now.is_object()) return {};
  const bool ranked =
      now.value("operator", "") == "top-n" && saved.value("operator", "") == "top-n";
  return ranked ? CheckSavedRanks(saved, now) : Status();  // columns tell all else
}

}  // namespace cairn::operators
