// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/share.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/place.h"
#include "format/frame.h"
#include "format/keys.h"
#include "format/object.h"

namespace cairn::checkpoint::shared {
namespace {

constexpr std::string_view kOperatorUid = "shared/state/0";
constexpr std::string_view kSlotName = "groups";

format::SlotRecord GroupsSlot() {
  format::SlotRecord slot;
  slot.name = kSlotName;
  slot.key_codec = "bytes";
  slot.value_codec = "bytes";
  slot.frame_per_group = true;
  return slot;
}

Result<format::ObjectSchema> SchemaOfPlace(const SharedPlace& place) {
  format::ObjectSchema schema;
  CAIRN_ASSIGN_OR_RETURN(schema.layout, format::KeyLayout::ForKeyGroups(place.format.key_groups));
  schema.slot_hash = place.identity.slot_hash;
  schema.state_versions = {
      {base::OperatorIdOf(kOperatorUid).value, "bytes", 1, std::string(kSlotName)}};
  return schema;
}

class StringSink final : public format::ByteSink {
 public:
  explicit StringSink(std::string* bytes) : bytes_(bytes) {}
  Status Append(std::string_view bytes) override {
    if (bytes_->size() + bytes.size() > kNodeDataBytesMax) {
      return Status::ResourceExhausted("a participant's object holds more than " +
                                       std::to_string(kNodeDataBytesMax) +
                                       " bytes: use more participants");
    }
    bytes_->append(bytes);
    return {};
  }

 private:
  std::string* bytes_;
};

std::shared_ptr<base::SavedRows> OneRow(std::string_view key, std::string_view value,
                                        std::shared_ptr<base::SavedRows> rows) {
  const base::SavedRows::Slot at =
      rows->Append(base::SavedRowKind::kMaterialised, key.size(), value.size());
  std::memcpy(at.key, key.data(), key.size());
  if (!value.empty()) std::memcpy(at.value, value.data(), value.size());
  return rows;
}

/// Writes the object of a share front to back; opened with its first frame.
class ShareObjectWriter {
 public:
  ShareObjectWriter(format::ObjectSchema schema, std::string* bytes)
      : schema_(std::move(schema)), sink_(bytes) {}

  Result<format::FrameSummary> Add(const format::FrameIdentity& identity,
                                   std::shared_ptr<base::SavedRows> rows,
                                   format::ByteRange* range) {
    if (writer_ == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(writer_, format::ObjectWriter::Open(&sink_, schema_));
    }
    CAIRN_ASSIGN_OR_RETURN(const format::EncodedFrame frame,
                           format::EncodeFrame(schema_, identity, std::move(rows)));
    CAIRN_ASSIGN_OR_RETURN(*range, writer_->Append(frame));
    return frame.summary;
  }

  Status Finish(format::NodeDataObject* object) {
    if (writer_ == nullptr) return {};
    CAIRN_ASSIGN_OR_RETURN(const format::ObjectSummary summary, writer_->Finish());
    object->object_length = summary.length;
    object->sha256 = summary.digest;
    object->prefix = summary.prefix;
    object->suffix = summary.suffix;
    return {};
  }

  const format::ObjectSchema& schema() const { return schema_; }

 private:
  const format::ObjectSchema schema_;
  StringSink sink_;
  std::unique_ptr<format::ObjectWriter> writer_;
};

format::FrameIdentity SinkFrameIdentity(format::FrameKind kind, base::CheckpointId id) {
  format::FrameIdentity identity;
  identity.kind = kind;
  identity.checkpoint_id = id;
  return identity;
}

/// Write the payloads of one kind, those sinks that have one, as a frame.
Status AddSinkFrame(format::FrameKind kind, base::CheckpointId id,
                    const std::vector<PreparedSink>& sinks, ShareObjectWriter* writer,
                    std::optional<format::SinkFrame>* saved) {
  auto rows = std::make_shared<base::SavedRows>();
  for (const PreparedSink& sink : sinks) {
    const auto& payload =
        kind == format::FrameKind::kSinkDescriptor ? sink.descriptor : sink.intent;
    if (payload) rows = OneRow(format::SinkRowKey(sink.name, id, 0), *payload, std::move(rows));
  }
  if (rows->rows() == 0) return {};
  format::SinkFrame frame;
  CAIRN_ASSIGN_OR_RETURN(const format::FrameSummary summary,
                         writer->Add(SinkFrameIdentity(kind, id), std::move(rows), &frame.range));
  frame.parts = summary.parts;
  frame.entry_count = summary.entries;
  frame.crc32c = summary.crc32c;
  frame.sha256 = summary.sha256;
  *saved = frame;
  return {};
}

void AddSinkRecords(base::CheckpointId id, const std::vector<PreparedSink>& sinks,
                    format::CheckpointManifest* manifest) {
  for (const PreparedSink& sink : sinks) {
    manifest->prepared_sinks.push_back({sink.name, id, 0, format::kPreparedSinkDescriptorVersion,
                                        sink.descriptor.has_value(),
                                        format::checkpoint_descriptor_sha256(sink.descriptor)});
    manifest->sink_artifact_intents.push_back(
        {sink.name, id, 0, format::kPreparedSinkDescriptorVersion, sink.intent.has_value(),
         format::checkpoint_artifact_intent_sha256(sink.intent)});
  }
}

format::CheckpointManifest ManifestOf(const ShareContext& context, const CapturedShare& captured) {
  const format::ActiveAttempt& attempt = *context.attempt;
  format::CheckpointManifest manifest;
  manifest.checkpoint_id = attempt.id;
  manifest.epoch = attempt.id.value;
  manifest.timestamp_ms = context.timestamp_ms;
  manifest.participant_id = context.node;
  manifest.attempt_id = attempt.attempt_id;
  manifest.deployment_id = context.place->identity.deployment_id;
  manifest.pipeline_identity = context.pipeline_identity;
  manifest.key_groups = context.place->format.key_groups;
  manifest.slot_hash = context.place->identity.slot_hash;
  manifest.base_checkpoint_id = attempt.base_cut;
  manifest.node_data.chunk = {context.node, attempt.id};
  manifest.source_names = context.source_names;
  manifest.sink_names = context.sink_names;
  manifest.source_offsets = captured.source_offsets;
  manifest.channel_progress = captured.channel_progress;
  for (format::ChannelProgress& channel : manifest.channel_progress) {
    channel.participant_id = context.node;
  }
  manifest.checkpoint_watermark = format::ClassifyWatermark(manifest.channel_progress);
  manifest.cluster = format::ClusterShare{attempt.fence, attempt.leader, context.owned};
  return manifest;
}

/// Keep the base's frames of groups that are owned and not written anew.
void AddBaseFrames(const ShareContext& context, const std::set<uint16_t>& write,
                   format::CheckpointManifest* manifest) {
  if (context.base == nullptr) return;
  std::map<format::StateChunkId, uint32_t> counts;
  for (const format::StateFrame& frame : context.base->state_frames) {
    const uint16_t group = frame.key.first_key_group;
    if (write.contains(group) || !manifest->cluster->Owns(group, group)) continue;
    manifest->state_frames.push_back(frame);
    ++counts[frame.chunk];
  }
  std::vector<format::ReferencedStateChunk> known = context.base->referenced_chunks;
  const format::NodeDataObject& own = context.base->node_data;
  known.push_back({own.chunk, own.object_length, own.sha256, 0});
  for (format::ReferencedStateChunk& chunk : known) {
    const auto count = counts.find(chunk.chunk);
    if (count == counts.end()) continue;
    chunk.ref_count = count->second;
    manifest->referenced_chunks.push_back(chunk);
  }
  std::sort(manifest->referenced_chunks.begin(), manifest->referenced_chunks.end(),
            [](const auto& a, const auto& b) { return a.chunk < b.chunk; });
}

void AddOperator(format::CheckpointManifest* manifest) {
  std::sort(manifest->state_frames.begin(), manifest->state_frames.end(), format::StateFrameLess);
  format::OperatorRecord op;
  op.operator_id = base::OperatorIdOf(kOperatorUid);
  op.uid = kOperatorUid;
  op.slots = {GroupsSlot()};
  for (const format::StateFrame& frame : manifest->state_frames) {
    ++op.frames;
    op.entries += frame.entry_count;
    op.bytes += frame.range.length;
  }
  manifest->operators = {op};
}

Status WriteGroup(const CapturedShare& captured, uint16_t group, ShareObjectWriter* writer,
                  format::CheckpointManifest* manifest) {
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, captured.read(group));
  if (bytes.empty()) return {};
  format::StateFrame frame;
  frame.key = {format::FrameKind::kKeyed, base::OperatorIdOf(kOperatorUid), group, group};
  frame.chunk = manifest->node_data.chunk;
  CAIRN_ASSIGN_OR_RETURN(const format::FrameSummary summary,
                         writer->Add(frame.identity(),
                                     OneRow(writer->schema().layout.KeyedPrefix(group, kSlotName),
                                            bytes, std::make_shared<base::SavedRows>()),
                                     &frame.range));
  frame.parts = summary.parts;
  frame.entry_count = summary.entries;
  frame.crc32c = summary.crc32c;
  frame.sha256 = summary.sha256;
  manifest->state_frames.push_back(frame);
  return {};
}

/// Fetch one frame of an object and check it.
Result<format::FrameRows> FetchFrame(env::ObjectStore* objects, const std::string& key,
                                     const format::ByteRange& range,
                                     const format::ObjectSchema& schema,
                                     const format::FrameExpectation& expected,
                                     std::string* buffer) {
  buffer->resize(range.length);
  const Status read = objects->ReadRange(key, range.offset, {buffer->data(), buffer->size()});
  if (read.code() == StatusCode::kNotFound) {
    return Status::Corruption(key + " is missing: " + std::string(read.message()));
  }
  CAIRN_RETURN_IF_ERROR(read);
  Result<format::FrameRows> rows = format::ReadFrame(*buffer, schema, expected);
  if (!rows.ok()) return rows.status().WithContext(key);
  return rows;
}

/// The payloads of a sink frame, in the order of its entries.
Result<std::vector<std::string>> ReadPayloads(env::ObjectStore* objects, const SharedPlace& place,
                                              const format::CheckpointManifest& manifest,
                                              format::FrameKind kind,
                                              const std::optional<format::SinkFrame>& frame) {
  std::vector<std::string> payloads;
  if (!frame) return payloads;
  CAIRN_ASSIGN_OR_RETURN(const format::ObjectSchema schema, SchemaOfPlace(place));
  const format::FrameExpectation expected{SinkFrameIdentity(kind, manifest.checkpoint_id),
                                          frame->parts, frame->entry_count, frame->crc32c,
                                          &frame->sha256};
  std::string buffer;
  CAIRN_ASSIGN_OR_RETURN(
      const format::FrameRows rows,
      FetchFrame(objects, NodeDataKey(manifest.participant_id, manifest.checkpoint_id),
                 frame->range, schema, expected, &buffer));
  for (const base::SavedRowSpan& batch : rows.batches) {
    for (size_t i = 0; i < batch.rows; ++i) payloads.emplace_back(batch.value(i));
  }
  return payloads;
}

}  // namespace

format::AssignmentFence Assignment::Fence() const {
  return {version, 1, static_cast<uint32_t>(owners.size()), format::OwnerMapDigest(1, owners),
          participants};
}

std::vector<KeyGroupRange> Assignment::OwnedBy(uint64_t node) const {
  std::vector<KeyGroupRange> ranges;
  for (uint32_t group = 0; group < owners.size(); ++group) {
    if (owners[group] != node) continue;
    if (!ranges.empty() && ranges.back().last == group) {
      ++ranges.back().last;
    } else {
      ranges.push_back({group, group + 1});
    }
  }
  return ranges;
}

Result<EncodedShare> EncodeShare(const ShareContext& context, const CapturedShare& captured,
                                 const std::set<uint16_t>& write,
                                 const std::vector<PreparedSink>& sinks) {
  EncodedShare share;
  share.manifest = ManifestOf(context, captured);
  CAIRN_ASSIGN_OR_RETURN(format::ObjectSchema schema, SchemaOfPlace(*context.place));
  ShareObjectWriter writer(std::move(schema), &share.object);
  for (uint16_t group : write) {
    if (!share.manifest.cluster->Owns(group, group)) continue;
    CAIRN_RETURN_IF_ERROR(WriteGroup(captured, group, &writer, &share.manifest));
  }
  const base::CheckpointId id = context.attempt->id;
  CAIRN_RETURN_IF_ERROR(AddSinkFrame(format::FrameKind::kSinkIntent, id, sinks, &writer,
                                     &share.manifest.sink_intent_frame));
  CAIRN_RETURN_IF_ERROR(AddSinkFrame(format::FrameKind::kSinkDescriptor, id, sinks, &writer,
                                     &share.manifest.prepared_sink_frame));
  CAIRN_RETURN_IF_ERROR(writer.Finish(&share.manifest.node_data));
  AddSinkRecords(id, sinks, &share.manifest);
  AddBaseFrames(context, write, &share.manifest);
  AddOperator(&share.manifest);
  return share;
}

Status ReadGroups(env::ObjectStore* objects, const SharedPlace& place,
                  const format::CheckpointManifest& manifest,
                  const std::vector<KeyGroupRange>& ranges, std::map<uint16_t, std::string>* groups,
                  uint64_t* entries) {
  CAIRN_ASSIGN_OR_RETURN(const format::ObjectSchema schema, SchemaOfPlace(place));
  std::string buffer;
  for (const format::StateFrame& frame : manifest.state_frames) {
    const uint16_t group = frame.key.first_key_group;
    const bool wanted = std::any_of(ranges.begin(), ranges.end(), [&](const KeyGroupRange& range) {
      return range.Contains(group);
    });
    if (!wanted) continue;
    const std::string key = NodeDataKey(frame.chunk.participant_id, frame.chunk.checkpoint_id);
    CAIRN_ASSIGN_OR_RETURN(
        const format::FrameRows rows,
        FetchFrame(objects, key, frame.range, schema, frame.expectation(true), &buffer));
    if (rows.entries != 1 || groups->contains(group)) {
      return Status::Corruption(key + ": group " + std::to_string(group) +
                                " is there more than once");
    }
    (*groups)[group] = std::string(rows.batches.front().value(0));
    *entries += rows.entries;
  }
  return {};
}

Result<std::vector<PreparedSink>> ReadPreparedSinks(env::ObjectStore* objects,
                                                    const SharedPlace& place,
                                                    const format::CheckpointManifest& manifest) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> descriptors,
                         ReadPayloads(objects, place, manifest, format::FrameKind::kSinkDescriptor,
                                      manifest.prepared_sink_frame));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> intents,
                         ReadPayloads(objects, place, manifest, format::FrameKind::kSinkIntent,
                                      manifest.sink_intent_frame));
  std::vector<PreparedSink> sinks;
  size_t descriptor = 0;
  size_t intent = 0;
  for (size_t i = 0; i < manifest.prepared_sinks.size(); ++i) {
    const format::PreparedSinkDescriptor& prepared = manifest.prepared_sinks[i];
    PreparedSink& sink = sinks.emplace_back();
    sink.name = prepared.sink_name;
    if (prepared.has_payload) sink.descriptor = descriptors.at(descriptor++);
    const bool has_intent =
        !manifest.sink_artifact_intents.empty() && manifest.sink_artifact_intents[i].has_payload;
    if (has_intent) sink.intent = intents.at(intent++);
    if (format::checkpoint_descriptor_sha256(sink.descriptor) != prepared.sha256) {
      return Status::Corruption("the descriptor of sink '" + sink.name + "' of checkpoint " +
                                std::to_string(manifest.checkpoint_id.value) + " is damaged");
    }
  }
  return sinks;
}

Status CheckNodeData(env::ObjectStore* objects, const format::StateChunkId& chunk,
                     uint64_t length) {
  return CheckObject(objects, {NodeDataKey(chunk.participant_id, chunk.checkpoint_id), length});
}

}  // namespace cairn::checkpoint::shared
