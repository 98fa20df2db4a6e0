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

}  // namespace cairn::stream
