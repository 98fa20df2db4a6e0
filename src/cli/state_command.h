// SPDX-License-Identifier: Apache-2.0
//
// cairn state ls | cat | get: look at saved state.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "env/file_system.h"

namespace cairn::cli {

struct StateOptions {
  std::string source;
  std::string materialisation_store;  ///< as OpenStateSource
  std::string op;                     ///< uid or 16 hex digits; empty = all
  std::string slot;                   ///< empty = all
  std::string key;                    ///< of get
  uint64_t limit = 50;                ///< rows a slot; 0 = all
  bool json = false;
};

/// Operators and slots with their live rows and bytes. Reads everything, since deltas must be laid
/// over their bases to know what is live.
Result<ExitCode> ListState(env::FileSystem* files, const StateOptions& options, Output* out);

/// Rows, typed and decoded.
Result<ExitCode> PrintState(env::FileSystem* files, const StateOptions& options, Output* out);

/// The rows of one key. kNegative when no slot has it.
///
/// Cost:     reads the frames of the key's group only.
Result<ExitCode> GetState(env::FileSystem* files, const StateOptions& options, Output* out);

}  // namespace cairn::cli
