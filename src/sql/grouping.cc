// SPDX-License-Identifier: Apache-2.0
//
// QueryCompiler: GROUP BY, aggregate calls and HAVING.
//
// The input of a GroupAggregate are its keys and the arguments of its calls, as columns. SELECT
// list and HAVING are then compiled over its output: a grouping expression or an aggregate call in
// them stands for an output column.
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sql/query.h"

namespace cairn::sql {
namespace {

using stream::AggregateFunction;

std::optional<AggregateFunction> FunctionOf(std::string_view name) {
  if (name == "count") return AggregateFunction::kCount;
  if (name == "sum") return AggregateFunction::kSum;
  if (name == "min") return AggregateFunction::kMin;
  if (name == "max") return AggregateFunction::kMax;
  if (name == "avg") return AggregateFunction::kAvg;
  return std::nullopt;
}

// Type of an aggregate's result; null when the function does not take the argument.
DataTypePtr ResultType(AggregateFunction function, const DataTypePtr& argument) {
  switch (function) {
    case AggregateFunction::kCountStar:
    case AggregateFunction::kCount:
      return arrow::int64();
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      return IsBoolean(*argument) ? nullptr : argument;
    case AggregateFunction::kAvg:
      return IsNumeric(*argument) ? arrow::float64() : nullptr;
    case AggregateFunction::kSum:
      if (!IsNumeric(*argument)) return nullptr;
      if (IsDouble(*argument)) return argument;
      return arrow::decimal128(38, IsDecimal(*argument) ? DecimalShapeOf(*argument).scale : 0);
  }
  return nullptr;
}

}  // namespace

class QueryCompiler::Grouping final : public NameResolver {
 public:
  Grouping(const SourceText& text, Relation* from)
      : text_(text), from_(from), inner_names_(text, from->columns), inner_(text, &inner_names_) {}

  /// Add an item of GROUP BY: a position or an alias of the list, or an expression.
  Status AddItem(const Json& item, const std::vector<Target>& targets, Place place) {
    if (NodeOf(item).is("GroupingSet")) {
      return text_.Error(place, "GROUPING SETS, ROLLUP and CUBE are not supported");
    }
    CAIRN_ASSIGN_OR_RETURN(const Target* target, TargetOf(item, targets, place));
    if (target != nullptr && target->node == nullptr) {
      const RelationColumn& column = from_->columns[target->column];
      return AddKeyColumn(
          inner_.builder().Column(column.index, column.type, column.nullable, place), column.name);
    }
    const Json& key = target != nullptr ? *target->node : item;
    if (FindAggregate(key) != nullptr) {
      return text_.Error(place, "aggregates are not allowed in GROUP BY");
    }
    return AddKey(key, target != nullptr ? target->name : NameOf(key));
  }

  Result<std::optional<TypedExpression>> ResolveNode(const Json& node) override {
    const Node inner = NodeOf(node);
    if (inner.is("FuncCall") && Find(*inner.body, "over") == nullptr) {
      const std::vector<std::string> names = NamesOf(ListField(*inner.body, "funcname"));
      if (names.size() == 1 && FunctionOf(names.front()).has_value()) {
        CAIRN_ASSIGN_OR_RETURN(TypedExpression call,
                               AddCall(*FunctionOf(names.front()), *inner.body, PlaceOf(node, {})));
        return std::optional<TypedExpression>(std::move(call));
      }
    }
    if (plain_keys_ || inner.is("ColumnRef") || inner.is("A_Const")) {
      return std::optional<TypedExpression>();
    }
    const auto value = inner_.Compile(node);
    if (!value.ok()) return std::optional<TypedExpression>();
    return MatchKey(*value, PlaceOf(node, {}));
  }

  Result<TypedExpression> ResolveColumn(const std::vector<std::string>& names,
                                        Place place) override {
    CAIRN_ASSIGN_OR_RETURN(const TypedExpression value, inner_names_.ResolveColumn(names, place));
    if (auto key = MatchKey(value, place)) return *std::move(key);
    return text_.Error(place, "column \"" + names.back() +
                                  "\" must be in GROUP BY or inside an aggregate function");
  }

  Result<TypedExpression> ResolveRelationColumn(size_t column, Place place) {
    const RelationColumn& from = from_->columns[column];
    return ResolveColumn({from.qualifier, from.name}, place);
  }

  /// Add the nodes to the relation's chain. Keys and calls are complete.
  Status Build() {
    stream::CalcNode inputs;
    arrow::FieldVector fields;
    std::vector<int> columns;  // of the chain, when every input is one
    const auto add = [&](const TypedExpression& value, const std::string& name) {
      inputs.projections.push_back(value.expr);
      fields.push_back(arrow::field(name, value.type, value.nullable));
      const arrow::FieldRef* ref = value.expr.field_ref();
      columns.push_back(ref != nullptr ? ref->field_path()->indices().front() : -1);
    };
    for (const Key& key : keys_) add(key.value, key.name);
    for (const Argument& argument : arguments_) add(argument.value, argument.name);
    const bool plain = std::find(columns.begin(), columns.end(), -1) == columns.end();

    stream::GroupAggregateNode node;
    arrow::FieldVector output;
    for (size_t i = 0; i < keys_.size(); ++i) {
      node.keys.push_back(plain ? columns[i] : static_cast<int>(i));
      output.push_back(arrow::field(keys_[i].name, keys_[i].value.type, keys_[i].value.nullable));
    }
    for (stream::AggregateCall& call : calls_) {
      if (call.column >= 0) {
        const size_t at = keys_.size() + static_cast<size_t>(call.column);
        call.column = plain ? columns[at] : static_cast<int>(at);
      }
      output.push_back(arrow::field(call.name, call.type, !IsCount(call.function)));
    }
    node.calls = std::move(calls_);
    node.output = arrow::schema(std::move(output));
    if (!plain) {
      inputs.output = arrow::schema(std::move(fields));
      from_->chain.AddCalc(std::move(inputs));
    }
    from_->chain.nodes.emplace_back(std::move(node));
    from_->updating = true;
    return {};
  }

 private:
  struct Key {
    TypedExpression value;  ///< over the input
    std::string name;
  };
  struct Argument {
    TypedExpression value;  ///< over the input
    std::string name;
  };

  Status AddKey(const Json& node, const std::string& name) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression key, inner_.Compile(node));
    if (key.constant()) {
      return text_.Error(PlaceOf(node, {}), "GROUP BY needs a column, not a constant");
    }
    return AddKeyColumn(std::move(key), name);
  }

  Status AddKeyColumn(TypedExpression key, const std::string& name) {
    CAIRN_ASSIGN_OR_RETURN(key, SettleColumn(inner_.builder(), std::move(key)));
    for (const Key& known : keys_) {
      if (known.value.expr.Equals(key.expr)) return {};
    }
    plain_keys_ &= key.expr.field_ref() != nullptr;
    keys_.push_back({std::move(key), name});
    return {};
  }

  // The target that an item of GROUP BY names, or null. A column of the input comes before an alias
  // of the list, as in PostgreSQL.
  Result<const Target*> TargetOf(const Json& item, const std::vector<Target>& targets,
                                 Place place) const {
    const Node node = NodeOf(item);
    if (node.is("A_Const") && Find(*node.body, "ival") != nullptr) {
      const Json* number = Find(*Find(*node.body, "ival"), "ival");
      const int64_t ordinal = number != nullptr ? number->get<int64_t>() : 0;
      if (ordinal < 1 || ordinal > static_cast<int64_t>(targets.size())) {
        return text_.Error(place, "GROUP BY position is not in the SELECT list, which has " +
                                      std::to_string(targets.size()) + " columns");
      }
      return &targets[static_cast<size_t>(ordinal - 1)];
    }
    if (!node.is("ColumnRef")) return static_cast<const Target*>(nullptr);
    const std::vector<std::string> names = NamesOf(ListField(*node.body, "fields"));
    if (names.size() != 1 || inner_names_.Has(names.front())) {
      return static_cast<const Target*>(nullptr);
    }
    const auto found = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
      return target.name == names.front();
    });
    return found == targets.end() ? static_cast<const Target*>(nullptr) : &*found;
  }

  static bool IsCount(AggregateFunction function) {
    return function == AggregateFunction::kCount || function == AggregateFunction::kCountStar;
  }

  std::optional<TypedExpression> MatchKey(const TypedExpression& value, Place place) const {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const TypedExpression& key = keys_[i].value;
      if (key.expr.Equals(value.expr)) {
        return inner_.builder().Column(static_cast<int>(i), key.type, key.nullable, place);
      }
    }
    return std::nullopt;
  }

  Status CheckCall(const std::string& name, const Json& body, Place place) const {
    CAIRN_RETURN_IF_ERROR(
        RequireOnly(text_, body, place,
                    {"funcname", "args", "funcformat", "agg_star", "agg_distinct", "agg_filter"}));
    // min and max are the same with DISTINCT.
    if (BoolField(body, "agg_distinct") && name != "min" && name != "max") {
      return text_.Error(place, name + "(DISTINCT ...) is not supported yet");
    }
    const Json& arguments = ListField(body, "args");
    if (BoolField(body, "agg_star") ? name != "count" : arguments.size() != 1) {
      return text_.Error(place, name + "() takes one argument" + (name == "count" ? ", or *" : ""));
    }
    if (const Json* inner = FindAggregate(arguments)) {
      return text_.Error(PlaceOf(*inner, place), "an aggregate cannot stand inside another");
    }
    return {};
  }

  // The argument of a call, NULL where FILTER (WHERE ...) leaves a row out; none for plain
  // count(*).
  Result<std::optional<TypedExpression>> CompileArgument(const Json& body, Place place) {
    std::optional<TypedExpression> value;
    if (!BoolField(body, "agg_star")) {
      CAIRN_ASSIGN_OR_RETURN(value, inner_.Compile(ListField(body, "args").at(0)));
      CAIRN_ASSIGN_OR_RETURN(value, SettleColumn(inner_.builder(), *std::move(value)));
    }
    if (const Json* filter = Find(body, "agg_filter")) {
      if (const Json* inner = FindAggregate(*filter)) {
        return text_.Error(PlaceOf(*inner, place), "an aggregate cannot stand in FILTER");
      }
      CAIRN_ASSIGN_OR_RETURN(TypedExpression condition, inner_.CompileCondition(*filter, "FILTER"));
      if (!value.has_value()) value = inner_.builder().Boolean(true, place);
      TypedExpression null = inner_.builder().Null(value->type, place);
      CAIRN_ASSIGN_OR_RETURN(value, inner_.builder().IfElse(std::move(condition), *std::move(value),
                                                            std::move(null), place));
    }
    return value;
  }

  int ArgumentColumn(TypedExpression value, std::string name) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].value.expr.Equals(value.expr)) return static_cast<int>(i);
    }
    arguments_.push_back({std::move(value), std::move(name)});
    return static_cast<int>(arguments_.size()) - 1;
  }

  Result<TypedExpression> AddCall(AggregateFunction function, const Json& body, Place place) {
    const std::string name(stream::AggregateFunctionName(function));
    CAIRN_RETURN_IF_ERROR(CheckCall(name, body, place));
    CAIRN_ASSIGN_OR_RETURN(std::optional<TypedExpression> argument, CompileArgument(body, place));
    stream::AggregateCall call;
    call.function = argument.has_value() ? function : AggregateFunction::kCountStar;
    call.name = name;
    call.type = argument.has_value() ? ResultType(function, argument->type) : arrow::int64();
    if (call.type == nullptr) {
      return text_.Error(place,
                         "there is no function " + name + "(" + SqlTypeName(*argument->type) + ")");
    }
    if (from_->updating &&
        (function == AggregateFunction::kMin || function == AggregateFunction::kMax)) {
      return text_.Error(place, name +
                                    "() over rows that are updated (those of GROUP BY or of a "
                                    "Top-N) is not supported yet");
    }
    if (argument.has_value()) {
      // State columns are named after what they hold, so that another alias is not another state.
      std::string of = "?column?";
      if (!BoolField(body, "agg_star")) of = NameOf(ListField(body, "args").at(0));
      if (of != "?column?") call.name += "_" + of;
      call.column = ArgumentColumn(*std::move(argument), of == "?column?" ? name + "_of" : of);
    }
    size_t at = 0;
    while (at < calls_.size() &&
           (calls_[at].function != call.function || calls_[at].column != call.column)) {
      ++at;
    }
    const DataTypePtr type = call.type;
    if (at == calls_.size()) calls_.push_back(std::move(call));
    return inner_.builder().Column(static_cast<int>(keys_.size() + at), type, !IsCount(function),
                                   place);
  }

  const SourceText& text_;
  Relation* from_;
  RelationResolver inner_names_;
  mutable ExpressionCompiler inner_;  // over the input
  std::vector<Key> keys_;
  std::vector<Argument> arguments_;
  std::vector<stream::AggregateCall> calls_;  // column = index of the argument
  bool plain_keys_ = true;                    // every key is a column
};

Result<Selection> QueryCompiler::SelectGrouped(const Json& select, Relation from,
                                               std::vector<Target> targets, Place place) {
  Grouping grouping(text_, &from);
  for (const Json& item : ListField(select, "groupClause")) {
    CAIRN_RETURN_IF_ERROR(grouping.AddItem(item, targets, PlaceOf(item, place)));
  }
  Selection out;
  ExpressionCompiler compiler(text_, &grouping);
  for (const Target& target : targets) {
    if (target.node == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(TypedExpression column,
                             grouping.ResolveRelationColumn(target.column, target.place));
      out.outputs.push_back(std::move(column));
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(TypedExpression value, compiler.Compile(*target.node));
    out.outputs.push_back(std::move(value));
  }
  std::optional<TypedExpression> having;
  if (const Json* condition = Find(select, "havingClause")) {
    CAIRN_ASSIGN_OR_RETURN(having, compiler.CompileCondition(*condition, "HAVING"));
  }
  CAIRN_RETURN_IF_ERROR(grouping.Build());
  if (having.has_value()) {
    stream::CalcNode filter;
    filter.filter = having->expr;
    filter.output = from.chain.output();
    from.chain.AddCalc(std::move(filter));
  }
  out.from = std::move(from);
  out.targets = std::move(targets);
  return out;
}

}  // namespace cairn::sql
