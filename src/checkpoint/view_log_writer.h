// SPDX-License-Identifier: Apache-2.0
//
// ViewLogWriter: the rows that one subtask appended to a view log and that no committed cut holds.
//
//   writer->Append(partition, rows);                      as they come
//   captured.view_logs.push_back(writer->Capture());      at the barrier
//   store->Persist(…); store->Commit(…);
//   writer->Committed(captured.view_logs[i]);             only after Commit
//
// Positions are the store's to give: those of a partition go on where the committed cut ends. So
// rows of an attempt that was given up are simply written again with the next, and rows that a
// source delivers once more after a restart take the places that they had.
//
// Threads: one; the batches are immutable, so a capture is read by others meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/status.h"
#include "checkpoint/cut.h"

namespace cairn::checkpoint {

/// Which log a subtask appends to.
struct ViewLogSpec {
  std::string view;
  std::string generation;
  std::shared_ptr<arrow::Schema> schema;
  std::optional<std::string> event_time;
  uint32_t partitions = 1;  ///< of the whole log
  ViewLogRetention retention;
};

class ViewLogWriter {
 public:
  /// Errors:   kInvalidArgument: a name, generation, schema or event-time column that a view log
  ///           cannot have.
  static Result<std::unique_ptr<ViewLogWriter>> Open(ViewLogSpec spec);

  /// Append rows to a partition. They are never changed afterwards.
  ///
  /// Errors:   kInvalidArgument: other columns, or no such partition.
  Status Append(uint32_t partition, std::shared_ptr<arrow::RecordBatch> rows);

  /// Everything not yet in a committed cut.
  ///
  /// Cost:     a reference a batch.
  CapturedViewLog Capture() const { return pending_; }
  /// The cut that `captured` went into is committed: its rows are the log's now.
  void Committed(const CapturedViewLog& captured);

  uint64_t pending_rows() const { return rows_; }
  /// Memory that the rows hold, for the caller's budget.
  uint64_t pending_bytes() const { return bytes_; }

 private:
  explicit ViewLogWriter(ViewLogSpec spec);

  CapturedViewLog pending_;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace cairn::checkpoint
