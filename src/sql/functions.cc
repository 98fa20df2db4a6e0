// SPDX-License-Identifier: Apache-2.0
//
// The scalar functions of SQL, each a few calls of Arrow's compute functions.
#include <arrow/compute/api_scalar.h>
#include <arrow/compute/cast.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "sql/expression_compiler.h"

namespace cairn::sql {
namespace {

namespace compute = arrow::compute;

using Arguments = std::vector<TypedExpression>;

constexpr const char* kKnownFunctions =
    "the functions are abs, ceil, char_length, concat, date_part, date_trunc, extract, floor, "
    "left, length, lower, ltrim, mod, power, replace, right, round, rtrim, sqrt, starts_with, "
    "substring, trim, upper, and the aggregates count, sum, min, max, avg";

/// One call of a function: its arguments and what is needed to refuse them.
struct FunctionCall {
  const ExpressionBuilder& builder;
  std::string name;
  Arguments arguments;
  Place place;

  size_t size() const { return arguments.size(); }

  Status Refuse() const {
    std::string types;
    for (const TypedExpression& argument : arguments) {
      types += (types.empty() ? "" : ", ") + SqlTypeName(*argument.type);
    }
    return builder.text().Error(place, "there is no function " + name + "(" + types + ")");
  }

  /// Require an argument of TEXT; a NULL becomes one.
  Status TakeText(size_t index) {
    TypedExpression& argument = arguments[index];
    if (!IsText(*argument.type) && argument.literal != LiteralKind::kNull) return Refuse();
    CAIRN_ASSIGN_OR_RETURN(argument, builder.Coerce(std::move(argument), arrow::utf8()));
    return {};
  }

  Status TakeDouble(size_t index) {
    TypedExpression& argument = arguments[index];
    if (!IsNumeric(*argument.type) && argument.literal != LiteralKind::kNull) return Refuse();
    CAIRN_ASSIGN_OR_RETURN(argument, builder.Coerce(std::move(argument), arrow::float64()));
    return {};
  }

  /// Read a constant string.
  Result<std::string> ConstantText(size_t index) const {
    const TypedExpression& argument = arguments[index];
    if (argument.literal != LiteralKind::kString) {
      return builder.text().Error(argument.place, "argument " + std::to_string(index + 1) + " of " +
                                                      name + "() must be a constant string");
    }
    return argument.literal_text;
  }

  Result<int64_t> ConstantInteger(size_t index) const {
    const TypedExpression& argument = arguments[index];
    if (!argument.constant() || argument.nullable || !IsInteger(*argument.type)) {
      return builder.text().Error(argument.place, "argument " + std::to_string(index + 1) + " of " +
                                                      name + "() must be a constant integer");
    }
    const arrow::Scalar& scalar = *argument.expr.literal()->scalar();
    return scalar.type->id() == arrow::Type::INT32
               ? static_cast<const arrow::Int32Scalar&>(scalar).value
               : static_cast<const arrow::Int64Scalar&>(scalar).value;
  }

  /// Call a compute function on the first argument alone.
  Result<TypedExpression> OnFirst(const char* function, const DataTypePtr& type,
                                  std::shared_ptr<compute::FunctionOptions> options = nullptr,
                                  bool fallible = false) {
    return builder.Call(function, {std::move(arguments[0])}, type, place,
                        {.fallible = fallible, .options = std::move(options)});
  }
};

Result<TypedExpression> Case(FunctionCall call, const char* function) {
  if (call.size() != 1) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  return call.OnFirst(function, arrow::utf8());
}

Result<TypedExpression> Length(FunctionCall call) {
  if (call.size() != 1) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression length, call.OnFirst("utf8_length", arrow::int32()));
  return call.builder.Cast(std::move(length), arrow::int64(), call.place);
}

Result<TypedExpression> Trim(FunctionCall call, const char* function) {
  if (call.size() != 1 && call.size() != 2) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  std::string characters = " ";
  if (call.size() == 2) {
    CAIRN_ASSIGN_OR_RETURN(characters, call.ConstantText(1));
  }
  return call.OnFirst(function, arrow::utf8(), std::make_shared<compute::TrimOptions>(characters));
}

Result<TypedExpression> Slice(FunctionCall call, int64_t start, int64_t stop) {
  return call.OnFirst("utf8_slice_codeunits", arrow::utf8(),
                      std::make_shared<compute::SliceOptions>(start, stop));
}

// Characters are counted from 1; those before the first are counted and give nothing.
Result<TypedExpression> Substring(FunctionCall call) {
  if (call.size() != 2 && call.size() != 3) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  CAIRN_ASSIGN_OR_RETURN(const int64_t start, call.ConstantInteger(1));
  int64_t stop = std::numeric_limits<int64_t>::max();
  if (call.size() == 3) {
    CAIRN_ASSIGN_OR_RETURN(const int64_t length, call.ConstantInteger(2));
    if (length < 0) {
      return call.builder.text().Error(call.arguments[2].place,
                                       "the length of a substring is negative");
    }
    if (!__builtin_add_overflow(start, length, &stop))
      stop = std::max<int64_t>(stop, 1) - 1;
    else
      stop = std::numeric_limits<int64_t>::max();
  }
  const int64_t first = std::max<int64_t>(start, 1) - 1;
  return Slice(std::move(call), first, std::max(first, stop));
}

Result<TypedExpression> LeftOrRight(FunctionCall call, bool left) {
  if (call.size() != 2) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  CAIRN_ASSIGN_OR_RETURN(int64_t count, call.ConstantInteger(1));
  count = std::max(count, -std::numeric_limits<int64_t>::max());
  if (left) return Slice(std::move(call), 0, count);  // negative: all but the last ones
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  if (count == 0) return Slice(std::move(call), 0, 0);
  return Slice(std::move(call), -count, kEnd);
}

Result<TypedExpression> Replace(FunctionCall call) {
  if (call.size() != 3) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  CAIRN_ASSIGN_OR_RETURN(const std::string from, call.ConstantText(1));
  CAIRN_ASSIGN_OR_RETURN(const std::string to, call.ConstantText(2));
  if (from.empty()) return std::move(call.arguments[0]);
  return call.OnFirst("replace_substring", arrow::utf8(),
                      std::make_shared<compute::ReplaceSubstringOptions>(from, to));
}

Result<TypedExpression> StartsWith(FunctionCall call) {
  if (call.size() != 2) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeText(0));
  CAIRN_ASSIGN_OR_RETURN(const std::string prefix, call.ConstantText(1));
  return call.OnFirst("starts_with", arrow::boolean(),
                      std::make_shared<compute::MatchSubstringOptions>(prefix));
}

// concat() leaves NULLs out; || is NULL when a side is.
Result<TypedExpression> Join(FunctionCall call, bool skip_nulls) {
  if (call.size() == 0) return call.Refuse();
  const ExpressionBuilder& builder = call.builder;
  bool nullable = false;
  for (TypedExpression& argument : call.arguments) {
    if (IsInterval(*argument.type)) return call.Refuse();
    CAIRN_ASSIGN_OR_RETURN(argument, builder.Cast(std::move(argument), arrow::utf8(), call.place));
    nullable |= argument.nullable;
  }
  CAIRN_ASSIGN_OR_RETURN(TypedExpression separator,
                         builder.Coerce(builder.String("", call.place), arrow::utf8()));
  call.arguments.push_back(std::move(separator));
  using Options = compute::JoinOptions;
  return builder.Call(
      "binary_join_element_wise", std::move(call.arguments), arrow::utf8(), call.place,
      {.nullable = nullable && !skip_nulls,
       .options = std::make_shared<Options>(skip_nulls ? Options::REPLACE : Options::EMIT_NULL)});
}

Result<TypedExpression> Abs(FunctionCall call) {
  if (call.size() != 1 || !IsNumeric(*call.arguments[0].type)) return call.Refuse();
  const DataTypePtr type = call.arguments[0].type;
  return call.OnFirst(IsDouble(*type) ? "abs" : "abs_checked", type, nullptr, IsInteger(*type));
}

Result<TypedExpression> Round(FunctionCall call) {
  if (call.size() < 1 || call.size() > 2 || !IsNumeric(*call.arguments[0].type)) {
    return call.Refuse();
  }
  int64_t digits = 0;
  if (call.size() == 2) {
    CAIRN_ASSIGN_OR_RETURN(digits, call.ConstantInteger(1));
  }
  const DataTypePtr type = call.arguments[0].type;
  if (IsDecimal(*type) && digits >= 0) {
    const DecimalShape shape = DecimalShapeOf(*type);
    const auto scale = static_cast<int32_t>(std::min<int64_t>(digits, shape.scale));
    const int32_t whole = shape.precision - shape.scale + (scale < shape.scale ? 1 : 0);
    return call.builder.Cast(std::move(call.arguments[0]),
                             NarrowDecimal({std::max(whole + scale, 1), scale}), call.place);
  }
  if (IsDecimal(*type)) {
    // Two more digits in front: 99.5 rounds to 100, and Arrow wants room for the digit it rounds
    // to. Beyond one digit more than there are, every value rounds to 0.
    const DecimalShape shape = DecimalShapeOf(*type);
    const int32_t whole = shape.precision - shape.scale;
    const DataTypePtr wide = WideDecimal({shape.precision + 2, shape.scale});
    TypedExpression& value = call.arguments[0];
    CAIRN_ASSIGN_OR_RETURN(value, call.builder.Cast(std::move(value), wide, call.place));
    CAIRN_ASSIGN_OR_RETURN(TypedExpression rounded,
                           call.OnFirst("round", wide,
                                        std::make_shared<compute::RoundOptions>(
                                            std::max<int64_t>(digits, -(whole + 1)),
                                            compute::RoundMode::HALF_TOWARDS_INFINITY)));
    return call.builder.Cast(std::move(rounded), NarrowDecimal({whole + 1, 0}), call.place);
  }
  if (IsInteger(*type) && digits >= 0) return std::move(call.arguments[0]);
  return call.OnFirst(
      "round", type,
      std::make_shared<compute::RoundOptions>(std::clamp<int64_t>(digits, -400, 400),
                                              compute::RoundMode::HALF_TOWARDS_INFINITY),
      !IsDouble(*type));
}

Result<TypedExpression> FloorOrCeil(FunctionCall call, const char* function) {
  if (call.size() != 1 || !IsNumeric(*call.arguments[0].type)) return call.Refuse();
  const DataTypePtr type = call.arguments[0].type;
  if (IsInteger(*type)) return std::move(call.arguments[0]);
  if (IsDouble(*type)) return call.OnFirst(function, type);
  // One more digit in front: ceil(9.5) = 10.
  const DecimalShape shape = DecimalShapeOf(*type);
  const DataTypePtr wide = WideDecimal({shape.precision + 1, shape.scale});
  TypedExpression& value = call.arguments[0];
  CAIRN_ASSIGN_OR_RETURN(value, call.builder.Cast(std::move(value), wide, call.place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression whole, call.OnFirst(function, wide));
  return call.builder.Cast(std::move(whole), NarrowDecimal({shape.precision - shape.scale + 1, 0}),
                           call.place);
}

Result<TypedExpression> Power(FunctionCall call) {
  if (call.size() != 2) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeDouble(0));
  CAIRN_RETURN_IF_ERROR(call.TakeDouble(1));
  return call.builder.Call("power", std::move(call.arguments), arrow::float64(), call.place);
}

Result<TypedExpression> SquareRoot(FunctionCall call) {
  if (call.size() != 1) return call.Refuse();
  CAIRN_RETURN_IF_ERROR(call.TakeDouble(0));
  return call.OnFirst("sqrt_checked", arrow::float64(), nullptr, true);
}

// Make argument `index` a TIMESTAMP.
Status TakeTime(FunctionCall* call, size_t index) {
  TypedExpression& argument = call->arguments[index];
  const bool time = IsTimestamp(*argument.type) || IsDate(*argument.type) ||
                    argument.literal == LiteralKind::kNull;
  if (!time) return call->Refuse();
  CAIRN_ASSIGN_OR_RETURN(argument, call->builder.Coerce(std::move(argument), TimestampType()));
  return {};
}

Result<TypedExpression> Epoch(FunctionCall call) {
  const ExpressionBuilder& builder = call.builder;
  auto options = std::make_shared<compute::CastOptions>(compute::CastOptions::Safe(arrow::int64()));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression micros,
                         builder.Call("cast", {std::move(call.arguments[1])}, arrow::int64(),
                                      call.place, {.options = std::move(options)}));
  CAIRN_ASSIGN_OR_RETURN(micros, builder.Cast(std::move(micros), arrow::float64(), call.place));
  CAIRN_ASSIGN_OR_RETURN(TypedExpression second, builder.Number("1e6", call.place));
  return builder.Arithmetic('/', std::move(micros), std::move(second), call.place);
}

Result<TypedExpression> Extract(FunctionCall call) {
  if (call.size() != 2) return call.Refuse();
  CAIRN_ASSIGN_OR_RETURN(std::string field, call.ConstantText(0));
  std::transform(field.begin(), field.end(), field.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (field != "epoch" || !IsInterval(*call.arguments[1].type)) {
    CAIRN_RETURN_IF_ERROR(TakeTime(&call, 1));
  }
  if (field == "epoch") return Epoch(std::move(call));
  std::shared_ptr<compute::FunctionOptions> options;
  std::string function = field;
  if (field == "dow" || field == "isodow") {
    function = "day_of_week";
    options = std::make_shared<compute::DayOfWeekOptions>(field == "dow", field == "dow" ? 7 : 1);
  } else if (field == "doy") {
    function = "day_of_year";
  } else if (field == "week") {
    function = "iso_week";
  } else if (field == "isoyear") {
    function = "iso_year";
  } else if (field != "year" && field != "quarter" && field != "month" && field != "day" &&
             field != "hour" && field != "minute" && field != "second") {
    return call.builder.text().Error(
        call.arguments[0].place,
        "\"" + field +
            "\" is not a field of a time: the fields are year, quarter, month, week, "
            "day, hour, minute, second, dow, isodow, doy, isoyear, epoch");
  }
  return call.builder.Call(function, {std::move(call.arguments[1])}, arrow::int64(), call.place,
                           {.options = std::move(options)});
}

Result<TypedExpression> DateTrunc(FunctionCall call) {
  if (call.size() != 2) return call.Refuse();
  CAIRN_ASSIGN_OR_RETURN(const std::string unit, call.ConstantText(0));
  CAIRN_RETURN_IF_ERROR(TakeTime(&call, 1));
  static constexpr std::pair<std::string_view, compute::CalendarUnit> kUnits[] = {
      {"microsecond", compute::CalendarUnit::MICROSECOND},
      {"millisecond", compute::CalendarUnit::MILLISECOND},
      {"second", compute::CalendarUnit::SECOND},
      {"minute", compute::CalendarUnit::MINUTE},
      {"hour", compute::CalendarUnit::HOUR},
      {"day", compute::CalendarUnit::DAY},
      {"week", compute::CalendarUnit::WEEK},
      {"month", compute::CalendarUnit::MONTH},
      {"quarter", compute::CalendarUnit::QUARTER},
      {"year", compute::CalendarUnit::YEAR}};
  for (const auto& [name, calendar_unit] : kUnits) {
    if (name == unit) {
      return call.builder.Call(
          "floor_temporal", {std::move(call.arguments[1])}, TimestampType(), call.place,
          {.options = std::make_shared<compute::RoundTemporalOptions>(1, calendar_unit)});
    }
  }
  return call.builder.text().Error(call.arguments[0].place,
                                   "date_trunc cannot cut to \"" + unit + "\"");
}

Result<TypedExpression> Modulo(FunctionCall call) {
  if (call.size() != 2) return call.Refuse();
  return call.builder.Arithmetic('%', std::move(call.arguments[0]), std::move(call.arguments[1]),
                                 call.place);
}

using Compiler = Result<TypedExpression> (*)(FunctionCall);

struct FunctionEntry {
  std::string_view name;
  Compiler compile;
};

constexpr FunctionEntry kFunctions[] = {
    {"||", [](FunctionCall c) { return Join(std::move(c), false); }},
    {"abs", Abs},
    {"btrim", [](FunctionCall c) { return Trim(std::move(c), "utf8_trim"); }},
    {"ceil", [](FunctionCall c) { return FloorOrCeil(std::move(c), "ceil"); }},
    {"ceiling", [](FunctionCall c) { return FloorOrCeil(std::move(c), "ceil"); }},
    {"char_length", Length},
    {"character_length", Length},
    {"concat", [](FunctionCall c) { return Join(std::move(c), true); }},
    {"date_part", Extract},
    {"date_trunc", DateTrunc},
    {"extract", Extract},
    {"floor", [](FunctionCall c) { return FloorOrCeil(std::move(c), "floor"); }},
    {"left", [](FunctionCall c) { return LeftOrRight(std::move(c), true); }},
    {"length", Length},
    {"lower", [](FunctionCall c) { return Case(std::move(c), "utf8_lower"); }},
    {"ltrim", [](FunctionCall c) { return Trim(std::move(c), "utf8_ltrim"); }},
    {"mod", Modulo},
    {"pow", Power},
    {"power", Power},
    {"replace", Replace},
    {"right", [](FunctionCall c) { return LeftOrRight(std::move(c), false); }},
    {"round", Round},
    {"rtrim", [](FunctionCall c) { return Trim(std::move(c), "utf8_rtrim"); }},
    {"sqrt", SquareRoot},
    {"starts_with", StartsWith},
    {"substr", Substring},
    {"substring", Substring},
    {"upper", [](FunctionCall c) { return Case(std::move(c), "utf8_upper"); }},
};

void AppendQuoted(char c, std::string* regex) {
  if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' &&
      static_cast<unsigned char>(c) < 0x80) {
    *regex += '\\';
  }
  *regex += c;
}

/// A LIKE pattern as literal text between wildcards.
struct LikeParts {
  std::string regex = "(?s)\\A";
  std::string literal;        ///< all literal characters
  bool any_single = false;    ///< holds _
  bool leading_any = false;   ///< begins with %
  bool trailing_any = false;  ///< ends with %
  int any_count = 0;          ///< number of %
};

}  // namespace

bool IsAggregateFunction(std::string_view name) {
  return name == "count" || name == "sum" || name == "min" || name == "max" || name == "avg";
}

Result<TypedExpression> CompileFunction(const ExpressionBuilder& builder, const std::string& name,
                                        std::vector<TypedExpression> arguments, Place place) {
  for (const FunctionEntry& entry : kFunctions) {
    if (entry.name == name) {
      return entry.compile(FunctionCall{builder, name, std::move(arguments), place});
    }
  }
  if (name == "now" || name == "random" || name == "clock_timestamp" || name == "gen_random_uuid") {
    return builder.text().Error(place,
                                name + "() is not supported: a restart would give other rows");
  }
  return builder.text().Error(place, "function " + name + "() does not exist; " + kKnownFunctions);
}

Result<TypedExpression> CompileLikePattern(const ExpressionBuilder& builder, TypedExpression value,
                                           const std::string& pattern, std::string_view escape,
                                           bool ignore_case, Place place) {
  if (escape.size() > 1) {
    return builder.text().Error(place, "ESCAPE must be one character (of ASCII) or empty");
  }
  if (!IsText(*value.type) && value.literal != LiteralKind::kNull) {
    return builder.text().Error(value.place, "LIKE compares TEXT, not " + SqlTypeName(*value.type));
  }
  CAIRN_ASSIGN_OR_RETURN(value, builder.Coerce(std::move(value), arrow::utf8()));
  LikeParts parts;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (!escape.empty() && c == escape[0]) {
      if (++i == pattern.size()) {
        return builder.text().Error(place, "a LIKE pattern must not end with its escape character");
      }
      AppendQuoted(pattern[i], &parts.regex);
      parts.literal += pattern[i];
    } else if (c == '%') {
      parts.regex += ".*";
      ++parts.any_count;
      parts.leading_any |= i == 0;
      parts.trailing_any |= i + 1 == pattern.size() && i > 0;
    } else if (c == '_') {
      parts.regex += '.';
      parts.any_single = true;
    } else {
      AppendQuoted(c, &parts.regex);
      parts.literal += c;
    }
  }
  parts.regex += "\\z";
  const int edges = (parts.leading_any ? 1 : 0) + (parts.trailing_any ? 1 : 0);
  const char* function = "match_substring_regex";
  std::string argument = parts.regex;
  if (!ignore_case && !parts.any_single && parts.any_count == edges && edges > 0 &&
      !parts.literal.empty()) {
    function = edges == 2 ? "match_substring" : parts.leading_any ? "ends_with" : "starts_with";
    argument = parts.literal;
  }
  return builder.Call(
      function, {std::move(value)}, arrow::boolean(), place,
      {.options = std::make_shared<compute::MatchSubstringOptions>(argument, ignore_case)});
}

}  // namespace cairn::sql
