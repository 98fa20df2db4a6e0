// SPDX-License-Identifier: Apache-2.0
//
// PreparedJob: all of a job that can be checked before its checkpoint place is opened: text,
// options, URIs, sources, operators and sinks.
//
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "engine/backend_uri.h"
#include "engine/graph_builder.h"
#include "engine/options.h"
#include "engine/run_job.h"
#include "env/file_system.h"
#include "stream/plan.h"

namespace cairn::engine {

struct PreparedJob {
  stream::LogicalPlan plan;
  Options options;
  std::string place;  ///< empty = none
  Backend backend;
  BuiltJob built;
};

/// Errors:   kInvalidArgument: SQL, option, URI, name, or what a connector or an operator refuses.
Result<std::unique_ptr<PreparedJob>> PrepareJob(const JobSpec& spec, env::FileSystem* files);

/// The slots that the job's operators make, in the graph's order. Opens each operator once.
///
/// Errors:   what an operator's Open returned.
Result<std::vector<SlotDescriptor>> SlotsOf(const PreparedJob& job);

}  // namespace cairn::engine
