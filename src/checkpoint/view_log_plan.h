// SPDX-License-Identifier: Apache-2.0
//
// ViewLogPlan: decide which segments of a view log the next cut keeps, which go, and which are
// merged. Pure: looks at the manifest that the cut builds on and at what was appended.
//
// Retention first: whole segments from the front, never all of a partition, whose last one says
// where its positions go on.
//
// Then compaction, at the end of each partition only. A segment of half `segment_bytes` or more is
// final. The newest others are merged once `fan_in` of them stand together of which each is no
// larger than all newer ones, small ones counting as equal: sizes fall by halves, so a partition
// has a segment for every `segment_bytes` or so and some small ones, and a row is written again
// about as often as its log doubles up to `segment_bytes`. When the cut would have too many
// segments, fewer have to stand together, and at the last all are merged that are not final.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "format/manifest.h"
#include "format/view_log_segment.h"

namespace cairn::checkpoint {

struct ViewLogPlanOptions {
  /// A segment is ended at this size.
  uint64_t segment_bytes = uint64_t{16} << 20;
  /// Most segments of the cut.
  uint32_t segment_limit = format::kMaxViewLogSegments;
};

/// What becomes one segment of the next cut, or several when it is large.
struct ViewLogRun {
  std::vector<format::ViewLogSegment> old;  ///< contiguous
  bool appended = false;                    ///< then come the rows appended
  /// One segment as it is: nothing to write.
  bool kept() const { return old.size() == 1 && !appended; }
};

struct ViewLogPartitionPlan {
  uint32_t partition = 0;
  uint64_t next = 0;  ///< position of the first row appended
  std::vector<ViewLogRun> runs;
  std::vector<std::shared_ptr<arrow::RecordBatch>> appended;
};

struct ViewLogPlan {
  format::ViewLog log;  ///< without segments
  format::ViewLogSchema schema;
  std::vector<ViewLogPartitionPlan> partitions;  ///< ascending; those with rows
};

/// Plan the logs of `captured` over `base` (null = the first cut), by view and generation.
///
/// Errors:   kInvalidArgument: a log was begun with other columns or partitions, or subtasks
///           declare it differently · kResourceExhausted: more segments than allowed ·
///           kInternal: two subtasks appended to one partition.
Result<std::vector<ViewLogPlan>> PlanViewLogs(const CapturedCut& captured,
                                              const format::CheckpointManifest* base,
                                              const ViewLogPlanOptions& options);

}  // namespace cairn::checkpoint
