// SPDX-License-Identifier: Apache-2.0
//
// Run a job from its SQL text: the one entry that the command line and embedders of SQL call.
//
// A job's life: compile · options · open the checkpoint place · recover · build the graph · run ·
// last checkpoint. Nothing is started before everything that can be refused has been checked.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "cairn/hash.h"
#include "cairn/state_table.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "engine/options.h"
#include "engine/restore_plan.h"
#include "env/file_system.h"
#include "stream/job_control.h"

namespace cairn::engine {

using stream::JobControl;
using stream::JobOutcome;
using stream::JobProgress;
using stream::LogLevel;

/// What to run, and where.
struct JobSpec {
  std::string name;  ///< of the job, and of its default checkpoint place "./<name>.cairn"
  std::string sql;
  std::string sql_name;     ///< of the text, for messages: "job.sql"
  std::string backend;      ///< URI; empty = memory://
  std::string checkpoints;  ///< place, "none", or empty = the default place
  /// A retained checkpoint's number, or another place (PLACE or PLACE@ID) to begin from; empty =
  /// the newest checkpoint of the job's own place.
  std::string from;
  /// What may differ from the job that saved another place's checkpoint.
  RestoreConsent consent;
  bool fresh = false;  ///< refuse a place that holds a checkpoint
  uint32_t parallelism = 1;
  /// Option names and values, in order; they win over SET in the text.
  std::vector<std::pair<std::string, std::string>> settings;
  env::FileSystem* files = nullptr;  ///< null = the machine's
};

struct JobResult {
  JobOutcome outcome;
  std::string place;                ///< of the checkpoints; empty = none were taken
  base::CheckpointId resumed_from;  ///< 0 = began from nothing
};

/// Run the job to its end, until it is told to stop, or until it fails.
///
/// Threads:  blocks the caller, which also makes every callback of `control`.
/// Errors:   kInvalidArgument (SQL, option, URI, bad input row, checkpoint of another pipeline) ·
///           kNotFound (input, --from) · kFenced (the place is in use) · kCorruption (checkpoint or
///           prepared rows damaged) · kUnsupportedFormat · kResourceExhausted (disk, memory) ·
///           kUnavailable · kInternal.
Result<JobResult> RunJob(const JobSpec& spec, const JobControl& control);

/// Check SQL, options and URIs, make sources, operators and sinks, and start nothing. Return the
/// plan as text, one line a stage.
///
/// Errors:   as RunJob's that need no checkpoint place.
Result<std::string> ExplainJob(const JobSpec& spec);

/// What a job declares before it runs.
struct JobShape {
  checkpoint::Pipeline pipeline;
  uint32_t key_groups = kDefaultKeyGroups;
  std::vector<SlotDescriptor> slots;  ///< of all its operators, in the graph's order
};

/// As ExplainJob, and open every operator once to learn the slots that it makes.
///
/// Errors:   as ExplainJob, and what an operator's Open returned.
Result<JobShape> DescribeJob(const JobSpec& spec);

/// What beginning the job would do with the checkpoint that it begins with.
struct PlannedRestore {
  std::string place;              ///< of that checkpoint
  std::string target;             ///< the job's own place
  base::CheckpointId checkpoint;  ///< 0 = there is none: the job begins from the start
  uint32_t saved_parallelism = 0;
  uint32_t parallelism = 0;
  RestorePlan plan;
};

/// Plan what RunJob would restore. Takes no lock and writes nothing.
///
/// Errors:   as ExplainJob · as RunJob for a checkpoint that cannot be read. What would be refused
///           is in the plan.
Result<PlannedRestore> PlanJobRestore(const JobSpec& spec);

}  // namespace cairn::engine
