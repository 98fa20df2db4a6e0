// SPDX-License-Identifier: Apache-2.0
#include "sql/plan_text.h"

#include <arrow/array/array_base.h>
#include <arrow/compute/api_scalar.h>
#include <arrow/compute/cast.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <string_view>
#include <utility>
#include <vector>

#include "sql/data_type.h"

namespace cairn::sql {
namespace {

namespace compute = arrow::compute;

std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

std::string ScalarText(const arrow::Scalar& scalar) {
  if (!scalar.is_valid) return "null::" + SqlTypeName(*scalar.type);
  if (IsText(*scalar.type)) return Quoted(scalar.ToString());
  if (scalar.type->id() == arrow::Type::INT64 || IsBoolean(*scalar.type)) return scalar.ToString();
  return scalar.ToString() + "::" + SqlTypeName(*scalar.type);
}

const char* InfixOperator(std::string_view function) {
  static constexpr std::pair<std::string_view, const char*> kOperators[] = {
      {"equal", "="},          {"not_equal", "<>"},       {"less", "<"},
      {"less_equal", "<="},    {"greater", ">"},          {"greater_equal", ">="},
      {"and_kleene", "and"},   {"or_kleene", "or"},       {"add", "+"},
      {"add_checked", "+"},    {"subtract", "-"},         {"subtract_checked", "-"},
      {"multiply", "*"},       {"multiply_checked", "*"}, {"divide", "/"},
      {"divide_checked", "/"}, {"remainder", "%"}};
  for (const auto& [name, symbol] : kOperators) {
    if (name == function) return symbol;
  }
  return nullptr;
}

std::string ValueSetText(const arrow::Datum& value_set) {
  const auto array = value_set.make_array();
  std::string out = "(";
  for (int64_t i = 0; i < array->length(); ++i) {
    const auto scalar = array->GetScalar(i);
    out += (i == 0 ? "" : ", ") + (scalar.ok() ? ScalarText(**scalar) : std::string("?"));
  }
  return out + ")";
}

// What of the options decides what is computed.
std::string OptionsText(const compute::FunctionOptions& options) {
  const auto number = [](auto value) { return std::to_string(static_cast<int64_t>(value)); };
  if (const auto* o = dynamic_cast<const compute::MatchSubstringOptions*>(&options)) {
    return Quoted(o->pattern) + (o->ignore_case ? " ignoring case" : "");
  }
  if (const auto* o = dynamic_cast<const compute::ReplaceSubstringOptions*>(&options)) {
    return Quoted(o->pattern) + " by " + Quoted(o->replacement);
  }
  if (const auto* o = dynamic_cast<const compute::RoundOptions*>(&options)) {
    return number(o->ndigits) + " digits, mode " + number(o->round_mode);
  }
  if (const auto* o = dynamic_cast<const compute::SliceOptions*>(&options)) {
    return "from " + number(o->start) + " to " + number(o->stop);
  }
  if (const auto* o = dynamic_cast<const compute::TrimOptions*>(&options)) {
    return Quoted(o->characters);
  }
  if (const auto* o = dynamic_cast<const compute::RoundTemporalOptions*>(&options)) {
    return number(o->multiple) + " of unit " + number(o->unit);
  }
  if (const auto* o = dynamic_cast<const compute::DayOfWeekOptions*>(&options)) {
    return "week from " + number(o->week_start) + (o->count_from_zero ? ", from 0" : ", from 1");
  }
  if (const auto* o = dynamic_cast<const compute::JoinOptions*>(&options)) {
    return o->null_handling == compute::JoinOptions::EMIT_NULL ? "null if one is"
                                                               : "nulls left out";
  }
  if (dynamic_cast<const compute::ElementWiseAggregateOptions*>(&options) != nullptr) {
    return "nulls left out";
  }
  if (dynamic_cast<const compute::NullOptions*>(&options) != nullptr) return "";
  return options.ToString();
}

class TextWriter {
 public:
  explicit TextWriter(const arrow::Schema& schema) : schema_(schema) {}

  std::string Write(const compute::Expression& expression) const {
    if (const arrow::Datum* literal = expression.literal()) {
      return literal->is_scalar() ? ScalarText(*literal->scalar()) : "?";
    }
    if (const arrow::FieldRef* field = expression.field_ref()) return ColumnText(*field);
    const compute::Expression::Call& call = *expression.call();
    if (const auto* cast = dynamic_cast<const compute::CastOptions*>(call.options.get())) {
      return "cast(" + Write(call.arguments[0]) + " as " + SqlTypeName(*cast->to_type.type) + ")";
    }
    if (const auto* set = dynamic_cast<const compute::SetLookupOptions*>(call.options.get())) {
      return "(" + Write(call.arguments[0]) + " in " + ValueSetText(set->value_set) + ")";
    }
    const char* infix = InfixOperator(call.function_name);
    if (infix != nullptr && call.arguments.size() == 2) {
      return "(" + Write(call.arguments[0]) + " " + infix + " " + Write(call.arguments[1]) + ")";
    }
    std::string out = call.function_name + "(";
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      out += (i == 0 ? "" : ", ") + Write(call.arguments[i]);
    }
    const std::string options = call.options != nullptr ? OptionsText(*call.options) : "";
    return out + (options.empty() ? "" : "; " + options) + ")";
  }

 private:
  std::string ColumnText(const arrow::FieldRef& ref) const {
    const int index = ref.IsFieldPath() ? ref.field_path()->indices().front() : -1;
    if (index < 0 || index >= schema_.num_fields()) return ref.ToString();
    const std::string& name = schema_.field(index)->name();
    if (schema_.GetAllFieldIndices(name).size() == 1) return name;
    return name + "#" + std::to_string(index);
  }

  const arrow::Schema& schema_;
};

std::string SchemaText(const arrow::Schema& schema) {
  std::string out;
  for (const auto& field : schema.fields()) {
    out += (out.empty() ? "" : ", ") + field->name() + " " + SqlTypeName(*field->type()) +
           (field->nullable() ? "" : " not null");
  }
  return out;
}

std::string NamesText(const std::vector<int>& columns, const arrow::Schema& schema) {
  std::string out;
  for (int column : columns) out += (out.empty() ? "" : ", ") + schema.field(column)->name();
  return out;
}

std::string GroupText(const stream::GroupAggregateNode& node, const arrow::Schema& input) {
  std::string out = "keys (" + NamesText(node.keys, input) + ")";
  for (const stream::AggregateCall& call : node.calls) {
    out += ", ";
    out += stream::AggregateFunctionName(call.function);
    if (call.column >= 0) out += "(" + input.field(call.column)->name() + ")";
  }
  return out;
}

std::string TopNText(const stream::TopNNode& node, const arrow::Schema& input) {
  std::string out = "partition (" + NamesText(node.partition, input) + ") sort (";
  for (size_t i = 0; i < node.sort.size(); ++i) {
    out += (i == 0 ? "" : ", ") + input.field(node.sort[i].column)->name() +
           (node.sort[i].descending ? " desc" : " asc") +
           (node.sort[i].nulls_first ? " nulls first" : " nulls last");
  }
  return out + ") limit " + std::to_string(node.limit) + (node.emit_rank ? " with rank" : "");
}

}  // namespace

std::string ExpressionText(const compute::Expression& expression, const arrow::Schema& schema) {
  return TextWriter(schema).Write(expression);
}

std::string CalcText(const stream::CalcNode& node, const arrow::Schema& input) {
  std::string out;
  if (node.filter.has_value()) out = "where " + ExpressionText(*node.filter, input);
  for (size_t i = 0; i < node.projections.size(); ++i) {
    out += i > 0 ? ", " : out.empty() ? "select " : " select ";
    out += ExpressionText(node.projections[i], input);
  }
  return out;
}

std::string PipelineText(const stream::Pipeline& pipeline) {
  std::string out =
      "scan " + pipeline.scan.table.name + " -> " + SchemaText(*pipeline.scan.output) + "\n";
  std::shared_ptr<arrow::Schema> input = pipeline.scan.output;
  for (const stream::PlanNode& node : pipeline.nodes) {
    out += std::string(stream::PlanNodeName(node)) + " ";
    if (const auto* calc = std::get_if<stream::CalcNode>(&node)) out += calc->text;
    if (const auto* group = std::get_if<stream::GroupAggregateNode>(&node)) {
      out += GroupText(*group, *input);
    }
    if (const auto* top = std::get_if<stream::TopNNode>(&node)) out += TopNText(*top, *input);
    input = stream::OutputSchemaOf(node);
    out += " -> " + SchemaText(*input) + "\n";
  }
  return out + "sink " + pipeline.sink.name + "\n";
}

}  // namespace cairn::sql
