// SPDX-License-Identifier: Apache-2.0
//
// The rules of a manifest. Each is checked in the order of CAIRN_MANIFEST_RULES, so that the first
// one reported is the most basic; later ones rely on those before.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "format/manifest.h"
#include "format/row_codec.h"

namespace cairn::format {
namespace {

/// True when each element is less than the next one.
template <class List, class Less = std::less<>>
bool StrictlyAscending(const List& list, Less less = {}) {
  return std::adjacent_find(list.begin(), list.end(), [&](const auto& a, const auto& b) {
           return !less(a, b);
         }) == list.end();
}

/// What a prepared piece is known by: sorts descriptors and pairs them with intents.
template <class Prepared>
std::tuple<std::string_view, CheckpointId, uint32_t> Roster(const Prepared& prepared) {
  return {prepared.sink_name, prepared.checkpoint_id, prepared.subtask};
}

class Validator {
 public:
  explicit Validator(const CheckpointManifest& manifest) : m_(manifest) {}

  std::optional<ManifestValidationError> Run() {
    CheckHead();
    CheckNames();
    CheckOffsets();
    CheckProgress();
    CheckOperators();
    CheckNodeData();
    CheckFrames();
    CheckReferences();
    CheckFrameSets();
    CheckChunkOverlap();
    CheckPrepared();
    CheckIntents();
    CheckTiling();
    CheckTotals();
    CheckViewLogs();
    return std::move(error_);
  }

 private:
  using Rule = ManifestRule;

  /// Note a broken rule unless an earlier one is broken.
  template <class... Args>
  void Require(bool holds, Rule rule, fmt::format_string<Args...> message, Args&&... args) {
    if (holds || error_) return;
    error_ = ManifestValidationError{rule, fmt::format(message, std::forward<Args>(args)...)};
  }

  void CheckHead() {
    Require(m_.checkpoint_id.value != 0, Rule::kCheckpointId, "checkpoint_id is 0");
    Require(m_.epoch == m_.checkpoint_id.value, Rule::kEpoch, "epoch {} differs from checkpoint_id",
            m_.epoch);
    Require(m_.timestamp_ms != 0, Rule::kTimestamp, "timestamp_ms is 0");
    CheckParticipant();
    Require(base::IsCanonicalUuid(m_.attempt_id), Rule::kAttemptId, "'{}' is no canonical UUID",
            m_.attempt_id);
    Require(base::IsCanonicalUuid(m_.deployment_id), Rule::kDeploymentId,
            "'{}' is no canonical UUID", m_.deployment_id);
    Require(m_.pipeline_identity.canonical_version == kPipelineIdentityVersion,
            Rule::kPipelineIdentity, "canonical_version {} is not {}",
            m_.pipeline_identity.canonical_version, kPipelineIdentityVersion);
    Require(m_.partitioning_abi == 1, Rule::kPartitioningAbi, "partitioning_abi {} is not 1",
            m_.partitioning_abi);
    Require(m_.key_groups >= 1 && m_.key_groups <= kMaxKeyGroups, Rule::kKeyGroups,
            "key_groups {} is not 1..{}", m_.key_groups, kMaxKeyGroups);
    Require(m_.parallelism >= 1 && m_.parallelism <= m_.key_groups, Rule::kParallelism,
            "parallelism {} is not 1..{}", m_.parallelism, m_.key_groups);
    Require(m_.slot_hash.function == kSlotHashXxh3, Rule::kSlotHash, "function '{}' is not {}",
            m_.slot_hash.function, kSlotHashXxh3);
    Require(m_.base_checkpoint_id < m_.checkpoint_id, Rule::kBaseCheckpoint,
            "base_checkpoint_id {} is not older", m_.base_checkpoint_id.value);
  }

  void CheckParticipant() {
    if (!m_.cluster) {
      Require(m_.participant_id == kLocalParticipantId, Rule::kParticipant,
              "participant_id is {}, the only one is 1", m_.participant_id);
      return;
    }
    const ClusterShare& share = *m_.cluster;
    Require(m_.participant_id != 0, Rule::kParticipant, "participant_id is 0");
    const Status fence = CheckAssignmentFence(share.fence);
    Require(fence.ok(), Rule::kAssignmentFence, "{}", fence.message());
    Require(share.fence.Find(m_.participant_id) != nullptr &&
                share.fence.key_groups == m_.key_groups &&
                share.fence.partitioning_abi == m_.partitioning_abi,
            Rule::kAssignmentFence, "it does not name participant {} or its {} key groups",
            m_.participant_id, m_.key_groups);
    const Status leader = CheckLeaderProof(share.leader);
    Require(leader.ok(), Rule::kLeader, "{}", leader.message());
    uint32_t free_from = 0;
    for (const KeyGroupRange& range : share.owned_key_groups) {
      Require(range.first < range.last && range.last <= m_.key_groups &&
                  (range.first > free_from || free_from == 0),
              Rule::kOwnedKeyGroups, "{}..{} of {} groups: empty, out of range, order or apart",
              range.first, range.last, m_.key_groups);
      free_from = range.last;
    }
  }

  void CheckNames() {
    const auto named = [](const std::vector<std::string>& names) {
      return StrictlyAscending(names) && (names.empty() || !names.front().empty());
    };
    Require(named(m_.source_names), Rule::kSourceNames, "empty, twice or out of order");
    Require(named(m_.sink_names), Rule::kSinkNames, "empty, twice or out of order");
    Require(StrictlyAscending(m_.ended_sources) &&
                std::includes(m_.source_names.begin(), m_.source_names.end(),
                              m_.ended_sources.begin(), m_.ended_sources.end()),
            Rule::kEndedSources, "unknown, twice or out of order");
  }

  bool IsSource(const std::string& name) const {
    return std::binary_search(m_.source_names.begin(), m_.source_names.end(), name);
  }

  void CheckOffsets() {
    for (const auto& [source, checkpoint] : m_.source_offsets) {
      Require(IsSource(source), Rule::kSourceOffsets, "source '{}' is unknown", source);
      const auto& channels = checkpoint.input_channels;
      Require(StrictlyAscending(channels) && std::none_of(channels.begin(), channels.end(),
                                                          [](const std::string& channel) {
                                                            return channel.empty() ||
                                                                   channel == kLogicalChannel;
                                                          }),
              Rule::kInputChannels, "of source '{}': empty, logical, twice or out of order",
              source);
    }
  }

  void CheckProgress() {
    const auto& progress = m_.channel_progress;
    Require(StrictlyAscending(progress,
                              [](const ChannelProgress& a, const ChannelProgress& b) {
                                return std::tie(a.participant_id, a.source_name, a.input_channel) <
                                       std::tie(b.participant_id, b.source_name, b.input_channel);
                              }),
            Rule::kChannelProgressOrder, "a channel is there twice or out of order");
    std::map<std::string, std::vector<std::string>> channels;
    for (const ChannelProgress& channel : progress) {
      Require(IsSource(channel.source_name) && channel.participant_id == m_.participant_id,
              Rule::kChannelProgressSource, "source '{}' of participant {} is unknown",
              channel.source_name, channel.participant_id);
      Require(!channel.input_channel.empty(), Rule::kChannelProgressChannel,
              "source '{}' has an empty channel", channel.source_name);
      Require(channel.watermark != std::numeric_limits<int64_t>::min(), Rule::kWatermarkReserved,
              "source '{}' has the reserved watermark", channel.source_name);
      channels[channel.source_name].push_back(channel.input_channel);
    }
    for (const auto& [source, roster] : channels) {
      Require(roster.size() == 1 || roster.front() != kLogicalChannel,
              Rule::kChannelProgressChannel,
              "source '{}' mixes the logical channel with physical ones", source);
    }
    CheckRosters(channels);
    Require(m_.checkpoint_watermark == ClassifyWatermark(progress), Rule::kCheckpointWatermark,
            "checkpoint_watermark is not the least over active channels");
  }

  /// Compare the input channels of each source with those that report progress.
  void CheckRosters(const std::map<std::string, std::vector<std::string>>& progress) {
    for (const std::string& source : m_.source_names) {
      const auto found = progress.find(source);
      std::vector<std::string> roster;
      if (found != progress.end() && found->second.front() != kLogicalChannel) {
        roster = found->second;
      }
      const auto offsets = m_.source_offsets.find(source);
      const bool equal = offsets == m_.source_offsets.end()
                             ? roster.empty()
                             : offsets->second.input_channels == roster;
      Require(equal, Rule::kChannelProgressRoster,
              "source '{}' reports progress of other channels than its offsets have", source);
    }
  }

  void CheckOperators() {
    Require(StrictlyAscending(m_.operators,
                              [](const OperatorRecord& a, const OperatorRecord& b) {
                                return a.operator_id < b.operator_id;
                              }),
            Rule::kOperatorOrder, "an operator is there twice or out of order");
    for (const OperatorRecord& op : m_.operators) {
      // An operator that an import knows by its id alone has the id's hex digits for a uid.
      Require(!op.uid.empty() && (base::OperatorIdOf(op.uid) == op.operator_id ||
                                  op.uid == base::ToHex16(op.operator_id)),
              Rule::kOperatorUid, "id {} is not that of uid '{}'", base::ToHex16(op.operator_id),
              op.uid);
      Require(StrictlyAscending(op.slots, [](const SlotRecord& a,
                                             const SlotRecord& b) { return a.name < b.name; }),
              Rule::kSlotOrder, "operator '{}': a slot is there twice or out of order", op.uid);
      for (const SlotRecord& slot : op.slots) CheckSlot(op, slot);
    }
  }

  void CheckSlot(const OperatorRecord& op, const SlotRecord& slot) {
    const Status name = ValidateSlotName(slot.name);
    Require(name.ok(), Rule::kSlotName, "operator '{}': {}", op.uid, name.message());
    Require(slot.kind == "keyed_value" || slot.kind == "operator_value" ||
                slot.kind == "keyed_list" || slot.kind == "keyed_map",
            Rule::kSlotKind, "operator '{}', slot '{}': kind '{}'", op.uid, slot.name, slot.kind);
    Require((slot.ttl_ms || (!slot.ttl_clock && !slot.ttl_time_ms && !slot.ttl_first_ms)) &&
                (!slot.ttl_clock || *slot.ttl_clock == "event" || *slot.ttl_clock == "wall" ||
                 *slot.ttl_clock == "stopped_while_down"),
            Rule::kSlotTtl, "operator '{}', slot '{}': clock '{}' of its TTL", op.uid, slot.name,
            slot.ttl_clock.value_or(""));
    Require(
        !slot.element_key_codec || (slot.kind == "keyed_map" && !slot.element_key_codec->empty()),
        Rule::kSlotCodec, "operator '{}', slot '{}': a codec of element keys without a map", op.uid,
        slot.name);
    Require(!slot.key_codec.empty() && !slot.value_codec.empty() && slot.version >= 1,
            Rule::kSlotCodec, "operator '{}', slot '{}': a codec has no name or version", op.uid,
            slot.name);
    for (const auto* columns : {&slot.key_columns, &slot.value_columns}) {
      std::set<std::string_view> names;
      for (const ColumnSpec& column : *columns) {
        Require(!column.name.empty() && names.insert(column.name).second &&
                    ParseColumnType(column.type).ok(),
                Rule::kSlotColumns, "operator '{}', slot '{}': column '{}' {}", op.uid, slot.name,
                column.name, column.type);
      }
    }
  }

  void CheckNodeData() {
    const NodeDataObject& object = m_.node_data;
    Require(object.chunk == own_chunk(), Rule::kNodeDataChunk,
            "the object is of participant {}, checkpoint {}", object.chunk.participant_id,
            object.chunk.checkpoint_id.value);
    if (object.object_length == 0) {
      const bool named = std::any_of(m_.state_frames.begin(), m_.state_frames.end(),
                                     [&](const StateFrame& f) { return f.chunk == own_chunk(); });
      Require(!object.prefix && !object.suffix && object.sha256 == checkpoint_sha256({}) &&
                  !named && !m_.prepared_sink_frame && !m_.sink_intent_frame,
              Rule::kNodeDataAbsent, "something lies in an object that was not written");
      return;
    }
    Require(object.prefix && object.suffix && object.prefix->range.offset == 0 &&
                object.prefix->range.length > 0 && object.suffix->range.length > 0,
            Rule::kNodeDataSections, "the object has no prefix or no suffix");
  }

  StateChunkId own_chunk() const { return {m_.participant_id, m_.checkpoint_id}; }

  const ReferencedStateChunk* Referenced(const StateChunkId& id) const {
    const auto found =
        std::lower_bound(m_.referenced_chunks.begin(), m_.referenced_chunks.end(), id,
                         [](const ReferencedStateChunk& chunk, const StateChunkId& key) {
                           return chunk.chunk < key;
                         });
    return found != m_.referenced_chunks.end() && found->chunk == id ? &*found : nullptr;
  }

  void CheckFrames() {
    Require(StrictlyAscending(m_.referenced_chunks,
                              [](const ReferencedStateChunk& a, const ReferencedStateChunk& b) {
                                return a.chunk < b.chunk;
                              }),
            Rule::kReferencedChunkOrder, "a chunk is there twice or out of order");
    Require(StrictlyAscending(m_.state_frames, StateFrameLess), Rule::kFrameOrder,
            "a frame is there twice or out of order");
    for (const StateFrame& frame : m_.state_frames) CheckFrame(frame);
  }

  void CheckFrame(const StateFrame& frame) {
    const bool keyed = frame.key.kind == FrameKind::kKeyed;
    const std::string name = error_ ? std::string() : frame.identity().ToString();
    Require(frame.key.kind <= FrameKind::kKeyed, Rule::kFrameKind, "{}", name);
    const auto op = std::lower_bound(
        m_.operators.begin(), m_.operators.end(), frame.key.operator_id,
        [](const OperatorRecord& record, OperatorId id) { return record.operator_id < id; });
    Require(op != m_.operators.end() && op->operator_id == frame.key.operator_id,
            Rule::kFrameOperator, "{}: the operator is unknown", name);
    const bool groups_fit = keyed ? frame.key.first_key_group <= frame.key.last_key_group &&
                                        frame.key.last_key_group < m_.key_groups
                                  : frame.key.first_key_group == frame.key.last_key_group;
    Require(groups_fit, Rule::kFrameGroups, "{}: its groups or subtask are out of range", name);
    Require(frame.range.length > 0 && frame.parts > 0 && frame.entry_count > 0, Rule::kFrameEmpty,
            "{}: it has no bytes, parts or entries", name);
    const ReferencedStateChunk* chunk = Referenced(frame.chunk);
    Require(frame.chunk == own_chunk() || chunk != nullptr, Rule::kFrameChunk,
            "{}: its object is not listed", name);
    const uint64_t length = chunk != nullptr ? chunk->object_length : m_.node_data.object_length;
    Require(frame.range.offset <= length && frame.range.length <= length - frame.range.offset,
            Rule::kFrameRange, "{}: its range ends past the object", name);
    Require(!keyed || !m_.cluster ||
                m_.cluster->Owns(frame.key.first_key_group, frame.key.last_key_group),
            Rule::kFrameNotOwned, "{}: participant {} does not own its groups", name,
            m_.participant_id);
  }

  void CheckReferences() {
    std::map<StateChunkId, uint32_t> counts;
    for (const StateFrame& frame : m_.state_frames) ++counts[frame.chunk];
    for (const ReferencedStateChunk& chunk : m_.referenced_chunks) {
      const uint64_t id = chunk.chunk.checkpoint_id.value;
      Require(id != 0 && chunk.chunk.participant_id == m_.participant_id &&
                  chunk.chunk.checkpoint_id <= m_.base_checkpoint_id,
              Rule::kReferencedChunkAge, "chunk {} is not one of the base cut {} or older", id,
              m_.base_checkpoint_id.value);
      Require(chunk.ref_count == counts[chunk.chunk] && chunk.ref_count > 0,
              Rule::kReferencedChunkCount, "chunk {} counts {} references, {} frames name it", id,
              chunk.ref_count, counts[chunk.chunk]);
    }
  }

  /// Check the bases and deltas of each (kind, operator): runs of frames, as they are sorted.
  void CheckFrameSets() {
    const auto& frames = m_.state_frames;
    for (size_t first = 0; first < frames.size() && !error_;) {
      size_t last = first;
      size_t deltas = first;
      while (last < frames.size() && frames[last].key.kind == frames[first].key.kind &&
             frames[last].key.operator_id == frames[first].key.operator_id) {
        if (!frames[last].delta) deltas = last + 1;
        ++last;
      }
      CheckBases(first, deltas);
      CheckDeltas(first, deltas, last);
      first = last;
    }
  }

  void CheckBases(size_t first, size_t last) {
    for (size_t i = first + 1; i < last; ++i) {
      const StateFrame& frame = m_.state_frames[i];
      Require(m_.state_frames[i - 1].key.last_key_group < frame.key.first_key_group,
              Rule::kBaseOverlap, "{}: another base has some of its groups",
              frame.identity().ToString());
    }
  }

  void CheckDeltas(size_t first_base, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const StateFrame& frame = m_.state_frames[i];
      if (i > first && m_.state_frames[i - 1].chunk == frame.chunk) {
        Require(m_.state_frames[i - 1].key.last_key_group < frame.key.first_key_group,
                Rule::kDeltaOverlap, "{}: another delta of its object has some of its groups",
                frame.identity().ToString());
      }
      // Bases are disjoint and ascend, so those that overlap this delta are neighbours.
      auto base = std::partition_point(
          m_.state_frames.begin() + static_cast<ptrdiff_t>(first_base),
          m_.state_frames.begin() + static_cast<ptrdiff_t>(first),
          [&](const StateFrame& b) { return b.key.last_key_group < frame.key.first_key_group; });
      for (; base != m_.state_frames.begin() + static_cast<ptrdiff_t>(first) &&
             base->key.first_key_group <= frame.key.last_key_group;
           ++base) {
        Require(base->chunk < frame.chunk, Rule::kDeltaBeforeBase,
                "{}: it is not newer than the base it changes", frame.identity().ToString());
      }
    }
    CheckDeltaCount(first, last);
  }

  /// Sweep over the groups, counting the deltas that cover each.
  void CheckDeltaCount(size_t first, size_t last) {
    if (last - first <= kDeltasPerBaseMax) return;
    std::map<uint32_t, int64_t> steps;
    for (size_t i = first; i < last; ++i) {
      const KeyGroupRange range = m_.state_frames[i].key.range();
      ++steps[range.first];
      --steps[range.last];
    }
    int64_t covering = 0;
    for (const auto& [group, step] : steps) {
      covering += step;
      Require(covering <= kDeltasPerBaseMax, Rule::kDeltaCount,
              "{}: group {} has more than {} deltas", m_.state_frames[first].identity().ToString(),
              group, kDeltasPerBaseMax);
    }
  }

  void CheckChunkOverlap() {
    std::vector<const StateFrame*> frames;
    for (const StateFrame& frame : m_.state_frames) frames.push_back(&frame);
    std::sort(frames.begin(), frames.end(), [](const StateFrame* a, const StateFrame* b) {
      return std::tie(a->chunk, a->range) < std::tie(b->chunk, b->range);
    });
    for (size_t i = 1; i < frames.size(); ++i) {
      if (frames[i - 1]->chunk != frames[i]->chunk || frames[i]->chunk == own_chunk()) continue;
      Require(frames[i - 1]->range.end() <= frames[i]->range.offset, Rule::kFrameOverlapInChunk,
              "{}: its bytes overlap another frame's", frames[i]->identity().ToString());
    }
  }

  /// Rules that descriptors and intents share.
  template <class Prepared>
  struct PreparedRules {
    Rule version, absent, frame;
    Sha256Digest absent_digest;
    const std::vector<Prepared>& list;
    const std::optional<SinkFrame>& sink_frame;
  };

  template <class Prepared>
  void CheckPayloads(const PreparedRules<Prepared>& rules) {
    uint64_t payloads = 0;
    for (const Prepared& prepared : rules.list) {
      Require(prepared.format_version == kPreparedSinkDescriptorVersion, rules.version,
              "sink '{}': format_version {}", prepared.sink_name, prepared.format_version);
      Require(prepared.has_payload != (prepared.sha256 == rules.absent_digest), rules.absent,
              "sink '{}': digest and payload disagree on whether there is one", prepared.sink_name);
      payloads += prepared.has_payload ? 1 : 0;
    }
    const auto& frame = rules.sink_frame;
    Require(frame.has_value() == (payloads > 0), rules.frame, "{} payloads and {} frame", payloads,
            frame ? "a" : "no");
    if (!frame) return;
    Require(frame->entry_count == payloads && frame->parts > 0 && frame->range.length > 0,
            rules.frame, "{} payloads, but the frame has {} entries", payloads, frame->entry_count);
  }

  void CheckPrepared() {
    Require(StrictlyAscending(m_.prepared_sinks,
                              [](const PreparedSinkDescriptor& a, const PreparedSinkDescriptor& b) {
                                return Roster(a) < Roster(b);
                              }),
            Rule::kPreparedSinkOrder, "a prepared piece is there twice or out of order");
    for (const PreparedSinkDescriptor& prepared : m_.prepared_sinks) {
      Require(std::binary_search(m_.sink_names.begin(), m_.sink_names.end(), prepared.sink_name),
              Rule::kPreparedSinkName, "sink '{}' is unknown", prepared.sink_name);
      Require(prepared.checkpoint_id.value != 0 && prepared.checkpoint_id <= m_.checkpoint_id,
              Rule::kPreparedSinkCheckpoint, "sink '{}' was prepared by checkpoint {}",
              prepared.sink_name, prepared.checkpoint_id.value);
    }
    CheckPayloads<PreparedSinkDescriptor>(
        {Rule::kPreparedSinkVersion, Rule::kPreparedSinkAbsent, Rule::kPreparedSinkFrame,
         checkpoint_descriptor_sha256(std::nullopt), m_.prepared_sinks, m_.prepared_sink_frame});
  }

  void CheckIntents() {
    const auto& intents = m_.sink_artifact_intents;
    bool paired = intents.size() == m_.prepared_sinks.size();
    for (size_t i = 0; paired && i < intents.size(); ++i) {
      paired = Roster(intents[i]) == Roster(m_.prepared_sinks[i]);
    }
    Require(intents.empty() || paired, Rule::kSinkIntentRoster,
            "intents are not those of the prepared pieces");
    CheckPayloads<PreparedSinkArtifactIntent>(
        {Rule::kSinkIntentVersion, Rule::kSinkIntentAbsent, Rule::kSinkIntentFrame,
         checkpoint_artifact_intent_sha256(std::nullopt), intents, m_.sink_intent_frame});
  }

  /// Prefix, frames and suffix follow each other without a gap, and make the object's digest.
  void CheckTiling() {
    const NodeDataObject& object = m_.node_data;
    if (object.object_length == 0 || error_) return;
    std::vector<std::pair<ByteRange, Sha256Digest>> pieces;
    for (const StateFrame& frame : m_.state_frames) {
      if (frame.chunk == own_chunk()) pieces.emplace_back(frame.range, frame.sha256);
    }
    for (const auto* frame : {&m_.prepared_sink_frame, &m_.sink_intent_frame}) {
      if (*frame) pieces.emplace_back((*frame)->range, (*frame)->sha256);
    }
    std::sort(pieces.begin(), pieces.end());
    uint64_t at = object.prefix->range.end();
    std::vector<Sha256Digest> digests;
    for (const auto& [range, digest] : pieces) {
      Require(range.offset == at, Rule::kObjectTiling, "a frame begins at {}, the last ended at {}",
              range.offset, at);
      at = range.offset + range.length;
      digests.push_back(digest);
    }
    Require(object.suffix->range.offset == at && object.suffix->range.end() == object.object_length,
            Rule::kObjectTiling, "frames end at {}, the suffix is {}+{} of {}", at,
            object.suffix->range.offset, object.suffix->range.length, object.object_length);
    Require(object.sha256 == ObjectDigest(object.prefix->sha256, digests, object.suffix->sha256),
            Rule::kNodeDataDigest, "the object's digest is not that of its pieces");
  }

  void CheckTotals() {
    struct Totals {
      uint64_t frames = 0, entries = 0, bytes = 0;
      bool operator==(const Totals&) const = default;
    };
    std::map<OperatorId, Totals> totals;
    for (const StateFrame& frame : m_.state_frames) {
      Totals& sum = totals[frame.key.operator_id];
      ++sum.frames;
      sum.entries += frame.entry_count;
      sum.bytes += frame.range.length;
    }
    for (const OperatorRecord& op : m_.operators) {
      const Totals& sum = totals[op.operator_id];
      Require(
          sum == Totals{op.frames, op.entries, op.bytes}, Rule::kOperatorTotals,
          "operator '{}' names {} frames, {} entries and {} bytes; its frames have {}, {} and {}",
          op.uid, op.frames, op.entries, op.bytes, sum.frames, sum.entries, sum.bytes);
    }
  }

  void CheckViewLogs() {
    Require(StrictlyAscending(m_.view_logs,
                              [](const ViewLog& a, const ViewLog& b) {
                                return std::tie(a.view, a.generation) <
                                       std::tie(b.view, b.generation);
                              }),
            Rule::kViewLogOrder, "a view log is there twice or out of order");
    Require(m_.view_logs.size() <= kMaxViewLogs, Rule::kViewLogLimit, "{} view logs, more than {}",
            m_.view_logs.size(), kMaxViewLogs);
    uint64_t segments = 0;
    for (const ViewLog& log : m_.view_logs) {
      Require(!log.view.empty() && log.view.size() <= kViewNameBytesMax, Rule::kViewLogName,
              "view '{}': its name has {} bytes, 1 to {} are allowed", log.view, log.view.size(),
              kViewNameBytesMax);
      Require(base::IsCanonicalUuid(log.generation), Rule::kViewLogGeneration,
              "view '{}': generation '{}' is no canonical UUID", log.view, log.generation);
      CheckSegments(log);
      segments += log.segments.size();
    }
    const uint32_t limit = view_log_segment_limit(
        m_.cluster ? static_cast<uint32_t>(m_.cluster->fence.participants.size()) : 1);
    Require(segments <= limit, Rule::kViewLogSegmentLimit, "{} segments, more than {}", segments,
            limit);
  }

  void CheckSegments(const ViewLog& log) {
    const ViewLogSegment* before = nullptr;
    for (const ViewLogSegment& segment : log.segments) {
      Require(segment.partition < log.partitions, Rule::kViewLogPartition,
              "view '{}': partition {} of {}", log.view, segment.partition, log.partitions);
      Require(before == nullptr || std::tie(before->partition, before->first) <
                                       std::tie(segment.partition, segment.first),
              Rule::kViewLogSegmentOrder, "view '{}': a segment is there twice or out of order",
              log.view);
      Require(segment.end > segment.first && segment.object_length > 0, Rule::kViewLogSegmentRange,
              "view '{}': a segment has no rows", log.view);
      Require(before == nullptr || before->partition != segment.partition ||
                  before->end == segment.first,
              Rule::kViewLogContiguous, "view '{}', partition {}: rows {}..{} are missing",
              log.view, segment.partition, before == nullptr ? 0 : before->end, segment.first);
      Require(segment.origin.value != 0 && segment.origin <= m_.checkpoint_id, Rule::kViewLogOrigin,
              "view '{}': a segment is of checkpoint {}", log.view, segment.origin.value);
      Require(!segment.event_time || segment.event_time->min <= segment.event_time->max,
              Rule::kViewLogEventTime, "view '{}': event time ends before it begins", log.view);
      before = &segment;
    }
  }

  const CheckpointManifest& m_;
  std::optional<ManifestValidationError> error_;
};

}  // namespace

std::optional<ManifestValidationError> Validate(const CheckpointManifest& manifest) {
  return Validator(manifest).Run();
}

}  // namespace cairn::format
