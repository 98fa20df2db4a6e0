// SPDX-License-Identifier: Apache-2.0
//
// cairn checkpoint why | gc | copy | upgrade | rebuild-head: what a place holds and why, and its
// repair.
//
// Threads: one.
#pragma once

#include <cstdio>
#include <string>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "env/file_system.h"

namespace cairn::cli {

struct PlaceOptions {
  std::string source;
  std::string object;  ///< of why: one key, or empty
  std::string to;      ///< of copy
  bool dry_run = false;
  bool write = false;
  bool json = false;
};

/// Which cuts keep which objects. Takes no lock.
Result<ExitCode> ExplainObjects(env::FileSystem* files, const PlaceOptions& options, Output* out);

/// Delete what nothing needs, or say what that is.
Result<ExitCode> CollectPlace(env::FileSystem* files, const PlaceOptions& options, Output* out);

/// Copy a cut into a place of its own, and verify the copy.
Result<ExitCode> CopyCheckpoint(env::FileSystem* files, const PlaceOptions& options,
                                std::FILE* progress);

/// Check that everything in a place is of the newest format version, which is the only one there
/// has been: there is nothing to rewrite yet.
///
/// Blocks:   on reads of every retained cut.
/// Errors:   kUnsupportedFormat for a newer version · kCorruption for what is damaged.
Result<ExitCode> UpgradePlace(env::FileSystem* files, const PlaceOptions& options, Output* out);

/// Say which head the manifests make, and write it when asked to.
Result<ExitCode> RebuildHead(env::FileSystem* files, const PlaceOptions& options, Output* out);

}  // namespace cairn::cli
