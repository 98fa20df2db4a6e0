// SPDX-License-Identifier: Apache-2.0
//
// Write what a ViewLogPlan says: the segment objects of one attempt, before its manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/executor.h"
#include "checkpoint/view_log_plan.h"
#include "env/object_store.h"
#include "format/manifest.h"

namespace cairn::checkpoint {

/// The view logs of a cut, once their segments are written.
struct WrittenViewLogs {
  std::vector<format::ViewLog> logs;  ///< by view and generation
  uint64_t segments_new = 0;
  uint64_t bytes_new = 0;
  uint64_t rows_new = 0;  ///< appended; rows that were merged do not count
  /// Segments that should have been merged and cannot be read, one line each. They stay.
  std::vector<std::string> problems;
};

/// Write the new segments of checkpoint `origin`, partitions in parallel on `executor`.
///
/// Shape:    `*created` names every object that may be there afterwards, also when this fails.
/// Durable:  yes: the names too.
/// Errors:   kUnavailable · kResourceExhausted · kAlreadyExists.
/// Cost:     memory of one segment for each partition at work.
Result<WrittenViewLogs> WriteViewLogs(env::ObjectStore* objects,
                                      const std::vector<ViewLogPlan>& plans,
                                      const ViewLogPlanOptions& options, base::CheckpointId origin,
                                      Executor* executor, std::vector<std::string>* created);

/// Read a segment whole and check it against its manifest.
///
/// Errors:   kCorruption, naming the object, also when it is missing · kUnavailable.
Result<format::DecodedViewLogSegment> ReadViewLogSegment(env::ObjectRanges* objects,
                                                         const format::ViewLog& log,
                                                         const format::ViewLogSegment& segment);

}  // namespace cairn::checkpoint
