// SPDX-License-Identifier: Apache-2.0
//
// What can be done about a damaged place: appended to the message that says what is damaged. Only
// what would work is named, so the other cuts are looked at first.
//
// Threads: free functions.
#pragma once

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/place.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

/// `why`, which says that cut `damaged` cannot be used, with which other cut of the place can be.
///
/// Cost:     reads manifests of other cuts, and asks for each of their objects.
/// Errors:   `why`: changed only when it is kCorruption.
Status AdviseOnCut(const Status& why, env::ObjectStore* objects, const Place& place,
                   base::CheckpointId damaged);

/// `why`, which says that the head is missing or cannot be read, with whether it can be rebuilt.
Status AdviseOnHead(const Status& why, env::ObjectStore* objects);

/// `why`, which says that a frame cannot be read, with who can tell of the whole cut.
Status AdviseOnFrame(const Status& why);

}  // namespace cairn::checkpoint
