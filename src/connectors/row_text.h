// SPDX-License-Identifier: Apache-2.0
//
// RowText: rows of a batch as lines of NDJSON, CSV or aligned text.
//
// Threads: one.
// Invariants
//  1. What is written reads back to the same values (NDJSON and CSV), NULL and '' apart.
//  2. NDJSON: integers and decimals are bare numbers with all their digits; NaN and infinities are
//     strings. CSV: a TEXT is quoted when it holds a delimiter, quote or line end, or would read as
//     NULL.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "connectors/column_builder.h"
#include "connectors/csv_scanner.h"
#include "stream/batch.h"

namespace cairn::connectors {

/// Bytes that grow without being set first.
class TextBuffer {
 public:
  /// Make room for `more` bytes behind the end and return the end.
  char* Room(size_t more) {
    if (size_ + more > capacity_) Grow(more);
    return data_.get() + size_;
  }
  void SetEnd(const char* end) { size_ = static_cast<size_t>(end - data_.get()); }
  void Append(std::string_view text);
  std::string_view view() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }
  void clear() { size_ = 0; }

 private:
  void Grow(size_t more);
  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

enum class RowTextFormat : uint8_t { kNdjson, kCsv, kTable };

struct RowTextOptions {
  RowTextFormat format = RowTextFormat::kNdjson;
  bool changelog = false;  ///< a first column "op": +I, -U, +U or -D
  CsvDialect csv;
  bool header = true;     ///< CSV and table: AppendHeader writes one
  std::string null_text;  ///< how CSV writes NULL
};

class RowText {
 public:
  static Result<RowText> Make(RowTextOptions options, std::shared_ptr<arrow::Schema> schema);

  /// Append the header line, for formats that have one.
  void AppendHeader(TextBuffer* out) const;

  /// Append the selected rows of `batch`, whose columns have the schema's types.
  ///
  /// Errors:   kInvalidArgument when the batch has other columns.
  Status Append(const stream::Batch& batch, TextBuffer* out);

 private:
  /// One column of the batch at hand.
  struct Column {
    ColumnKind kind;
    int scale = 0;
    const uint8_t* values = nullptr;  ///< of row 0; for text the bytes, for boolean the bitmap
    const int32_t* offsets = nullptr;
    const uint8_t* validity = nullptr;
    int64_t bit_offset = 0;  ///< of row 0 in bitmaps
    std::string prefix;      ///< NDJSON: '{"name":' or ',"name":'
  };

  Status Bind(const arrow::RecordBatch& rows);
  char* PutRow(int64_t row, stream::RowKind kind, TextBuffer* out);
  char* PutJsonValue(const Column& column, int64_t row, char* at, TextBuffer* out);
  char* PutCsvValue(const Column& column, int64_t row, char* at, TextBuffer* out);
  char* PutPlain(const Column& column, int64_t row, char* at);

  RowTextOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Column> columns_;
  std::shared_ptr<arrow::Schema> bound_schema_;  ///< of the last batch: checked already
};

}  // namespace cairn::connectors
