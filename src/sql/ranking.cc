// SPDX-License-Identifier: Apache-2.0
//
// QueryCompiler: ROW_NUMBER() OVER (...) in a subquery, and the WHERE around it that limits it.
#include <arrow/type.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "sql/query.h"

namespace cairn::sql {
namespace {

// PostgreSQL's bits for "no frame clause": RANGE UNBOUNDED PRECEDING .. CURRENT ROW, not written.
constexpr int64_t kDefaultFrame = 1058;

constexpr int64_t kLimitMax = std::numeric_limits<int32_t>::max();

Result<int64_t> IntegerConstant(const SourceText& text, const Json& wrapper) {
  const Node node = NodeOf(wrapper);
  const Json* value = node.is("A_Const") ? Find(*node.body, "ival") : nullptr;
  if (value == nullptr) return text.Error(PlaceOf(wrapper, {}), "an integer was expected here");
  if (const Json* integer = Find(*value, "ival")) return integer->get<int64_t>();
  CAIRN_ASSIGN_OR_RETURN(const std::string digits, text.IntegerAt(PlaceOf(wrapper, {})));
  if (digits.size() > 18) return text.Error(PlaceOf(wrapper, {}), "the number is too large here");
  return std::stoll(digits);
}

bool IsIntegerConstant(const Json& wrapper) {
  const Node node = NodeOf(wrapper);
  return node.is("A_Const") && Find(*node.body, "ival") != nullptr;
}

/// What a condition says of the rank: at most `high`; `exact` = nothing else.
struct RankBound {
  int64_t high = 0;
  bool exact = true;
};

/// Read rank conditions: rn <= N and its kin, either way round, rn = N and rn BETWEEN M AND N.
class RankConditions {
 public:
  RankConditions(const SourceText& text, const Relation& relation)
      : text_(text), names_(text, relation.columns), rank_(relation.rank->column) {}

  Result<std::optional<RankBound>> Read(const Json& condition) const {
    const Node node = NodeOf(condition);
    if (!node.is("A_Expr")) return std::optional<RankBound>();
    const Json* left = Find(*node.body, "lexpr");
    const Json* right = Find(*node.body, "rexpr");
    if (left == nullptr || right == nullptr) return std::optional<RankBound>();
    const std::string kind = StringField(*node.body, "kind");
    if (kind == "AEXPR_BETWEEN" && IsRank(*left)) {
      const Json& bounds = ListField(*NodeOf(*right).body, "items");
      if (!IsIntegerConstant(bounds.at(0)) || !IsIntegerConstant(bounds.at(1))) {
        return std::optional<RankBound>();
      }
      CAIRN_ASSIGN_OR_RETURN(const int64_t low, IntegerConstant(text_, bounds.at(0)));
      CAIRN_ASSIGN_OR_RETURN(const int64_t high, IntegerConstant(text_, bounds.at(1)));
      return std::optional<RankBound>({high, low <= 1});
    }
    if (kind != "AEXPR_OP") return std::optional<RankBound>();
    std::string op = NamesOf(ListField(*node.body, "name")).back();
    if (IsRank(*right)) {
      std::swap(left, right);
      op[0] = op[0] == '<' ? '>' : op[0] == '>' ? '<' : op[0];
    }
    if (!IsRank(*left) || !IsIntegerConstant(*right)) return std::optional<RankBound>();
    CAIRN_ASSIGN_OR_RETURN(const int64_t number, IntegerConstant(text_, *right));
    if (op == "<=") return std::optional<RankBound>({number, true});
    if (op == "<") return std::optional<RankBound>({number - 1, true});
    if (op == "=") return std::optional<RankBound>({number, number == 1});
    return std::optional<RankBound>();
  }

 private:
  bool IsRank(const Json& wrapper) const {
    const Node node = NodeOf(wrapper);
    if (!node.is("ColumnRef")) return false;
    const auto found = names_.FindColumn(NamesOf(ListField(*node.body, "fields")), {});
    return found.ok() && *found == rank_;
  }

  const SourceText& text_;
  RelationResolver names_;
  size_t rank_;
};

// Refuse all but a plain ROW_NUMBER() over rows that only appear.
Status CheckWindow(const SourceText& text, const Json& call, Place place, bool updating) {
  const std::string function = NamesOf(ListField(call, "funcname")).back();
  if (function != "row_number") {
    return text.Error(place,
                      "the window function " + function + "() is not supported: use ROW_NUMBER()");
  }
  CAIRN_RETURN_IF_ERROR(RequireOnly(text, call, place, {"funcname", "over", "funcformat"}));
  if (updating) {
    return text.Error(place,
                      "ROW_NUMBER() over rows that are updated (those of GROUP BY or of another "
                      "Top-N) needs a retracting Top-N, which is not built yet");
  }
  const Json& over = call.at("over");
  const Place over_place = PlaceOf(over, place);
  CAIRN_RETURN_IF_ERROR(
      RequireOnly(text, over, over_place,
                  {"partitionClause", "orderClause", "frameOptions", "startOffset", "endOffset"}));
  const Json* frame = Find(over, "frameOptions");
  if (frame == nullptr || frame->get<int64_t>() == kDefaultFrame) return {};
  return text.Error(over_place, "a window frame is not supported: ROW_NUMBER() has none");
}

/// Give every expression that a ranking needs a column, sharing those of the SELECT list.
class ColumnAllocator {
 public:
  void Add(const std::string& name, const TypedExpression& value) {
    projections.push_back(value.expr);
    fields.push_back(arrow::field(name, value.type, value.nullable));
  }

  int ColumnOf(const std::string& name, const TypedExpression& value) {
    for (size_t i = 0; i < projections.size(); ++i) {
      if (projections[i].Equals(value.expr)) return static_cast<int>(i);
    }
    Add(name, value);
    return static_cast<int>(projections.size()) - 1;
  }

  std::vector<arrow::compute::Expression> projections;
  arrow::FieldVector fields;
};

// The column of a key of PARTITION BY or ORDER BY.
Result<int> KeyColumn(const Json& node, const std::string& clause, ExpressionCompiler* compiler,
                      ColumnAllocator* columns) {
  CAIRN_ASSIGN_OR_RETURN(TypedExpression key, compiler->Compile(node));
  CAIRN_ASSIGN_OR_RETURN(key, SettleColumn(compiler->builder(), std::move(key)));
  if (key.constant()) {
    return compiler->builder().text().Error(key.place, clause + " needs a column, not a constant");
  }
  return columns->ColumnOf(NameOf(node), key);
}

}  // namespace

void AddTopN(int64_t limit, Relation* relation) {
  PendingRank rank = *std::move(relation->rank);
  relation->rank.reset();
  stream::TopNNode node;
  node.partition = std::move(rank.partition);
  node.sort = std::move(rank.sort);
  node.limit = limit;
  node.emit_rank = true;
  RelationColumn& column = relation->columns[rank.column];
  arrow::FieldVector fields = relation->chain.output()->fields();
  column.index = static_cast<int>(fields.size());
  fields.push_back(arrow::field(column.name, column.type, column.nullable));
  node.output = arrow::schema(std::move(fields));
  relation->chain.nodes.emplace_back(std::move(node));
  relation->updating = true;
}

Status QueryCompiler::ApplyRank(const std::vector<const Json*>& conditions, Relation* relation,
                                std::vector<const Json*>* rest) {
  const RankConditions reader(text_, *relation);
  std::optional<int64_t> limit;
  Place limit_place;
  for (const Json* condition : conditions) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<RankBound> bound, reader.Read(*condition));
    if (bound.has_value() && (!limit.has_value() || bound->high < *limit)) {
      limit = bound->high;
      limit_place = PlaceOf(*condition, {});
    }
    if (!bound.has_value() || !bound->exact) rest->push_back(condition);
  }
  const std::string name = relation->columns[relation->rank->column].name;
  if (!limit.has_value()) {
    return text_.Error(relation->rank->place,
                       "ROW_NUMBER() needs a constant limit in the WHERE of the query around it: "
                       "WHERE " +
                           name + " <= 10");
  }
  if (*limit < 1 || *limit > kLimitMax) {
    return text_.Error(limit_place, "the limit of \"" + name + "\" must be from 1 to " +
                                        std::to_string(kLimitMax));
  }
  AddTopN(*limit, relation);
  return {};
}

Result<Relation> QueryCompiler::SelectRanked(Relation from, std::vector<Target> targets,
                                             const std::string& qualifier) {
  RelationResolver names(text_, from.columns);
  ExpressionCompiler compiler(text_, &names);
  ColumnAllocator columns;
  Relation out;
  PendingRank rank;
  const Json* call = nullptr;
  for (const Target& target : targets) {
    const Json* window = target.node != nullptr ? WindowCall(*target.node) : nullptr;
    if (window != nullptr) {
      if (call != nullptr) return text_.Error(target.place, "only one ROW_NUMBER() is supported");
      call = window;
      rank.place = target.place;
      rank.column = out.columns.size();
      out.columns.push_back({qualifier, target.name, arrow::int64(), false, -1});
      continue;
    }
    TypedExpression value;
    if (target.node != nullptr && from.updating) continue;  // refused below
    if (target.node != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(value, compiler.Compile(*target.node));
      CAIRN_ASSIGN_OR_RETURN(value, SettleColumn(compiler.builder(), std::move(value)));
    } else {
      const RelationColumn& column = from.columns[target.column];
      value = compiler.builder().Column(column.index, column.type, column.nullable, target.place);
    }
    out.columns.push_back({qualifier, target.name, value.type, value.nullable,
                           static_cast<int>(columns.projections.size())});
    columns.Add(target.name, value);
  }
  CAIRN_RETURN_IF_ERROR(CheckWindow(text_, *call, rank.place, from.updating));
  const Json& over = call->at("over");
  for (const Json& node : ListField(over, "partitionClause")) {
    CAIRN_ASSIGN_OR_RETURN(const int column, KeyColumn(node, "PARTITION BY", &compiler, &columns));
    rank.partition.push_back(column);
  }
  for (const Json& wrapper : ListField(over, "orderClause")) {
    const Json& sort = *NodeOf(wrapper).body;
    CAIRN_ASSIGN_OR_RETURN(const int column,
                           KeyColumn(sort.at("node"), "ORDER BY", &compiler, &columns));
    const std::string direction = StringField(sort, "sortby_dir");
    if (direction == "SORTBY_USING") {
      return text_.Error(PlaceOf(wrapper, rank.place), "ORDER BY ... USING is not supported");
    }
    // NULLs are last either way unless the query says otherwise, as in DuckDB: a Top-N by
    // "price DESC" is not to be filled with rows that have no price (docs/sql.md).
    rank.sort.push_back({column, direction == "SORTBY_DESC",
                         StringField(sort, "sortby_nulls") == "SORTBY_NULLS_FIRST"});
  }
  stream::CalcNode node;
  node.projections = std::move(columns.projections);
  node.output = arrow::schema(std::move(columns.fields));
  out.chain = std::move(from.chain);
  out.chain.AddCalc(std::move(node));
  out.rank = std::move(rank);
  return out;
}

}  // namespace cairn::sql
