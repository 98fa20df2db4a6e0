// SPDX-License-Identifier: Apache-2.0
//
// cairn checkpoint ls | show | verify: what a place of checkpoints holds, without its lock.
//
// Threads: one.
#pragma once

#include <string>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "env/file_system.h"

namespace cairn::cli {

struct CheckpointOptions {
  std::string source;
  bool json = false;
};

/// One line a committed cut, newest first.
Result<ExitCode> ListCheckpoints(env::FileSystem* files, const CheckpointOptions& options,
                                 Output* out);

/// Everything that one cut's manifest says.
Result<ExitCode> ShowCheckpoint(env::FileSystem* files, const CheckpointOptions& options,
                                Output* out);

/// Check every byte that a cut depends on. kNegative when something is damaged or missing.
///
/// Shape:    `progress` gets a line now and then while a large cut is read; null = silent.
Result<ExitCode> VerifyCheckpoint(env::FileSystem* files, const CheckpointOptions& options,
                                  Output* out, std::FILE* progress);

}  // namespace cairn::cli
