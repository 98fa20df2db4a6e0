// SPDX-License-Identifier: Apache-2.0
//
// One participant's share of a cut: its key groups as frames of one object, what its sinks
// prepared, and the manifest that names them. State is opaque here: bytes of a key group, in one
// row of slot "groups" of operator "shared/state/0". An engine with tables of its own writes the
// same objects and manifests through checkpoint/cut_writer.h; the protocol does not look inside.
//
// Threads: free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/shared/place.h"
#include "format/manifest.h"
#include "format/participant_records.h"

namespace cairn::checkpoint::shared {

/// Who owns which key group, as the caller decided it.
struct Assignment {
  uint64_t version = 1;          ///< must grow when owners or participants (or a boot) change
  std::vector<uint64_t> owners;  ///< owners[group] = node
  std::vector<format::ProcessIdentity> participants;  ///< by node

  format::AssignmentFence Fence() const;
  std::vector<KeyGroupRange> OwnedBy(uint64_t node) const;
};

/// What a participant hands over at its barrier.
struct CapturedShare {
  /// Bytes of a key group at the barrier; empty = it holds nothing. Kept until the attempt ends.
  std::function<Result<std::string>(uint16_t group)> read;
  /// Groups changed since the share captured before, whatever became of that attempt.
  std::set<uint16_t> changed;
  std::map<std::string, format::ConnectorCheckpoint> source_offsets;
  std::vector<format::ChannelProgress> channel_progress;  ///< participant ids are filled in
};

/// What one sink of one attempt left.
struct PreparedSink {
  std::string name;
  std::optional<std::string> intent;
  std::optional<std::string> descriptor;
};

/// All that a share's manifest says beside its frames.
struct ShareContext {
  const SharedPlace* place = nullptr;
  const format::ActiveAttempt* attempt = nullptr;
  format::PipelineIdentity pipeline_identity;
  std::vector<std::string> source_names;  ///< ascending
  std::vector<std::string> sink_names;    ///< ascending
  uint64_t node = 0;
  std::vector<KeyGroupRange> owned;
  uint64_t timestamp_ms = 0;
  /// This node's manifest of the base cut; null = none, everything is written.
  const format::CheckpointManifest* base = nullptr;
};

/// An encoded share: nothing of it is written yet.
struct EncodedShare {
  std::string object;  ///< empty = nothing changed and no sink prepared anything
  format::CheckpointManifest manifest;
};

/// Encode the groups in `write`, and refer to the base's frames for the others that are owned.
///
/// Errors:   what `captured.read` returned · kResourceExhausted past kNodeDataBytesMax.
Result<EncodedShare> EncodeShare(const ShareContext& context, const CapturedShare& captured,
                                 const std::set<uint16_t>& write,
                                 const std::vector<PreparedSink>& sinks);

/// Most bytes of one participant's object.
inline constexpr uint64_t kNodeDataBytesMax = uint64_t{512} << 20;

/// Read the key groups in `ranges` out of the frames that a manifest names, checking CRC-32C,
/// SHA-256, identity and entries of each. Adds up what it loaded in `entries`.
///
/// Errors:   kCorruption: missing, damaged, or a group twice · kUnavailable.
Status ReadGroups(env::ObjectStore* objects, const SharedPlace& place,
                  const format::CheckpointManifest& manifest,
                  const std::vector<KeyGroupRange>& ranges, std::map<uint16_t, std::string>* groups,
                  uint64_t* entries);

/// Read what the sinks of a share prepared, with their intents.
///
/// Errors:   as ReadGroups.
Result<std::vector<PreparedSink>> ReadPreparedSinks(env::ObjectStore* objects,
                                                    const SharedPlace& place,
                                                    const format::CheckpointManifest& manifest);

/// Check that a node's object is there with its length.
///
/// Errors:   as CheckObject.
Status CheckNodeData(env::ObjectStore* objects, const format::StateChunkId& chunk, uint64_t length);

}  // namespace cairn::checkpoint::shared
