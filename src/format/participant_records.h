// SPDX-License-Identifier: Apache-2.0
//
// What one participant says about one attempt, and what a leader makes of all of them.
//
// nodes/<n>/checkpoints/<id>/manifest.json goes through states, each a compare-and-swap, never
// back:
//
//   (absent) -> sink intents -> manifest        the participant
//   (absent), sink intents, manifest -> seal    a leader that aborts; the seal keeps what was there
//   seal -> seal, cleaned up                    once the sinks are rolled back
//
// Threads: value types and pure functions.
// Format:  docs/formats/shared-records.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "format/assignment.h"
#include "format/manifest.h"
#include "format/shared_records.h"

namespace cairn::format {

inline constexpr uint32_t kSinkIntentsMax = 1024;
inline constexpr uint64_t kSinkIntentBytesMax = uint64_t{64} << 10;   ///< one intent
inline constexpr uint64_t kSinkIntentsBytesMax = uint64_t{1} << 20;   ///< all of one record
inline constexpr uint64_t kIntentRecordBytesMax = uint64_t{5} << 20;  ///< encoded
inline constexpr uint64_t kAbortSealBytesMax =
    kManifestBytesMax + kIntentRecordBytesMax + (uint64_t{64} << 10);
inline constexpr uint64_t kCommittedIndexBytesMax = uint64_t{8} << 20;

/// What a sink noted before it began: enough to undo whatever it may have done since.
struct SinkIntent {
  std::string sink_name;
  std::optional<std::string> intent;  ///< any bytes, hex in JSON; none = nothing to undo outside
  friend bool operator==(const SinkIntent&, const SinkIntent&) = default;
};

/// First state of a participant's manifest key: durable before any sink begins its epoch.
struct SinkIntentRecord {
  base::CheckpointId checkpoint_id;
  std::string attempt_id;
  std::string deployment_id;
  ProcessIdentity participant;
  std::vector<SinkIntent> intents;  ///< by sink name
  friend bool operator==(const SinkIntentRecord&, const SinkIntentRecord&) = default;
};
Result<std::string> SerializeSinkIntentRecord(const SinkIntentRecord& record);
Result<SinkIntentRecord> ParseSinkIntentRecord(std::string_view bytes);

/// Last state of a participant's manifest key when its attempt was aborted: whatever the
/// participant still creates or swaps there fails.
struct AbortSeal {
  base::CheckpointId checkpoint_id;
  std::string attempt_id;
  std::string deployment_id;
  uint64_t participant_id = 0;
  LeaderProof leader;             ///< who sealed
  bool cleanup_complete = false;  ///< the sinks are rolled back: not to be repeated
  /// What the seal replaced, at most one of them.
  std::optional<SinkIntentRecord> intents;
  std::optional<CheckpointManifest> manifest;
  friend bool operator==(const AbortSeal&, const AbortSeal&) = default;
};
Result<std::string> SerializeAbortSeal(const AbortSeal& seal);
Result<AbortSeal> ParseAbortSeal(std::string_view bytes);

/// Whatever a participant's manifest key holds.
using NodeRecord = std::variant<SinkIntentRecord, CheckpointManifest, AbortSeal>;
/// Errors:   kUnsupportedFormat · kCorruption, also for anything that is none of the three.
Result<NodeRecord> ParseNodeRecord(std::string_view bytes);

/// A participant of a committed cut: exact references to what it wrote.
struct IndexedParticipant {
  uint64_t participant_id = 0;
  uint64_t manifest_length = 0;
  base::Sha256Digest manifest_sha256{};
  uint64_t data_length = 0;  ///< 0 = it wrote no object
  base::Sha256Digest data_sha256{};
  friend bool operator==(const IndexedParticipant&, const IndexedParticipant&) = default;
};

/// committed/<id:020>/<sha256>.json: the whole of a cut, content-addressed. It counts only when the
/// decision head names it.
struct CommittedIndex {
  base::CheckpointId checkpoint_id;
  std::string attempt_id;
  std::string deployment_id;
  PipelineIdentity pipeline_identity;
  LeaderProof leader;
  AssignmentFence fence;
  base::CheckpointId base_cut;
  std::optional<IndexReference> predecessor;     ///< the latest cut when this one was decided
  std::vector<IndexedParticipant> participants;  ///< by id: exactly those of the fence
  std::map<std::string, std::map<std::string, SplitOffset>> source_offsets;  ///< source, split
  std::vector<ChannelProgress> channel_progress;  ///< by participant, source, channel
  std::optional<int64_t> watermark;
  std::vector<std::string> sink_names;  ///< ascending: sinks with a prepared piece
  friend bool operator==(const CommittedIndex&, const CommittedIndex&) = default;
};

/// Check that a committed index is consistent in itself.
///
/// Errors:   kCorruption, naming the field.
Status ValidateCommittedIndex(const CommittedIndex& index);
/// Errors:   kInternal for an index that breaks its shape · kResourceExhausted past the limit.
Result<std::string> SerializeCommittedIndex(const CommittedIndex& index);
Result<CommittedIndex> ParseCommittedIndex(std::string_view bytes);

}  // namespace cairn::format
