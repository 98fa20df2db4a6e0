// SPDX-License-Identifier: Apache-2.0
#include "format/shared_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "format/json_fields.h"
#include "format/record_json.h"

namespace cairn::format {
namespace {

constexpr char kAllocatorName[] = "allocator.json";
constexpr char kLeaseLinkName[] = "lease link";
constexpr char kLeaseHeadName[] = "lease head";
constexpr char kSharedHeadName[] = "decision-head.json";
constexpr char kRetentionName[] = "retention-head.json";
constexpr char kWitnessName[] = "sink witness";
constexpr char kCompleteName[] = "COMPLETE";

bool IsSortedUnique(const std::vector<std::string>& names) {
  return std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end() &&
         (names.empty() || !names.front().empty());
}

Json ToJson(const ActiveAttempt& attempt) {
  return {{"aborted", attempt.aborted},
          {"admitted_ms", attempt.admitted_ms},
          {"assignment_fence", ToJson(attempt.fence)},
          {"attempt_id", attempt.attempt_id},
          {"base_cut", attempt.base_cut.value},
          {"id", attempt.id.value},
          {"leader", ToJson(attempt.leader)},
          {"sinks", attempt.sinks}};
}
void Read(FieldReader* in, ActiveAttempt* attempt) {
  in->Read("aborted", &attempt->aborted);
  in->Read("admitted_ms", &attempt->admitted_ms);
  in->ReadObject("assignment_fence", [&](FieldReader* r) { Read(r, &attempt->fence); });
  in->Read("attempt_id", &attempt->attempt_id);
  in->Read("base_cut", &attempt->base_cut);
  in->Read("id", &attempt->id);
  in->ReadObject("leader", [&](FieldReader* r) { Read(r, &attempt->leader); });
  in->Read("sinks", &attempt->sinks);
}

Json ToJson(const SharedPin& pin) {
  return {{"checkpoint_id", pin.checkpoint_id.value},
          {"kind", pin.kind},
          {"name", pin.name},
          {"owner", pin.owner},
          {"renew_seq", pin.renew_seq},
          {"ttl_ms", pin.ttl_ms}};
}
void Read(FieldReader* in, SharedPin* pin) {
  in->Read("checkpoint_id", &pin->checkpoint_id);
  in->Read("kind", &pin->kind);
  in->Read("name", &pin->name);
  in->Read("owner", &pin->owner);
  in->Read("renew_seq", &pin->renew_seq);
  in->Read("ttl_ms", &pin->ttl_ms);
}

Status BadSharedHead(std::string_view what) {
  return Status::Corruption(fmt::format("{}: {}", kSharedHeadName, what));
}

Status CheckSharedCuts(const SharedHead& head) {
  if (head.retained.size() > kSharedRetainedMax) return BadSharedHead("too many retained cuts");
  if (!head.latest_commit) {
    return head.retained.empty() ? Status() : BadSharedHead("retained without latest_commit");
  }
  const IndexReference* newer = nullptr;
  for (const IndexReference& cut : head.Cuts()) {
    if (cut.id.value == 0 || (newer != nullptr && cut.id >= newer->id)) {
      return BadSharedHead("retained is not newest first");
    }
    if (cut.id < head.floor) return BadSharedHead("a kept cut is below floor");
    if (cut.index_length == 0) return BadSharedHead("a kept cut has an empty index");
    newer = head.FindCut(cut.id);
  }
  return {};
}

Status CheckSharedAttempts(const SharedHead& head) {
  if (head.active_attempts.size() > kActiveAttemptsMax) {
    return BadSharedHead("too many active attempts");
  }
  base::CheckpointId before = head.latest_commit ? head.latest_commit->id : base::CheckpointId();
  for (const ActiveAttempt& attempt : head.active_attempts) {
    if (attempt.id <= before) return BadSharedHead("an active attempt is not newer than the last");
    before = attempt.id;
    if (!base::IsCanonicalUuid(attempt.attempt_id)) {
      return BadSharedHead("an active attempt has no UUID");
    }
    if (attempt.base_cut.value != 0 && head.FindCut(attempt.base_cut) == nullptr) {
      return BadSharedHead("an active attempt is built on a cut that is not kept");
    }
    if (attempt.admitted_ms == 0) return BadSharedHead("an active attempt has no time");
    if (!IsSortedUnique(attempt.sinks)) return BadSharedHead("sinks: empty, twice or out of order");
    CAIRN_RETURN_IF_ERROR(CheckLeaderProof(attempt.leader).WithContext(kSharedHeadName));
    if (attempt.leader.fencing_token > head.leader.fencing_token) {
      return BadSharedHead("an active attempt is of a leader that has not led yet");
    }
    CAIRN_RETURN_IF_ERROR(CheckAssignmentFence(attempt.fence).WithContext(kSharedHeadName));
  }
  return {};
}

Status CheckSharedPins(const SharedHead& head) {
  if (head.pins.size() > kSharedPinsMax) return BadSharedHead("too many pins");
  const SharedPin* before = nullptr;
  for (const SharedPin& pin : head.pins) {
    if (before != nullptr && std::tie(before->kind, before->name) >= std::tie(pin.kind, pin.name)) {
      return BadSharedHead("a pin is there twice or out of order");
    }
    before = &pin;
    if (pin.kind != "savepoint" && pin.kind != "handoff" && pin.kind != "export") {
      return BadSharedHead(fmt::format("a pin has kind '{}'", pin.kind));
    }
    if (!base::IsCanonicalUuid(pin.owner)) return BadSharedHead("a pin has no owner");
    if (pin.ttl_ms == 0) return BadSharedHead("a pin has no time to live");
    if (head.FindCut(pin.checkpoint_id) == nullptr) {
      return BadSharedHead(fmt::format("pin '{}' is on a cut that is not kept", pin.name));
    }
  }
  return {};
}

Json SharedHeadJson(const SharedHead& head) {
  Json json = {{"active_attempts", Json::array()},
               {"deployment_id", head.deployment_id},
               {"floor", head.floor.value},
               {"leader", ToJson(head.leader)},
               {"pins", Json::array()},
               {"retained", Json::array()},
               {"seq", head.seq},
               {"version", kSharedRecordVersion}};
  for (const ActiveAttempt& attempt : head.active_attempts) {
    json["active_attempts"].push_back(ToJson(attempt));
  }
  for (const SharedPin& pin : head.pins) json["pins"].push_back(ToJson(pin));
  for (const IndexReference& cut : head.retained) json["retained"].push_back(ToJson(cut));
  if (head.latest_commit) json["latest_commit"] = ToJson(*head.latest_commit);
  if (head.latest_terminal) {
    json["latest_terminal"] = {{"id", head.latest_terminal->id.value},
                               {"outcome", head.latest_terminal->committed ? "commit" : "abort"}};
  }
  return json;
}

void Read(FieldReader* in, TerminalOutcome* outcome) {
  in->Read("id", &outcome->id);
  std::string text;
  in->Read("outcome", &text);
  outcome->committed = text == "commit";
  if (text != "commit" && text != "abort") in->Fail("outcome", "is neither commit nor abort");
}

void Read(FieldReader* in, SharedHead* head) {
  in->ReadArray("active_attempts",
                [&](FieldReader* r) { Read(r, &head->active_attempts.emplace_back()); });
  in->Read("deployment_id", &head->deployment_id);
  in->Read("floor", &head->floor);
  ReadCutIfThere(in, "latest_commit", &head->latest_commit);
  if (in->Has("latest_terminal")) {
    in->ReadObject("latest_terminal",
                   [&](FieldReader* r) { Read(r, &head->latest_terminal.emplace()); });
  }
  in->ReadObject("leader", [&](FieldReader* r) { Read(r, &head->leader); });
  in->ReadArray("pins", [&](FieldReader* r) { Read(r, &head->pins.emplace_back()); });
  in->ReadArray("retained", [&](FieldReader* r) { Read(r, &head->retained.emplace_back()); });
  in->Read("seq", &head->seq);
}

constexpr std::string_view kPhaseNames[] = {"idle", "delete_data", "delete_metadata"};

Status CheckRetentionHead(const RetentionHead& head) {
  const bool idle = head.phase == RetentionHead::Phase::kIdle;
  if (!base::IsCanonicalUuid(head.deployment_id)) {
    return Status::Corruption("retention-head.json: deployment_id is no UUID");
  }
  if (head.seq == 0) return Status::Corruption("retention-head.json: seq is 0");
  if (head.retired.has_value() == idle || head.protected_cut.has_value() == idle) {
    return Status::Corruption("retention-head.json: phase and cuts disagree");
  }
  if (!idle && head.retired->id >= head.protected_cut->id) {
    return Status::Corruption("retention-head.json: the retired cut is not the older one");
  }
  return {};
}

Status CheckSinkWitness(const SinkWitness& witness) {
  if (!base::IsCanonicalUuid(witness.deployment_id)) {
    return Status::Corruption("sink witness: deployment_id is no UUID");
  }
  if (witness.seq == 0) return Status::Corruption("sink witness: seq is 0");
  if (witness.process.node == 0 || !base::IsCanonicalUuid(witness.process.boot)) {
    return Status::Corruption("sink witness: it names no process");
  }
  const bool open = witness.epoch.value != 0;
  if (open != base::IsCanonicalUuid(witness.attempt_id) || open == witness.attempt_id.empty() ||
      open == witness.sinks.empty()) {
    return Status::Corruption("sink witness: epoch, attempt and sinks disagree");
  }
  if (!IsSortedUnique(witness.sinks) || witness.sinks.size() > kWitnessSinksMax) {
    return Status::Corruption("sink witness: sinks are empty, twice, out of order or too many");
  }
  return {};
}

Status CheckLeaseLink(const LeaseLink& link) {
  if (link.kind != "lease" && link.kind != "fence") {
    return Status::Corruption(fmt::format("lease link: kind '{}'", link.kind));
  }
  if (link.ttl_ms == 0) return Status::Corruption("lease link: ttl_ms is 0");
  return CheckLeaderProof(link.proof).WithContext(kLeaseLinkName);
}

}  // namespace

Json ToJson(const IndexReference& cut) {
  return {{"id", cut.id.value},
          {"index_length", cut.index_length},
          {"index_sha256", base::ToHex(cut.index_sha256)},
          {"pipeline_sha256", base::ToHex(cut.pipeline_sha256)}};
}
void Read(FieldReader* in, IndexReference* cut) {
  in->Read("id", &cut->id);
  in->Read("index_length", &cut->index_length);
  in->Read("index_sha256", &cut->index_sha256);
  in->Read("pipeline_sha256", &cut->pipeline_sha256);
}
void ReadCutIfThere(FieldReader* in, const char* name, std::optional<IndexReference>* cut) {
  if (!in->Has(name)) return;
  in->ReadObject(name, [&](FieldReader* r) { Read(r, &cut->emplace()); });
}

Result<std::string> SerializeIdAllocator(const IdAllocator& allocator) {
  const bool first = allocator.next_id.value == 1;
  if (allocator.next_id.value == 0 || first != allocator.last_allocation_id.empty() ||
      (!first && !base::IsCanonicalUuid(allocator.last_allocation_id))) {
    return Status::Internal("allocator.json: next_id and last_allocation_id disagree");
  }
  return PrintRecord({{"last_allocation_id", allocator.last_allocation_id},
                      {"next_id", allocator.next_id.value},
                      {"version", kSharedRecordVersion}},
                     kAllocatorBytesMax, kAllocatorName);
}

Result<IdAllocator> ParseIdAllocator(std::string_view bytes) {
  IdAllocator allocator;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kAllocatorBytesMax, kAllocatorName, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        in->Read("last_allocation_id", &allocator.last_allocation_id);
        in->Read("next_id", &allocator.next_id);
      },
      [&] { return SerializeIdAllocator(allocator); }));
  return allocator;
}

Result<std::string> SerializeLeaseLink(const LeaseLink& link) {
  CAIRN_RETURN_IF_ERROR(AsInternal(CheckLeaseLink(link)));
  return PrintRecord({{"kind", link.kind},
                      {"owner", ToJson(link.proof)},
                      {"ttl_ms", link.ttl_ms},
                      {"version", kSharedRecordVersion}},
                     kLeaseRecordBytesMax, kLeaseLinkName);
}

Result<LeaseLink> ParseLeaseLink(std::string_view bytes) {
  LeaseLink link;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kLeaseRecordBytesMax, kLeaseLinkName, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        in->Read("kind", &link.kind);
        in->ReadObject("owner", [&](FieldReader* r) { Read(r, &link.proof); });
        in->Read("ttl_ms", &link.ttl_ms);
      },
      [&] { return SerializeLeaseLink(link); }));
  return link;
}

Result<std::string> SerializeLeaseHead(const LeaseHead& head) {
  if (head.seq == 0) return Status::Internal("lease head: seq is 0");
  return PrintRecord({{"released", head.released},
                      {"renewals", head.renewals},
                      {"seq", head.seq},
                      {"version", kSharedRecordVersion}},
                     kLeaseHeadBytesMax, kLeaseHeadName);
}

Result<LeaseHead> ParseLeaseHead(std::string_view bytes) {
  LeaseHead head;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kLeaseHeadBytesMax, kLeaseHeadName, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        in->Read("released", &head.released);
        in->Read("renewals", &head.renewals);
        in->Read("seq", &head.seq);
      },
      [&] { return SerializeLeaseHead(head); }));
  return head;
}

const ActiveAttempt* SharedHead::FindActive(base::CheckpointId id) const {
  for (const ActiveAttempt& attempt : active_attempts) {
    if (attempt.id == id) return &attempt;
  }
  return nullptr;
}

const IndexReference* SharedHead::FindCut(base::CheckpointId id) const {
  if (latest_commit && latest_commit->id == id) return &*latest_commit;
  for (const IndexReference& cut : retained) {
    if (cut.id == id) return &cut;
  }
  return nullptr;
}

std::vector<IndexReference> SharedHead::Cuts() const {
  std::vector<IndexReference> cuts;
  if (latest_commit) cuts.push_back(*latest_commit);
  cuts.insert(cuts.end(), retained.begin(), retained.end());
  return cuts;
}

Status ValidateSharedHead(const SharedHead& head) {
  if (!base::IsCanonicalUuid(head.deployment_id)) return BadSharedHead("deployment_id is no UUID");
  if (head.seq == 0) return BadSharedHead("seq is 0");
  CAIRN_RETURN_IF_ERROR(CheckLeaderProof(head.leader).WithContext(kSharedHeadName));
  if (head.latest_terminal && head.latest_terminal->id.value == 0) {
    return BadSharedHead("latest_terminal has id 0");
  }
  CAIRN_RETURN_IF_ERROR(CheckSharedCuts(head));
  CAIRN_RETURN_IF_ERROR(CheckSharedAttempts(head));
  return CheckSharedPins(head);
}

Result<std::string> SerializeSharedHead(const SharedHead& head) {
  CAIRN_RETURN_IF_ERROR(AsInternal(ValidateSharedHead(head)));
  return PrintRecord(SharedHeadJson(head), kSharedHeadBytesMax, kSharedHeadName);
}

Result<SharedHead> ParseSharedHead(std::string_view bytes) {
  SharedHead head;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kSharedHeadBytesMax, kSharedHeadName, kSharedRecordVersion, "version",
      [&](FieldReader* in) { Read(in, &head); }, [&] { return SerializeSharedHead(head); }));
  return head;
}

Result<std::string> SerializeRetentionHead(const RetentionHead& head) {
  CAIRN_RETURN_IF_ERROR(AsInternal(CheckRetentionHead(head)));
  Json json = {{"deployment_id", head.deployment_id},
               {"phase", kPhaseNames[static_cast<size_t>(head.phase)]},
               {"seq", head.seq},
               {"version", kSharedRecordVersion}};
  if (head.retired) json["retired"] = ToJson(*head.retired);
  if (head.protected_cut) json["protected"] = ToJson(*head.protected_cut);
  return PrintRecord(json, kRetentionHeadBytesMax, kRetentionName);
}

Result<RetentionHead> ParseRetentionHead(std::string_view bytes) {
  RetentionHead head;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kRetentionHeadBytesMax, kRetentionName, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        in->Read("deployment_id", &head.deployment_id);
        std::string phase;
        in->Read("phase", &phase);
        const auto* found = std::find(std::begin(kPhaseNames), std::end(kPhaseNames), phase);
        if (found == std::end(kPhaseNames)) return in->Fail("phase", "is unknown");
        head.phase = static_cast<RetentionHead::Phase>(found - std::begin(kPhaseNames));
        ReadCutIfThere(in, "protected", &head.protected_cut);
        ReadCutIfThere(in, "retired", &head.retired);
        in->Read("seq", &head.seq);
      },
      [&] { return SerializeRetentionHead(head); }));
  return head;
}

Result<std::string> SerializeSinkWitness(const SinkWitness& witness) {
  CAIRN_RETURN_IF_ERROR(AsInternal(CheckSinkWitness(witness)));
  return PrintRecord({{"attempt_id", witness.attempt_id},
                      {"boot", witness.process.boot},
                      {"deployment_id", witness.deployment_id},
                      {"epoch", witness.epoch.value},
                      {"node", witness.process.node},
                      {"seq", witness.seq},
                      {"sinks", witness.sinks},
                      {"version", kSharedRecordVersion}},
                     kSinkWitnessBytesMax, kWitnessName);
}

Result<SinkWitness> ParseSinkWitness(std::string_view bytes) {
  SinkWitness witness;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kSinkWitnessBytesMax, kWitnessName, kSharedRecordVersion, "version",
      [&](FieldReader* in) {
        in->Read("attempt_id", &witness.attempt_id);
        in->Read("deployment_id", &witness.deployment_id);
        in->Read("epoch", &witness.epoch);
        Read(in, &witness.process);
        in->Read("seq", &witness.seq);
        in->Read("sinks", &witness.sinks);
      },
      [&] { return SerializeSinkWitness(witness); }));
  return witness;
}

Result<std::string> SerializeSavepointComplete(const IndexReference& cut) {
  if (cut.id.value == 0 || cut.index_length == 0) {
    return Status::Internal("COMPLETE names no index");
  }
  return PrintRecord({{"index", ToJson(cut)}, {"version", kSharedRecordVersion}},
                     kLeaseRecordBytesMax, kCompleteName);
}

Result<IndexReference> ParseSavepointComplete(std::string_view bytes) {
  IndexReference cut;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kLeaseRecordBytesMax, kCompleteName, kSharedRecordVersion, "version",
      [&](FieldReader* in) { in->ReadObject("index", [&](FieldReader* r) { Read(r, &cut); }); },
      [&] { return SerializeSavepointComplete(cut); }));
  return cut;
}

}  // namespace cairn::format
