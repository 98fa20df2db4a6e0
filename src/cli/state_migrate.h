// SPDX-License-Identifier: Apache-2.0
//
// cairn state check | migrate: will saved state be read by a job as it is declared now, and a new
// place in which it is.
//
// Invariants
//  1. The source is never changed: a migration makes a new place, whole or not at all.
//
// Threads: one.
#pragma once

#include <string>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/job_declaration.h"
#include "cli/output.h"
#include "env/file_system.h"

namespace cairn::cli {

struct CheckOptions {
  std::string source;
  std::string materialisation_store;  ///< as OpenStateSource
  JobText job;                        ///< what the state must fit; empty = none
  std::string expected;               ///< list of slots, or another SOURCE; empty = none
  bool quiet = false;                 ///< only what does not fit
  bool json = false;
};

/// Print the stamp of every saved slot, or, with something to compare with, whether it fits.
/// kNegative when something does not.
Result<ExitCode> CheckState(env::FileSystem* files, const CheckOptions& options, Output* out);

struct MigrateOptions {
  std::string source;
  std::string materialisation_store;  ///< as OpenStateSource
  std::string place;                  ///< the new one
  JobText job;
  std::string expected;
  bool drop = false;            ///< leave out slots that are not declared any more
  bool accept_changes = false;  ///< keep state and offsets whose operator or source was redefined
};

/// Errors:   kInvalidArgument, naming what does not fit and the option that would accept it.
Result<ExitCode> MigrateState(env::FileSystem* files, const MigrateOptions& options);

}  // namespace cairn::cli
