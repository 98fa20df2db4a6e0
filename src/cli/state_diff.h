// SPDX-License-Identifier: Apache-2.0
//
// cairn state diff: what is in one saved state and not in another.
//
// Rows are compared by operator, slot and key, so places of other parallelism or key groups, and
// snapshots, compare as equal when their state is. Both sides are sorted in fixed memory, beyond it
// in files below the directory for temporary files.
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

struct DiffOptions {
  std::string a;
  std::string b;
  std::string materialisation_store;  ///< as OpenStateSource
  std::string op;
  std::string slot;
  uint64_t limit = 20;   ///< rows printed a slot; 0 = all. Counts are always exact
  bool summary = false;  ///< counts of every slot and field, no rows
  bool json = false;
};

/// kNegative when the two differ.
Result<ExitCode> DiffState(env::FileSystem* files, const DiffOptions& options, Output* out);

}  // namespace cairn::cli
