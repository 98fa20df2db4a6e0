// SPDX-License-Identifier: Apache-2.0
//
// Repair of a place that nobody writes: collect its garbage, find its head again.
//
// Both are what opening a store does by itself, or refuses to do without being asked. Neither
// deletes or overwrites anything that a cut might need.
//
// Threads: free functions. The caller owns the place (OwnPlace).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/place.h"
#include "env/object_store.h"
#include "format/store_records.h"

namespace cairn::checkpoint {

struct CollectReport {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t uploads = 0;  ///< of large objects, begun and not finished
  /// Why unfinished uploads could not be looked for.
  Status uploads_status;
};

/// Delete what no cut of the head needs, undecided attempts and their unfinished uploads included:
/// nobody can decide them any more, as the head is swapped first.
///
/// Errors:   kCorruption: a retained manifest cannot be read, then nothing is deleted · kFenced.
Result<CollectReport> CollectGarbage(env::ObjectStore* objects);

/// A cut that cannot be part of a head.
struct LeftOutCut {
  base::CheckpointId id;
  std::string why;
};

/// What the manifests of a place say of the head that is lost.
struct FoundHead {
  format::DecisionHead head;
  /// Cuts of which something is there, or that the place names as its latest, and that are not
  /// whole; newest first. An older one without a manifest is no cut: its object is of newer ones.
  std::vector<LeftOutCut> left_out;
};

/// Make a head of the manifests below nodes/: the newest whole cut is the latest, older whole ones
/// are retained.
///
/// Shape:    a manifest that was written but never decided counts as a cut: with the head it is
///           gone which ones were. Its state, offsets and prepared sinks are of one cut like any
///           other's.
/// Errors:   kCorruption: FORMAT or identity is damaged · kNotFound: FORMAT or identity is missing,
///           or no whole cut is left (says what each lacks) · kAlreadyExists: there is a readable
///           head · kUnsupportedFormat.
Result<FoundHead> FindHead(env::ObjectStore* objects);

/// Write a head that FindHead made, in the place of one that is missing or damaged.
///
/// Durable:  yes.
Status WriteFoundHead(env::ObjectStore* objects, const FoundHead& found);

}  // namespace cairn::checkpoint
