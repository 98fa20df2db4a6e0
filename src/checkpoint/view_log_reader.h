// SPDX-License-Identifier: Apache-2.0
//
// ViewLogReader: a view's retained log as one cut has it.
//
//   auto log = ViewLogReader::Open(cut->objects(), cut->shared_manifest(), "orders");
//   auto scan = log->Scan(partition, {.first = 1000, .event_time_min = noon});
//   while (auto batch = scan->Next()) { … batch->first, batch->rows … }
//
// A log of a cut never changes. To follow a view, read the next cut from the position where this
// one ended.
//
// Threads: a reader is read by any; a scan belongs to one thread.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "env/object_store.h"
#include "format/manifest.h"

namespace cairn::checkpoint {

/// What to read of a partition. Positions are exact. Times only leave out whole segments: rows of
/// other times come along with those asked for.
struct ViewLogRange {
  std::optional<uint64_t> first;          ///< nothing = from the oldest row that is retained
  std::optional<uint64_t> end;            ///< exclusive; nothing = to the end of the log
  std::optional<int64_t> event_time_min;  ///< milliseconds, inclusive
  std::optional<int64_t> event_time_max;  ///< milliseconds, inclusive
};

/// Rows that follow each other in a partition.
struct ViewLogBatch {
  uint64_t first = 0;  ///< position of the first row
  std::shared_ptr<arrow::RecordBatch> rows;
};

/// What a scan looks at.
struct ViewLogScanCounts {
  uint64_t segments = 0;           ///< of the partition
  uint64_t pruned_position = 0;    ///< not read: none of their positions is asked for
  uint64_t pruned_event_time = 0;  ///< not read: none of their event times is
};

/// Reads a range of a partition, segment by segment.
class ViewLogScan {
 public:
  /// The next rows; nothing at the end.
  ///
  /// Errors:   kCorruption, naming the segment · kUnavailable.
  /// Cost:     memory of one segment.
  Result<std::optional<ViewLogBatch>> Next();
  const ViewLogScanCounts& counts() const { return counts_; }

 private:
  friend class ViewLogReader;
  ViewLogScan() = default;
  Status OpenSegment();

  env::ObjectRanges* objects_ = nullptr;
  std::shared_ptr<const format::CheckpointManifest> manifest_;
  const format::ViewLog* log_ = nullptr;
  ViewLogRange range_;
  ViewLogScanCounts counts_;
  std::vector<const format::ViewLogSegment*> segments_;  // to be read
  size_t next_segment_ = 0;
  uint64_t position_ = 0;  // of the first row of the next batch
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  size_t next_batch_ = 0;
};

class ViewLogReader {
 public:
  /// Open the log of `view`; of several generations that of the newest UUID.
  ///
  /// Shape:    `objects` outlives the reader and its scans.
  /// Errors:   kNotFound: the cut has no log of this view; lists those that it has.
  static Result<std::unique_ptr<ViewLogReader>> Open(
      env::ObjectRanges* objects, std::shared_ptr<const format::CheckpointManifest> manifest,
      std::string_view view);

  const format::ViewLog& log() const { return *log_; }
  uint32_t partitions() const { return log_->partitions; }
  /// Position of the oldest row retained; equal to end() when there is none.
  uint64_t retained_from(uint32_t partition) const;
  /// Position after the newest row.
  uint64_t end(uint32_t partition) const;

  /// Errors:   kInvalidArgument: no such partition, or a range beyond the log's end · kNotFound:
  ///           the rows from `first` on are no longer retained.
  Result<std::unique_ptr<ViewLogScan>> Scan(uint32_t partition, const ViewLogRange& range) const;

 private:
  ViewLogReader() = default;

  env::ObjectRanges* objects_ = nullptr;
  std::shared_ptr<const format::CheckpointManifest> manifest_;
  const format::ViewLog* log_ = nullptr;
};

}  // namespace cairn::checkpoint
