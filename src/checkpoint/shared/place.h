// SPDX-License-Identifier: Apache-2.0
//
// Where the cuts of several participants lie, and how their records are read and changed.
//
//   FORMAT                                         profile "shared"; created once
//   deployment/identity.json                       whose it is; created once
//   control/allocator.json                         the next id; compare-and-swap
//   control/leader/v<seq:016>.json                 who leads: a chain of links, each created once
//   control/leader/head.json                       which link counts; compare-and-swap
//   control/process/node=<n>/…                     the same for the process of a node
//   control/decision-head.json                     which cuts count; compare-and-swap
//   control/retention-head.json                    what is being deleted; compare-and-swap
//   control/sink-open/node=<n>.json                which sinks may hold transactions; likewise
//   nodes/<n>/checkpoints/<id:020>/state.arrow     frames; none when nothing changed
//   nodes/<n>/checkpoints/<id:020>/manifest.json   intents, then manifest, or an abort seal
//   committed/<id:020>/<sha256>.json               a whole cut; counts when the head names it
//   savepoints/<name>/…                            self-contained copies (savepoint.h)
//
// Nothing in this folder starts a thread, sleeps, or asks a clock or for randomness but through
// Seams: a simulation decides all of it.
//
// Protocol: docs/protocol/shared.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "cairn/status.h"
#include "env/clock.h"
#include "env/object_store.h"
#include "format/shared_records.h"
#include "format/store_records.h"

namespace cairn::checkpoint::shared {

/// The steps of one checkpoint, in their order. docs/protocol/shared.md says what each leaves.
enum class ProtocolStep : uint8_t {
  kAdmit = 0,         ///< leader: an id, and the attempt in the decision head
  kIntend = 1,        ///< node: sink intents and witness durable
  kSinkBegin = 2,     ///< node: sinks begin the epoch
  kCapture = 3,       ///< node: view, offsets, progress
  kSinkPrepare = 4,   ///< node: sinks give their descriptors
  kEncode = 5,        ///< node: frames
  kData = 6,          ///< node: the object is created
  kManifest = 7,      ///< node: the manifest is created or promoted; only then acknowledged
  kIndex = 8,         ///< leader: all manifests verified, the committed index created
  kDecide = 9,        ///< leader: the decision head is swapped. The commit point
  kSinkCommit = 10,   ///< node: sinks publish
  kAcknowledge = 11,  ///< node: sources may forget, changes are clean
  kRetire = 12,       ///< leader: the oldest cut goes
};
/// "admit", "intend", "sink-begin", …
std::string_view ProtocolStepName(ProtocolStep step);

struct ProtocolEvent {
  ProtocolStep step;
  uint64_t node = 0;  ///< who does it
  base::CheckpointId id;
};

/// The world as this folder sees it. What is pointed to outlives everything made with it.
struct Seams {
  env::ObjectStore* objects = nullptr;
  env::Clock* clock = env::SystemClock();
  env::Random* random = env::SystemRandom();
  /// Called at the start of every step.
  std::function<void(const ProtocolEvent&)> observer;

  void Reach(ProtocolStep step, uint64_t node, base::CheckpointId id) const {
    if (observer) observer({step, node, id});
  }
  std::string NewUuid() const { return env::NewUuid(clock, random); }
};

inline constexpr std::string_view kAllocatorKey = "control/allocator.json";
inline constexpr std::string_view kLeaderPrefix = "control/leader/";
inline constexpr std::string_view kRetentionHeadKey = "control/retention-head.json";
inline constexpr std::string_view kCommittedPrefix = "committed/";
std::string ProcessPrefix(uint64_t node);   // "control/process/node=7/"
std::string SinkWitnessKey(uint64_t node);  // "control/sink-open/node=7.json"
std::string NodeDirectory(uint64_t node, base::CheckpointId id);
std::string NodeDataKey(uint64_t node, base::CheckpointId id);
std::string NodeManifestKey(uint64_t node, base::CheckpointId id);
std::string IndexPrefix(base::CheckpointId id);  // "committed/00000000000000000007/"
std::string IndexKey(base::CheckpointId id, const base::Sha256Digest& sha256);

/// Read back whose object a key is: of a node's attempt, or (node 0) a committed index.
struct KeyOwner {
  uint64_t node = 0;
  base::CheckpointId id;
};
std::optional<KeyOwner> OwnerOfKey(std::string_view key);

/// What never changes in a place.
struct SharedPlace {
  format::StoreFormat format;
  format::DeploymentIdentity identity;
};

struct PlaceOptions {
  std::string pipeline_name = "job";
  uint32_t key_groups = kDefaultKeyGroups;
  std::optional<uint64_t> slot_hash_seed;  ///< nothing = drawn
};

/// Make a place, or go on making one, or find one that is there.
///
/// Errors:   kInvalidArgument: of one process, or of other key groups · kCorruption · kUnavailable.
Result<SharedPlace> MakePlace(const Seams& seams, const PlaceOptions& options);

/// Read FORMAT and identity.
///
/// Errors:   kNotFound: there is no place · as MakePlace.
Result<SharedPlace> ReadSharedPlace(const Seams& seams);

/// A record and the version that a swap must name; no record when there is none.
template <class Record>
struct Seen {
  std::optional<Record> record;
  std::optional<std::string> version;
};

/// Read a record that may be absent.
template <class Record>
Result<Seen<Record>> ReadSeen(env::ObjectStore* objects, const std::string& key, uint64_t bytes_max,
                              Result<Record> (*parse)(std::string_view)) {
  Seen<Record> seen;
  Result<env::VersionedBytes> there = objects->Get(key, bytes_max);
  if (!there.ok()) {
    if (there.status().code() == StatusCode::kNotFound) return seen;
    return std::move(there).status();
  }
  Result<Record> record = parse(there->bytes);
  if (!record.ok()) return record.status().WithContext(key);
  seen.record = *std::move(record);
  seen.version = std::move(there->version);
  return seen;
}

/// Swap, and when the answer is lost or a condition fails, learn from what is there.
///
/// Returns:  the version of `bytes`, which are there now.
/// Errors:   kFenced: other bytes are there than were expected · kUnavailable: nothing is known,
///           the swap may yet turn out done; ask again · kResourceExhausted.
Result<std::string> SwapRecord(env::ObjectStore* objects, const std::string& key,
                               const std::optional<std::string>& expected, std::string_view bytes);

}  // namespace cairn::checkpoint::shared
