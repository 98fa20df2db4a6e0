// SPDX-License-Identifier: Apache-2.0
//
// ExpressionBuilder: + - * / % over numbers, dates and times.
//
// Integers: checked; / truncates. Decimals: exact, the result's digits follow from the operands'
// and are cut at 38, a value that does not fit is an error; / gives DOUBLE. A division or modulo by
// zero gives NULL, so that one row cannot stop a stream for ever.
#include <arrow/compute/api_scalar.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sql/expression_builder.h"

namespace cairn::sql {
namespace {

bool IsZero(const TypedExpression& constant) {
  const std::string text = constant.expr.literal()->scalar()->ToString();
  return text.find_first_of("123456789") == std::string::npos;
}

bool IsTime(const arrow::DataType& type) {
  return IsTimestamp(type) || IsDate(type) || IsInterval(type);
}

}  // namespace

Status ExpressionBuilder::NoOperator(std::string_view op, const TypedExpression& left,
                                     const TypedExpression& right, Place place) const {
  return text_.Error(place, "there is no operator " + SqlTypeName(*left.type) + " " +
                                std::string(op) + " " + SqlTypeName(*right.type));
}

Result<TypedExpression> ExpressionBuilder::NullIfZero(TypedExpression divisor, Place place) const {
  if (divisor.constant() && !divisor.nullable && !IsZero(divisor)) return divisor;
  TypedExpression null = Null(divisor.type, place);
  CAIRN_ASSIGN_OR_RETURN(TypedExpression zero, Cast(Integer(0, place), divisor.type, place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression is_zero,
                         Call("equal", {divisor, std::move(zero)}, arrow::boolean(), place));
  // Where the divisor is NULL so is the condition, and so is the result of if_else.
  const DataTypePtr type = divisor.type;
  return Call("if_else", {std::move(is_zero), std::move(null), std::move(divisor)}, type, place,
              {.nullable = true});
}

Result<TypedExpression> ExpressionBuilder::Arithmetic(char op, TypedExpression left,
                                                      TypedExpression right, Place place) const {
  const std::string symbol(1, op);
  if (left.literal == LiteralKind::kNull && right.literal == LiteralKind::kNull) {
    return Null(arrow::int64(), place);
  }
  if (IsTime(*left.type) || IsTime(*right.type)) {
    return TimeArithmetic(op, std::move(left), std::move(right), place);
  }
  // An untyped string or NULL takes the type of the other side.
  for (auto [open, other] : {std::pair{&left, &right}, std::pair{&right, &left}}) {
    if ((open->literal == LiteralKind::kString || open->literal == LiteralKind::kNull) &&
        IsNumeric(*other->type)) {
      CAIRN_ASSIGN_OR_RETURN(*open, Cast(std::move(*open), other->type, open->place));
    }
  }
  if (!IsNumeric(*left.type) || !IsNumeric(*right.type))
    return NoOperator(symbol, left, right, place);

  const TypedExpression sides[] = {left, right};
  CAIRN_ASSIGN_OR_RETURN(DataTypePtr type, CommonTypeOf(sides, symbol, place, /*wide=*/true));
  if (IsDecimal(*type) && op == '/') type = arrow::float64();
  if (IsDecimal(*type)) {
    return DecimalArithmetic(op, std::move(left), std::move(right), place);
  }
  CAIRN_ASSIGN_OR_RETURN(left, Coerce(std::move(left), type));
  CAIRN_ASSIGN_OR_RETURN(right, Coerce(std::move(right), type));
  if (op == '/' || op == '%') {
    CAIRN_ASSIGN_OR_RETURN(right, NullIfZero(std::move(right), place));
  }
  const bool integer = IsInteger(*type);
  const char* function = op == '+'   ? (integer ? "add_checked" : "add")
                         : op == '-' ? (integer ? "subtract_checked" : "subtract")
                         : op == '*' ? (integer ? "multiply_checked" : "multiply")
                         : op == '/' ? (integer ? "divide_checked" : "divide")
                                     : "remainder";
  return Call(function, {std::move(left), std::move(right)}, type, place,
              {.fallible = integer && op != '%'});
}

Result<TypedExpression> ExpressionBuilder::DecimalArithmetic(char op, TypedExpression left,
                                                             TypedExpression right,
                                                             Place place) const {
  DecimalShape shapes[2];
  TypedExpression* sides[] = {&left, &right};
  for (size_t i = 0; i < 2; ++i) {
    TypedExpression& side = *sides[i];
    shapes[i] = DecimalShapeOf(*side.type);
    if (IsInteger(*side.type)) {
      if (side.literal == LiteralKind::kNumber) {
        const auto digits = side.literal_text.size() - (side.literal_text[0] == '-' ? 1 : 0);
        shapes[i].precision = static_cast<int32_t>(digits);
      }
    }
  }
  const int32_t scale =
      op == '*' ? shapes[0].scale + shapes[1].scale : std::max(shapes[0].scale, shapes[1].scale);
  if (scale > 38) {
    return text_.Error(place,
                       "the product has more than 38 digits after the point: CAST a side to "
                       "a DECIMAL with fewer");
  }
  const int32_t whole =
      std::max(shapes[0].precision - shapes[0].scale, shapes[1].precision - shapes[1].scale);
  // The digits that Arrow gives its result; over 38 the sum is made in 256 bits and checked.
  const int32_t precision = op == '*'   ? shapes[0].precision + shapes[1].precision + 1
                            : op == '%' ? whole + scale
                                        : whole + scale + 1;
  const bool wide = precision > 38;
  if (precision > 76) --shapes[shapes[0].scale < shapes[1].scale ? 0 : 1].precision;
  for (size_t i = 0; i < 2; ++i) {
    const auto [p, s] = shapes[i];
    CAIRN_ASSIGN_OR_RETURN(*sides[i], Coerce(std::move(*sides[i]),
                                             wide ? arrow::decimal256(p, s) : WideDecimal({p, s})));
  }
  if (op == '%') {
    CAIRN_ASSIGN_OR_RETURN(right, NullIfZero(std::move(right), place));
  }
  const char* function = op == '+'   ? "add_checked"
                         : op == '-' ? "subtract_checked"
                         : op == '*' ? "multiply_checked"
                                     : "remainder";
  const DataTypePtr made = wide ? arrow::decimal256(std::min(precision, 76), scale)
                                : arrow::decimal128(precision, scale);
  CAIRN_ASSIGN_OR_RETURN(TypedExpression out,
                         Call(function, {std::move(left), std::move(right)}, made, place));
  if (!wide) return out;
  return ArrowCast(std::move(out), arrow::decimal128(38, scale), true, place);
}

Result<TypedExpression> ExpressionBuilder::DateArithmetic(char op, TypedExpression left,
                                                          TypedExpression right,
                                                          Place place) const {
  // Days are counted as integers.
  const auto days = [&](TypedExpression date) -> Result<TypedExpression> {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression number,
                           ArrowCast(std::move(date), arrow::int32(), false, place));
    return ArrowCast(std::move(number), arrow::int64(), false, place);
  };
  const bool both = IsDate(*left.type) && IsDate(*right.type);
  for (TypedExpression* side : {&left, &right}) {
    if (IsDate(*side->type)) {
      CAIRN_ASSIGN_OR_RETURN(*side, days(std::move(*side)));
    } else {
      CAIRN_ASSIGN_OR_RETURN(*side, Coerce(std::move(*side), arrow::int64()));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(TypedExpression out, Call(op == '+' ? "add_checked" : "subtract_checked",
                                                   {std::move(left), std::move(right)},
                                                   arrow::int64(), place, {.fallible = true}));
  if (both) return out;
  CAIRN_ASSIGN_OR_RETURN(out, ArrowCast(std::move(out), arrow::int32(), true, place));
  return ArrowCast(std::move(out), arrow::date32(), false, place);
}

Result<TypedExpression> ExpressionBuilder::TimeArithmetic(char op, TypedExpression left,
                                                          TypedExpression right,
                                                          Place place) const {
  for (auto [open, other] : {std::pair{&left, &right}, std::pair{&right, &left}}) {
    if (open->literal == LiteralKind::kNull) {
      *open = Null(IsInterval(*other->type) ? other->type : IntervalType(), open->place);
    } else if (open->literal == LiteralKind::kString) {
      CAIRN_ASSIGN_OR_RETURN(
          *open, ParseLiteral(
                     *open, op == '-' && !IsInterval(*other->type) ? other->type : IntervalType()));
    }
  }
  const bool plus = op == '+';
  const bool minus = op == '-';
  const auto date_and_integer = [](const TypedExpression& a, const TypedExpression& b) {
    return IsDate(*a.type) && IsInteger(*b.type);
  };
  if ((plus && (date_and_integer(left, right) || date_and_integer(right, left))) ||
      (minus && (date_and_integer(left, right) || (IsDate(*left.type) && IsDate(*right.type))))) {
    return DateArithmetic(op, std::move(left), std::move(right), place);
  }
  for (TypedExpression* side : {&left, &right}) {
    if (IsDate(*side->type)) {
      CAIRN_ASSIGN_OR_RETURN(*side, Cast(std::move(*side), TimestampType(), place));
    }
  }
  DataTypePtr type;
  if (IsInterval(*left.type) && IsInterval(*right.type) && (plus || minus)) {
    type = IntervalType();
  } else if ((IsTimestamp(*left.type) && IsInterval(*right.type) && (plus || minus)) ||
             (IsInterval(*left.type) && IsTimestamp(*right.type) && plus)) {
    type = TimestampType();
  } else if (IsTimestamp(*left.type) && IsTimestamp(*right.type) && minus) {
    type = IntervalType();
  } else {
    return NoOperator(std::string(1, op), left, right, place);
  }
  return Call(plus ? "add_checked" : "subtract_checked", {std::move(left), std::move(right)}, type,
              place, {.fallible = true});
}

Result<TypedExpression> ExpressionBuilder::Negate(TypedExpression value, Place place) const {
  if (value.literal == LiteralKind::kNumber) {
    const std::string& digits = value.literal_text;
    return Number(digits.starts_with('-') ? digits.substr(1) : "-" + digits, place);
  }
  if (value.literal == LiteralKind::kNull) return Null(arrow::int64(), place);
  if (!IsNumeric(*value.type) && !IsInterval(*value.type)) {
    return text_.Error(place, "there is no operator - " + SqlTypeName(*value.type));
  }
  const DataTypePtr type = value.type;
  if (IsInterval(*type)) {
    CAIRN_ASSIGN_OR_RETURN(TypedExpression zero, Interval("0", 0, place));
    return TimeArithmetic('-', std::move(zero), std::move(value), place);
  }
  return Call(IsDouble(*type) ? "negate" : "negate_checked", {std::move(value)}, type, place,
              {.fallible = IsInteger(*type)});
}

}  // namespace cairn::sql
