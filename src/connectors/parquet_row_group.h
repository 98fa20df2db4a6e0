// SPDX-License-Identifier: Apache-2.0
//
// RowGroupBytes: closes a Parquet row group by the bytes it holds. A group is in memory until it is
// full, and rows alone do not bound one of wide rows.
//
// Threads: one.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/util/byte_size.h>
#include <parquet/arrow/writer.h>

#include <cstdint>

namespace cairn::connectors {

class RowGroupBytes {
 public:
  explicit RowGroupBytes(int64_t most) : most_(most) {}

  /// Begin a new group of `writer` when the open one and `batch`, which is written next, hold more.
  arrow::Status MakeRoom(const arrow::RecordBatch& batch, parquet::arrow::FileWriter* writer) {
    ARROW_ASSIGN_OR_RAISE(const int64_t bytes, arrow::util::ReferencedBufferSize(batch));
    held_ += bytes;
    if (held_ <= most_ || held_ == bytes) return arrow::Status::OK();
    held_ = bytes;
    return writer->NewBufferedRowGroup();
  }

 private:
  const int64_t most_;
  int64_t held_ = 0;  ///< at least what the open group holds
};

}  // namespace cairn::connectors
