// SPDX-License-Identifier: Apache-2.0
#include "sql/relation.h"

#include <arrow/type.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cairn::sql {
namespace {

// Edits between two names, for "did you mean".
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

std::string Suggestion(const std::string& name, const std::vector<RelationColumn>& columns) {
  const RelationColumn* best = nullptr;
  size_t best_distance = 3;
  for (const RelationColumn& column : columns) {
    if (column.name.size() > 64 || name.size() > 64) continue;
    const size_t distance = EditDistance(name, column.name);
    if (distance < best_distance && distance < name.size()) {
      best = &column;
      best_distance = distance;
    }
  }
  if (best != nullptr) return "; did you mean \"" + best->name + "\"?";
  std::string list;
  for (const RelationColumn& column : columns) {
    if (list.size() > 200) return list + ", ...";
    list += (list.empty() ? "; the columns are " : ", ") + column.name;
  }
  return list;
}

}  // namespace

bool RelationResolver::Has(const std::string& name) const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [&](const RelationColumn& column) { return column.name == name; });
}

Result<size_t> RelationResolver::FindColumn(const std::vector<std::string>& names,
                                            Place place) const {
  if (names.size() > 2 || names.empty()) {
    return text_.Error(place, "a column is written name or table.name");
  }
  if (names.back() == "*") return text_.Error(place, "* stands only in a SELECT list");
  const std::string& name = names.back();
  std::optional<size_t> found;
  bool qualifier_known = names.size() == 1;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (names.size() == 2 && columns_[i].qualifier != names.front()) continue;
    qualifier_known = true;
    if (columns_[i].name != name) continue;
    if (found.has_value()) {
      return text_.Error(place, "column \"" + name +
                                    "\" is ambiguous: give the columns of the "
                                    "subquery different names with AS");
    }
    found = i;
  }
  if (found.has_value()) return *found;
  if (!qualifier_known) {
    return text_.Error(
        place,
        "there is no table \"" + names.front() + "\" in FROM" +
            (columns_.empty() ? "" : "; it is called \"" + columns_.front().qualifier + "\""));
  }
  return text_.Error(place, "column \"" + name + "\" does not exist" + Suggestion(name, columns_));
}

Result<TypedExpression> RelationResolver::ResolveColumn(const std::vector<std::string>& names,
                                                        Place place) {
  CAIRN_ASSIGN_OR_RETURN(const size_t at, FindColumn(names, place));
  const RelationColumn& column = columns_[at];
  return ExpressionBuilder(text_).Column(column.index, column.type, column.nullable, place);
}

Result<TypedExpression> SettleColumn(const ExpressionBuilder& builder, TypedExpression value) {
  if (value.literal == LiteralKind::kNull) return builder.Null(arrow::utf8(), value.place);
  if (IsInterval(*value.type)) {
    return builder.text().Error(value.place,
                                "an INTERVAL cannot be a column: use extract(epoch FROM ...)");
  }
  if (value.type->id() == arrow::Type::DECIMAL256) {
    const DataTypePtr type = NarrowDecimal(DecimalShapeOf(*value.type));
    return builder.Coerce(std::move(value), type);
  }
  value.literal = LiteralKind::kNone;
  return value;
}

std::string NameOf(const Json& wrapper) {
  const Node node = NodeOf(wrapper);
  if (node.body == nullptr) return "?column?";
  const Json& body = *node.body;
  if (node.is("ColumnRef")) return NamesOf(ListField(body, "fields")).back();
  if (node.is("FuncCall")) return NamesOf(ListField(body, "funcname")).back();
  if (node.is("CoalesceExpr")) return "coalesce";
  if (node.is("MinMaxExpr")) return StringField(body, "op") == "IS_LEAST" ? "least" : "greatest";
  if (node.is("A_Expr") && StringField(body, "kind") == "AEXPR_NULLIF") return "nullif";
  if (node.is("CaseExpr")) {
    const Json* otherwise = Find(body, "defresult");
    const std::string name = otherwise != nullptr ? NameOf(*otherwise) : "?column?";
    return name == "?column?" ? "case" : name;
  }
  if (node.is("TypeCast")) {
    const Json* argument = Find(body, "arg");
    const std::string name = argument != nullptr ? NameOf(*argument) : "?column?";
    if (name != "?column?") return name;
    const Json* type = Find(body, "typeName");
    if (type != nullptr && !ListField(*type, "names").empty()) {
      return NamesOf(ListField(*type, "names")).back();
    }
  }
  return "?column?";
}

const Json* WindowCall(const Json& wrapper) {
  const Node node = NodeOf(wrapper);
  return node.is("FuncCall") && Find(*node.body, "over") != nullptr ? node.body : nullptr;
}

const Json* FindAggregate(const Json& wrapper) {
  if (!wrapper.is_structured()) return nullptr;
  const Node node = NodeOf(wrapper);
  if (node.is("SubLink")) return nullptr;
  if (node.is("FuncCall") && Find(*node.body, "over") == nullptr &&
      IsAggregateFunction(NamesOf(ListField(*node.body, "funcname")).back())) {
    return &wrapper;
  }
  for (const Json& inner : wrapper) {
    if (const Json* found = FindAggregate(inner)) return found;
  }
  return nullptr;
}

}  // namespace cairn::sql
