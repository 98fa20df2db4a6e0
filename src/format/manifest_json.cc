// SPDX-License-Identifier: Apache-2.0
//
// Manifests to canonical JSON and back. Writer and reader of each struct stand together, so that a
// field added to one is seen to be missing in the other.
#include <fmt/format.h>

#include "format/json_fields.h"
#include "format/manifest.h"
#include "format/manifest_frames.h"
#include "format/record_json.h"

namespace cairn::format {
namespace {

constexpr std::string_view kFormatName = "cairn-manifest";
constexpr std::string_view kRecord = "manifest";

// Elements of lists; declared here so that the list templates find them.
void Read(FieldReader* in, StateFrame* value);
Json ToJson(const ReferencedStateChunk& value);
void Read(FieldReader* in, ReferencedStateChunk* value);
Json ToJson(const PreparedSinkDescriptor& value);
void Read(FieldReader* in, PreparedSinkDescriptor* value);
Json ToJson(const PreparedSinkArtifactIntent& value);
void Read(FieldReader* in, PreparedSinkArtifactIntent* value);
Json ToJson(const ColumnSpec& value);
void Read(FieldReader* in, ColumnSpec* value);
Json ToJson(const SlotRecord& value);
void Read(FieldReader* in, SlotRecord* value);
Json ToJson(const OperatorRecord& value);
void Read(FieldReader* in, OperatorRecord* value);
Json ToJson(const ViewLogSegment& value);
void Read(FieldReader* in, ViewLogSegment* value);
Json ToJson(const ViewLog& value);
void Read(FieldReader* in, ViewLog* value);

template <class T>
Json ListToJson(const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& element : list) json.push_back(ToJson(element));
  return json;
}

template <class T>
void ReadList(FieldReader* in, const char* name, std::vector<T>* list) {
  in->ReadArray(name, [&](FieldReader* r) { Read(r, &list->emplace_back()); });
}

Json ToJson(const ByteRange& range) { return {{"length", range.length}, {"offset", range.offset}}; }
void Read(FieldReader* in, ByteRange* range) {
  in->Read("length", &range->length);
  in->Read("offset", &range->offset);
}
void ReadRange(FieldReader* in, ByteRange* range) {
  in->ReadObject("range", [&](FieldReader* r) { Read(r, range); });
}

Json ToJson(const StateChunkId& chunk) {
  return {{"checkpoint_id", chunk.checkpoint_id.value}, {"participant_id", chunk.participant_id}};
}
void ReadChunk(FieldReader* in, StateChunkId* chunk) {
  in->ReadObject("chunk", [&](FieldReader* r) {
    r->Read("checkpoint_id", &chunk->checkpoint_id);
    r->Read("participant_id", &chunk->participant_id);
  });
}

Json ToJson(const ObjectSection& section) {
  return {{"range", ToJson(section.range)}, {"sha256", base::ToHex(section.sha256)}};
}
void ReadSection(FieldReader* in, const char* name, std::optional<ObjectSection>* section) {
  if (!in->Has(name)) return;
  in->ReadObject(name, [&](FieldReader* r) {
    section->emplace();
    ReadRange(r, &(*section)->range);
    r->Read("sha256", &(*section)->sha256);
  });
}

Json ToJson(const NodeDataObject& object) {
  Json json = {{"chunk", ToJson(object.chunk)},
               {"object_length", object.object_length},
               {"sha256", base::ToHex(object.sha256)}};
  if (object.prefix) json["prefix"] = ToJson(*object.prefix);
  if (object.suffix) json["suffix"] = ToJson(*object.suffix);
  return json;
}
void Read(FieldReader* in, NodeDataObject* object) {
  ReadChunk(in, &object->chunk);
  in->Read("object_length", &object->object_length);
  in->Read("sha256", &object->sha256);
  ReadSection(in, "prefix", &object->prefix);
  ReadSection(in, "suffix", &object->suffix);
}

void Read(FieldReader* in, StateFrameKey* key) {
  std::string kind;
  in->Read("kind", &kind);
  bool known = false;
  for (const FrameKind candidate :
       {FrameKind::kOperatorMeta, FrameKind::kOperatorState, FrameKind::kKeyed}) {
    if (kind != FrameKindName(candidate)) continue;
    key->kind = candidate;
    known = true;
  }
  if (!known) in->Fail("kind", "is not keyed, operator_state or operator_meta");
  in->Read("first_key_group", &key->first_key_group);
  in->Read("last_key_group", &key->last_key_group);
  in->ReadHex16("operator_id", &key->operator_id.value);
}
void Read(FieldReader* in, StateFrame* frame) {
  ReadChunk(in, &frame->chunk);
  in->Read("crc32c", &frame->crc32c);
  in->Read("entry_count", &frame->entry_count);
  in->ReadObject("key", [&](FieldReader* r) { Read(r, &frame->key); });
  in->Read("parts", &frame->parts);
  ReadRange(in, &frame->range);
  in->Read("sha256", &frame->sha256);
  std::string type;
  in->Read("type", &type);
  frame->delta = type == "delta";
  if (type != "delta" && type != "base") in->Fail("type", "is neither base nor delta");
}

Json ToJson(const ReferencedStateChunk& chunk) {
  return {{"chunk", ToJson(chunk.chunk)},
          {"object_length", chunk.object_length},
          {"ref_count", chunk.ref_count},
          {"sha256", base::ToHex(chunk.sha256)}};
}
void Read(FieldReader* in, ReferencedStateChunk* chunk) {
  ReadChunk(in, &chunk->chunk);
  in->Read("object_length", &chunk->object_length);
  in->Read("ref_count", &chunk->ref_count);
  in->Read("sha256", &chunk->sha256);
}

Json ToJson(const SinkFrame& frame) {
  return {{"crc32c", frame.crc32c},
          {"entry_count", frame.entry_count},
          {"parts", frame.parts},
          {"range", ToJson(frame.range)},
          {"sha256", base::ToHex(frame.sha256)}};
}
void ReadSinkFrame(FieldReader* in, const char* name, std::optional<SinkFrame>* frame) {
  if (!in->Has(name)) return;
  in->ReadObject(name, [&](FieldReader* r) {
    frame->emplace();
    r->Read("crc32c", &(*frame)->crc32c);
    r->Read("entry_count", &(*frame)->entry_count);
    r->Read("parts", &(*frame)->parts);
    ReadRange(r, &(*frame)->range);
    r->Read("sha256", &(*frame)->sha256);
  });
}

/// Descriptors and intents have the same fields.
template <class Prepared>
Json PreparedToJson(const Prepared& prepared) {
  return {{"checkpoint_id", prepared.checkpoint_id.value},
          {"format_version", prepared.format_version},
          {"has_payload", prepared.has_payload},
          {"sha256", base::ToHex(prepared.sha256)},
          {"sink_name", prepared.sink_name},
          {"subtask", prepared.subtask}};
}
template <class Prepared>
void ReadPrepared(FieldReader* in, Prepared* prepared) {
  in->Read("checkpoint_id", &prepared->checkpoint_id);
  in->Read("format_version", &prepared->format_version);
  in->Read("has_payload", &prepared->has_payload);
  in->Read("sha256", &prepared->sha256);
  in->Read("sink_name", &prepared->sink_name);
  in->Read("subtask", &prepared->subtask);
}
Json ToJson(const PreparedSinkDescriptor& prepared) { return PreparedToJson(prepared); }
Json ToJson(const PreparedSinkArtifactIntent& prepared) { return PreparedToJson(prepared); }
void Read(FieldReader* in, PreparedSinkDescriptor* prepared) { ReadPrepared(in, prepared); }
void Read(FieldReader* in, PreparedSinkArtifactIntent* prepared) { ReadPrepared(in, prepared); }

Json ToJson(const ConnectorCheckpoint& checkpoint) {
  Json offsets = Json::object();
  for (const auto& [split, offset] : checkpoint.offsets) {
    offsets[split] = {{"ended", offset.ended}, {"position", offset.position}};
  }
  Json channels = Json::array();
  for (const std::string& channel : checkpoint.input_channels) {
    channels.push_back(base::ToHex(channel));
  }
  return {{"input_channels", std::move(channels)},
          {"metadata", Json(checkpoint.metadata)},
          {"offsets", std::move(offsets)}};
}
void Read(FieldReader* in, ConnectorCheckpoint* checkpoint) {
  std::vector<std::string> channels;
  in->Read("input_channels", &channels);
  for (const std::string& channel : channels) {
    if (!base::FromHex(channel, &checkpoint->input_channels.emplace_back())) {
      in->Fail("input_channels", "holds something other than hex");
    }
  }
  in->Read("metadata", &checkpoint->metadata);
  in->ReadMembers("offsets", [&](const std::string& split, FieldReader* r) {
    SplitOffset& offset = checkpoint->offsets[split];
    r->Read("ended", &offset.ended);
    r->Read("position", &offset.position);
  });
}

Json ToJson(const ColumnSpec& column) {
  return {{"name", column.name}, {"nullable", column.nullable}, {"type", column.type}};
}
void Read(FieldReader* in, ColumnSpec* column) {
  in->Read("name", &column->name);
  in->Read("nullable", &column->nullable);
  in->Read("type", &column->type);
}

Json ToJson(const SlotRecord& slot) {
  Json json = {{"frame_per_group", slot.frame_per_group},
               {"key_codec", slot.key_codec},
               {"key_columns", ListToJson(slot.key_columns)},
               {"kind", slot.kind},
               {"name", slot.name},
               {"value_codec", slot.value_codec},
               {"value_columns", ListToJson(slot.value_columns)},
               {"version", slot.version}};
  if (slot.element_key_codec) json["element_key_codec"] = *slot.element_key_codec;
  if (slot.ttl_ms) json["ttl_ms"] = *slot.ttl_ms;
  if (slot.ttl_clock) json["ttl_clock"] = *slot.ttl_clock;
  if (slot.ttl_time_ms) json["ttl_time_ms"] = *slot.ttl_time_ms;
  if (slot.ttl_first_ms) json["ttl_first_ms"] = *slot.ttl_first_ms;
  return json;
}
void Read(FieldReader* in, SlotRecord* slot) {
  in->Read("frame_per_group", &slot->frame_per_group);
  in->Read("key_codec", &slot->key_codec);
  ReadList(in, "key_columns", &slot->key_columns);
  in->Read("kind", &slot->kind);
  in->Read("name", &slot->name);
  in->ReadOptional("element_key_codec", &slot->element_key_codec);
  in->ReadOptional("ttl_clock", &slot->ttl_clock);
  in->ReadOptional("ttl_first_ms", &slot->ttl_first_ms);
  in->ReadOptional("ttl_ms", &slot->ttl_ms);
  in->ReadOptional("ttl_time_ms", &slot->ttl_time_ms);
  in->Read("value_codec", &slot->value_codec);
  ReadList(in, "value_columns", &slot->value_columns);
  in->Read("version", &slot->version);
}

Json ToJson(const OperatorRecord& op) {
  return {{"bytes", op.bytes},
          {"entries", op.entries},
          {"frames", op.frames},
          {"operator_id", base::ToHex16(op.operator_id)},
          {"slots", ListToJson(op.slots)},
          {"uid", op.uid}};
}
void Read(FieldReader* in, OperatorRecord* op) {
  in->Read("bytes", &op->bytes);
  in->Read("entries", &op->entries);
  in->Read("frames", &op->frames);
  in->ReadHex16("operator_id", &op->operator_id.value);
  ReadList(in, "slots", &op->slots);
  in->Read("uid", &op->uid);
}

Json ToJson(const ViewLogSegment& segment) {
  Json json = {{"end", segment.end},
               {"first", segment.first},
               {"object_length", segment.object_length},
               {"origin", segment.origin.value},
               {"partition", segment.partition},
               {"sha256", base::ToHex(segment.sha256)}};
  if (segment.event_time) {
    json["event_time"] = {{"max", segment.event_time->max}, {"min", segment.event_time->min}};
  }
  return json;
}
void Read(FieldReader* in, ViewLogSegment* segment) {
  in->Read("end", &segment->end);
  in->Read("first", &segment->first);
  in->Read("object_length", &segment->object_length);
  in->Read("origin", &segment->origin);
  in->Read("partition", &segment->partition);
  in->Read("sha256", &segment->sha256);
  if (!in->Has("event_time")) return;
  in->ReadObject("event_time", [&](FieldReader* r) {
    EventTimeBounds& bounds = segment->event_time.emplace();
    r->Read("max", &bounds.max);
    r->Read("min", &bounds.min);
  });
}

Json ToJson(const ViewLog& log) {
  return {{"generation", log.generation},
          {"partitions", log.partitions},
          {"schema_sha256", base::ToHex(log.schema_sha256)},
          {"segments", ListToJson(log.segments)},
          {"view", log.view}};
}
void Read(FieldReader* in, ViewLog* log) {
  in->Read("generation", &log->generation);
  in->Read("partitions", &log->partitions);
  in->Read("schema_sha256", &log->schema_sha256);
  ReadList(in, "segments", &log->segments);
  in->Read("view", &log->view);
}

/// Without its frames: WithFrames puts them in.
Json ToJson(const CheckpointManifest& m) {
  Json json = {{"attempt_id", m.attempt_id},
               {"base_checkpoint_id", m.base_checkpoint_id.value},
               {"channel_progress", ListToJson(m.channel_progress)},
               {"checkpoint_id", m.checkpoint_id.value},
               {"deployment_id", m.deployment_id},
               {"ended_sources", m.ended_sources},
               {"epoch", m.epoch},
               {"format", kFormatName},
               {"key_groups", m.key_groups},
               {"node_data", ToJson(m.node_data)},
               {"operators", ListToJson(m.operators)},
               {"parallelism", m.parallelism},
               {"participant_id", m.participant_id},
               {"partitioning_abi", m.partitioning_abi},
               {"pipeline_identity",
                {{"canonical_version", m.pipeline_identity.canonical_version},
                 {"sha256", base::ToHex(m.pipeline_identity.sha256)}}},
               {"prepared_sinks", ListToJson(m.prepared_sinks)},
               {"referenced_chunks", ListToJson(m.referenced_chunks)},
               {"sink_artifact_intents", ListToJson(m.sink_artifact_intents)},
               {"sink_names", m.sink_names},
               {"slot_hash",
                {{"function", m.slot_hash.function},
                 {"seed", base::ToHex16(base::OperatorId(m.slot_hash.seed))}}},
               {"source_names", m.source_names},
               {"source_offsets", Json::object()},
               {"state_frames", Json::array()},
               {"timestamp_ms", m.timestamp_ms},
               {"version", kCheckpointManifestVersion},
               {"view_logs", ListToJson(m.view_logs)}};
  for (const auto& [source, checkpoint] : m.source_offsets) {
    json["source_offsets"][source] = ToJson(checkpoint);
  }
  if (m.checkpoint_watermark) json["checkpoint_watermark"] = *m.checkpoint_watermark;
  if (m.prepared_sink_frame) json["prepared_sink_frame"] = ToJson(*m.prepared_sink_frame);
  if (m.sink_intent_frame) json["sink_intent_frame"] = ToJson(*m.sink_intent_frame);
  if (m.cluster) json["cluster"] = ToJson(*m.cluster);
  return json;
}

void Read(FieldReader* in, CheckpointManifest* m) {
  std::string format;
  uint32_t version = 0;
  in->Read("format", &format);
  in->Read("version", &version);
  in->Read("attempt_id", &m->attempt_id);
  in->Read("base_checkpoint_id", &m->base_checkpoint_id);
  ReadList(in, "channel_progress", &m->channel_progress);
  in->Read("checkpoint_id", &m->checkpoint_id);
  in->ReadOptional("checkpoint_watermark", &m->checkpoint_watermark);
  if (in->Has("cluster")) {
    in->ReadObject("cluster", [&](FieldReader* r) { Read(r, &m->cluster.emplace()); });
  }
  in->Read("deployment_id", &m->deployment_id);
  in->Read("ended_sources", &m->ended_sources);
  in->Read("epoch", &m->epoch);
  in->Read("key_groups", &m->key_groups);
  in->ReadObject("node_data", [&](FieldReader* r) { Read(r, &m->node_data); });
  ReadList(in, "operators", &m->operators);
  in->Read("parallelism", &m->parallelism);
  in->Read("participant_id", &m->participant_id);
  in->Read("partitioning_abi", &m->partitioning_abi);
  in->ReadObject("pipeline_identity", [&](FieldReader* r) {
    r->Read("canonical_version", &m->pipeline_identity.canonical_version);
    r->Read("sha256", &m->pipeline_identity.sha256);
  });
  ReadSinkFrame(in, "prepared_sink_frame", &m->prepared_sink_frame);
  ReadList(in, "prepared_sinks", &m->prepared_sinks);
  ReadList(in, "referenced_chunks", &m->referenced_chunks);
  ReadList(in, "sink_artifact_intents", &m->sink_artifact_intents);
  ReadSinkFrame(in, "sink_intent_frame", &m->sink_intent_frame);
  in->Read("sink_names", &m->sink_names);
  in->ReadObject("slot_hash", [&](FieldReader* r) {
    r->Read("function", &m->slot_hash.function);
    r->ReadHex16("seed", &m->slot_hash.seed);
  });
  in->Read("source_names", &m->source_names);
  in->ReadMembers("source_offsets", [&](const std::string& source, FieldReader* r) {
    Read(r, &m->source_offsets[source]);
  });
  ReadList(in, "state_frames", &m->state_frames);
  in->Read("timestamp_ms", &m->timestamp_ms);
  ReadList(in, "view_logs", &m->view_logs);
}

/// Refuse another format or version before its fields are looked at.
Status CheckVersion(const Json& json) {
  const auto format = json.find("format");
  if (format == json.end() || *format != kFormatName) {
    return Status::Corruption(fmt::format("manifest.format is not {}", kFormatName));
  }
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_unsigned()) {
    return Status::Corruption("manifest.version is not a number");
  }
  if (*version == kCheckpointManifestVersion) return Status();
  return UnknownVersion("manifest", version->get<uint64_t>(), kCheckpointManifestVersion);
}

Result<std::string> CanonicalText(const CheckpointManifest& manifest) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, DumpCanonical(ToJson(manifest), kRecord));
  return WithFrames(text, manifest.state_frames);
}

}  // namespace

Json ToJson(const ChannelProgress& progress) {
  Json json = {{"idle", progress.idle},
               {"input_channel", base::ToHex(progress.input_channel)},
               {"participant_id", progress.participant_id},
               {"source_name", progress.source_name}};
  if (progress.watermark) json["watermark"] = *progress.watermark;
  return json;
}
void Read(FieldReader* in, ChannelProgress* progress) {
  in->Read("idle", &progress->idle);
  in->ReadHexBytes("input_channel", &progress->input_channel);
  in->Read("participant_id", &progress->participant_id);
  in->Read("source_name", &progress->source_name);
  in->ReadOptional("watermark", &progress->watermark);
}

Result<std::string> SerializeManifest(const CheckpointManifest& manifest) {
  if (const auto error = Validate(manifest)) {
    return Status::Internal(std::string(error->ToStatus(manifest.checkpoint_id).message()));
  }
  CAIRN_ASSIGN_OR_RETURN(std::string bytes, CanonicalText(manifest));
  if (bytes.size() > kManifestBytesMax) {
    return Status::ResourceExhausted(fmt::format(
        "manifest of checkpoint {} has {} bytes, more than the {} allowed: use fewer key "
        "groups or frames of more groups",
        manifest.checkpoint_id.value, bytes.size(), kManifestBytesMax));
  }
  return bytes;
}

Result<CheckpointManifest> ParseManifest(std::string_view bytes) {
  std::optional<TextAndFrames> taken;
  if (bytes.size() <= kManifestBytesMax) taken = TakeFrames(bytes);
  CAIRN_ASSIGN_OR_RETURN(const Json json, ParseRecord(taken ? std::string_view(taken->text) : bytes,
                                                      kManifestBytesMax, kRecord));
  CAIRN_RETURN_IF_ERROR(CheckVersion(json));
  CheckpointManifest manifest;
  Status status;
  FieldReader reader(json, std::string(kRecord), &status);
  Read(&reader, &manifest);
  reader.Finish();
  if (!status.ok()) return status;
  if (taken) manifest.state_frames = std::move(taken->frames);
  if (const auto error = Validate(manifest)) return error->ToStatus(manifest.checkpoint_id);
  CAIRN_ASSIGN_OR_RETURN(const std::string canonical, CanonicalText(manifest));
  if (canonical != bytes) {
    return Status::Corruption(fmt::format("manifest of checkpoint {} is not in canonical form",
                                          manifest.checkpoint_id.value));
  }
  return manifest;
}

}  // namespace cairn::format
