// SPDX-License-Identifier: Apache-2.0
//
// The inputs of an import: snapshot streams, opaque and typed tables, and checkpoint places, each
// read a batch or a key group at a time.
//
// Threads: one.
#pragma once

#include <string>

#include "cairn/status.h"
#include "cli/import_target.h"
#include "cli/snapshot_parts.h"
#include "env/file_system.h"

namespace cairn::cli {

/// Which slot a table holds that lost its description.
struct SlotChoice {
  std::string op;  ///< uid, or id in 16 hex digits
  std::string slot;
};

/// Add all rows of `input`. `materialisation_store` is as in OpenStateSource.
///
/// Errors:   kInvalidArgument (no such file format, columns that do not fit, a slot that is not
///           declared) · kCorruption · kUnavailable.
Status TakeInput(env::FileSystem* files, const std::string& input, const SlotChoice& choice,
                 const std::string& materialisation_store, ImportTarget* target,
                 SnapshotParts* parts);

}  // namespace cairn::cli
