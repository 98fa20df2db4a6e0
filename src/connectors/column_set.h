// SPDX-License-Identifier: Apache-2.0
//
// What a reader of one file is asked for: columns, what to do with bad rows, and how it answers.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "connectors/column_builder.h"

namespace cairn::connectors {

enum class OnError : uint8_t { kFail, kSkip };

/// The columns to decode, in the order of the batches, and the names every file must have.
struct ColumnSet {
  std::shared_ptr<arrow::Schema> schema;  ///< to decode
  std::vector<std::string> required;      ///< all columns of the table
};

/// Decode one split front to back.
///
/// Threads:  one.
class SplitDecoder {
 public:
  virtual ~SplitDecoder() = default;

  /// Return the next rows, at least one; null = the split has ended.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;

  /// The place behind the rows returned so far: a byte offset, or a row number in Parquet.
  virtual uint64_t position() const = 0;

  virtual uint64_t rows_skipped() const { return 0; }
};

/// A bad row: "FILE line 7, column price: "x" is not a BIGINT".
Status BadRow(const std::string& path, uint64_t line, const std::string& column,
              std::string_view value, std::string_view reason);

/// Begin a batch in every builder.
Status BeginBatch(std::vector<ColumnBuilder>* columns, int64_t rows, int64_t text_bytes);

/// End the batch of `rows` rows.
Result<std::shared_ptr<arrow::RecordBatch>> FinishBatch(
    const std::shared_ptr<arrow::Schema>& schema, std::vector<ColumnBuilder>* columns,
    int64_t rows);

/// Make one builder a column.
Result<std::vector<ColumnBuilder>> MakeBuilders(const arrow::Schema& schema);

}  // namespace cairn::connectors
