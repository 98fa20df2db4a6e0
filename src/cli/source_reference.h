// SPDX-License-Identifier: Apache-2.0
//
// SourceReference: what SOURCE on the command line names.
//
//   DIR, file://DIR          the newest committed cut of a checkpoint place
//   DIR@7, file://DIR@7      cut 7 of it
//   s3://BUCKET/PREFIX       the same of a place in a bucket; s3://BUCKET/PREFIX@7
//   FILE                     a snapshot in the canonical stream format
//   DIR, DIR@7               of a directory of checkpoint-<id>.snap: its newest valid one, or 7
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::cli {

struct SourceReference {
  std::string path;
  std::optional<base::CheckpointId> id;
  bool is_file = false;  ///< a snapshot file, not a place
};

/// Take SOURCE apart and look what it names.
///
/// Errors:   kInvalidArgument (another scheme, '@' with something that is no id) · kNotFound (no
///           such file or directory) · kUnavailable.
Result<SourceReference> ResolveSource(env::FileSystem* files, std::string_view text);

}  // namespace cairn::cli
