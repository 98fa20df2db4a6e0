// SPDX-License-Identifier: Apache-2.0
//
// Place: the records that say what a checkpoint place is, whose it is and which cuts count. Shared
// by the store, which writes them, and the tools, which only read.
//
// Threads: free functions over a thread-safe store.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "env/object_store.h"
#include "format/manifest.h"
#include "format/store_records.h"

namespace cairn::checkpoint {

/// What a place says about itself, as last read.
struct Place {
  std::optional<format::StoreFormat> format;
  std::optional<format::DeploymentIdentity> identity;
  std::optional<format::DecisionHead> head;
  std::string head_version;  ///< for the next compare-and-swap

  /// Latest cut, then the retained ones, newest first.
  std::vector<format::CutReference> Cuts() const;
  const format::CutReference* Find(base::CheckpointId id) const;
};

/// Refuse to begin from the start in a place without a cut that was begun with --from.
///
/// Errors:   kInvalidArgument, naming what it was begun with · kUnavailable.
Status RefuseLostOrigin(env::ObjectStore* objects);

/// Read FORMAT, identity and head, and check that they belong together.
///
/// Shape:    a place that was never used has none of them; one whose making was cut short may have
///           FORMAT and identity without a head and without a checkpoint.
/// Errors:   kCorruption: a record is damaged, or missing beside others that need it ("damaged
///           store"); kUnsupportedFormat · kUnavailable.
Result<Place> ReadPlace(env::ObjectStore* objects);

/// The cut that a restore begins with: the newest, or `id`.
///
/// Errors:   kNotFound (lists those there are) · kInvalidArgument: a newer cut has published rows
/// of
///           an exactly-once sink, which would come twice.
Result<format::CutReference> ChooseRestorable(const Place& place,
                                              std::optional<base::CheckpointId> id);

/// Read the manifest that `cut` names: exact length and SHA-256, then every rule of the format,
/// then that it is of this deployment.
///
/// Errors:   kCorruption (missing, damaged, another's: says which other cut can be used) ·
///           kUnsupportedFormat · kUnavailable.
Result<std::shared_ptr<const format::CheckpointManifest>> ReadManifest(
    env::ObjectStore* objects, const Place& place, const format::CutReference& cut);
/// The same for who can go on without this cut: the message says no more than what is wrong.
Result<std::shared_ptr<const format::CheckpointManifest>> TryManifest(
    env::ObjectStore* objects, const Place& place, const format::CutReference& cut);

/// Replace the head, and find out what became of the write when its answer is lost.
///
/// Shape:    a head with a new latest cut is known again when it is read back, as no other process
///           makes that cut. One without may be byte for byte what another process has written at
///           the same moment: then `place` is as it was read, and only a further head decides.
///           Where a write may land late it is repeated until the head has moved.
/// Durable:  yes.
/// Errors:   kFenced (another process changed it) · kUnavailable or kResourceExhausted (nothing
///           changed, or see Shape) · with `*in_doubt` set, kUnavailable: what is there cannot be
///           learnt.
Status ReplaceHead(env::ObjectStore* objects, const format::DecisionHead& head, Place* place,
                   bool* in_doubt);

/// An object that frames of a cut lie in.
struct ObjectExtent {
  format::StateChunkId chunk;
  uint64_t length = 0;
  /// "nodes/1/checkpoints/…/state.arrow", where a job of one process keeps it.
  std::string key() const;
};

/// The objects that the frames of a cut lie in: its own, when it wrote one, then the older ones.
std::vector<ObjectExtent> ObjectsOf(const format::CheckpointManifest& manifest);

/// An object by its name.
struct StoredObject {
  std::string key;
  uint64_t length = 0;
};

/// Every object that a cut needs beside its manifest: those of its frames, then the segments of its
/// view logs.
std::vector<StoredObject> StoredObjectsOf(const format::CheckpointManifest& manifest);

/// Check that an object is there with its length.
///
/// Errors:   kCorruption, naming it · kUnavailable.
Status CheckObject(env::ObjectStore* objects, const StoredObject& object);

/// Create `key` durably, reading back when an answer is lost.
///
/// Errors:   kAlreadyExists (other bytes are there) · kUnavailable · kResourceExhausted.
Status CreateRecord(env::ObjectStore* objects, const std::string& key, std::string_view bytes);

}  // namespace cairn::checkpoint
