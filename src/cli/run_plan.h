// SPDX-License-Identifier: Apache-2.0
//
// cairn run --plan: what a run of a job would take over from the checkpoint that it begins with.
//
// Threads: one.
#pragma once

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "engine/run_job.h"
#include "env/file_system.h"

namespace cairn::cli {

/// Print the plan, a line a part. Runs nothing, writes nothing, takes no lock.
///
/// Blocks:   on reads of the whole state, whose rows it counts.
/// Errors:   as engine::PlanJobRestore. kNegative when the run would be refused.
Result<ExitCode> PrintRestorePlan(env::FileSystem* files, const engine::JobSpec& spec, bool json,
                                  Output* out);

}  // namespace cairn::cli
