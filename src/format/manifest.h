// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint manifest: one participant's pipeline state at one cut, as canonical JSON.
//
// Canonical: keys sorted at every level, no spaces, integers exact, hashes and operator ids in
// lower hex. A manifest whose bytes differ from the canonical form of what they say is refused, so
// equal manifests have equal digests. Every released version keeps a reader; there is one writer.
//
// Threads: value types and pure functions.
// Format:  docs/formats/manifest.md; each rule of Validate() is listed there with its test.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/column_spec.h"
#include "base/hash.h"
#include "base/ids.h"
#include "cairn/hash.h"
#include "cairn/status.h"
#include "format/assignment.h"
#include "format/frame.h"
#include "format/object.h"
#include "format/pipeline_identity.h"

namespace cairn::format {

using base::CheckpointId;
using base::ColumnSpec;
using base::OperatorId;
using base::Sha256Digest;

/// Version of the manifest that is written; every other one is refused.
inline constexpr uint32_t kCheckpointManifestVersion = 1;
/// Version of the envelope of prepared sink descriptors and intents.
inline constexpr uint32_t kPreparedSinkDescriptorVersion = 1;
/// Most encoded bytes of a manifest.
inline constexpr uint64_t kManifestBytesMax = uint64_t{16} << 20;
/// Participant id of a pipeline that runs in one process.
inline constexpr uint64_t kLocalParticipantId = 1;
/// Key groups of a manifest whose writer was told of no number. The engine's is kDefaultKeyGroups.
inline constexpr uint32_t kDefaultManifestKeyGroups = 256;
/// Most deltas over one base.
inline constexpr uint32_t kDeltasPerBaseMax = 8;
/// Most view-log segments of one cut over all participants: two such cuts stay under 16 MiB.
inline constexpr uint32_t kMaxClusterViewLogSegments = 24'000;
/// Most view-log segments of one manifest.
inline constexpr uint32_t kMaxViewLogSegments = 48'000;

/// Most view logs of one manifest, and most bytes of a view's name: they take room beside segments.
inline constexpr uint32_t kMaxViewLogs = 1024;
inline constexpr size_t kViewNameBytesMax = 80;

/// Most view-log segments of one manifest when its cut has this many participants.
uint32_t view_log_segment_limit(uint32_t participants);

/// SHA-256 of plain bytes: manifests, objects.
Sha256Digest checkpoint_sha256(std::string_view bytes);
/// Digest of a prepared sink descriptor; absent differs from empty.
Sha256Digest checkpoint_descriptor_sha256(const std::optional<std::string>& descriptor);
/// Digest of a sink artifact intent; absent differs from empty.
Sha256Digest checkpoint_artifact_intent_sha256(const std::optional<std::string>& intent);

/// Identity of one immutable data object. Ordered by participant, then checkpoint.
struct StateChunkId {
  uint64_t participant_id = kLocalParticipantId;
  CheckpointId checkpoint_id;
  friend auto operator<=>(const StateChunkId&, const StateChunkId&) = default;
};

/// The one data object this participant wrote for this checkpoint. Length 0 = none was written.
struct NodeDataObject {
  StateChunkId chunk;
  uint64_t object_length = 0;
  Sha256Digest sha256 = checkpoint_sha256({});  ///< ObjectSummary::digest; of no bytes when none
  std::optional<ObjectSection> prefix;          ///< set exactly when an object was written
  std::optional<ObjectSection> suffix;
  friend bool operator==(const NodeDataObject&, const NodeDataObject&) = default;
};

/// What a state frame holds. Only the three state kinds of FrameKind.
struct StateFrameKey {
  FrameKind kind = FrameKind::kKeyed;
  OperatorId operator_id;
  uint16_t first_key_group = 0;  ///< inclusive; of operator state and meta the subtask
  uint16_t last_key_group = 0;   ///< inclusive
  KeyGroupRange range() const { return {first_key_group, last_key_group + 1u}; }
  friend auto operator<=>(const StateFrameKey&, const StateFrameKey&) = default;
};

/// A checked state payload in this checkpoint's object or an older one.
struct StateFrame {
  StateFrameKey key;
  bool delta = false;  ///< JSON "type": "base" | "delta"
  StateChunkId chunk;
  ByteRange range;
  uint32_t parts = 1;
  uint64_t entry_count = 0;
  uint32_t crc32c = 0;
  Sha256Digest sha256{};
  friend bool operator==(const StateFrame&, const StateFrame&) = default;

  FrameIdentity identity() const;
  /// `verify_sha256` false = the CRC is enough (restore).
  FrameExpectation expectation(bool verify_sha256) const;
};
/// The order of frames in a manifest: kind, operator, bases before deltas, chunk, groups.
bool StateFrameLess(const StateFrame& a, const StateFrame& b);

/// An older object that frames of this cut lie in, and how many do.
struct ReferencedStateChunk {
  StateChunkId chunk;
  uint64_t object_length = 0;
  Sha256Digest sha256{};
  uint32_t ref_count = 0;
  friend bool operator==(const ReferencedStateChunk&, const ReferencedStateChunk&) = default;
};

/// A frame of this checkpoint's object that holds the payloads of sink intents or descriptors.
struct SinkFrame {
  ByteRange range;
  uint32_t parts = 1;
  uint64_t entry_count = 0;
  uint32_t crc32c = 0;
  Sha256Digest sha256{};
  friend bool operator==(const SinkFrame&, const SinkFrame&) = default;
};

/// One prepared, uncommitted piece of a sink. Its payload, when there is one, is the next row of
/// the descriptor frame: rows are in the order of the entries that have one.
struct PreparedSinkDescriptor {
  std::string sink_name;
  CheckpointId checkpoint_id;  ///< the attempt that prepared it: this one, or an earlier failed one
  uint32_t subtask = 0;
  uint32_t format_version = kPreparedSinkDescriptorVersion;
  bool has_payload = false;
  Sha256Digest sha256{};  ///< checkpoint_descriptor_sha256
  friend bool operator==(const PreparedSinkDescriptor&, const PreparedSinkDescriptor&) = default;
};

/// What a sink left as evidence before it wrote. Rows of the intent frame, as above.
struct PreparedSinkArtifactIntent {
  std::string sink_name;
  CheckpointId checkpoint_id;
  uint32_t subtask = 0;
  uint32_t format_version = kPreparedSinkDescriptorVersion;
  bool has_payload = false;
  Sha256Digest sha256{};  ///< checkpoint_artifact_intent_sha256
  friend bool operator==(const PreparedSinkArtifactIntent&,
                         const PreparedSinkArtifactIntent&) = default;
};

/// Key bytes of a row in a sink frame: u64 BE checkpoint, u32 BE subtask, sink name.
std::string SinkRowKey(std::string_view sink_name, CheckpointId checkpoint_id, uint32_t subtask);

/// Progress of one split of a source: the connector's text, and whether it has ended.
struct SplitOffset {
  std::string position;
  bool ended = false;
  friend bool operator==(const SplitOffset&, const SplitOffset&) = default;
};

/// A connector's offsets at exactly this cut, by split.
struct ConnectorCheckpoint {
  std::map<std::string, SplitOffset> offsets;
  std::map<std::string, std::string> metadata;
  /// Physical input channels, ascending; empty = the source is one logical channel.
  std::vector<std::string> input_channels;
  friend bool operator==(const ConnectorCheckpoint&, const ConnectorCheckpoint&) = default;
};

/// Watermark and idleness of one stable input channel. Ordered by participant, source, channel.
struct ChannelProgress {
  uint64_t participant_id = kLocalParticipantId;
  std::string source_name;
  std::string input_channel;  ///< bytes, hex in JSON; the one byte 00 = the whole source
  std::optional<int64_t> watermark;
  bool idle = false;
  friend bool operator==(const ChannelProgress&, const ChannelProgress&) = default;
};
inline constexpr std::string_view kLogicalChannel{"\0", 1};

/// The watermark of a cut: the least over active channels; none when one of them has none yet or
/// all are idle.
std::optional<int64_t> ClassifyWatermark(const std::vector<ChannelProgress>& progress);

/// A slot as every reader needs it.
struct SlotRecord {
  std::string name;
  std::string kind = "keyed_value";  ///< keyed_value | operator_value | keyed_list | keyed_map
  std::string key_codec;
  std::string value_codec;
  uint32_t version = 1;
  std::vector<ColumnSpec> key_columns;
  std::vector<ColumnSpec> value_columns;
  bool frame_per_group = false;
  std::optional<uint64_t> ttl_ms;
  std::optional<std::string> ttl_clock;          ///< event (default) | wall | stopped_while_down
  std::optional<int64_t> ttl_time_ms;            ///< what that clock showed at the cut
  std::optional<int64_t> ttl_first_ms;           ///< and the first time it ever showed
  std::optional<std::string> element_key_codec;  ///< of a map's keys
  friend bool operator==(const SlotRecord&, const SlotRecord&) = default;
};

/// An operator with its totals over own and referenced frames: what a restore must load.
struct OperatorRecord {
  OperatorId operator_id;
  std::string uid;
  std::vector<SlotRecord> slots;  ///< by name
  uint64_t frames = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;
  friend bool operator==(const OperatorRecord&, const OperatorRecord&) = default;
};

/// Inclusive event-time range of one segment's rows.
struct EventTimeBounds {
  int64_t min = 0;
  int64_t max = 0;
  friend bool operator==(const EventTimeBounds&, const EventTimeBounds&) = default;
};

/// One immutable run of rows, [first, end), in a partition of a view log.
struct ViewLogSegment {
  uint32_t partition = 0;
  CheckpointId origin;  ///< the checkpoint that wrote it: part of its object's name
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t object_length = 0;
  Sha256Digest sha256{};
  std::optional<EventTimeBounds> event_time;
  friend bool operator==(const ViewLogSegment&, const ViewLogSegment&) = default;
};

/// One append-only view's retained log at this cut.
struct ViewLog {
  std::string view;
  std::string generation;  ///< UUIDv7: a view dropped and made again does not continue its log
  Sha256Digest schema_sha256{};
  uint32_t partitions = 0;
  std::vector<ViewLogSegment> segments;  ///< by (partition, first), contiguous in a partition
  friend bool operator==(const ViewLog&, const ViewLog&) = default;
};

/// A point-in-time snapshot of one participant's pipeline state.
struct CheckpointManifest {
  CheckpointId checkpoint_id;
  uint64_t epoch = 0;  ///< equals checkpoint_id
  uint64_t timestamp_ms = 0;
  uint64_t participant_id = kLocalParticipantId;
  std::string attempt_id;     ///< UUIDv7: a writer knows its own lost write by it
  std::string deployment_id;  ///< UUIDv7
  PipelineIdentity pipeline_identity;
  uint16_t partitioning_abi = 1;
  uint32_t key_groups = kDefaultManifestKeyGroups;
  uint32_t parallelism = 1;
  SlotHash slot_hash;
  /// The committed cut whose chunks this one may reference; 0 = none.
  CheckpointId base_checkpoint_id;

  std::vector<OperatorRecord> operators;  ///< by operator_id
  NodeDataObject node_data;
  std::vector<StateFrame> state_frames;  ///< by StateFrameLess
  std::vector<ReferencedStateChunk> referenced_chunks;

  std::vector<std::string> source_names;  ///< ascending
  std::vector<std::string>
      ended_sources;  ///< ascending subset: at end of input, past every barrier
  std::map<std::string, ConnectorCheckpoint> source_offsets;
  std::vector<ChannelProgress> channel_progress;
  std::optional<int64_t> checkpoint_watermark;

  std::vector<std::string> sink_names;  ///< ascending
  /// Every prepared-not-committed piece; by (sink, checkpoint, subtask).
  std::vector<PreparedSinkDescriptor> prepared_sinks;
  std::optional<SinkFrame> prepared_sink_frame;
  /// Empty, or one for each of prepared_sinks.
  std::vector<PreparedSinkArtifactIntent> sink_artifact_intents;
  std::optional<SinkFrame> sink_intent_frame;

  std::vector<ViewLog> view_logs;  ///< by (view, generation)

  /// Set exactly when the cut has several participants. Not in the JSON of a local manifest.
  std::optional<ClusterShare> cluster;

  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

/// Every rule that Validate() enforces: (enumerator, name). Tests break each one alone.
#define CAIRN_MANIFEST_RULES(X)                          \
  X(kCheckpointId, "checkpoint_id")                      \
  X(kEpoch, "epoch")                                     \
  X(kTimestamp, "timestamp")                             \
  X(kParticipant, "participant")                         \
  X(kAssignmentFence, "assignment_fence")                \
  X(kLeader, "leader")                                   \
  X(kOwnedKeyGroups, "owned_key_groups")                 \
  X(kAttemptId, "attempt_id")                            \
  X(kDeploymentId, "deployment_id")                      \
  X(kPipelineIdentity, "pipeline_identity")              \
  X(kPartitioningAbi, "partitioning_abi")                \
  X(kKeyGroups, "key_groups")                            \
  X(kParallelism, "parallelism")                         \
  X(kSlotHash, "slot_hash")                              \
  X(kBaseCheckpoint, "base_checkpoint")                  \
  X(kSourceNames, "source_names")                        \
  X(kSinkNames, "sink_names")                            \
  X(kEndedSources, "ended_sources")                      \
  X(kSourceOffsets, "source_offsets")                    \
  X(kInputChannels, "input_channels")                    \
  X(kChannelProgressOrder, "channel_progress_order")     \
  X(kChannelProgressSource, "channel_progress_source")   \
  X(kChannelProgressChannel, "channel_progress_channel") \
  X(kChannelProgressRoster, "channel_progress_roster")   \
  X(kWatermarkReserved, "watermark_reserved")            \
  X(kCheckpointWatermark, "checkpoint_watermark")        \
  X(kOperatorOrder, "operator_order")                    \
  X(kOperatorUid, "operator_uid")                        \
  X(kSlotOrder, "slot_order")                            \
  X(kSlotName, "slot_name")                              \
  X(kSlotKind, "slot_kind")                              \
  X(kSlotCodec, "slot_codec")                            \
  X(kSlotTtl, "slot_ttl")                                \
  X(kSlotColumns, "slot_columns")                        \
  X(kOperatorTotals, "operator_totals")                  \
  X(kNodeDataChunk, "node_data_chunk")                   \
  X(kNodeDataAbsent, "node_data_absent")                 \
  X(kNodeDataSections, "node_data_sections")             \
  X(kNodeDataDigest, "node_data_digest")                 \
  X(kReferencedChunkOrder, "referenced_chunk_order")     \
  X(kReferencedChunkAge, "referenced_chunk_age")         \
  X(kReferencedChunkCount, "referenced_chunk_count")     \
  X(kFrameOrder, "frame_order")                          \
  X(kFrameKind, "frame_kind")                            \
  X(kFrameOperator, "frame_operator")                    \
  X(kFrameGroups, "frame_groups")                        \
  X(kFrameEmpty, "frame_empty")                          \
  X(kFrameChunk, "frame_chunk")                          \
  X(kFrameRange, "frame_range")                          \
  X(kFrameNotOwned, "frame_not_owned")                   \
  X(kBaseOverlap, "base_overlap")                        \
  X(kDeltaOverlap, "delta_overlap")                      \
  X(kDeltaBeforeBase, "delta_before_base")               \
  X(kDeltaCount, "delta_count")                          \
  X(kFrameOverlapInChunk, "frame_overlap_in_chunk")      \
  X(kObjectTiling, "object_tiling")                      \
  X(kPreparedSinkOrder, "prepared_sink_order")           \
  X(kPreparedSinkName, "prepared_sink_name")             \
  X(kPreparedSinkCheckpoint, "prepared_sink_checkpoint") \
  X(kPreparedSinkVersion, "prepared_sink_version")       \
  X(kPreparedSinkAbsent, "prepared_sink_absent")         \
  X(kPreparedSinkFrame, "prepared_sink_frame")           \
  X(kSinkIntentRoster, "sink_intent_roster")             \
  X(kSinkIntentVersion, "sink_intent_version")           \
  X(kSinkIntentAbsent, "sink_intent_absent")             \
  X(kSinkIntentFrame, "sink_intent_frame")               \
  X(kViewLogLimit, "view_log_limit")                     \
  X(kViewLogName, "view_log_name")                       \
  X(kViewLogOrder, "view_log_order")                     \
  X(kViewLogGeneration, "view_log_generation")           \
  X(kViewLogPartition, "view_log_partition")             \
  X(kViewLogSegmentOrder, "view_log_segment_order")      \
  X(kViewLogSegmentRange, "view_log_segment_range")      \
  X(kViewLogContiguous, "view_log_contiguous")           \
  X(kViewLogOrigin, "view_log_origin")                   \
  X(kViewLogEventTime, "view_log_event_time")            \
  X(kViewLogSegmentLimit, "view_log_segment_limit")

enum class ManifestRule : uint8_t {
#define CAIRN_MANIFEST_RULE_ENUM(id, name) id,
  CAIRN_MANIFEST_RULES(CAIRN_MANIFEST_RULE_ENUM)
#undef CAIRN_MANIFEST_RULE_ENUM
};
std::string_view ManifestRuleName(ManifestRule rule);

/// The first rule that a manifest breaks.
struct ManifestValidationError {
  ManifestRule rule;
  std::string message;  ///< what is wrong and where, without the rule's name
  /// kCorruption: "manifest of checkpoint 7 breaks rule frame_order: ..."
  Status ToStatus(CheckpointId id) const;
};

/// Check every rule. Nothing = valid.
///
/// Cost:     linear in frames but for sorting; about 1 ms for 8,192 frames.
std::optional<ManifestValidationError> Validate(const CheckpointManifest& manifest);

/// Write a manifest. It is validated first, so that no broken one can be stored.
///
/// Errors:   kInternal when it breaks a rule · kInvalidArgument for text that is not UTF-8 ·
///           kResourceExhausted past kManifestBytesMax.
Result<std::string> SerializeManifest(const CheckpointManifest& manifest);

/// Read and validate a manifest.
///
/// Errors:   kUnsupportedFormat for another version · kCorruption for anything else that is not a
///           canonical, valid manifest.
Result<CheckpointManifest> ParseManifest(std::string_view bytes);

}  // namespace cairn::format
