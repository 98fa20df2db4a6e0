// SPDX-License-Identifier: Apache-2.0
#include "sql/plan_rewrite.h"

#include <arrow/type.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sql/plan_text.h"

namespace cairn::sql {
namespace {

namespace compute = arrow::compute;

using compute::Expression;
using stream::CalcNode;
using stream::GroupAggregateNode;
using stream::TopNNode;

// A joined expression must stay as walkable as those it is made of.
constexpr int kJoinedDepthMax = 1000;

int ColumnIndex(const Expression& expression) {
  const arrow::FieldRef* ref = expression.field_ref();
  return ref != nullptr && ref->IsFieldPath() ? ref->field_path()->indices().front() : -1;
}

bool IsTrivial(const Expression& expression) { return expression.call() == nullptr; }

void CountUses(const Expression& expression, std::vector<int>* uses) {
  if (const int column = ColumnIndex(expression); column >= 0)
    ++(*uses)[static_cast<size_t>(column)];
  if (const Expression::Call* call = expression.call()) {
    for (const Expression& argument : call->arguments) CountUses(argument, uses);
  }
}

int DepthOf(const Expression& expression) {
  int depth = 0;
  if (const Expression::Call* call = expression.call()) {
    for (const Expression& argument : call->arguments) depth = std::max(depth, DepthOf(argument));
  }
  return depth + 1;
}

Expression ColumnAt(int index) { return compute::field_ref(arrow::FieldRef(index)); }

// Whether projections are all columns of the input in their order.
bool IsIdentity(const std::vector<Expression>& projections, const arrow::Schema& input) {
  if (static_cast<int>(projections.size()) != input.num_fields()) return false;
  for (size_t i = 0; i < projections.size(); ++i) {
    if (ColumnIndex(projections[i]) != static_cast<int>(i)) return false;
  }
  return true;
}

bool SameNames(const arrow::FieldVector& a, const arrow::FieldVector& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x->name() == y->name(); });
}

// Whether `second` may be computed in one node with `first`, without computing anything twice and
// without moving an expression to rows that `first` filters out.
bool CanJoin(const CalcNode& first, const CalcNode& second) {
  if (first.filter.has_value() && second.filter.has_value()) return false;
  if (first.projections.empty()) return true;
  std::vector<int> uses(first.projections.size(), 0);
  int depth = 0;
  if (second.filter.has_value()) {
    CountUses(*second.filter, &uses);
    depth = DepthOf(*second.filter);
  }
  for (const Expression& projection : second.projections) {
    CountUses(projection, &uses);
    depth = std::max(depth, DepthOf(projection));
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    const int times = uses[i] + (second.projections.empty() ? 1 : 0);
    if (times > 1 && !IsTrivial(first.projections[i])) return false;
    if (depth + DepthOf(first.projections[i]) > kJoinedDepthMax) return false;
  }
  return true;
}

CalcNode Join(CalcNode first, CalcNode second) {
  CalcNode joined;
  joined.output = std::move(second.output);
  joined.filter = std::move(first.filter);
  if (first.projections.empty()) {
    if (second.filter.has_value()) joined.filter = std::move(second.filter);
    joined.projections = std::move(second.projections);
    return joined;
  }
  if (second.filter.has_value()) joined.filter = Substitute(*second.filter, first.projections);
  for (const Expression& projection : second.projections) {
    joined.projections.push_back(Substitute(projection, first.projections));
  }
  if (second.projections.empty()) joined.projections = std::move(first.projections);
  return joined;
}

/// A set of the columns of one schema.
using Columns = std::vector<bool>;

void Need(const Expression& expression, Columns* needed) {
  std::vector<int> uses(needed->size(), 0);
  CountUses(expression, &uses);
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] > 0) (*needed)[i] = true;
  }
}

// The columns of its input that a node needs so that it can give the `needed` ones of its output.
struct NeedOfInput {
  const Columns& needed;
  size_t inputs;

  Columns operator()(const CalcNode& node) const {
    Columns out = node.projections.empty() ? needed : Columns(inputs, false);
    if (node.filter.has_value()) Need(*node.filter, &out);
    for (size_t i = 0; i < node.projections.size(); ++i) {
      if (needed[i]) Need(node.projections[i], &out);
    }
    return out;
  }
  Columns operator()(const GroupAggregateNode& node) const {
    Columns out(inputs, false);
    for (int key : node.keys) out[static_cast<size_t>(key)] = true;
    for (size_t i = 0; i < node.calls.size(); ++i) {
      if (needed[node.keys.size() + i] && node.calls[i].column >= 0) {
        out[static_cast<size_t>(node.calls[i].column)] = true;
      }
    }
    return out;
  }
  Columns operator()(const TopNNode& node) const {
    Columns out(needed.begin(), needed.begin() + static_cast<std::ptrdiff_t>(inputs));
    for (int column : node.partition) out[static_cast<size_t>(column)] = true;
    for (const stream::SortSpec& sort : node.sort) out[static_cast<size_t>(sort.column)] = true;
    return out;
  }
};

/// Old index → new index of a schema's columns; -1 = dropped.
using Renumbering = std::vector<int>;

// Give each node the columns that are left of its input, and drop what nobody needs of its output.
// The result is the renumbering of the output.
struct Shrink {
  const Columns& needed;
  const Renumbering& moved;
  const arrow::Schema& input;  // what is left of it

  std::vector<Expression> MovedColumns() const {
    std::vector<Expression> columns;
    for (int column : moved) columns.push_back(ColumnAt(std::max(column, 0)));
    return columns;
  }
  int At(int column) const { return moved[static_cast<size_t>(column)]; }

  Renumbering operator()(CalcNode& node) const {
    const std::vector<Expression> columns = MovedColumns();
    if (node.filter.has_value()) node.filter = Substitute(*node.filter, columns);
    Renumbering out(needed.size(), -1);
    std::vector<Expression> projections;
    arrow::FieldVector fields;
    for (size_t i = 0; i < needed.size(); ++i) {
      if (!needed[i]) continue;
      out[i] = static_cast<int>(fields.size());
      projections.push_back(node.projections.empty() ? columns[i]
                                                     : Substitute(node.projections[i], columns));
      fields.push_back(node.output->field(static_cast<int>(i)));
    }
    // Every column as it is, or none: the batches pass unchanged.
    const bool pass = projections.empty() ||
                      (IsIdentity(projections, input) && SameNames(fields, input.fields()));
    if (pass) projections.clear();
    node.output = pass ? arrow::schema(input.fields()) : arrow::schema(std::move(fields));
    node.projections = std::move(projections);
    return out;
  }

  Renumbering operator()(GroupAggregateNode& node) const {
    Renumbering out(needed.size(), -1);
    std::vector<stream::AggregateCall> calls;
    arrow::FieldVector fields;
    for (size_t i = 0; i < needed.size(); ++i) {
      const bool key = i < node.keys.size();
      if (!key && !needed[i]) continue;
      out[i] = static_cast<int>(fields.size());
      fields.push_back(node.output->field(static_cast<int>(i)));
      if (key) {
        node.keys[i] = At(node.keys[i]);
      } else {
        stream::AggregateCall call = node.calls[i - node.keys.size()];
        if (call.column >= 0) call.column = At(call.column);
        calls.push_back(std::move(call));
      }
    }
    node.calls = std::move(calls);
    node.output = arrow::schema(std::move(fields));
    return out;
  }

  Renumbering operator()(TopNNode& node) const {
    Renumbering out(moved);
    for (int& column : node.partition) column = At(column);
    for (stream::SortSpec& sort : node.sort) sort.column = At(sort.column);
    arrow::FieldVector fields = input.fields();
    node.emit_rank = needed.back();
    out.push_back(node.emit_rank ? static_cast<int>(fields.size()) : -1);
    if (node.emit_rank) fields.push_back(node.output->fields().back());
    node.output = arrow::schema(std::move(fields));
    return out;
  }
};

// A column that costs little to read, for queries that need rows but no column.
int CheapestColumn(const arrow::Schema& schema) {
  for (int i = 0; i < schema.num_fields(); ++i) {
    if (schema.field(i)->type()->id() == arrow::Type::INT64) return i;
  }
  for (int i = 0; i < schema.num_fields(); ++i) {
    if (arrow::is_fixed_width(schema.field(i)->type()->id())) return i;
  }
  return 0;
}

void Prune(PlanChain* chain) {
  std::vector<Columns> needed(chain->nodes.size() + 1);
  needed.back().assign(static_cast<size_t>(chain->output()->num_fields()), true);
  for (size_t i = chain->nodes.size(); i-- > 0;) {
    const auto& input = i == 0 ? chain->scan.output : stream::OutputSchemaOf(chain->nodes[i - 1]);
    const auto* group = std::get_if<GroupAggregateNode>(&chain->nodes[i]);
    if (group != nullptr && group->keys.empty() &&
        std::find(needed[i + 1].begin(), needed[i + 1].end(), true) == needed[i + 1].end()) {
      needed[i + 1][0] = true;  // without keys it is a call that makes the row
    }
    const NeedOfInput need{needed[i + 1], static_cast<size_t>(input->num_fields())};
    needed[i] = std::visit(need, chain->nodes[i]);
  }
  Columns& read = needed.front();
  if (std::find(read.begin(), read.end(), true) == read.end()) {
    read[static_cast<size_t>(CheapestColumn(*chain->scan.output))] = true;
  }
  Renumbering moved(read.size(), -1);
  chain->scan.columns.clear();
  for (size_t i = 0; i < read.size(); ++i) {
    if (!read[i]) continue;
    moved[i] = static_cast<int>(chain->scan.columns.size());
    chain->scan.columns.push_back(static_cast<int>(i));
  }
  chain->scan.output = stream::SchemaOf(chain->scan.table, chain->scan.columns);
  std::shared_ptr<arrow::Schema> input = chain->scan.output;
  for (size_t i = 0; i < chain->nodes.size(); ++i) {
    moved = std::visit(Shrink{needed[i + 1], moved, *input}, chain->nodes[i]);
    input = stream::OutputSchemaOf(chain->nodes[i]);
  }
}

// Give the output of a node other names; false when the node passes batches of its input on.
bool Rename(const arrow::Schema& names, stream::PlanNode* node) {
  if (const auto* calc = std::get_if<CalcNode>(node);
      calc != nullptr && calc->projections.empty()) {
    return false;
  }
  arrow::FieldVector fields;
  for (int i = 0; i < names.num_fields(); ++i) {
    fields.push_back(stream::OutputSchemaOf(*node)->field(i)->WithName(names.field(i)->name()));
  }
  std::visit([&](auto& typed) { typed.output = arrow::schema(std::move(fields)); }, *node);
  return true;
}

// Drop the calc nodes that do nothing but rename. The names of the last node are those of the
// query: they move to the node before it when that makes its own batches.
void DropIdle(PlanChain* chain) {
  std::shared_ptr<arrow::Schema> input = chain->scan.output;
  std::vector<stream::PlanNode> kept;
  for (size_t i = 0; i < chain->nodes.size(); ++i) {
    stream::PlanNode& node = chain->nodes[i];
    const auto* calc = std::get_if<CalcNode>(&node);
    const bool idle = calc != nullptr && !calc->filter.has_value() &&
                      (calc->projections.empty() || IsIdentity(calc->projections, *input));
    const bool last = i + 1 == chain->nodes.size();
    if (idle && last && !SameNames(calc->output->fields(), input->fields())) {
      if (kept.empty() || !Rename(*calc->output, &kept.back())) kept.push_back(std::move(node));
    } else if (!idle) {
      input = stream::OutputSchemaOf(node);
      kept.push_back(std::move(node));
    }
  }
  chain->nodes = std::move(kept);
}

Status Bind(const arrow::Schema& input, CalcNode* node) {
  const auto bind = [&](Expression* expression, const arrow::DataType& type) -> Status {
    auto bound = expression->Bind(input);
    if (!bound.ok()) {
      return Status::Internal("cannot bind " + ExpressionText(*expression, input) + ": " +
                              bound.status().message());
    }
    if (!bound->type()->Equals(type)) {
      return Status::Internal(ExpressionText(*expression, input) + " has type " +
                              bound->type()->ToString() + ", not " + type.ToString());
    }
    *expression = *std::move(bound);
    return {};
  };
  node->text = CalcText(*node, input);
  if (node->filter.has_value()) {
    CAIRN_RETURN_IF_ERROR(bind(&*node->filter, *arrow::boolean()));
  }
  for (size_t i = 0; i < node->projections.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(
        bind(&node->projections[i], *node->output->field(static_cast<int>(i))->type()));
  }
  return {};
}

}  // namespace

Expression Substitute(const Expression& expression, const std::vector<Expression>& columns) {
  if (const int column = ColumnIndex(expression); column >= 0) {
    return columns[static_cast<size_t>(column)];
  }
  const Expression::Call* call = expression.call();
  if (call == nullptr) return expression;
  std::vector<Expression> arguments;
  arguments.reserve(call->arguments.size());
  for (const Expression& argument : call->arguments) {
    arguments.push_back(Substitute(argument, columns));
  }
  return compute::call(call->function_name, std::move(arguments), call->options);
}

void PlanChain::AddCalc(CalcNode node) {
  if (!nodes.empty()) {
    if (auto* last = std::get_if<CalcNode>(&nodes.back());
        last != nullptr && CanJoin(*last, node)) {
      nodes.back() = Join(std::move(*last), std::move(node));
      return;
    }
  }
  nodes.emplace_back(std::move(node));
}

Status PlanChain::Finish() {
  Prune(this);
  DropIdle(this);
  std::shared_ptr<arrow::Schema> input = scan.output;
  for (stream::PlanNode& node : nodes) {
    if (auto* calc = std::get_if<CalcNode>(&node)) CAIRN_RETURN_IF_ERROR(Bind(*input, calc));
    input = stream::OutputSchemaOf(node);
  }
  return {};
}

}  // namespace cairn::sql
