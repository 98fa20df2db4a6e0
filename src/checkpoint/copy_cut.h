// SPDX-License-Identifier: Apache-2.0
//
// Copy a committed cut into a place of its own: byte for byte, with all that it references.
//
// The copy is of the same deployment. A job resumes from it as from the original, and rows that its
// exactly-once sinks publish carry the same names: run the one or the other, not both.
//
// Threads: free functions.
#pragma once

#include <cstdint>
#include <functional>

#include "cairn/status.h"
#include "checkpoint/place.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

struct CopyReport {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

/// Called now and then with the bytes done and the bytes there are.
using CopyProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Copy `cut` of `place`, which lies in `from`, to `to`, which holds no cut. Frames of the cut are
/// checked while they are copied, before a manifest in `to` names them.
///
/// Shape:    a copy that was cut short is finished by the next one of the same cut.
/// Durable:  yes. The head is written last: before it the copy is no place of checkpoints.
/// Errors:   kAlreadyExists: `to` holds another cut, or other objects under these names ·
///           kCorruption: the cut is damaged or incomplete · kUnavailable · kResourceExhausted.
/// Cost:     reads and writes every byte once; 8 MiB of memory.
Result<CopyReport> CopyCut(env::ObjectStore* from, const Place& place,
                           const format::CutReference& cut, env::ObjectStore* to,
                           const CopyProgress& progress);

}  // namespace cairn::checkpoint
