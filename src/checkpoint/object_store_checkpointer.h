// SPDX-License-Identifier: Apache-2.0
//
// ObjectStoreCheckpointer: for engines with a coordinator of their own that want to store each
// partition of each operator as an object, and a manifest that lists them.
//
//   checkpoints/<id>/operators/<operator>/partition-<n>.snap | .delta
//   checkpoints/<id>/manifest.json
//   checkpoints/_latest                  the id of the newest checkpoint, as text
//
// Earlier programs wrote the same without the slash behind the id (checkpoints/<id>manifest.json):
// such checkpoints are listed, read and deleted like others, and never written.
//
// The engine of Cairn itself uses CheckpointStore (checkpoint/store.h), which also decides, fences
// and retires. This one keeps the promises that a store of objects can keep by itself:
//
// Invariants
//  1. An object is created once and never overwritten; writing the same bytes again is success.
//  2. `_latest` never goes back, and names only a checkpoint whose manifest is there.
//  3. A checkpoint that another names as its parent is not deleted.
//  4. What is read is what the manifest's SHA-256 says, or an error.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/status.h"
#include "env/object_store.h"
#include "format/partition_manifest.h"

namespace cairn::checkpoint {

/// Where the objects of checkpoints lie.
struct CheckpointPaths {
  std::string base = "checkpoints";

  std::string Latest() const { return base + "/_latest"; }
  std::string Checkpoint(std::string_view id) const { return base + "/" + std::string(id) + "/"; }
  std::string Manifest(std::string_view id) const { return Checkpoint(id) + "manifest.json"; }
  /// What the names of a checkpoint's objects begin with, with or without a slash behind the id.
  std::string AnyPrefix(std::string_view id) const { return base + "/" + std::string(id); }
  std::string SlashlessManifest(std::string_view id) const {
    return AnyPrefix(id) + "manifest.json";
  }
  std::string Artifact(std::string_view id, std::string_view op, uint32_t partition,
                       bool is_delta) const;
};

/// What save_partitions_concurrent stores.
struct PartitionSnapshot {
  std::string op;
  uint32_t partition = 0;
  bool is_delta = false;
  std::string_view data;  ///< outlives the call
};

class ObjectStoreCheckpointer {
 public:
  /// `store` outlives it.
  ObjectStoreCheckpointer(env::ObjectStore* store, CheckpointPaths paths,
                          size_t max_concurrent_uploads);

  /// Store several partitions at once, at most max_concurrent_uploads at a time.
  ///
  /// Shape:    the entries come by (operator, partition, delta), each with its operator.
  /// Errors:   the first that an upload returned. Uploads that had not begun are not made, and what
  ///           this call created is deleted again.
  Result<std::vector<std::pair<std::string, format::PartitionSnapshotEntry>>>
  SavePartitionsConcurrent(std::string_view id, const std::vector<PartitionSnapshot>& snapshots);

  /// Store one partition; return its path.
  ///
  /// Errors:   kAlreadyExists: other bytes are there · kInvalidArgument: an operator name that is
  /// no
  ///           part of a path · kUnavailable · kResourceExhausted.
  Result<std::string> SaveSnapshot(std::string_view id, std::string_view op, uint32_t partition,
                                   std::string_view data);
  Result<std::string> SaveDelta(std::string_view id, std::string_view op, uint32_t partition,
                                std::string_view data);

  /// Write the manifest: from now on the checkpoint is there. Last, after its partitions.
  ///
  /// Errors:   as SerializePartitionManifest · kNotFound: a partition or the parent that it names
  /// is
  ///           not there · kAlreadyExists.
  Status SaveManifest(const format::CheckpointManifestV2& manifest);
  /// Errors:   kNotFound · kCorruption · kUnsupportedFormat.
  Result<format::CheckpointManifestV2> LoadManifest(std::string_view id);

  /// Read an object by its path.
  Result<std::string> LoadArtifact(std::string_view path);
  /// Read the object of a manifest's entry and check its length and SHA-256.
  ///
  /// Errors:   kCorruption: missing, or other bytes than the manifest names.
  Result<std::string> LoadVerified(const format::PartitionSnapshotEntry& entry);

  /// Point `_latest` at a checkpoint. One that is older than what is there leaves it: checkpoints
  /// may end in another order than they began.
  ///
  /// Errors:   kNotFound: the checkpoint has no manifest.
  Status UpdateLatest(std::string_view id);
  /// The checkpoint that `_latest` names; nothing when there never was one.
  ///
  /// Errors:   kCorruption: it names one whose manifest is missing, or is no id.
  Result<std::optional<std::string>> ReadLatest();

  /// Ids of checkpoints that have a manifest, oldest first.
  Result<std::vector<std::string>> ListCheckpoints();

  /// Delete a checkpoint: its manifest first, then all its objects.
  ///
  /// Errors:   kInvalidArgument: `_latest` names it, or a checkpoint builds on it (says which).
  Status DeleteCheckpoint(std::string_view id);

 private:
  Status CheckId(std::string_view id) const;
  Status CheckManifestIsThere(std::string_view id) const;
  Result<std::string> Save(std::string_view id, std::string_view op, uint32_t partition,
                           bool is_delta, std::string_view data, bool* created);

  env::ObjectStore* const store_;
  const CheckpointPaths paths_;
  const size_t max_concurrent_uploads_;
};

}  // namespace cairn::checkpoint
