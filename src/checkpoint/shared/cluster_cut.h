// SPDX-License-Identifier: Apache-2.0
//
// A committed cut of several participants, read by exact references: head -> index -> manifests ->
// objects. There is no scan and no older cut in its place: what is missing or damaged is an error.
//
// Threads: free functions; a loaded cut is immutable.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/shared/share.h"
#include "format/participant_records.h"

namespace cairn::checkpoint::shared {

using ManifestPtr = std::shared_ptr<const format::CheckpointManifest>;

struct ClusterCut {
  format::IndexReference reference;
  format::CommittedIndex index;
  std::map<uint64_t, ManifestPtr> manifests;  ///< by node: exactly the index's participants

  base::CheckpointId id() const { return reference.id; }
  /// Every object that a frame of the cut lies in.
  std::map<format::StateChunkId, uint64_t> Objects() const;  ///< chunk -> length
};

/// Read the index that `reference` names and the manifests that the index names, each by length and
/// SHA-256; check every rule, that they are of one attempt and assignment, and that every key group
/// has exactly one owner.
///
/// Errors:   kCorruption (missing, damaged, two owners, none) · kUnsupportedFormat · kUnavailable.
Result<std::shared_ptr<const ClusterCut>> LoadCut(const Seams& seams, const SharedPlace& place,
                                                  const format::IndexReference& reference);

/// Check that all objects of a cut are there with their lengths.
///
/// Errors:   kCorruption, naming the first that is not · kUnavailable.
Status CheckCutObjects(const Seams& seams, const ClusterCut& cut);

/// Proof that a restore left nothing out.
struct RestoreReceipt {
  uint64_t groups = 0;
  uint64_t entries_expected = 0;
  uint64_t entries_loaded = 0;
  uint64_t bytes = 0;
};

/// State of some key groups, out of whoever's share they lie in.
struct RestoredShare {
  base::CheckpointId cut;
  std::map<uint16_t, std::string> groups;  ///< those that hold anything
  std::map<std::string, std::map<std::string, format::SplitOffset>> source_offsets;  ///< the cut's
  std::optional<int64_t> watermark;                                                  ///< the cut's
  RestoreReceipt receipt;
};

/// Load the key groups in `ranges`, whatever the assignment was when the cut was made.
///
/// Errors:   kCorruption: an object or frame is missing or damaged, or the receipt is short ·
///           kUnavailable.
Result<RestoredShare> RestoreShare(const Seams& seams, const SharedPlace& place,
                                   const ClusterCut& cut, const std::vector<KeyGroupRange>& ranges);

/// A cut may name only its own objects and those of the cut it was built on.
///
/// Errors:   kCorruption: `manifest` names another one.
Status CheckReferences(const format::CheckpointManifest& manifest, const ClusterCut* base);

}  // namespace cairn::checkpoint::shared
