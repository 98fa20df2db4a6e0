// SPDX-License-Identifier: Apache-2.0
//
// Exit codes: the one table from what went wrong to what a script sees. Listed in docs/errors.md.
#pragma once

#include "cairn/status.h"

namespace cairn::cli {

enum class ExitCode : int {
  kDone = 0,
  kNegative = 1,       ///< differs, not valid, not found: the verb's documented "no"
  kUsage = 2,          ///< wrong command line, statement or input data: fix it
  kDamaged = 3,        ///< saved state is damaged or unreadable
  kUnavailable = 4,    ///< locked by another process, disk full, store away: try again
  kBug = 70,           ///< an error of Cairn's own
  kInterrupted = 130,  ///< SIGINT, after a final checkpoint
  kTerminated = 143,   ///< SIGTERM, after a final checkpoint
};

/// The exit code of a command that failed with `code`.
ExitCode ExitCodeOf(StatusCode code);

}  // namespace cairn::cli
