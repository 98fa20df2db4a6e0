// SPDX-License-Identifier: Apache-2.0
//
// cairn store check: does a place keep the promises that checkpoints stand on?
//
// Threads: one.
#pragma once

#include <string>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "env/file_system.h"

namespace cairn::cli {

struct StoreCheckOptions {
  std::string place;
  bool json = false;
};

/// Try every promise with objects of its own, which it removes. kNegative when one is broken.
///
/// Errors:   kUnavailable, kInvalidArgument: it could not be tried (unreachable, access denied).
Result<ExitCode> CheckStore(env::FileSystem* files, const StoreCheckOptions& options, Output* out);

}  // namespace cairn::cli
