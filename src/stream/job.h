// SPDX-License-Identifier: Apache-2.0
//
// Run a job graph: cut it into tasks, give each a thread, let the coordinator lead them, join them.
#pragma once

#include <memory>

#include "cairn/memory_budget.h"
#include "cairn/status.h"
#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "stream/coordinator.h"
#include "stream/job_control.h"
#include "stream/job_graph.h"

namespace cairn::stream {

struct JobOptions {
  CoordinatorOptions coordinator;
  ChannelLimits channels;
  MemoryBudget* budget = nullptr;  ///< null = the process's
  /// Called once before the tasks start, with what can wake and trigger the job; for tests.
  std::function<void(Coordinator*)> on_coordinator;
};

/// Run `graph` from `cut` (null = from nothing) until its input ends, it is told to stop or it
/// fails. `store` null = without checkpoints.
///
/// Shape:    sources are asked for their splits and sinks are recovered before any thread starts;
///           no row is read before every subtask is restored and the receipts are checked.
/// Threads:  blocks the caller; returns when every thread it started has been joined.
/// Errors:   the first error of any part.
Result<JobOutcome> RunGraph(const JobGraph& graph, const JobOptions& options,
                            checkpoint::CheckpointStore* store,
                            std::shared_ptr<const checkpoint::Cut> cut, JobControl control);

}  // namespace cairn::stream
