// SPDX-License-Identifier: Apache-2.0
//
// FileSystemCheckpointStore: whole checkpoints as directories, for engines with a coordinator of
// their own. A manifest that is there and valid is a checkpoint; nothing else decides.
//
//   BASE/checkpoints/checkpoint_000007/manifest.json      written last
//   BASE/checkpoints/checkpoint_000007/state.bin          optional sidecar: any bytes
//   BASE/checkpoints/checkpoint_000007/state.json         its length and SHA-256
//   BASE/checkpoints/checkpoint_000007/sink-status.json   optional: what became of its sinks
//   BASE/checkpoints/latest.txt                           "checkpoint_000007": for people and
//   scripts
//
// Checkpoints whose manifest is of version 1, which earlier programs wrote into the same layout,
// are listed, validated, recovered and read (LoadV1, LoadOperatorStatesV1); nothing of them is ever
// written or pruned.
//
// The engine of Cairn itself uses CheckpointStore (checkpoint/store.h): increments, a decision
// head, retention. Recovery with a walk back to an older checkpoint is only safe where no sink has
// published rows after it; that is for the caller to know.
//
// Invariants
//  1. Readers never see half a manifest; a manifest is never replaced by another.
//  2. State is durable before its manifest. The latest checkpoint is never pruned.
//  3. latest.txt never goes back and is never believed: the directories say what is there.
//
// Threads: any, one call at a time. One process writes: the first write locks BASE.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/status.h"
#include "env/clock.h"
#include "env/file_system.h"
#include "env/local_object_store.h"
#include "format/checkpoint_sidecars.h"
#include "format/manifest.h"
#include "format/whole_manifest_v1.h"

namespace cairn::checkpoint {

enum class ValidationIssueKind : uint8_t {
  kManifestWarning,   ///< disagrees with how the store was configured
  kIntegrityFailure,  ///< damaged, or something is missing
};

struct ValidationIssue {
  ValidationIssueKind kind;
  std::string message;
};

struct ValidationResult {
  uint64_t checkpoint_id = 0;
  std::vector<ValidationIssue> issues;
  /// True when nothing is damaged or missing; warnings do not count.
  bool valid() const;
};

struct RecoveryReport {
  std::optional<uint64_t> chosen_id;                      ///< nothing = a fresh start
  std::vector<std::pair<uint64_t, std::string>> skipped;  ///< newer ones, and why; left in place
  size_t examined = 0;
  std::chrono::nanoseconds elapsed{0};
};

class FileSystemCheckpointStore {
 public:
  /// Checkpoints below `base_dir`/checkpoints, made by the first save. `max_retained` = 0 keeps
  /// all.
  FileSystemCheckpointStore(env::FileSystem* files, std::string base_dir, size_t max_retained,
                            env::Clock* clock = nullptr);

  /// Expect manifests with this number of key groups: another one is a warning of validation.
  FileSystemCheckpointStore& WithVnodeCount(uint16_t count);
  uint16_t vnode_count() const { return vnode_count_; }

  /// Write a manifest; a checkpoint is there from now on. Then prune to max_retained.
  ///
  /// Durable:  yes, the state that was saved before it as well.
  /// Errors:   kAlreadyExists: another manifest has this id · kInvalidArgument: it references older
  ///           objects (this store keeps whole checkpoints), or its state is not there · kFenced:
  ///           another process writes here · kUnavailable · kResourceExhausted. A prune that fails
  ///           fails nothing: see last_prune().
  Status Save(const format::CheckpointManifest& manifest);

  /// Write the state of checkpoint `id`: the chunks, one after another. Before its manifest.
  Status SaveStateData(uint64_t id, const std::vector<std::string_view>& chunks);

  /// SaveStateData, when there is state, then Save.
  ///
  /// Errors:   kInvalidArgument, before anything is written: the manifest names an object of
  /// another
  ///           length than the chunks have.
  Status SaveWithState(const format::CheckpointManifest& manifest,
                       const std::optional<std::vector<std::string_view>>& state);

  /// The newest checkpoint's manifest; nothing on a fresh store.
  ///
  /// Errors:   kCorruption: it is damaged. RecoverLatestValidated finds the newest that is whole ·
  ///           kUnsupportedFormat: it is of version 1; LoadV1 reads it.
  Result<std::optional<format::CheckpointManifest>> LoadLatest();
  /// Nothing when there is no such checkpoint.
  Result<std::optional<format::CheckpointManifest>> LoadById(uint64_t id);
  /// The state saved for `id`, verified; nothing when none was.
  Result<std::optional<std::string>> LoadStateData(uint64_t id);

  /// The manifest of version 1 of checkpoint `id`; nothing when there is none, or one of Cairn's.
  Result<std::optional<format::WholeManifestV1>> LoadV1(uint64_t id);
  /// The state of every operator of a checkpoint of version 1, verified: for a restore.
  ///
  /// Errors:   kNotFound · kCorruption, naming the operator: never an empty state in place of a
  ///           damaged one · kInvalidArgument: it is of another number of key groups than this
  ///           store, so keyed state would go to the wrong places.
  Result<std::map<std::string, std::string>> LoadOperatorStatesV1(uint64_t id);

  /// Ids of all that have a manifest, damaged ones too, ascending.
  Result<std::vector<uint64_t>> ListIds();
  /// (id, epoch) of all that have a readable manifest, ascending. Reads them all.
  Result<std::vector<std::pair<uint64_t, uint64_t>>> List();

  /// Remove checkpoints but the newest `keep_count` readable ones and the latest; return how many.
  /// Damaged ones and those of version 1 do not count and stay.
  Result<size_t> Prune(size_t keep_count);
  /// Remove state without a manifest; return how many.
  Result<size_t> CleanupOrphans();

  /// Record what became of the sinks of a checkpoint. Nothing else of it can be changed.
  ///
  /// Errors:   kInvalidArgument: `manifest` is not the one that is stored · kNotFound.
  Status UpdateManifest(const format::CheckpointManifest& manifest,
                        const format::SinkStatuses& sinks);
  /// Empty when none was recorded.
  Result<format::SinkStatuses> LoadSinkStatuses(uint64_t id);

  /// Check manifest and state of one checkpoint. Reads its state.
  Result<ValidationResult> ValidateCheckpoint(uint64_t id);
  /// Find the newest checkpoint that is valid.
  ///
  /// Errors:   kInvalidArgument: a newer one, which is damaged, has published rows through a sink;
  ///           going back would publish them again. `rows_may_come_twice` says that this is fine.
  Result<RecoveryReport> RecoverLatestValidated(bool rows_may_come_twice = false);

  /// Outcome of the prune after the last Save.
  const Status& last_prune() const { return last_prune_; }

 private:
  Result<env::LocalObjectStore*> Reader();
  Result<env::LocalObjectStore*> Writer();
  Status PointLatest(uint64_t id);
  Status RemoveCheckpoint(uint64_t id);
  Status CheckState(uint64_t id, std::vector<ValidationIssue>* issues);
  /// A manifest's bytes; nothing when there is none.
  Result<std::optional<std::string>> ReadManifest(uint64_t id);
  Status CheckV1(const format::WholeManifestV1& manifest, std::vector<ValidationIssue>* issues);
  Status CheckChecksumV1(const format::WholeManifestV1& manifest,
                         std::optional<uint64_t> sidecar_bytes,
                         std::vector<ValidationIssue>* issues);
  Result<std::optional<uint64_t>> SidecarBytes(uint64_t id);

  env::FileSystem* const files_;
  const std::string base_dir_;
  const size_t max_retained_;
  env::Clock* const clock_;
  uint16_t vnode_count_;
  std::unique_ptr<env::FileLock> lock_;
  std::unique_ptr<env::LocalObjectStore> objects_;
  Status last_prune_;
};

}  // namespace cairn::checkpoint
