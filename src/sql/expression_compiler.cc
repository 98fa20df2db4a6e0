// SPDX-License-Identifier: Apache-2.0
#include "sql/expression_compiler.h"

#include <arrow/compute/api_scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cairn::sql {
namespace {

constexpr int kDepthMax = 200;

// What is not supported, in the words of who wrote it.
std::string Refusal(std::string_view kind) {
  static constexpr std::pair<std::string_view, const char*> kRefusals[] = {
      {"SubLink", "a subquery in an expression is not supported: subqueries stand in FROM"},
      {"A_ArrayExpr", "ARRAY is not supported"},
      {"RowExpr", "a row of several values is not supported here"},
      {"ParamRef", "parameters ($1) are not supported"},
      {"CollateClause", "COLLATE is not supported: text is ordered by its bytes"},
      {"SQLValueFunction",
       "the current time and user are not supported: a restart would give other rows"},
      {"A_Indirection", "a subscript or field selection is not supported"},
      {"GroupingFunc", "GROUPING is not supported"},
      {"SetToDefault", "DEFAULT is not supported"},
      {"XmlExpr", "XML is not supported"},
      {"NamedArgExpr", "named arguments are not supported"},
  };
  for (const auto& [name, message] : kRefusals) {
    if (name == kind) return message;
  }
  return std::string(kind) + " is not supported";
}

std::optional<Comparison> ComparisonOf(std::string_view op) {
  static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
      {"=", Comparison::kEqual},   {"<>", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual}};
  for (const auto& [name, comparison] : kComparisons) {
    if (name == op) return comparison;
  }
  return std::nullopt;
}

}  // namespace

Result<TypedExpression> ExpressionCompiler::Compile(const Json& node) {
  if (depth_ >= kDepthMax) {
    return text_.Error(PlaceOf(node, {}), "the expression nests deeper than " +
                                              std::to_string(kDepthMax) + " levels here");
  }
  ++depth_;
  auto result = CompileNode(node);
  --depth_;
  return result;
}

Result<TypedExpression> ExpressionCompiler::CompileCondition(const Json& node,
                                                             std::string_view where) {
  CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(node));
  return builder_.Condition(std::move(value), where);
}

Result<TypedExpression> ExpressionCompiler::CompileNode(const Json& wrapper) {
  CAIRN_ASSIGN_OR_RETURN(std::optional<TypedExpression> taken, names_->ResolveNode(wrapper));
  if (taken.has_value()) return *std::move(taken);
  const Node node = NodeOf(wrapper);
  if (node.body == nullptr) return Status::Internal("an expression has no node");
  const Json& body = *node.body;
  const Place place = PlaceOf(wrapper, {});
  if (node.is("ColumnRef")) return names_->ResolveColumn(NamesOf(ListField(body, "fields")), place);
  if (node.is("A_Const")) return CompileConstant(body, place);
  if (node.is("A_Expr")) return CompileOperator(body, place);
  if (node.is("BoolExpr")) return CompileLogic(body, place);
  if (node.is("NullTest")) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(body.at("arg")));
    CAIRN_ASSIGN_OR_RETURN(TypedExpression test, builder_.IsNull(std::move(value), place));
    return StringField(body, "nulltesttype") == "IS_NOT_NULL" ? builder_.Not(std::move(test), place)
                                                              : std::move(test);
  }
  if (node.is("BooleanTest")) return CompileBooleanTest(body, place);
  if (node.is("CaseExpr")) return CompileCase(body, place);
  if (node.is("CoalesceExpr")) return CompileCoalesce(body, place);
  if (node.is("MinMaxExpr")) return CompileExtreme(body, place);
  if (node.is("TypeCast")) return CompileCast(body, place);
  if (node.is("FuncCall")) return CompileFunctionCall(body, place);
  return text_.Error(place, Refusal(node.kind));
}

Result<TypedExpression> ExpressionCompiler::CompileConstant(const Json& body, Place place) {
  if (BoolField(body, "isnull")) return builder_.Null(arrow::null(), place);
  if (const Json* value = Find(body, "ival")) {
    if (const Json* integer = Find(*value, "ival")) {
      return builder_.Number(std::to_string(integer->get<int64_t>()), place);
    }
    CAIRN_ASSIGN_OR_RETURN(std::string digits, text_.IntegerAt(place));
    return builder_.Number(std::move(digits), place);
  }
  if (const Json* value = Find(body, "fval")) {
    return builder_.Number(StringField(*value, "fval"), place);
  }
  if (const Json* value = Find(body, "boolval")) {
    return builder_.Boolean(BoolField(*value, "boolval"), place);
  }
  if (const Json* value = Find(body, "sval")) {
    return builder_.String(StringField(*value, "sval"), place);
  }
  return text_.Error(place, "bit strings are not supported");
}

Result<std::vector<TypedExpression>> ExpressionCompiler::CompileList(const Json& list) {
  std::vector<TypedExpression> out;
  out.reserve(list.size());
  for (const Json& member : list) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(member));
    out.push_back(std::move(value));
  }
  return out;
}

Result<TypedExpression> ExpressionCompiler::CompileOperator(const Json& body, Place place) {
  const std::string kind = StringField(body, "kind");
  const std::vector<std::string> names = NamesOf(ListField(body, "name"));
  if (names.size() != 1) return text_.Error(place, "OPERATOR(schema.op) is not supported");
  const std::string& op = names.front();
  if (kind == "AEXPR_OP") return CompileBinary(op, body, place);
  if (kind == "AEXPR_IN") return CompileIn(body, op == "<>", place);
  if (kind == "AEXPR_LIKE") return CompileLike(body, false, place);
  if (kind == "AEXPR_ILIKE") return CompileLike(body, true, place);
  if (kind == "AEXPR_NULLIF") return CompileNullIf(body, place);
  if (kind.starts_with("AEXPR_BETWEEN") || kind.starts_with("AEXPR_NOT_BETWEEN")) {
    return CompileBetween(body, kind.starts_with("AEXPR_NOT"), kind.ends_with("_SYM"), place);
  }
  if (kind == "AEXPR_DISTINCT" || kind == "AEXPR_NOT_DISTINCT") {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression left, Compile(body.at("lexpr")));
    CAIRN_ASSIGN_OR_RETURN(TypedExpression right, Compile(body.at("rexpr")));
    return builder_.Distinct(kind == "AEXPR_DISTINCT", std::move(left), std::move(right), place);
  }
  if (kind == "AEXPR_SIMILAR") return text_.Error(place, "SIMILAR TO is not supported: use LIKE");
  return text_.Error(place, op + " ANY (...) and " + op + " ALL (...) are not supported: use IN");
}

Result<TypedExpression> ExpressionCompiler::CompileBinary(const std::string& op, const Json& body,
                                                          Place place) {
  const Json* left_node = Find(body, "lexpr");
  const Json* right_node = Find(body, "rexpr");
  if (right_node == nullptr) return text_.Error(place, "operator " + op + " needs a right side");
  if (left_node == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(*right_node));
    if (op == "-") return builder_.Negate(std::move(value), place);
    if (op == "+" && IsNumeric(*value.type)) return value;
    return text_.Error(place, "operator " + op + " is not supported");
  }
  CAIRN_ASSIGN_OR_RETURN(TypedExpression left, Compile(*left_node));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression right, Compile(*right_node));
  if (op.size() == 1 && std::string_view("+-*/%").find(op[0]) != std::string_view::npos) {
    return builder_.Arithmetic(op[0], std::move(left), std::move(right), place);
  }
  if (const auto comparison = ComparisonOf(op)) {
    return builder_.Compare(*comparison, std::move(left), std::move(right), place);
  }
  if (op == "||") {
    if (!IsText(*left.type) && !IsText(*right.type)) {
      return text_.Error(place, "|| joins TEXT, not " + SqlTypeName(*left.type) + " and " +
                                    SqlTypeName(*right.type));
    }
    std::vector<TypedExpression> sides;
    sides.push_back(std::move(left));
    sides.push_back(std::move(right));
    return CompileFunction(builder_, "||", std::move(sides), place);
  }
  if (op == "^") {
    std::vector<TypedExpression> sides;
    sides.push_back(std::move(left));
    sides.push_back(std::move(right));
    return CompileFunction(builder_, "power", std::move(sides), place);
  }
  return text_.Error(place, "operator " + op + " is not supported");
}

Result<TypedExpression> ExpressionCompiler::CompileIn(const Json& body, bool negated, Place place) {
  const Node list = NodeOf(body.at("rexpr"));
  if (!list.is("List")) return text_.Error(place, "IN needs a list of values");
  CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(body.at("lexpr")));
  CAIRN_ASSIGN_OR_RETURN(std::vector<TypedExpression> members,
                         CompileList(ListField(*list.body, "items")));
  members.push_back(value);
  CAIRN_ASSIGN_OR_RETURN(const DataTypePtr type,
                         builder_.CommonTypeOf(members, "IN", place, /*wide=*/true));
  members.pop_back();
  bool constant = true;
  for (TypedExpression& member : members) {
    CAIRN_ASSIGN_OR_RETURN(member, builder_.Coerce(std::move(member), type));
    constant &= member.constant();
  }
  CAIRN_ASSIGN_OR_RETURN(value, builder_.Coerce(std::move(value), type));
  TypedExpression result;
  if (constant) {
    CAIRN_ASSIGN_OR_RETURN(result, builder_.InConstants(std::move(value), members, place));
  } else {
    std::vector<TypedExpression> equal;
    for (TypedExpression& member : members) {
      CAIRN_ASSIGN_OR_RETURN(TypedExpression one,
                             builder_.Compare(Comparison::kEqual, value, std::move(member), place));
      equal.push_back(std::move(one));
    }
    CAIRN_ASSIGN_OR_RETURN(result, builder_.Combine(false, std::move(equal), place));
  }
  return negated ? builder_.Not(std::move(result), place) : std::move(result);
}

Result<TypedExpression> ExpressionCompiler::CompileBetween(const Json& body, bool negated,
                                                           bool symmetric, Place place) {
  const Node list = NodeOf(body.at("rexpr"));
  const Json& bounds = ListField(*list.body, "items");
  CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(body.at("lexpr")));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression low, Compile(bounds.at(0)));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression high, Compile(bounds.at(1)));
  const auto between = [&](const TypedExpression& from,
                           const TypedExpression& to) -> Result<TypedExpression> {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression above,
                           builder_.Compare(Comparison::kGreaterEqual, value, from, place));
    CAIRN_ASSIGN_OR_RETURN(TypedExpression below,
                           builder_.Compare(Comparison::kLessEqual, value, to, place));
    return builder_.Combine(true, {std::move(above), std::move(below)}, place);
  };
  CAIRN_ASSIGN_OR_RETURN(TypedExpression result, between(low, high));
  if (symmetric) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression swapped, between(high, low));
    CAIRN_ASSIGN_OR_RETURN(result,
                           builder_.Combine(false, {std::move(result), std::move(swapped)}, place));
  }
  return negated ? builder_.Not(std::move(result), place) : std::move(result);
}

Result<TypedExpression> ExpressionCompiler::CompileLike(const Json& body, bool ignore_case,
                                                        Place place) {
  CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(body.at("lexpr")));
  const bool negated = NamesOf(ListField(body, "name")).front().starts_with('!');
  const Json* pattern_node = &body.at("rexpr");
  std::string escape = "\\";
  const Node call = NodeOf(*pattern_node);
  if (call.is("FuncCall") && NamesOf(ListField(*call.body, "funcname")).back() == "like_escape") {
    const Json& arguments = ListField(*call.body, "args");
    CAIRN_ASSIGN_OR_RETURN(const TypedExpression character, Compile(arguments.at(1)));
    if (character.literal != LiteralKind::kString) {
      return text_.Error(PlaceOf(arguments.at(1), place), "ESCAPE needs a constant string");
    }
    escape = character.literal_text;
    pattern_node = &arguments.at(0);
  }
  CAIRN_ASSIGN_OR_RETURN(const TypedExpression pattern, Compile(*pattern_node));
  const Place pattern_place = PlaceOf(*pattern_node, place);
  if (pattern.literal == LiteralKind::kNull) return builder_.Null(arrow::boolean(), place);
  if (pattern.literal != LiteralKind::kString) {
    return text_.Error(pattern_place, "LIKE needs a constant string as its pattern");
  }
  CAIRN_ASSIGN_OR_RETURN(TypedExpression result,
                         CompileLikePattern(builder_, std::move(value), pattern.literal_text,
                                            escape, ignore_case, pattern_place));
  return negated ? builder_.Not(std::move(result), place) : std::move(result);
}

Result<TypedExpression> ExpressionCompiler::CompileNullIf(const Json& body, Place place) {
  CAIRN_ASSIGN_OR_RETURN(TypedExpression left, Compile(body.at("lexpr")));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression right, Compile(body.at("rexpr")));
  if (left.literal == LiteralKind::kString) {
    CAIRN_ASSIGN_OR_RETURN(left, builder_.Coerce(std::move(left), arrow::utf8()));
  }
  CAIRN_ASSIGN_OR_RETURN(TypedExpression same,
                         builder_.Compare(Comparison::kEqual, left, std::move(right), place));
  TypedExpression null = builder_.Null(left.type, place);
  left.literal = LiteralKind::kNone;
  return builder_.IfElse(std::move(same), std::move(null), std::move(left), place);
}

Result<TypedExpression> ExpressionCompiler::CompileLogic(const Json& body, Place place) {
  const std::string op = StringField(body, "boolop");
  const std::string where = op == "AND_EXPR" ? "AND" : op == "OR_EXPR" ? "OR" : "NOT";
  std::vector<TypedExpression> conditions;
  for (const Json& argument : ListField(body, "args")) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression condition,
                           CompileCondition(argument, "an operand of " + where));
    conditions.push_back(std::move(condition));
  }
  if (conditions.empty()) return Status::Internal(where + " has no operand");
  if (where == "NOT") return builder_.Not(std::move(conditions.front()), place);
  return builder_.Combine(where == "AND", std::move(conditions), place);
}

Result<TypedExpression> ExpressionCompiler::CompileBooleanTest(const Json& body, Place place) {
  const std::string test = StringField(body, "booltesttype");
  CAIRN_ASSIGN_OR_RETURN(TypedExpression value,
                         CompileCondition(body.at("arg"), "the operand of IS TRUE"));
  const bool negated = test.starts_with("IS_NOT_");
  TypedExpression result;
  if (test.ends_with("UNKNOWN")) {
    CAIRN_ASSIGN_OR_RETURN(result, builder_.IsNull(std::move(value), place));
  } else if (test.ends_with("TRUE")) {
    CAIRN_ASSIGN_OR_RETURN(result, builder_.NullAs(false, std::move(value), place));
  } else {
    CAIRN_ASSIGN_OR_RETURN(value, builder_.NullAs(true, std::move(value), place));
    CAIRN_ASSIGN_OR_RETURN(result, builder_.Not(std::move(value), place));
  }
  return negated ? builder_.Not(std::move(result), place) : std::move(result);
}

Result<TypedExpression> ExpressionCompiler::CompileInBranch(const Json& node) {
  builder_.EnterBranch();
  auto value = Compile(node);
  builder_.LeaveBranch();
  return value;
}

Result<TypedExpression> ExpressionCompiler::CoerceInBranch(TypedExpression value,
                                                           const DataTypePtr& type) {
  builder_.EnterBranch();
  auto coerced = builder_.Coerce(std::move(value), type);
  builder_.LeaveBranch();
  return coerced;
}

Result<TypedExpression> ExpressionCompiler::CompileCase(const Json& body, Place place) {
  std::vector<TypedExpression> conditions;
  std::vector<TypedExpression> results;
  std::optional<TypedExpression> subject;
  if (const Json* argument = Find(body, "arg")) {
    CAIRN_ASSIGN_OR_RETURN(subject, Compile(*argument));
  }
  for (const Json& wrapper : ListField(body, "args")) {
    const Json& when = *NodeOf(wrapper).body;
    CAIRN_ASSIGN_OR_RETURN(TypedExpression condition, CompileInBranch(when.at("expr")));
    const Place at = PlaceOf(when.at("expr"), place);
    if (subject.has_value()) {
      CAIRN_ASSIGN_OR_RETURN(
          condition, builder_.Compare(Comparison::kEqual, *subject, std::move(condition), at));
    } else {
      CAIRN_ASSIGN_OR_RETURN(condition, builder_.Condition(std::move(condition), "WHEN"));
    }
    conditions.push_back(std::move(condition));
    CAIRN_ASSIGN_OR_RETURN(TypedExpression result, CompileInBranch(when.at("result")));
    results.push_back(std::move(result));
  }
  if (const Json* otherwise = Find(body, "defresult")) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression result, CompileInBranch(*otherwise));
    results.push_back(std::move(result));
  } else {
    results.push_back(builder_.Null(arrow::null(), place));
  }
  CAIRN_ASSIGN_OR_RETURN(const DataTypePtr type,
                         builder_.CommonTypeOf(results, "CASE", place, /*wide=*/false));
  for (TypedExpression& result : results) {
    CAIRN_ASSIGN_OR_RETURN(result, CoerceInBranch(std::move(result), type));
  }
  TypedExpression out = std::move(results.back());
  for (size_t i = conditions.size(); i-- > 0;) {
    CAIRN_ASSIGN_OR_RETURN(out, builder_.IfElse(std::move(conditions[i]), std::move(results[i]),
                                                std::move(out), place));
  }
  return out;
}

Result<TypedExpression> ExpressionCompiler::CompileCoalesce(const Json& body, Place place) {
  std::vector<TypedExpression> values;
  for (const Json& argument : ListField(body, "args")) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression value, CompileInBranch(argument));
    values.push_back(std::move(value));
  }
  CAIRN_ASSIGN_OR_RETURN(const DataTypePtr type,
                         builder_.CommonTypeOf(values, "COALESCE", place, /*wide=*/false));
  bool nullable = true;
  bool fallible = false;  // some value but the first
  for (size_t i = 0; i < values.size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(values[i], CoerceInBranch(std::move(values[i]), type));
    nullable &= values[i].nullable;
    fallible |= i > 0 && values[i].fallible;
  }
  if (!fallible) {
    return builder_.Call("coalesce", std::move(values), type, place, {.nullable = nullable});
  }
  TypedExpression out = std::move(values.back());
  for (size_t i = values.size() - 1; i-- > 0;) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression null, builder_.IsNull(values[i], place));
    CAIRN_ASSIGN_OR_RETURN(
        out, builder_.IfElse(std::move(null), std::move(out), std::move(values[i]), place));
    out.nullable = nullable;
  }
  return out;
}

Result<TypedExpression> ExpressionCompiler::CompileExtreme(const Json& body, Place place) {
  const bool greatest = StringField(body, "op") != "IS_LEAST";
  CAIRN_ASSIGN_OR_RETURN(std::vector<TypedExpression> values, CompileList(ListField(body, "args")));
  CAIRN_ASSIGN_OR_RETURN(
      const DataTypePtr type,
      builder_.CommonTypeOf(values, greatest ? "GREATEST" : "LEAST", place, /*wide=*/false));
  bool nullable = true;
  for (TypedExpression& value : values) {
    nullable &= value.nullable;
    CAIRN_ASSIGN_OR_RETURN(value, builder_.Coerce(std::move(value), type));
  }
  return builder_.Call(
      greatest ? "max_element_wise" : "min_element_wise", std::move(values), type, place,
      {.nullable = nullable,
       .options = std::make_shared<arrow::compute::ElementWiseAggregateOptions>(true)});
}

Result<TypedExpression> ExpressionCompiler::CompileCast(const Json& body, Place place) {
  const Json& type_name = body.at("typeName");
  if (IsIntervalTypeName(type_name)) {
    CAIRN_ASSIGN_OR_RETURN(const TypedExpression value, Compile(body.at("arg")));
    CAIRN_ASSIGN_OR_RETURN(const int64_t mask, IntervalFieldMask(text_, type_name));
    if (value.literal != LiteralKind::kString) {
      return text_.Error(place, "only a constant can be an INTERVAL: write INTERVAL '1 day'");
    }
    return builder_.Interval(value.literal_text, mask, value.place);
  }
  CAIRN_ASSIGN_OR_RETURN(const DataTypePtr type, TypeFromTree(text_, type_name, place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression value, Compile(body.at("arg")));
  return builder_.Cast(std::move(value), type, place);
}

Result<TypedExpression> ExpressionCompiler::CompileFunctionCall(const Json& body, Place place) {
  std::vector<std::string> names = NamesOf(ListField(body, "funcname"));
  if (names.size() == 2 && names[0] == "pg_catalog") names.erase(names.begin());
  if (names.size() != 1) return text_.Error(place, "a schema name is not supported here");
  const std::string& name = names.front();
  if (const Json* over = Find(body, "over")) {
    return text_.Error(PlaceOf(*over, place),
                       "a window function stands only as ROW_NUMBER() OVER (...) AS rn in the "
                       "SELECT list of a subquery in FROM");
  }
  if (IsAggregateFunction(name)) {
    return text_.Error(place, "the aggregate " + name + "() is not allowed here");
  }
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, body, place, {"funcname", "args", "funcformat"}));
  CAIRN_ASSIGN_OR_RETURN(std::vector<TypedExpression> arguments,
                         CompileList(ListField(body, "args")));
  return CompileFunction(builder_, name, std::move(arguments), place);
}

}  // namespace cairn::sql
