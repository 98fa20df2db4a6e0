// SPDX-License-Identifier: Apache-2.0
//
// cairn state import: make a committed cut of exported state, in a new place.
//
// Invariants
//  1. All input is read and checked before the place is made.
//  2. The place must hold no checkpoint: nothing is ever replaced.
//  3. Memory is that of one batch or key group of the input, and 64 MiB to sort by.
//
// Threads: one.
#pragma once

#include <string>
#include <vector>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/job_declaration.h"
#include "env/file_system.h"

namespace cairn::cli {

struct ImportOptions {
  std::vector<std::string> files;
  std::string materialisation_store;  ///< as OpenStateSource
  std::string place;
  std::string like;  ///< place whose job, offsets and other slots are taken over; empty = none
  JobText job;       ///< job that the state is for, which may never have run; empty = none
  uint32_t key_groups = 0;  ///< of the new place; 0 = as the input says
  std::string op;  ///< what a table without a description holds: operator uid or id, and slot
  std::string slot;
};

/// Shape:    a file is a canonical stream, an opaque table, a typed table or a checkpoint place. A
///           table that lost its description (another program wrote it) is read as slot `op`,
///           `slot` of `like` or `job`.
/// Errors:   kInvalidArgument (not such a file, columns that do not fit, a row twice, a place that
///           holds a checkpoint) · kCorruption · kFenced · kResourceExhausted · kUnavailable.
Result<ExitCode> ImportState(env::FileSystem* files, const ImportOptions& options);

}  // namespace cairn::cli
