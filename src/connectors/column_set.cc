// SPDX-License-Identifier: Apache-2.0
#include "connectors/column_set.h"

namespace cairn::connectors {
namespace {

/// Bytes of a value that a message shows.
constexpr size_t kShownBytes = 60;

}  // namespace

Status BadRow(const std::string& path, uint64_t line, const std::string& column,
              std::string_view value, std::string_view reason) {
  std::string message = path + " line " + std::to_string(line);
  if (!column.empty()) message += ", column " + column;
  message += ": ";
  if (!value.empty()) {
    message += '"';
    message += value.substr(0, kShownBytes);
    if (value.size() > kShownBytes) message += "...";
    message += "\" ";
  }
  message += reason;
  message += " (on_error = 'skip' leaves such rows out)";
  return Status::InvalidArgument(std::move(message));
}

Status BeginBatch(std::vector<ColumnBuilder>* columns, int64_t rows, int64_t text_bytes) {
  for (ColumnBuilder& column : *columns) {
    CAIRN_RETURN_IF_ERROR(column.Begin(rows, text_bytes));
  }
  return {};
}

Result<std::shared_ptr<arrow::RecordBatch>> FinishBatch(
    const std::shared_ptr<arrow::Schema>& schema, std::vector<ColumnBuilder>* columns,
    int64_t rows) {
  arrow::ArrayVector arrays;
  arrays.reserve(columns->size());
  for (ColumnBuilder& column : *columns) {
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Array> array, column.Finish(rows));
    arrays.push_back(std::move(array));
  }
  return arrow::RecordBatch::Make(schema, rows, std::move(arrays));
}

Result<std::vector<ColumnBuilder>> MakeBuilders(const arrow::Schema& schema) {
  std::vector<ColumnBuilder> columns;
  for (const std::shared_ptr<arrow::Field>& field : schema.fields()) {
    CAIRN_ASSIGN_OR_RETURN(ColumnBuilder column, ColumnBuilder::Make(field));
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace cairn::connectors
