// SPDX-License-Identifier: Apache-2.0
//
// TableDefinition: what CREATE TABLE said, in words that SQL, connectors and engine share.
#pragma once

#include <arrow/type_fwd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cairn::stream {

/// Where something stands in the SQL text, counted from 1; 0 = not from a text.
struct TextPosition {
  int line = 0;
  int column = 0;
};

struct ColumnDefinition {
  std::string name;
  std::shared_ptr<arrow::DataType> type;
  bool nullable = true;
};

/// One table: its columns and the connector that reads or writes it.
///
/// Shape:    `connector` is lower case; `options` holds every other entry of WITH, names in lower
///           case and values as written. The connector checks them and refuses unknown names.
struct TableDefinition {
  std::string name;
  std::vector<ColumnDefinition> columns;
  std::string connector;
  std::map<std::string, std::string> options;
  TextPosition position;
};

/// The Arrow schema of all columns, or of the chosen ones in the order given.
std::shared_ptr<arrow::Schema> SchemaOf(const TableDefinition& table);
std::shared_ptr<arrow::Schema> SchemaOf(const TableDefinition& table,
                                        const std::vector<int>& columns);

/// The SQL name of a column's type: "BIGINT", "DECIMAL(p,s)"; Arrow's own name of a type that no
/// column can have.
std::string SqlTypeName(const arrow::DataType& type);

}  // namespace cairn::stream
