// SPDX-License-Identifier: Apache-2.0
//
// Retention by proof: an object goes only when the manifests of all cuts that count were read and
// none of them references it. A listing may nominate what to look at; it never decides.
//
// Order: the decision head has already dropped the cut, durably, before anything of it is deleted.
// So a crash at any point leaves objects too many, never too few; the next open nominates them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/store.h"
#include "env/object_store.h"
#include "format/manifest.h"

namespace cairn::checkpoint {

/// Keep the books of which cut references which objects.
///
/// Threads:  one at a time.
class Retention {
 public:
  explicit Retention(env::ObjectStore* objects) : objects_(objects) {}

  /// Enter a cut that counts. Its manifest was read and is valid.
  void Add(const format::CheckpointManifest& manifest);
  /// Enter a cut that counts though its manifest cannot be read: nothing is deleted from now on.
  void AddUnreadable(base::CheckpointId id, Status why);
  /// The decision head no longer names `id`.
  void Drop(base::CheckpointId id);
  /// An attempt that was never committed left `id`'s directory behind.
  void Nominate(base::CheckpointId id);
  /// A segment of a view log was found that perhaps no cut references.
  void NominateObject(std::string key);

  /// Delete what no cut that counts references, of dropped and nominated ones.
  ///
  /// Errors:   kCorruption (a cut that counts is unreadable) · what deleting returned; the rest is
  ///           tried again by the next call.
  Status Run(RetireReport* report);

 private:
  /// How many cuts that count need each object. Consecutive cuts share most of theirs, so a name is
  /// kept once.
  using References = std::map<std::string, uint32_t>;

  Status DeleteObject(const std::string& key, RetireReport* report);

  env::ObjectStore* objects_;
  References references_;
  std::map<base::CheckpointId, std::vector<References::iterator>> kept_;
  std::map<base::CheckpointId, Status> unreadable_;  // cuts that count
  /// Cuts that no longer count, and the objects that no other cut needed when they went.
  std::map<base::CheckpointId, std::vector<std::string>> dropped_;
  std::set<base::CheckpointId> nominated_;  // directories found, of no cut
  std::set<std::string> nominated_objects_;
};

/// Delete manifest and object of an attempt that no decision named, whatever of them there is.
Status DeleteUndecided(env::ObjectStore* objects, base::CheckpointId id);

/// Tells of the uploads of ids before `first`, none of which can be committed any more, and of
/// those of other objects that were begun more than an hour ago.
env::AbandonedObjects UploadsOfEarlierIds(base::CheckpointId first);

/// Ids that have a directory below nodes/1/checkpoints, ascending.
Result<std::vector<base::CheckpointId>> ListCheckpointIds(env::ObjectStore* objects);

/// A segment of a view log as a listing has it.
struct ListedSegment {
  std::string key;
  base::CheckpointId origin;
};
/// Segments below view-log/. Other names there are not Cairn's and are left out.
Result<std::vector<ListedSegment>> ListViewLogSegments(env::ObjectStore* objects);

}  // namespace cairn::checkpoint
