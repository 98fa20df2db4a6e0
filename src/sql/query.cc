// SPDX-License-Identifier: Apache-2.0
#include "sql/query.h"

#include <arrow/type.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cairn::sql {
namespace {

constexpr int kSubqueryDepthMax = 32;

std::string AliasOf(const Json& range, std::string name) {
  const Json* alias = Find(range, "alias");
  return alias != nullptr ? StringField(*alias, "aliasname") : std::move(name);
}

Status RefuseFromItem(const SourceText& text, const Node& node, Place place) {
  if (node.is("JoinExpr")) {
    return text.Error(text.FindKeyword("JOIN", place, {text.text().size()}),
                      "JOIN is not supported yet: a query reads one table");
  }
  if (node.is("RangeFunction")) {
    return text.Error(place, "table functions (TUMBLE, HOP, SESSION, ...) are not supported yet");
  }
  if (node.is("RangeTableSample")) return text.Error(place, "TABLESAMPLE is not supported");
  return text.Error(place, "this item is not supported in FROM");
}

}  // namespace

void SplitConjunction(const Json& node, std::vector<const Json*>* out) {
  const Node inner = NodeOf(node);
  if (inner.is("BoolExpr") && StringField(*inner.body, "boolop") == "AND_EXPR") {
    for (const Json& argument : ListField(*inner.body, "args")) SplitConjunction(argument, out);
  } else {
    out->push_back(&node);
  }
}

Result<Relation> QueryCompiler::CompileTable(const Json& range, Place place) {
  CAIRN_RETURN_IF_ERROR(
      RequireOnly(text_, range, place, {"relname", "inh", "relpersistence", "alias"}));
  if (!BoolField(range, "inh")) return text_.Error(place, "FROM ONLY is not supported");
  const std::string name = StringField(range, "relname");
  const auto found = catalog_.find(name);
  if (found == catalog_.end()) {
    std::string known;
    for (const auto& [table, definition] : catalog_) {
      known += (known.empty() ? "; the tables are " : ", ") + table;
    }
    return text_.Error(
        place, "table \"" + name + "\" does not exist" +
                   (known.empty() ? ": write a CREATE TABLE before this statement" : known));
  }
  const stream::TableDefinition& table = found->second;
  Relation relation;
  relation.chain.scan.table = table;
  relation.chain.scan.output = stream::SchemaOf(table);
  const std::string qualifier = AliasOf(range, name);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const stream::ColumnDefinition& column = table.columns[i];
    relation.columns.push_back(
        {qualifier, column.name, column.type, column.nullable, static_cast<int>(i)});
  }
  CAIRN_RETURN_IF_ERROR(RenameColumns(range, place, &relation));
  return relation;
}

Status QueryCompiler::RenameColumns(const Json& range, Place place, Relation* relation) const {
  const Json* alias = Find(range, "alias");
  if (alias == nullptr) return {};
  const std::vector<std::string> names = NamesOf(ListField(*alias, "colnames"));
  if (names.size() > relation->columns.size()) {
    return text_.Error(place, "the alias names " + std::to_string(names.size()) +
                                  " columns, but there are " +
                                  std::to_string(relation->columns.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) relation->columns[i].name = names[i];
  return {};
}

Result<Relation> QueryCompiler::CompileSubquery(const Json& range, Place place) {
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, range, place, {"subquery", "alias"}));
  const Node select = NodeOf(range.at("subquery"));
  if (!select.is("SelectStmt")) return text_.Error(place, "FROM needs a SELECT here");
  if (depth_ >= kSubqueryDepthMax) {
    return text_.Error(
        place, "subqueries nest deeper than " + std::to_string(kSubqueryDepthMax) + " levels");
  }
  ++depth_;
  auto relation = CompileSubquerySelect(*select.body, place, AliasOf(range, ""));
  --depth_;
  CAIRN_RETURN_IF_ERROR(relation.status());
  CAIRN_RETURN_IF_ERROR(RenameColumns(range, place, &*relation));
  return relation;
}

Result<Relation> QueryCompiler::CompileFrom(const Json& select, Place place) {
  const Json& items = ListField(select, "fromClause");
  if (items.empty()) return text_.Error(place, "FROM is missing: a query reads one table");
  if (items.size() > 1) {
    return text_.Error(PlaceOf(items[1], place),
                       "a second table in FROM is a join, and joins are not supported yet");
  }
  const Node item = NodeOf(items[0]);
  const Place item_place = PlaceOf(items[0], place);
  if (item.is("RangeVar")) return CompileTable(*item.body, item_place);
  if (item.is("RangeSubselect")) return CompileSubquery(*item.body, item_place);
  return RefuseFromItem(text_, item, item_place);
}

Status QueryCompiler::ApplyFilter(const std::vector<const Json*>& conditions,
                                  std::string_view where, Place place, NameResolver* names,
                                  Relation* relation) {
  if (conditions.empty()) return {};
  ExpressionCompiler compiler(text_, names);
  std::vector<TypedExpression> compiled;
  for (const Json* condition : conditions) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression one, compiler.CompileCondition(*condition, where));
    compiled.push_back(std::move(one));
  }
  CAIRN_ASSIGN_OR_RETURN(const TypedExpression filter,
                         compiler.builder().Combine(true, std::move(compiled), place));
  stream::CalcNode node;
  node.filter = filter.expr;
  node.output = relation->chain.output();
  relation->chain.AddCalc(std::move(node));
  return {};
}

Status QueryCompiler::ApplyWhere(const Json* where, Relation* relation) {
  std::vector<const Json*> conditions;
  if (where != nullptr) SplitConjunction(*where, &conditions);
  if (relation->rank.has_value()) {
    std::vector<const Json*> rest;
    CAIRN_RETURN_IF_ERROR(ApplyRank(conditions, relation, &rest));
    conditions = std::move(rest);
  }
  for (const Json* condition : conditions) {
    if (const Json* call = FindAggregate(*condition)) {
      return text_.Error(PlaceOf(*call, {}), "aggregates are not allowed in WHERE: use HAVING");
    }
  }
  RelationResolver names(text_, relation->columns);
  return ApplyFilter(conditions, "WHERE", where != nullptr ? PlaceOf(*where, {}) : Place{}, &names,
                     relation);
}

Result<std::vector<Target>> QueryCompiler::ExpandTargets(const Json& list,
                                                         const Relation& relation) {
  std::vector<Target> targets;
  for (const Json& wrapper : list) {
    const Json& body = *NodeOf(wrapper).body;
    const Place place = PlaceOf(wrapper, {});
    CAIRN_RETURN_IF_ERROR(RequireOnly(text_, body, place, {"name", "val"}));
    const Json& value = body.at("val");
    const Node node = NodeOf(value);
    const std::vector<std::string> names = node.is("ColumnRef")
                                               ? NamesOf(ListField(*node.body, "fields"))
                                               : std::vector<std::string>();
    if (names.empty() || names.back() != "*") {
      std::string name = StringField(body, "name");
      if (name.empty()) name = NameOf(value);
      targets.push_back({std::move(name), &value, 0, place});
      continue;
    }
    if (names.size() > 2) return text_.Error(place, "write * or table.*");
    bool any = false;
    for (size_t i = 0; i < relation.columns.size(); ++i) {
      if (names.size() == 2 && relation.columns[i].qualifier != names.front()) continue;
      targets.push_back({relation.columns[i].name, nullptr, i, place});
      any = true;
    }
    if (!any) return text_.Error(place, "there is no table \"" + names.front() + "\" in FROM");
  }
  return targets;
}

Result<Selection> QueryCompiler::SelectPlain(Relation from, std::vector<Target> targets) {
  Selection out;
  RelationResolver names(text_, from.columns);
  ExpressionCompiler compiler(text_, &names);
  for (const Target& target : targets) {
    if (target.node != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(TypedExpression value, compiler.Compile(*target.node));
      out.outputs.push_back(std::move(value));
    } else {
      const RelationColumn& column = from.columns[target.column];
      out.outputs.push_back(
          compiler.builder().Column(column.index, column.type, column.nullable, target.place));
    }
  }
  out.from = std::move(from);
  out.targets = std::move(targets);
  return out;
}

Result<Selection> QueryCompiler::Select(const Json& select, Place place) {
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, select, place,
                                    {"targetList", "fromClause", "whereClause", "groupClause",
                                     "havingClause", "distinctClause", "limitOption", "op"}));
  const Json& distinct = ListField(select, "distinctClause");
  if (!distinct.empty() && distinct[0].is_object() && !distinct[0].empty()) {
    return text_.Error(PlaceOf(distinct, place), "DISTINCT ON is not supported: use ROW_NUMBER()");
  }
  CAIRN_ASSIGN_OR_RETURN(Relation from, CompileFrom(select, place));
  CAIRN_RETURN_IF_ERROR(ApplyWhere(Find(select, "whereClause"), &from));
  CAIRN_ASSIGN_OR_RETURN(std::vector<Target> targets,
                         ExpandTargets(ListField(select, "targetList"), from));
  if (targets.empty()) return text_.Error(place, "the SELECT list is empty");
  for (const Target& target : targets) {
    if (target.node != nullptr && WindowCall(*target.node) != nullptr && depth_ == 0) {
      return text_.Error(target.place,
                         "ROW_NUMBER() stands in a subquery in FROM, limited around it: SELECT ... "
                         "FROM (SELECT *, ROW_NUMBER() OVER (...) AS rn FROM t) x WHERE rn <= 10");
    }
  }
  const bool grouped = Find(select, "groupClause") != nullptr ||
                       Find(select, "havingClause") != nullptr ||
                       FindAggregate(ListField(select, "targetList")) != nullptr;
  Result<Selection> selection =
      grouped ? SelectGrouped(select, std::move(from), std::move(targets), place)
              : SelectPlain(std::move(from), std::move(targets));
  if (selection.ok()) selection->distinct = !distinct.empty();
  return selection;
}

Result<Relation> QueryCompiler::Project(Selection selection, const std::string& qualifier) {
  const ExpressionBuilder builder(text_);
  Relation out;
  out.updating = selection.from.updating;
  out.chain = std::move(selection.from.chain);
  stream::CalcNode node;
  arrow::FieldVector fields;
  for (size_t i = 0; i < selection.outputs.size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression value,
                           SettleColumn(builder, std::move(selection.outputs[i])));
    const std::string& name = selection.targets[i].name;
    node.projections.push_back(value.expr);
    fields.push_back(arrow::field(name, value.type, value.nullable));
    out.columns.push_back({qualifier, name, value.type, value.nullable, static_cast<int>(i)});
  }
  node.output = arrow::schema(fields);
  out.chain.AddCalc(std::move(node));
  if (selection.distinct) {
    stream::GroupAggregateNode group;
    for (int i = 0; i < static_cast<int>(fields.size()); ++i) group.keys.push_back(i);
    group.output = arrow::schema(std::move(fields));
    out.chain.nodes.emplace_back(std::move(group));
  }
  return out;
}

Result<Relation> QueryCompiler::CompileSubquerySelect(const Json& select, Place place,
                                                      const std::string& qualifier) {
  const Json& list = ListField(select, "targetList");
  const bool ranked = std::any_of(list.begin(), list.end(), [](const Json& target) {
    const Node node = NodeOf(target);
    const Json* value = node.body != nullptr ? Find(*node.body, "val") : nullptr;
    return value != nullptr && WindowCall(*value) != nullptr;
  });
  if (!ranked) {
    CAIRN_ASSIGN_OR_RETURN(Selection selection, Select(select, place));
    return Project(std::move(selection), qualifier);
  }
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, select, place,
                                    {"targetList", "fromClause", "whereClause", "groupClause",
                                     "havingClause", "distinctClause", "limitOption", "op"}));
  if (!ListField(select, "distinctClause").empty()) {
    return text_.Error(place, "DISTINCT beside ROW_NUMBER() is not supported");
  }
  CAIRN_ASSIGN_OR_RETURN(Relation from, CompileFrom(select, place));
  CAIRN_RETURN_IF_ERROR(ApplyWhere(Find(select, "whereClause"), &from));
  CAIRN_ASSIGN_OR_RETURN(std::vector<Target> targets, ExpandTargets(list, from));
  if (Find(select, "groupClause") != nullptr || Find(select, "havingClause") != nullptr ||
      FindAggregate(list) != nullptr) {
    from.updating = true;  // refused below, at the place of ROW_NUMBER()
  }
  return SelectRanked(std::move(from), std::move(targets), qualifier);
}

}  // namespace cairn::sql
