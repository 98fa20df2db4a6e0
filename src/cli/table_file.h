// SPDX-License-Identifier: Apache-2.0
//
// Tables in files: Arrow IPC files and Parquet, written for exports and read for imports.
//
// Threads: one.
#pragma once

#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <string>

#include "cairn/status.h"
#include "format/object.h"

namespace cairn::cli {

enum class TableFormat : uint8_t { kArrow, kParquet };

/// Write record batches to `sink`. Arrow: plain types, no dictionary, no compression. Parquet:
/// zstd, with the Arrow schema and its metadata.
class TableWriter {
 public:
  virtual ~TableWriter() = default;

  /// `sink` outlives the writer.
  static Result<std::unique_ptr<TableWriter>> Open(TableFormat format,
                                                   const std::shared_ptr<arrow::Schema>& schema,
                                                   format::ByteSink* sink);

  virtual Status Write(const arrow::RecordBatch& batch) = 0;
  /// Write the footer.
  virtual Status Finish() = 0;
};

/// A table read front to back.
struct TableReader {
  std::shared_ptr<arrow::Schema> schema;
  /// The next batch; null at the end.
  std::function<Result<std::shared_ptr<arrow::RecordBatch>>()> next;
};

/// Open an Arrow IPC file or a Parquet file, told by its first bytes.
///
/// Errors:   kInvalidArgument (neither of the two) · kCorruption · kUnavailable.
Result<TableReader> OpenTable(const std::string& path);

}  // namespace cairn::cli
