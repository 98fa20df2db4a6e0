// SPDX-License-Identifier: Apache-2.0
//
// What of a restore can be tried without doing it: sources find their splits, the sinks of the
// saved job say whether another may go on from it.
//
// Threads: a free function.
#pragma once

#include <string>

#include "checkpoint/cut.h"
#include "checkpoint/recovery.h"
#include "engine/prepared_job.h"
#include "engine/restore_plan.h"
#include "engine/saved_sinks.h"

namespace cairn::engine {

/// Add to `plan` what sources and saved sinks say of the cut.
///
/// Blocks:   on the sources' files.
/// Errors:   none of the job's: those are refusals in the plan.
void TryRestore(const checkpoint::Cut& cut, const SavedSinks& saved_sinks, const PreparedJob& job,
                RestorePlan* plan);

}  // namespace cairn::engine
