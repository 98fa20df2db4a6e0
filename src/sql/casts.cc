// SPDX-License-Identifier: Apache-2.0
//
// ExpressionBuilder: casts and typed literals. What a cast rounds to and what it refuses is
// PostgreSQL's choice (docs/sql.md).
#include <arrow/compute/api_scalar.h>
#include <arrow/compute/cast.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "sql/expression_builder.h"
#include "sql/kernels.h"

namespace cairn::sql {
namespace {

namespace compute = arrow::compute;

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kMicrosPerDay = 86'400 * kMicrosPerSecond;

// 0 = no such unit.
int64_t MicrosOfUnit(std::string_view unit) {
  if (unit.size() > 2 && unit.ends_with('s') && unit != "hrs") unit.remove_suffix(1);
  if (unit == "us" || unit == "microsecond") return 1;
  if (unit == "ms" || unit == "millisecond") return 1000;
  if (unit == "s" || unit == "sec" || unit == "second") return kMicrosPerSecond;
  if (unit == "m" || unit == "min" || unit == "minute") return 60 * kMicrosPerSecond;
  if (unit == "h" || unit == "hr" || unit == "hrs" || unit == "hour") {
    return 3600 * kMicrosPerSecond;
  }
  if (unit == "d" || unit == "day") return kMicrosPerDay;
  if (unit == "w" || unit == "week") return 7 * kMicrosPerDay;
  return 0;
}

// Unit of INTERVAL '…' FIELD, from the bit PostgreSQL gives the field.
int64_t MicrosOfFieldMask(int64_t mask) {
  switch (mask) {
    case 0:
    case 1 << 12:
      return kMicrosPerSecond;
    case 1 << 11:
      return 60 * kMicrosPerSecond;
    case 1 << 10:
      return 3600 * kMicrosPerSecond;
    case 1 << 3:
      return kMicrosPerDay;
    default:
      return 0;
  }
}

// Read "[-]digits[.digits]" in whole `unit`s of microseconds; false when it is no such number or
// out of range.
bool TakeAmount(std::string_view* rest, int64_t unit, int64_t* micros) {
  const bool negative = rest->starts_with('-');
  if (negative || rest->starts_with('+')) rest->remove_prefix(1);
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(rest->data(), rest->data() + rest->size(), whole);
  if (error != std::errc() || whole < 0) return false;
  rest->remove_prefix(static_cast<size_t>(end - rest->data()));
  int64_t total = 0;
  if (__builtin_mul_overflow(whole, unit, &total)) return false;
  if (rest->starts_with('.')) {
    rest->remove_prefix(1);
    for (int64_t place = unit / 10;
         rest->size() > 0 && rest->front() >= '0' && rest->front() <= '9'; place /= 10) {
      if (__builtin_add_overflow(total, place * (rest->front() - '0'), &total)) return false;
      rest->remove_prefix(1);
    }
  }
  *micros = negative ? -total : total;
  return true;
}

void SkipSpaces(std::string_view* rest) {
  while (rest->starts_with(' ')) rest->remove_prefix(1);
}

// "[-]hh:mm[:ss[.ffffff]]", the hours already read.
bool TakeClock(std::string_view* rest, int64_t hours, bool negative, int64_t* micros) {
  int64_t minutes = 0;
  int64_t seconds = 0;
  rest->remove_prefix(1);
  if (!TakeAmount(rest, 60 * kMicrosPerSecond, &minutes)) return false;
  if (rest->starts_with(':')) {
    rest->remove_prefix(1);
    if (!TakeAmount(rest, kMicrosPerSecond, &seconds)) return false;
  }
  int64_t total = 0;
  if (__builtin_mul_overflow(hours, 3600 * kMicrosPerSecond, &total)) return false;
  minutes += seconds;
  return negative ? !__builtin_sub_overflow(total, minutes, micros)
                  : !__builtin_add_overflow(total, minutes, micros);
}

bool ParseInterval(std::string_view rest, int64_t bare_unit, int64_t* micros) {
  *micros = 0;
  SkipSpaces(&rest);
  if (rest.empty()) return false;
  while (!rest.empty()) {
    const bool negative = rest.starts_with('-');
    const std::string_view from = rest;
    int64_t amount = 0;
    int64_t part = 0;
    if (!TakeAmount(&rest, 1, &amount)) return false;
    if (rest.starts_with(':')) {
      if (!TakeClock(&rest, amount, negative, &part)) return false;
    } else {
      SkipSpaces(&rest);
      size_t letters = 0;
      std::string unit_name;
      while (letters < rest.size() && std::isalpha(static_cast<unsigned char>(rest[letters]))) {
        unit_name += static_cast<char>(std::tolower(static_cast<unsigned char>(rest[letters++])));
      }
      const int64_t unit = letters == 0 ? bare_unit : MicrosOfUnit(unit_name);
      std::string_view number = from;
      if (unit == 0 || !TakeAmount(&number, unit, &part)) return false;
      rest.remove_prefix(letters);
    }
    if (__builtin_add_overflow(*micros, part, micros)) return false;
    SkipSpaces(&rest);
  }
  return true;
}

}  // namespace

Result<TypedExpression> ExpressionBuilder::Interval(std::string_view value, int64_t field_mask,
                                                    Place place) const {
  int64_t micros = 0;
  const int64_t bare_unit = MicrosOfFieldMask(field_mask);
  if (bare_unit == 0 || !ParseInterval(value, bare_unit, &micros)) {
    return text_.Error(place, "INTERVAL '" + std::string(value) +
                                  "' is not supported: write a number and one of weeks, days, "
                                  "hours, minutes, seconds, milliseconds, microseconds");
  }
  TypedExpression out;
  out.type = IntervalType();
  out.expr =
      compute::literal(arrow::Datum(std::make_shared<arrow::DurationScalar>(micros, out.type)));
  out.nullable = false;
  out.place = place;
  return out;
}

Result<TypedExpression> ExpressionBuilder::ArrowCast(TypedExpression value, const DataTypePtr& type,
                                                     bool fallible, Place place) const {
  auto options = std::make_shared<compute::CastOptions>(compute::CastOptions::Safe(type));
  options->allow_float_truncate = IsInteger(*value.type);  // a BIGINT rounds to the nearest DOUBLE
  return Call("cast", {std::move(value)}, type, place,
              {.fallible = fallible, .options = std::move(options)});
}

Result<TypedExpression> ExpressionBuilder::ParseLiteral(const TypedExpression& value,
                                                        const DataTypePtr& type) const {
  if (IsText(*type)) {
    TypedExpression out = value;
    out.literal = LiteralKind::kNone;
    return out;
  }
  if (IsInterval(*type)) return Interval(value.literal_text, 0, value.place);
  TypedExpression untyped = value;
  untyped.literal = LiteralKind::kNone;
  // A builder without guards: a bad literal is an error wherever it stands.
  auto parsed = ExpressionBuilder(text_).CastFromText(std::move(untyped), type, value.place);
  if (!parsed.ok()) {
    return text_.Error(value.place,
                       "'" + value.literal_text + "' is not a valid " + SqlTypeName(*type));
  }
  return parsed;
}

Result<TypedExpression> ExpressionBuilder::Cast(TypedExpression value, const DataTypePtr& type,
                                                Place place) const {
  const arrow::DataType& from = *value.type;
  if (value.literal == LiteralKind::kString) return ParseLiteral(value, type);
  if (value.literal == LiteralKind::kNull) return Null(type, place);
  if (value.literal == LiteralKind::kNumber && IsDouble(*type)) {
    // From the digits, not through a decimal: the nearest DOUBLE.
    double number = 0;
    const std::string& digits = value.literal_text;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    TypedExpression out;
    out.expr = compute::literal(arrow::Datum(number));
    out.type = type;
    out.nullable = false;
    out.place = value.place;
    return out;
  }
  value.literal = LiteralKind::kNone;
  if (from.Equals(*type)) return value;
  if (IsText(*type) && !IsInterval(from)) return CastToText(std::move(value), place);
  if (IsText(from)) return CastFromText(std::move(value), type, place);
  const bool from_number = IsNumeric(from) || IsBoolean(from);
  const bool to_number = IsNumeric(*type) || IsBoolean(*type);
  if (from_number && to_number) return CastNumber(std::move(value), type, place);
  if (IsTimestamp(from) && IsDate(*type)) return ArrowCast(std::move(value), type, false, place);
  if (IsDate(from) && IsTimestamp(*type)) return ArrowCast(std::move(value), type, true, place);
  return text_.Error(place, "cannot cast " + SqlTypeName(from) + " to " + SqlTypeName(*type));
}

Result<TypedExpression> ExpressionBuilder::CastToText(TypedExpression value, Place place) const {
  if (value.type->id() == arrow::Type::DECIMAL128) {
    return Call(kDecimalToText, {std::move(value)}, arrow::utf8(), place);
  }
  const bool timestamp = IsTimestamp(*value.type);
  CAIRN_ASSIGN_OR_RETURN(TypedExpression out,
                         ArrowCast(std::move(value), arrow::utf8(), false, place));
  if (!timestamp) return out;
  // "…:01.500000" reads "…:01.5", and "…:01.000000" reads "…:01".
  for (const auto& [pattern, replacement] :
       {std::pair{R"((\.[0-9]*?)0+$)", R"(\1)"}, std::pair{R"(\.$)", ""}}) {
    CAIRN_ASSIGN_OR_RETURN(
        out, Call("replace_substring_regex", {std::move(out)}, arrow::utf8(), place,
                  {.options =
                       std::make_shared<compute::ReplaceSubstringOptions>(pattern, replacement)}));
  }
  return out;
}

Result<TypedExpression> ExpressionBuilder::CastFromText(TypedExpression value,
                                                        const DataTypePtr& type,
                                                        Place place) const {
  if (IsInterval(*type)) {
    return text_.Error(place, "cannot cast TEXT to INTERVAL: write INTERVAL '1 day'");
  }
  CAIRN_ASSIGN_OR_RETURN(TypedExpression out,
                         Call("ascii_trim_whitespace", {std::move(value)}, arrow::utf8(), place));
  if (IsBoolean(*type)) {
    CAIRN_ASSIGN_OR_RETURN(out, Call("ascii_lower", {std::move(out)}, arrow::utf8(), place));
    for (const auto& [pattern, replacement] :
         {std::pair{"^(t|y|yes|on)$", "true"}, std::pair{"^(f|n|no|off)$", "false"}}) {
      CAIRN_ASSIGN_OR_RETURN(
          out, Call("replace_substring_regex", {std::move(out)}, arrow::utf8(), place,
                    {.options = std::make_shared<compute::ReplaceSubstringOptions>(pattern,
                                                                                   replacement)}));
    }
  }
  return ArrowCast(std::move(out), type, true, place);
}

Result<TypedExpression> ExpressionBuilder::RoundDecimal(TypedExpression value, int32_t scale,
                                                        Place place) const {
  const DecimalShape shape = DecimalShapeOf(*value.type);
  // One more digit in front: 9.99 rounds to 10.0.
  CAIRN_ASSIGN_OR_RETURN(
      value,
      ArrowCast(std::move(value), WideDecimal({shape.precision + 1, shape.scale}), false, place));
  const DataTypePtr wide = value.type;
  return Call("round", {std::move(value)}, wide, place,
              {.options = std::make_shared<compute::RoundOptions>(
                   scale, compute::RoundMode::HALF_TOWARDS_INFINITY)});
}

Result<TypedExpression> ExpressionBuilder::CastToDecimal(TypedExpression value,
                                                         const DataTypePtr& type,
                                                         Place place) const {
  const DecimalShape to = DecimalShapeOf(*type);
  if (IsInteger(*value.type)) {
    // Arrow wants a type that holds every integer first.
    const DecimalShape shape = DecimalShapeOf(*value.type);
    const DataTypePtr holds = WideDecimal({shape.precision + to.scale, to.scale});
    const bool narrows = to.precision < DecimalShapeOf(*holds).precision;
    if (!narrows) return ArrowCast(std::move(value), type, false, place);
    CAIRN_ASSIGN_OR_RETURN(value, ArrowCast(std::move(value), holds, false, place));
    return ArrowCast(std::move(value), type, true, place);
  }
  if (IsDecimal(*value.type)) {
    const DecimalShape from = DecimalShapeOf(*value.type);
    if (to.scale < from.scale) {
      CAIRN_ASSIGN_OR_RETURN(value, RoundDecimal(std::move(value), to.scale, place));
    }
    const bool fallible = to.precision - to.scale < from.precision - from.scale + 1;
    return ArrowCast(std::move(value), type, fallible, place);
  }
  return ArrowCast(std::move(value), type, true, place);
}

Result<TypedExpression> ExpressionBuilder::CastNumber(TypedExpression value,
                                                      const DataTypePtr& type, Place place) const {
  const arrow::DataType& from = *value.type;
  if (IsBoolean(*type)) {
    if (!IsInteger(from)) {
      return text_.Error(place, "cannot cast " + SqlTypeName(from) + " to BOOLEAN");
    }
    return Compare(Comparison::kNotEqual, std::move(value), Integer(0, place), place);
  }
  if (IsBoolean(from)) {
    if (!IsInteger(*type)) {
      return text_.Error(place, "cannot cast BOOLEAN to " + SqlTypeName(*type));
    }
    return ArrowCast(std::move(value), type, false, place);
  }
  if (IsDecimal(*type)) return CastToDecimal(std::move(value), type, place);
  if (IsDouble(*type)) return ArrowCast(std::move(value), type, false, place);
  // To an integer: decimals round half away from zero, doubles half to even.
  if (IsDecimal(from) && DecimalShapeOf(from).scale > 0) {
    CAIRN_ASSIGN_OR_RETURN(value, RoundDecimal(std::move(value), 0, place));
  } else if (IsDouble(from)) {
    CAIRN_ASSIGN_OR_RETURN(value, Call("round", {std::move(value)}, arrow::float64(), place,
                                       {.options = std::make_shared<compute::RoundOptions>(
                                            0, compute::RoundMode::HALF_TO_EVEN)}));
  }
  const bool widens = value.type->id() == arrow::Type::INT32;
  return ArrowCast(std::move(value), type, !widens, place);
}

}  // namespace cairn::sql
