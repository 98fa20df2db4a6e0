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
#include "checkpoint/restore_receipt.h"
#include "env/object_store.h"

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
  uint64_t checkpoint_frames = 0;       ///< newly written
  uint64_t checkpoint_total_frames = 0;
  int64_t checkpoint_persist_ms = 0;  ///< of it, encoding, writing and deciding
  env::StoreUse checkpoint_use;       ///< what it cost up to its decision, failed tries included
  uint64_t checkpoints_committed = 0;
  uint64_t checkpoints_failed = 0;
  base::CheckpointId persisting;     ///< written at this moment; 0 = none
  int64_t persisting_ms = 0;         ///< since it began to be
  uint64_t persisting_bytes = 0;     ///< written by it
  uint64_t persisting_expected = 0;  ///< about how many there will be; 0 = unknown
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
  /// Called once when all state is loaded and accounted for; never without a cut to restore.
  std::function<void(const checkpoint::RestoreReceipt&)> on_restored;
};

/// How a job ended, when it did not fail.
struct JobOutcome {
  JobProgress progress;
  bool stopped = false;      ///< on request, before the end of its input
  bool nothing_new = false;  ///< resumed from an ended cut and found no new input
};

}  // namespace cairn::stream
