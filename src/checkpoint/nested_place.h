// SPDX-License-Identifier: Apache-2.0
//
// Places of checkpoints within one another: what one of them removes or lists could be the other's,
// and a copy or a removal of the outer one takes the inner one along. Of directories only; a
// bucket's prefixes are not looked through.
//
// Threads: free functions.
#pragma once

#include <optional>
#include <string>

#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::checkpoint {

/// The place that directory `path` lies in: itself, or one above it. Nothing when there is none.
///
/// Blocks:   on a look at each directory above.
std::optional<std::string> PlaceAround(env::FileSystem* files, const std::string& path);

/// Refuse to make a place at `directory` within another one, or around one that lies directly in
/// it. One that is there already is taken as it is: its checkpoints are of use.
///
/// Errors:   kInvalidArgument.
Status RefuseNestedPlace(env::FileSystem* files, const std::string& directory);

}  // namespace cairn::checkpoint
