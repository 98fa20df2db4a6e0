// SPDX-License-Identifier: Apache-2.0
//
// What a caller says to a running job and hears from it.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "base/ids.h"
#include "cairn/status.h"

namespace cairn::stream {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };

/// The figures of a job at one moment. Counters are of this run.
struct JobProgress {
  int64_t elapsed_ms = 0;
  uint64_t rows_in = 0;       ///< rows read by sources
  uint64_t rows_out = 0;      ///< rows written to sinks
  uint64_t rows_skipped = 0;  ///< malformed rows
  double rows_in_per_s = 0;   ///< since the last report; over the run in the outcome
  double rows_out_per_s = 0;
  uint64_t state_bytes = 0;

  base::CheckpointId checkpoint;   ///< last committed, also by an earlier run; 0 = none
  int64_t checkpoint_age_ms = -1;  ///< since it was committed; -1 = none
  int64_t checkpoint_duration_ms = 0;
  uint64_t checkpoint_bytes = 0;        ///< newly written by it
  uint64_t checkpoint_total_bytes = 0;  ///< written and referenced
  uint64_t checkpoints_committed = 0;
  uint64_t checkpoints_failed = 0;
  uint64_t checkpoints_skipped = 0;  ///< triggers that came while one was in flight
};

/// How the caller steers a job.
///
/// Threads:  the callbacks come from the thread that runs the job, one at a time.
struct JobControl {
  /// Requested: take a last checkpoint, then stop.
  std::stop_token stop;
  std::function<void(const JobProgress&)> on_progress;
  int64_t progress_interval_ms = 500;
  std::function<void(LogLevel, const std::string&)> log;
};

/// How a job ended, when it did not fail.
struct JobOutcome {
  JobProgress progress;
  bool stopped = false;      ///< on request, before the end of its input
  bool nothing_new = false;  ///< resumed from an ended cut and found no new input
};

}  // namespace cairn::stream
