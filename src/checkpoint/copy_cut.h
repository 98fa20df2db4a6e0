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
#include <string>

#include "cairn/status.h"
#include "checkpoint/place.h"
#include "env/object_store.h"
#include "format/manifest.h"

namespace cairn::checkpoint {

struct CopyReport {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

/// Called now and then with the bytes done and the bytes there are.
using CopyProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Copy the cut that `from` has open to `to`, which holds no cut. Of a directory every object is
/// open already, so that the job may retire the cut meanwhile. Frames of the cut are checked while
/// they are copied, before a manifest in `to` names them.
///
/// Shape:    a copy that was cut short is finished by the next one of the same cut. `pipeline` is
/// the
///           place's description of its pipeline, which only messages need; empty = none.
/// Durable:  yes. The head is written last: before it the copy is no place of checkpoints.
/// Errors:   kAlreadyExists: `to` holds another cut, or other objects under these names ·
///           kCorruption: the cut is damaged or incomplete · kUnavailable · kResourceExhausted.
/// Cost:     reads and writes every byte once; 8 MiB of memory.
Result<CopyReport> CopyCut(env::ObjectRanges* from, const Place& place,
                           const format::CheckpointManifest& manifest, const std::string& pipeline,
                           env::ObjectStore* to, const CopyProgress& progress);

}  // namespace cairn::checkpoint
