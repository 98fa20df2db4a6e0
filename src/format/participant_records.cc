// SPDX-License-Identifier: Apache-2.0
#include "format/participant_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "format/json_fields.h"
#include "format/record_json.h"

namespace cairn::format {
namespace {

constexpr char kIntentsFormat[] = "cairn-sink-intents";
constexpr char kSealFormat[] = "cairn-abort-seal";
constexpr char kManifestFormat[] = "cairn-manifest";
constexpr char kIndexFormat[] = "cairn-committed-index";

void ReadFormat(FieldReader* in, std::string_view expected) {
  std::string format;
  in->Read("format", &format);
  if (format != expected) in->Fail("format", fmt::format("is not {}", expected));
}

Status BadRecord(const char* record, std::string_view what) {
  return Status::Corruption(fmt::format("{}: {}", record, what));
}

Status CheckAttempt(const char* record, base::CheckpointId id, const std::string& attempt_id,
                    const std::string& deployment_id) {
  if (id.value == 0) return BadRecord(record, "checkpoint_id is 0");
  if (!base::IsCanonicalUuid(attempt_id)) return BadRecord(record, "attempt_id is no UUID");
  if (!base::IsCanonicalUuid(deployment_id)) return BadRecord(record, "deployment_id is no UUID");
  return {};
}

Status CheckIntents(const SinkIntentRecord& record) {
  CAIRN_RETURN_IF_ERROR(
      CheckAttempt(kIntentsFormat, record.checkpoint_id, record.attempt_id, record.deployment_id));
  if (record.participant.node == 0 || !base::IsCanonicalUuid(record.participant.boot)) {
    return BadRecord(kIntentsFormat, "it names no process");
  }
  if (record.intents.empty() || record.intents.size() > kSinkIntentsMax) {
    return BadRecord(kIntentsFormat, "it has no intent or too many");
  }
  uint64_t bytes = 0;
  const SinkIntent* before = nullptr;
  for (const SinkIntent& intent : record.intents) {
    if (intent.sink_name.empty() || (before != nullptr && before->sink_name >= intent.sink_name)) {
      return BadRecord(kIntentsFormat, "a sink is empty, twice or out of order");
    }
    const uint64_t size = intent.intent ? intent.intent->size() : 0;
    if (size > kSinkIntentBytesMax) return BadRecord(kIntentsFormat, "an intent is too long");
    bytes += size;
    before = &intent;
  }
  if (bytes > kSinkIntentsBytesMax) return BadRecord(kIntentsFormat, "intents are too long");
  return {};
}

Status CheckSeal(const AbortSeal& seal) {
  CAIRN_RETURN_IF_ERROR(
      CheckAttempt(kSealFormat, seal.checkpoint_id, seal.attempt_id, seal.deployment_id));
  if (seal.participant_id == 0) return BadRecord(kSealFormat, "participant_id is 0");
  CAIRN_RETURN_IF_ERROR(CheckLeaderProof(seal.leader).WithContext(kSealFormat));
  if (seal.intents && seal.manifest) return BadRecord(kSealFormat, "it keeps two records");
  const bool other_intents =
      seal.intents && (seal.intents->checkpoint_id != seal.checkpoint_id ||
                       seal.intents->attempt_id != seal.attempt_id ||
                       seal.intents->deployment_id != seal.deployment_id ||
                       seal.intents->participant.node != seal.participant_id);
  const bool other_manifest =
      seal.manifest && (seal.manifest->checkpoint_id != seal.checkpoint_id ||
                        seal.manifest->attempt_id != seal.attempt_id ||
                        seal.manifest->deployment_id != seal.deployment_id ||
                        seal.manifest->participant_id != seal.participant_id);
  if (other_intents || other_manifest) {
    return BadRecord(kSealFormat, "what it keeps is of another attempt");
  }
  return {};
}

Status CheckIndexedParticipants(const CommittedIndex& index) {
  const auto& participants = index.participants;
  bool equal = participants.size() == index.fence.participants.size();
  for (size_t i = 0; equal && i < participants.size(); ++i) {
    equal = participants[i].participant_id == index.fence.participants[i].node;
  }
  if (!equal) return BadRecord(kIndexFormat, "participants are not those of the assignment");
  for (const IndexedParticipant& participant : participants) {
    if (participant.manifest_length == 0) return BadRecord(kIndexFormat, "a manifest is empty");
    if ((participant.data_length == 0) !=
        (participant.data_sha256 == checkpoint_sha256(std::string_view()))) {
      return BadRecord(kIndexFormat, "length and digest of an object disagree");
    }
  }
  return {};
}

Status CheckIndexedProgress(const CommittedIndex& index) {
  const ChannelProgress* before = nullptr;
  for (const ChannelProgress& channel : index.channel_progress) {
    const auto order = [](const ChannelProgress& c) {
      return std::tie(c.participant_id, c.source_name, c.input_channel);
    };
    if (before != nullptr && order(*before) >= order(channel)) {
      return BadRecord(kIndexFormat, "a channel is there twice or out of order");
    }
    if (index.fence.Find(channel.participant_id) == nullptr || channel.input_channel.empty()) {
      return BadRecord(kIndexFormat, "a channel is of nobody");
    }
    before = &channel;
  }
  return {};
}

Json ToJson(const IndexedParticipant& participant) {
  return {{"data_length", participant.data_length},
          {"data_sha256", base::ToHex(participant.data_sha256)},
          {"manifest_length", participant.manifest_length},
          {"manifest_sha256", base::ToHex(participant.manifest_sha256)},
          {"participant_id", participant.participant_id}};
}
void Read(FieldReader* in, IndexedParticipant* participant) {
  in->Read("data_length", &participant->data_length);
  in->Read("data_sha256", &participant->data_sha256);
  in->Read("manifest_length", &participant->manifest_length);
  in->Read("manifest_sha256", &participant->manifest_sha256);
  in->Read("participant_id", &participant->participant_id);
}

Json IndexToJson(const CommittedIndex& index) {
  Json json = {{"assignment_fence", ToJson(index.fence)},
               {"attempt_id", index.attempt_id},
               {"base_cut", index.base_cut.value},
               {"channel_progress", Json::array()},
               {"checkpoint_id", index.checkpoint_id.value},
               {"deployment_id", index.deployment_id},
               {"format", kIndexFormat},
               {"leader", ToJson(index.leader)},
               {"participants", Json::array()},
               {"pipeline_identity",
                {{"canonical_version", index.pipeline_identity.canonical_version},
                 {"sha256", base::ToHex(index.pipeline_identity.sha256)}}},
               {"sink_names", index.sink_names},
               {"source_offsets", Json::object()},
               {"version", kSharedRecordVersion}};
  for (const ChannelProgress& channel : index.channel_progress) {
    json["channel_progress"].push_back(ToJson(channel));
  }
  for (const IndexedParticipant& participant : index.participants) {
    json["participants"].push_back(ToJson(participant));
  }
  if (index.predecessor) json["predecessor"] = ToJson(*index.predecessor);
  for (const auto& [source, splits] : index.source_offsets) {
    Json& saved = json["source_offsets"][source] = Json::object();
    for (const auto& [split, offset] : splits) {
      saved[split] = {{"ended", offset.ended}, {"position", offset.position}};
    }
  }
  if (index.watermark) json["watermark"] = *index.watermark;
  return json;
}

void Read(FieldReader* in, CommittedIndex* index) {
  ReadFormat(in, kIndexFormat);
  in->ReadObject("assignment_fence", [&](FieldReader* r) { Read(r, &index->fence); });
  in->Read("attempt_id", &index->attempt_id);
  in->Read("base_cut", &index->base_cut);
  in->ReadArray("channel_progress",
                [&](FieldReader* r) { Read(r, &index->channel_progress.emplace_back()); });
  in->Read("checkpoint_id", &index->checkpoint_id);
  in->Read("deployment_id", &index->deployment_id);
  in->ReadObject("leader", [&](FieldReader* r) { Read(r, &index->leader); });
  in->ReadArray("participants",
                [&](FieldReader* r) { Read(r, &index->participants.emplace_back()); });
  in->ReadObject("pipeline_identity", [&](FieldReader* r) {
    r->Read("canonical_version", &index->pipeline_identity.canonical_version);
    r->Read("sha256", &index->pipeline_identity.sha256);
  });
  ReadCutIfThere(in, "predecessor", &index->predecessor);
  in->Read("sink_names", &index->sink_names);
  in->ReadMembers("source_offsets", [&](const std::string& source, FieldReader* r) {
    std::map<std::string, SplitOffset>& splits = index->source_offsets[source];
    r->ReadAllMembers([&](const std::string& split, FieldReader* offset) {
      SplitOffset& saved = splits[split];
      offset->Read("ended", &saved.ended);
      offset->Read("position", &saved.position);
    });
  });
  in->ReadOptional("watermark", &index->watermark);
}

}  // namespace

Result<std::string> SerializeSinkIntentRecord(const SinkIntentRecord& record) {
  CAIRN_RETURN_IF_ERROR(AsInternal(CheckIntents(record)));
  Json intents = Json::array();
  for (const SinkIntent& intent : record.intents) {
    Json& json = intents.emplace_back(Json{{"sink_name", intent.sink_name}});
    if (intent.intent) json["intent"] = base::ToHex(*intent.intent);
  }
  return PrintRecord({{"attempt_id", record.attempt_id},
                      {"boot", record.participant.boot},
                      {"checkpoint_id", record.checkpoint_id.value},
                      {"deployment_id", record.deployment_id},
                      {"format", kIntentsFormat},
                      {"intents", std::move(intents)},
                      {"node", record.participant.node},
                      {"version", kSharedRecordVersion}},
                     kIntentRecordBytesMax, kIntentsFormat);
}

Result<SinkIntentRecord> ParseSinkIntentRecord(std::string_view bytes) {
  SinkIntentRecord record;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kIntentRecordBytesMax, kIntentsFormat, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        ReadFormat(in, kIntentsFormat);
        in->Read("attempt_id", &record.attempt_id);
        in->Read("checkpoint_id", &record.checkpoint_id);
        in->Read("deployment_id", &record.deployment_id);
        in->ReadArray("intents", [&](FieldReader* r) {
          SinkIntent& intent = record.intents.emplace_back();
          if (r->Has("intent")) r->ReadHexBytes("intent", &intent.intent.emplace());
          r->Read("sink_name", &intent.sink_name);
        });
        Read(in, &record.participant);
      },
      [&] { return SerializeSinkIntentRecord(record); }));
  return record;
}

Result<std::string> SerializeAbortSeal(const AbortSeal& seal) {
  CAIRN_RETURN_IF_ERROR(AsInternal(CheckSeal(seal)));
  Json json = {{"attempt_id", seal.attempt_id},
               {"checkpoint_id", seal.checkpoint_id.value},
               {"cleanup_complete", seal.cleanup_complete},
               {"deployment_id", seal.deployment_id},
               {"format", kSealFormat},
               {"leader", ToJson(seal.leader)},
               {"participant_id", seal.participant_id},
               {"version", kSharedRecordVersion}};
  if (seal.intents) {
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, SerializeSinkIntentRecord(*seal.intents));
    CAIRN_ASSIGN_OR_RETURN(json["sink_intents"],
                           ParseRecord(bytes, kIntentRecordBytesMax, kIntentsFormat));
  }
  if (seal.manifest) {
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, SerializeManifest(*seal.manifest));
    CAIRN_ASSIGN_OR_RETURN(json["manifest"],
                           ParseRecord(bytes, kManifestBytesMax, kManifestFormat));
  }
  return PrintRecord(json, kAbortSealBytesMax, kSealFormat);
}

Result<AbortSeal> ParseAbortSeal(std::string_view bytes) {
  AbortSeal seal;
  Status kept;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kAbortSealBytesMax, kSealFormat, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        ReadFormat(in, kSealFormat);
        in->Read("attempt_id", &seal.attempt_id);
        in->Read("checkpoint_id", &seal.checkpoint_id);
        in->Read("cleanup_complete", &seal.cleanup_complete);
        in->Read("deployment_id", &seal.deployment_id);
        in->ReadObject("leader", [&](FieldReader* r) { Read(r, &seal.leader); });
        in->Read("participant_id", &seal.participant_id);
        std::string text;
        if (in->Has("sink_intents")) {
          in->ReadRecordText("sink_intents", &text);
          Result<SinkIntentRecord> intents = ParseSinkIntentRecord(text);
          if (!intents.ok()) return in->Fail("sink_intents", intents.status().message());
          seal.intents = *std::move(intents);
        }
        if (in->Has("manifest")) {
          in->ReadRecordText("manifest", &text);
          Result<CheckpointManifest> manifest = ParseManifest(text);
          if (!manifest.ok()) return in->Fail("manifest", manifest.status().message());
          seal.manifest = *std::move(manifest);
        }
      },
      [&] { return SerializeAbortSeal(seal); }));
  return seal;
}

Result<NodeRecord> ParseNodeRecord(std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(const Json json,
                         ParseRecord(bytes, kAbortSealBytesMax, "participant's manifest"));
  const auto format = json.find("format");
  const std::string name =
      format != json.end() && format->is_string() ? format->get<std::string>() : std::string();
  if (name == kIntentsFormat) {
    CAIRN_ASSIGN_OR_RETURN(SinkIntentRecord record, ParseSinkIntentRecord(bytes));
    return NodeRecord(std::move(record));
  }
  if (name == kSealFormat) {
    CAIRN_ASSIGN_OR_RETURN(AbortSeal seal, ParseAbortSeal(bytes));
    return NodeRecord(std::move(seal));
  }
  if (name != kManifestFormat) {
    return Status::Corruption(
        fmt::format("a participant's manifest is of format '{}', which is none", name));
  }
  CAIRN_ASSIGN_OR_RETURN(CheckpointManifest manifest, ParseManifest(bytes));
  return NodeRecord(std::move(manifest));
}

Status ValidateCommittedIndex(const CommittedIndex& index) {
  CAIRN_RETURN_IF_ERROR(
      CheckAttempt(kIndexFormat, index.checkpoint_id, index.attempt_id, index.deployment_id));
  if (index.pipeline_identity.canonical_version != kPipelineIdentityVersion) {
    return BadRecord(kIndexFormat, "pipeline_identity has another version");
  }
  CAIRN_RETURN_IF_ERROR(CheckLeaderProof(index.leader).WithContext(kIndexFormat));
  CAIRN_RETURN_IF_ERROR(CheckAssignmentFence(index.fence).WithContext(kIndexFormat));
  if (index.base_cut >= index.checkpoint_id) {
    return BadRecord(kIndexFormat, "base_cut is not older");
  }
  if (index.predecessor && index.predecessor->id >= index.checkpoint_id) {
    return BadRecord(kIndexFormat, "predecessor is not older");
  }
  if (std::adjacent_find(index.sink_names.begin(), index.sink_names.end(),
                         std::greater_equal<>()) != index.sink_names.end()) {
    return BadRecord(kIndexFormat, "sink_names are twice or out of order");
  }
  CAIRN_RETURN_IF_ERROR(CheckIndexedParticipants(index));
  return CheckIndexedProgress(index);
}

Result<std::string> SerializeCommittedIndex(const CommittedIndex& index) {
  CAIRN_RETURN_IF_ERROR(AsInternal(ValidateCommittedIndex(index)));
  return PrintRecord(IndexToJson(index), kCommittedIndexBytesMax, kIndexFormat);
}

Result<CommittedIndex> ParseCommittedIndex(std::string_view bytes) {
  CommittedIndex index;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kCommittedIndexBytesMax, kIndexFormat, kSharedRecordVersion, "version",
      [&](FieldReader* in) { Read(in, &index); }, [&] { return SerializeCommittedIndex(index); }));
  return index;
}

}  // namespace cairn::format
