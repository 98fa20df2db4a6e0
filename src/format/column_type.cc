// SPDX-License-Identifier: Apache-2.0
//
// Column types: their names in SQL and manifests, and the Arrow types that hold their values.
#include <arrow/type.h>
#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string>
#include <vector>

#include "format/row_codec.h"

namespace cairn::format {
namespace {

struct NamedType {
  std::string_view name;
  ColumnType type;
};
constexpr NamedType kNamedTypes[] = {
    {"bigint", ColumnType::kBigint},       {"integer", ColumnType::kInteger},
    {"double", ColumnType::kDouble},       {"boolean", ColumnType::kBoolean},
    {"timestamp", ColumnType::kTimestamp}, {"date", ColumnType::kDate},
    {"text", ColumnType::kText},           {"bytes", ColumnType::kBytes},
};

/// Parse "(p,s)" of a decimal.
bool ParseDecimalArguments(std::string_view text, ColumnShape* shape) {
  if (text.size() < 5 || text.front() != '(' || text.back() != ')') return false;
  const char* end = text.data() + text.size() - 1;
  auto [comma, error] = std::from_chars(text.data() + 1, end, shape->precision);
  if (error != std::errc() || comma == end || *comma != ',') return false;
  auto [rest, scale_error] = std::from_chars(comma + 1, end, shape->scale);
  return scale_error == std::errc() && rest == end && shape->precision >= 1 &&
         shape->precision <= 38 && shape->scale >= 0 && shape->scale <= shape->precision;
}

}  // namespace

size_t ColumnShape::width() const {
  switch (type) {
    case ColumnType::kBigint:
    case ColumnType::kDouble:
    case ColumnType::kTimestamp:
      return 8;
    case ColumnType::kInteger:
    case ColumnType::kDate:
      return 4;
    case ColumnType::kBoolean:
      return 1;
    case ColumnType::kDecimal:
      return 16;
    case ColumnType::kText:
    case ColumnType::kBytes:
      return 0;
  }
  return 0;
}

Result<ColumnShape> ParseColumnType(std::string_view type) {
  ColumnShape shape;
  for (const NamedType& named : kNamedTypes) {
    if (named.name != type) continue;
    shape.type = named.type;
    return shape;
  }
  constexpr std::string_view kDecimalName = "decimal";
  if (type.starts_with(kDecimalName) &&
      ParseDecimalArguments(type.substr(kDecimalName.size()), &shape)) {
    shape.type = ColumnType::kDecimal;
    return shape;
  }
  return Status::InvalidArgument(fmt::format(
      "unknown column type '{}': use bigint, integer, double, boolean, timestamp, date, "
      "text, bytes or decimal(p,s) with 1 <= p <= 38 and 0 <= s <= p",
      type));
}

Result<std::shared_ptr<arrow::DataType>> ArrowTypeOf(const ColumnSpec& column) {
  auto parsed = ParseColumnType(column.type);
  if (!parsed.ok()) {
    return parsed.status().WithContext(fmt::format("column '{}'", column.name));
  }
  switch (parsed->type) {
    case ColumnType::kBigint:
      return arrow::int64();
    case ColumnType::kInteger:
      return arrow::int32();
    case ColumnType::kDouble:
      return arrow::float64();
    case ColumnType::kBoolean:
      return arrow::boolean();
    case ColumnType::kTimestamp:
      return arrow::timestamp(arrow::TimeUnit::MICRO);
    case ColumnType::kDate:
      return arrow::date32();
    case ColumnType::kDecimal:
      return arrow::decimal128(parsed->precision, parsed->scale);
    case ColumnType::kText:
      return arrow::utf8();
    case ColumnType::kBytes:
      return arrow::binary();
  }
  return Status::Internal("column type without an Arrow type");
}

Result<std::string> ColumnTypeOf(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::INT64:
      return std::string("bigint");
    case arrow::Type::INT32:
      return std::string("integer");
    case arrow::Type::DOUBLE:
      return std::string("double");
    case arrow::Type::BOOL:
      return std::string("boolean");
    case arrow::Type::DATE32:
      return std::string("date");
    case arrow::Type::STRING:
      return std::string("text");
    case arrow::Type::BINARY:
      return std::string("bytes");
    case arrow::Type::TIMESTAMP:
      if (static_cast<const arrow::TimestampType&>(type).unit() == arrow::TimeUnit::MICRO) {
        return std::string("timestamp");
      }
      break;
    case arrow::Type::DECIMAL128: {
      const auto& decimal = static_cast<const arrow::Decimal128Type&>(type);
      return fmt::format("decimal({},{})", decimal.precision(), decimal.scale());
    }
    default:
      break;
  }
  return Status::InvalidArgument(
      fmt::format("Arrow type {} has no column type: cast it to int64, int32, float64, bool, "
                  "timestamp[us], date32, decimal128, utf8 or binary",
                  type.ToString()));
}

namespace {

/// Expressions without an alias may all be named "?column?", columns of a slot may not.
void MakeNamesDistinct(std::vector<ColumnSpec>* columns) {
  std::set<std::string> names;
  for (ColumnSpec& column : *columns) {
    const std::string name = column.name;
    for (int n = 2; !names.insert(column.name).second; ++n) {
      column.name = name + "_" + std::to_string(n);
    }
  }
}

}  // namespace

Result<std::vector<ColumnSpec>> ColumnSpecsOf(const arrow::Schema& schema,
                                              std::span<const int> fields) {
  std::vector<int> all;
  if (fields.empty()) {
    for (int i = 0; i < schema.num_fields(); ++i) all.push_back(i);
    fields = all;
  }
  std::vector<ColumnSpec> columns;
  for (int i : fields) {
    const arrow::Field& field = *schema.field(i);
    auto type = ColumnTypeOf(*field.type());
    if (!type.ok()) return type.status().WithContext(fmt::format("column '{}'", field.name()));
    columns.push_back({field.name(), *std::move(type), field.nullable()});
  }
  MakeNamesDistinct(&columns);
  return columns;
}

Result<std::shared_ptr<arrow::Schema>> ArrowSchemaOf(std::span<const ColumnSpec> columns) {
  arrow::FieldVector fields;
  for (const ColumnSpec& column : columns) {
    CAIRN_ASSIGN_OR_RETURN(auto type, ArrowTypeOf(column));
    fields.push_back(arrow::field(column.name, std::move(type), column.nullable));
  }
  return arrow::schema(std::move(fields));
}

}  // namespace cairn::format
