// SPDX-License-Identifier: Apache-2.0
#include "sql/expression_builder.h"

#include <arrow/array/builder_base.h>
#include <arrow/compute/api_scalar.h>
#include <arrow/compute/exec.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace cairn::sql {
namespace {

namespace compute = arrow::compute;

// COALESCE and IN repeat their operands; nested they could grow without bound.
constexpr int kExpressionSizeMax = 20'000;

// Arrow walks expressions recursively; a task's stack must hold the deepest.
constexpr int kExpressionDepthMax = 1000;

TypedExpression Constant(std::shared_ptr<arrow::Scalar> scalar, Place place) {
  TypedExpression out;
  out.type = scalar->type;
  out.nullable = !scalar->is_valid;
  out.expr = compute::literal(arrow::Datum(std::move(scalar)));
  out.place = place;
  return out;
}

// Evaluate a call on constants.
arrow::Result<std::shared_ptr<arrow::Scalar>> Evaluate(const compute::Expression& call) {
  ARROW_ASSIGN_OR_RAISE(compute::Expression bound, call.Bind(arrow::Schema({})));
  ARROW_ASSIGN_OR_RAISE(arrow::Datum result,
                        compute::ExecuteScalarExpression(bound, compute::ExecBatch({}, 1)));
  if (result.is_scalar()) return result.scalar();
  return result.make_array()->GetScalar(0);
}

// Whether an integer literal's value is one of INTEGER.
bool FitsInt32(const TypedExpression& value) {
  if (value.type->id() != arrow::Type::INT64) return false;
  const int64_t number =
      static_cast<const arrow::Int64Scalar&>(*value.expr.literal()->scalar()).value;
  return number >= INT32_MIN && number <= INT32_MAX;
}

// The smallest type of a numeric literal, beside values of other types.
DataTypePtr LiteralType(const TypedExpression& value) {
  if (!IsInteger(*value.type)) return value.type;
  const auto digits = std::count_if(value.literal_text.begin(), value.literal_text.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
  return arrow::decimal128(static_cast<int32_t>(std::clamp<int64_t>(digits, 1, 38)), 0);
}

}  // namespace

TypedExpression ExpressionBuilder::Column(int index, DataTypePtr type, bool nullable,
                                          Place place) const {
  TypedExpression out;
  out.expr = compute::field_ref(arrow::FieldRef(index));
  out.type = std::move(type);
  out.nullable = nullable;
  out.place = place;
  return out;
}

Result<TypedExpression> ExpressionBuilder::Number(std::string literal, Place place) const {
  TypedExpression out;
  const size_t sign = literal.starts_with('-') ? 1 : 0;
  const size_t point = literal.find('.');
  if (literal.find_first_of("eE") != std::string::npos) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(literal.data(), literal.data() + literal.size(), value);
    if (error != std::errc() || !std::isfinite(value)) {
      return text_.Error(place, "the number " + literal + " is out of the range of DOUBLE");
    }
    out = Constant(std::make_shared<arrow::DoubleScalar>(value), place);
  } else {
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(literal.data(), literal.data() + literal.size(), value);
    if (point == std::string::npos && error == std::errc()) {
      out = Constant(std::make_shared<arrow::Int64Scalar>(value), place);
    } else {
      size_t first = literal.find_first_not_of('0', sign);
      first = std::min(first, point == std::string::npos ? literal.size() : point);
      const size_t whole = (point == std::string::npos ? literal.size() : point) - first;
      const size_t scale = point == std::string::npos ? 0 : literal.size() - point - 1;
      const size_t precision = std::max<size_t>(whole + scale, 1);
      arrow::Decimal128 decimal;
      int32_t parsed_precision = 0;
      int32_t parsed_scale = 0;
      if (precision > 38 ||
          !arrow::Decimal128::FromString(literal, &decimal, &parsed_precision, &parsed_scale)
               .ok()) {
        return text_.Error(place, "the number " + literal + " has more than 38 digits");
      }
      out = Constant(std::make_shared<arrow::Decimal128Scalar>(
                         decimal, arrow::decimal128(static_cast<int32_t>(precision),
                                                    static_cast<int32_t>(scale))),
                     place);
    }
  }
  out.literal = LiteralKind::kNumber;
  out.literal_text = std::move(literal);
  return out;
}

TypedExpression ExpressionBuilder::String(std::string value, Place place) const {
  TypedExpression out = Constant(std::make_shared<arrow::StringScalar>(value), place);
  out.literal = LiteralKind::kString;
  out.literal_text = std::move(value);
  return out;
}

TypedExpression ExpressionBuilder::Boolean(bool value, Place place) const {
  return Constant(std::make_shared<arrow::BooleanScalar>(value), place);
}

TypedExpression ExpressionBuilder::Integer(int64_t value, Place place) const {
  return Constant(std::make_shared<arrow::Int64Scalar>(value), place);
}

TypedExpression ExpressionBuilder::Null(DataTypePtr type, Place place) const {
  TypedExpression out = Constant(arrow::MakeNullScalar(std::move(type)), place);
  if (sql::IsNull(*out.type)) out.literal = LiteralKind::kNull;
  return out;
}

// Find a wrong type, or options that do not suit, where they are written and not when the plan is
// bound.
Status ExpressionBuilder::CheckCall(const std::string& function,
                                    std::span<const TypedExpression> arguments,
                                    const CallTraits& traits, const TypedExpression& result) const {
  if (result.size > kExpressionSizeMax || result.depth > kExpressionDepthMax) {
    return text_.Error(result.place,
                       "the expression is too large: compute its parts in a subquery in FROM");
  }
  arrow::FieldVector fields;
  std::vector<compute::Expression> columns;
  for (const TypedExpression& argument : arguments) {
    columns.push_back(argument.constant()
                          ? argument.expr
                          : compute::field_ref(arrow::FieldRef(static_cast<int>(fields.size()))));
    fields.push_back(arrow::field("", argument.type));
  }
  auto bound = compute::call(function, std::move(columns), traits.options)
                   .Bind(arrow::Schema(std::move(fields)));
  if (!bound.ok()) return text_.Error(result.place, bound.status().message());
  if (bound->type()->Equals(*result.type)) return {};
  return Status::Internal(function + " gives " + bound->type()->ToString() + " where " +
                          result.type->ToString() + " was expected");
}

Result<TypedExpression> ExpressionBuilder::Call(const std::string& function,
                                                std::vector<TypedExpression> arguments,
                                                DataTypePtr type, Place place,
                                                CallTraits traits) const {
  TypedExpression out;
  out.type = std::move(type);
  out.place = place;
  out.fallible = traits.fallible;
  bool any_nullable = false;
  bool all_constant = true;
  const auto make = [&] {
    std::vector<compute::Expression> exprs;
    exprs.reserve(arguments.size());
    for (const TypedExpression& argument : arguments) exprs.push_back(argument.expr);
    return compute::call(function, std::move(exprs), traits.options);
  };
  for (const TypedExpression& argument : arguments) {
    any_nullable |= argument.nullable;
    all_constant &= argument.constant();
    out.size += argument.size;
    out.depth = std::max(out.depth, argument.depth + 1);
    out.fallible |= argument.fallible;
  }
  out.nullable = traits.nullable.value_or(any_nullable);

  if (all_constant) {
    auto value = Evaluate(make());
    if (value.ok()) {
      if (!(*value)->type->Equals(*out.type)) {
        return Status::Internal(function + " gave " + (*value)->type->ToString() + " where " +
                                out.type->ToString() + " was expected");
      }
      return Constant(*std::move(value), place);
    }
    if (branches_ == 0) return text_.Error(place, value.status().message());
    out.fallible = true;
  }
  CAIRN_RETURN_IF_ERROR(CheckCall(function, arguments, traits, out));
  out.expr = make();
  return out;
}

Result<DataTypePtr> ExpressionBuilder::CommonTypeOf(std::span<const TypedExpression> values,
                                                    std::string_view where, Place place,
                                                    bool wide) const {
  DataTypePtr common;
  const auto add = [&](const DataTypePtr& type) -> Status {
    DataTypePtr joined = common == nullptr ? type : CommonType(common, type, wide);
    if (joined == nullptr) {
      return text_.Error(place, SqlTypeName(*common) + " and " + SqlTypeName(*type) +
                                    " do not fit together in " + std::string(where) +
                                    ": write a CAST");
    }
    common = std::move(joined);
    return {};
  };
  bool open_string = false;
  for (const TypedExpression& value : values) {
    if (value.literal == LiteralKind::kNone) CAIRN_RETURN_IF_ERROR(add(value.type));
    open_string |= value.literal == LiteralKind::kString;
  }
  for (const TypedExpression& value : values) {
    if (value.literal != LiteralKind::kNumber) continue;
    if (common != nullptr && IsInteger(*common) && IsInteger(*value.type)) {
      if (!FitsInt32(value)) CAIRN_RETURN_IF_ERROR(add(value.type));
    } else {
      CAIRN_RETURN_IF_ERROR(add(common != nullptr && IsNumeric(*common) && !IsInteger(*common)
                                    ? LiteralType(value)
                                    : value.type));
    }
  }
  if (common == nullptr || sql::IsNull(*common)) {
    // Only NULLs and untyped strings: TEXT, as in PostgreSQL.
    common = arrow::utf8();
  } else if (open_string && IsDecimal(*common)) {
    common = NarrowDecimal(DecimalShapeOf(*common));
  }
  return common;
}

Result<TypedExpression> ExpressionBuilder::Coerce(TypedExpression value,
                                                  const DataTypePtr& type) const {
  if (value.type->Equals(*type)) {
    value.literal = LiteralKind::kNone;
    return value;
  }
  const Place place = value.place;
  return Cast(std::move(value), type, place);
}

Result<TypedExpression> ExpressionBuilder::Compare(Comparison comparison, TypedExpression left,
                                                   TypedExpression right, Place place) const {
  static constexpr std::pair<const char*, const char*> kFunctions[] = {
      {"equal", "="},       {"not_equal", "<>"}, {"less", "<"},
      {"less_equal", "<="}, {"greater", ">"},    {"greater_equal", ">="}};
  const auto [function, symbol] = kFunctions[static_cast<size_t>(comparison)];
  std::vector<TypedExpression> sides;
  sides.push_back(std::move(left));
  sides.push_back(std::move(right));
  CAIRN_ASSIGN_OR_RETURN(const DataTypePtr common,
                         CommonTypeOf(sides, std::string("a comparison with ") + symbol, place,
                                      /*wide=*/true));
  for (TypedExpression& side : sides) {
    CAIRN_ASSIGN_OR_RETURN(side, Coerce(std::move(side), common));
  }
  return Call(function, std::move(sides), arrow::boolean(), place);
}

Result<TypedExpression> ExpressionBuilder::Distinct(bool distinct, TypedExpression left,
                                                    TypedExpression right, Place place) const {
  // Where a side is NULL the comparison is NULL, and only whether both are decides.
  CAIRN_ASSIGN_OR_RETURN(TypedExpression left_null, IsNull(left, place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression right_null, IsNull(right, place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression differs,
                         Compare(Comparison::kNotEqual, std::move(left), std::move(right), place));
  CAIRN_ASSIGN_OR_RETURN(
      TypedExpression one_null,
      Call("xor", {std::move(left_null), std::move(right_null)}, arrow::boolean(), place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression result,
                         Call("coalesce", {std::move(differs), std::move(one_null)},
                              arrow::boolean(), place, {.nullable = false}));
  return distinct ? Result<TypedExpression>(std::move(result)) : Not(std::move(result), place);
}

Result<TypedExpression> ExpressionBuilder::Combine(bool conjunction,
                                                   std::vector<TypedExpression> conditions,
                                                   Place place) const {
  // A constant that cannot decide is left out.
  std::erase_if(conditions, [&](const TypedExpression& condition) {
    return conditions.size() > 1 && condition.constant() && !condition.nullable &&
           static_cast<const arrow::BooleanScalar&>(*condition.expr.literal()->scalar()).value ==
               conjunction;
  });
  if (conditions.empty()) return Boolean(conjunction, place);
  // Pairwise, so that a long chain makes a shallow tree.
  while (conditions.size() > 1) {
    std::vector<TypedExpression> joined;
    for (size_t i = 0; i + 1 < conditions.size(); i += 2) {
      CAIRN_ASSIGN_OR_RETURN(
          TypedExpression pair,
          Call(conjunction ? "and_kleene" : "or_kleene",
               {std::move(conditions[i]), std::move(conditions[i + 1])}, arrow::boolean(), place));
      joined.push_back(std::move(pair));
    }
    if (conditions.size() % 2 == 1) joined.push_back(std::move(conditions.back()));
    conditions = std::move(joined);
  }
  return std::move(conditions.front());
}

Result<TypedExpression> ExpressionBuilder::Not(TypedExpression condition, Place place) const {
  return Call("invert", {std::move(condition)}, arrow::boolean(), place);
}

Result<TypedExpression> ExpressionBuilder::IsNull(TypedExpression value, Place place) const {
  if (!value.nullable) return Boolean(false, place);
  return Call("is_null", {std::move(value)}, arrow::boolean(), place,
              {.nullable = false, .options = std::make_shared<compute::NullOptions>(false)});
}

Result<TypedExpression> ExpressionBuilder::NullAs(bool value_for_null, TypedExpression condition,
                                                  Place place) const {
  if (!condition.nullable) return condition;
  return Call("coalesce", {std::move(condition), Boolean(value_for_null, place)}, arrow::boolean(),
              place, {.nullable = false});
}

Result<TypedExpression> ExpressionBuilder::IfElse(TypedExpression condition, TypedExpression then,
                                                  TypedExpression otherwise, Place place) const {
  CAIRN_ASSIGN_OR_RETURN(condition, NullAs(false, std::move(condition), place));
  const DataTypePtr type = then.type;
  const bool nullable = then.nullable || otherwise.nullable;
  return Call("if_else", {std::move(condition), std::move(then), std::move(otherwise)}, type, place,
              {.nullable = nullable});
}

Result<TypedExpression> ExpressionBuilder::InConstants(TypedExpression value,
                                                       std::span<const TypedExpression> constants,
                                                       Place place) const {
  if (value.type->id() == arrow::Type::DECIMAL256) {
    std::vector<TypedExpression> equal;
    for (const TypedExpression& constant : constants) {
      CAIRN_ASSIGN_OR_RETURN(TypedExpression one,
                             Compare(Comparison::kEqual, value, constant, place));
      equal.push_back(std::move(one));
    }
    return Combine(false, std::move(equal), place);
  }
  auto built = [&]() -> arrow::Result<std::shared_ptr<arrow::Array>> {
    ARROW_ASSIGN_OR_RAISE(auto builder, arrow::MakeBuilder(value.type));
    for (const TypedExpression& constant : constants) {
      ARROW_RETURN_NOT_OK(builder->AppendScalar(*constant.expr.literal()->scalar()));
    }
    return builder->Finish();
  }();
  if (!built.ok()) return text_.Error(place, built.status().message());
  CallTraits traits;
  traits.options = std::make_shared<compute::SetLookupOptions>(
      arrow::Datum(*std::move(built)), compute::SetLookupOptions::INCONCLUSIVE);
  traits.nullable = true;
  return Call("is_in", {std::move(value)}, arrow::boolean(), place, std::move(traits));
}

Result<TypedExpression> ExpressionBuilder::Condition(TypedExpression value,
                                                     std::string_view where) const {
  if (IsBoolean(*value.type)) return value;
  if (value.literal == LiteralKind::kNull) return Null(arrow::boolean(), value.place);
  if (value.literal == LiteralKind::kString) return ParseLiteral(value, arrow::boolean());
  return text_.Error(value.place,
                     std::string(where) + " must be BOOLEAN, not " + SqlTypeName(*value.type));
}

}  // namespace cairn::sql
