// SPDX-License-Identifier: Apache-2.0
#include "sql/data_type.h"

#include <arrow/type.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stream/table_definition.h"

namespace cairn::sql {
namespace {

constexpr int32_t kDecimal128Digits = 38;
constexpr int32_t kDecimal256Digits = 76;

constexpr const char* kKnownTypes =
    "the types are BIGINT, INTEGER, DOUBLE, DECIMAL(p,s), TEXT, BOOLEAN, TIMESTAMP, DATE";

// The parser's integer constant, or the one it left out because it is below 1.
Result<int64_t> TypeModifier(const SourceText& text, const Json& modifier) {
  const Node node = NodeOf(modifier);
  const Json* value = node.is("A_Const") ? Find(*node.body, "ival") : nullptr;
  const Place place = PlaceOf(modifier, {});
  if (value == nullptr) return text.Error(place, "an integer was expected here");
  if (const Json* integer = Find(*value, "ival")) return integer->get<int64_t>();
  CAIRN_ASSIGN_OR_RETURN(const std::string digits, text.IntegerAt(place));
  if (digits.size() > 9) return text.Error(place, "the number is too large here");
  return std::stoll(digits);
}

Result<DataTypePtr> DecimalFromTree(const SourceText& text, const Json& modifiers, Place place) {
  if (modifiers.empty()) {
    return text.Error(place, "DECIMAL needs its digits: write DECIMAL(precision, scale)");
  }
  CAIRN_ASSIGN_OR_RETURN(const int64_t precision, TypeModifier(text, modifiers[0]));
  int64_t scale = 0;
  if (modifiers.size() > 1) {
    CAIRN_ASSIGN_OR_RETURN(scale, TypeModifier(text, modifiers[1]));
  }
  if (precision < 1 || precision > kDecimal128Digits || scale < 0 || scale > precision) {
    return text.Error(place,
                      "DECIMAL(" + std::to_string(precision) + "," + std::to_string(scale) +
                          ") is out of range: 1 <= precision <= 38, 0 <= scale <= precision");
  }
  return arrow::decimal128(static_cast<int32_t>(precision), static_cast<int32_t>(scale));
}

// What to write instead of a PostgreSQL type that there is not.
const char* Advice(std::string_view name) {
  static constexpr std::pair<std::string_view, const char*> kAdvice[] = {
      {"int2", "SMALLINT is not supported: use INTEGER"},
      {"smallint", "SMALLINT is not supported: use INTEGER"},
      {"tinyint", "TINYINT is not supported: use INTEGER"},
      {"float4", "REAL is not supported: use DOUBLE"},
      {"bpchar", "CHAR(n) is not supported: use TEXT"},
      {"timestamptz", "TIMESTAMP WITH TIME ZONE is not supported: use TIMESTAMP (UTC)"},
      {"interval", "INTERVAL cannot be the type of a column or of a cast; write INTERVAL '1 day'"},
      {"serial", "SERIAL is not supported: use BIGINT"},
      {"bytea", "BYTEA is not supported"},
      {"uuid", "UUID is not supported: use TEXT"},
      {"json", "JSON is not supported: use TEXT"},
      {"jsonb", "JSONB is not supported: use TEXT"},
  };
  for (const auto& [known, advice] : kAdvice) {
    if (known == name) return advice;
  }
  return nullptr;
}

DataTypePtr PlainType(std::string_view name) {
  if (name == "int8" || name == "bigint") return arrow::int64();
  if (name == "int4" || name == "integer" || name == "int") return arrow::int32();
  if (name == "float8" || name == "double") return arrow::float64();
  if (name == "text" || name == "varchar" || name == "string") return arrow::utf8();
  if (name == "bool" || name == "boolean") return arrow::boolean();
  if (name == "timestamp") return TimestampType();
  if (name == "date") return arrow::date32();
  return nullptr;
}

}  // namespace

std::string SqlTypeName(const arrow::DataType& type) {
  switch (type.id()) {  // those that only expressions have
    case arrow::Type::DECIMAL256: {
      const DecimalShape shape = DecimalShapeOf(type);
      return "DECIMAL(" + std::to_string(shape.precision) + "," + std::to_string(shape.scale) + ")";
    }
    case arrow::Type::DURATION:
      return "INTERVAL";
    case arrow::Type::NA:
      return "NULL";
    default:
      return stream::SqlTypeName(type);
  }
}

bool IsInteger(const arrow::DataType& type) {
  return type.id() == arrow::Type::INT64 || type.id() == arrow::Type::INT32;
}
bool IsDecimal(const arrow::DataType& type) {
  return type.id() == arrow::Type::DECIMAL128 || type.id() == arrow::Type::DECIMAL256;
}
bool IsDouble(const arrow::DataType& type) { return type.id() == arrow::Type::DOUBLE; }
bool IsNumeric(const arrow::DataType& type) {
  return IsInteger(type) || IsDecimal(type) || IsDouble(type);
}
bool IsText(const arrow::DataType& type) { return type.id() == arrow::Type::STRING; }
bool IsBoolean(const arrow::DataType& type) { return type.id() == arrow::Type::BOOL; }
bool IsTimestamp(const arrow::DataType& type) { return type.id() == arrow::Type::TIMESTAMP; }
bool IsDate(const arrow::DataType& type) { return type.id() == arrow::Type::DATE32; }
bool IsInterval(const arrow::DataType& type) { return type.id() == arrow::Type::DURATION; }
bool IsNull(const arrow::DataType& type) { return type.id() == arrow::Type::NA; }

DecimalShape DecimalShapeOf(const arrow::DataType& type) {
  if (IsDecimal(type)) {
    const auto& decimal = static_cast<const arrow::DecimalType&>(type);
    return {decimal.precision(), decimal.scale()};
  }
  return {type.id() == arrow::Type::INT32 ? 10 : 19, 0};
}

DataTypePtr WideDecimal(DecimalShape shape) {
  if (shape.precision <= kDecimal128Digits) {
    return arrow::decimal128(shape.precision, shape.scale);
  }
  return arrow::decimal256(std::min(shape.precision, kDecimal256Digits), shape.scale);
}

DataTypePtr NarrowDecimal(DecimalShape shape) {
  return arrow::decimal128(std::min(shape.precision, kDecimal128Digits), shape.scale);
}

DataTypePtr TimestampType() { return arrow::timestamp(arrow::TimeUnit::MICRO); }
DataTypePtr IntervalType() { return arrow::duration(arrow::TimeUnit::MICRO); }

DataTypePtr CommonType(const DataTypePtr& a, const DataTypePtr& b, bool wide) {
  if (a->Equals(*b)) return a;
  if (IsNull(*a)) return b;
  if (IsNull(*b)) return a;
  if (IsNumeric(*a) && IsNumeric(*b)) {
    if (IsDouble(*a) || IsDouble(*b)) return arrow::float64();
    if (IsInteger(*a) && IsInteger(*b)) return arrow::int64();
    const DecimalShape left = DecimalShapeOf(*a);
    const DecimalShape right = DecimalShapeOf(*b);
    const int32_t scale = std::max(left.scale, right.scale);
    const DecimalShape shape{
        std::max(left.precision - left.scale, right.precision - right.scale) + scale, scale};
    return wide ? WideDecimal(shape) : NarrowDecimal(shape);
  }
  if ((IsTimestamp(*a) && IsDate(*b)) || (IsDate(*a) && IsTimestamp(*b))) return TimestampType();
  return nullptr;
}

bool IsAssignable(const arrow::DataType& from, const arrow::DataType& to) {
  if (from.Equals(to) || IsNull(from)) return true;
  if (from.id() == arrow::Type::INT32 && (to.id() == arrow::Type::INT64 || IsDouble(to))) {
    return true;
  }
  if (IsInteger(from) && IsDecimal(to)) {
    const DecimalShape shape = DecimalShapeOf(to);
    return shape.precision - shape.scale >= DecimalShapeOf(from).precision;
  }
  if (IsDecimal(from)) {
    const int32_t scale = DecimalShapeOf(from).scale;
    if (IsDecimal(to)) return DecimalShapeOf(to).scale >= scale;
    return IsInteger(to) && scale == 0;
  }
  return IsDate(from) && IsTimestamp(to);
}

bool IsIntervalTypeName(const Json& type_name) {
  const std::vector<std::string> names = NamesOf(ListField(type_name, "names"));
  return !names.empty() && names.back() == "interval";
}

Result<int64_t> IntervalFieldMask(const SourceText& text, const Json& type_name) {
  const Json& modifiers = ListField(type_name, "typmods");
  if (modifiers.empty()) return 0;
  if (modifiers.size() > 1) {
    return text.Error(PlaceOf(type_name, {}), "an INTERVAL with a precision is not supported");
  }
  return TypeModifier(text, modifiers[0]);
}

Result<DataTypePtr> TypeFromTree(const SourceText& text, const Json& type_name, Place fallback) {
  const Place place = PlaceOf(type_name, fallback);
  CAIRN_RETURN_IF_ERROR(RequireOnly(text, type_name, place, {"names", "typmods", "typemod"}));
  std::vector<std::string> names = NamesOf(ListField(type_name, "names"));
  if (names.size() == 2 && names[0] == "pg_catalog") names.erase(names.begin());
  if (names.size() != 1) return text.Error(place, std::string("unknown type; ") + kKnownTypes);
  const std::string& name = names[0];
  const Json& modifiers = ListField(type_name, "typmods");
  if (name == "numeric" || name == "decimal") return DecimalFromTree(text, modifiers, place);
  if (const char* advice = Advice(name)) return text.Error(place, advice);
  DataTypePtr type = PlainType(name);
  if (type == nullptr) {
    return text.Error(place, "type \"" + name + "\" does not exist; " + kKnownTypes);
  }
  if (modifiers.empty()) return type;
  if (IsTimestamp(*type) && modifiers.size() == 1) {
    CAIRN_ASSIGN_OR_RETURN(const int64_t digits, TypeModifier(text, modifiers[0]));
    if (digits == 6) return type;
    return text.Error(place, "TIMESTAMP has 6 digits after the second: write TIMESTAMP");
  }
  return text.Error(place, IsText(*type) ? "VARCHAR(n) is not supported: use TEXT"
                                         : "this type takes no modifier");
}

}  // namespace cairn::sql
