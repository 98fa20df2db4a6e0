// SPDX-License-Identifier: Apache-2.0
#include "stream/table_definition.h"

#include <arrow/type.h>

namespace cairn::stream {

std::shared_ptr<arrow::Schema> SchemaOf(const TableDefinition& table) {
  arrow::FieldVector fields;
  fields.reserve(table.columns.size());
  for (const ColumnDefinition& column : table.columns) {
    fields.push_back(arrow::field(column.name, column.type, column.nullable));
  }
  return arrow::schema(std::move(fields));
}

std::shared_ptr<arrow::Schema> SchemaOf(const TableDefinition& table,
                                        const std::vector<int>& columns) {
  arrow::FieldVector fields;
  fields.reserve(columns.size());
  for (int index : columns) {
    const ColumnDefinition& column = table.columns[static_cast<size_t>(index)];
    fields.push_back(arrow::field(column.name, column.type, column.nullable));
  }
  return arrow::schema(std::move(fields));
}

std::string SqlTypeName(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::INT64:
      return "BIGINT";
    case arrow::Type::INT32:
      return "INTEGER";
    case arrow::Type::DOUBLE:
      return "DOUBLE";
    case arrow::Type::STRING:
      return "TEXT";
    case arrow::Type::BOOL:
      return "BOOLEAN";
    case arrow::Type::TIMESTAMP:
      return "TIMESTAMP";
    case arrow::Type::DATE32:
      return "DATE";
    case arrow::Type::DECIMAL128: {
      const auto& decimal = static_cast<const arrow::Decimal128Type&>(type);
      return "DECIMAL(" + std::to_string(decimal.precision()) + "," +
             std::to_string(decimal.scale()) + ")";
    }
    default:
      return type.ToString();
  }
}

}  // namespace cairn::stream
