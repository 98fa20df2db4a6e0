// SPDX-License-Identifier: Apache-2.0
#include "format/store_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "cairn/hash.h"
#include "format/json_fields.h"

namespace cairn::format {
namespace {

constexpr char kFormatRecord[] = "FORMAT";
constexpr char kIdentityRecord[] = "identity.json";
constexpr char kHeadRecord[] = "decision-head.json";
constexpr char kLeaseRecord[] = "lease.json";

Status CheckStoreFormat(const StoreFormat& format) {
  if (format.profile != "local" && format.profile != "shared") {
    return Status::InvalidArgument(
        fmt::format("FORMAT.profile '{}' is neither local nor shared", format.profile));
  }
  if (format.durability != "full" && format.durability != "none") {
    return Status::InvalidArgument(
        fmt::format("FORMAT.durability '{}' is neither full nor none", format.durability));
  }
  if (format.partitioning_abi != 1) {
    return Status::InvalidArgument(
        fmt::format("FORMAT.partitioning_abi {} is not 1", format.partitioning_abi));
  }
  if (format.key_groups < 1 || format.key_groups > kMaxKeyGroups) {
    return Status::InvalidArgument(
        fmt::format("FORMAT.key_groups {} is not 1..{}", format.key_groups, kMaxKeyGroups));
  }
  return Status();
}

}  // namespace

Result<std::string> SerializeStoreFormat(const StoreFormat& format) {
  CAIRN_RETURN_IF_ERROR(CheckStoreFormat(format));
  return DumpCanonical({{"durability", format.durability},
                        {"format", kStoreFormatVersion},
                        {"key_groups", format.key_groups},
                        {"partitioning_abi", format.partitioning_abi},
                        {"profile", format.profile}},
                       kFormatRecord);
}

Result<StoreFormat> ParseStoreFormat(std::string_view bytes) {
  StoreFormat format;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kSmallRecordBytesMax, kFormatRecord, kStoreFormatVersion, "format",
      [&](FieldReader* in) {
        in->Read("durability", &format.durability);
        in->Read("key_groups", &format.key_groups);
        in->Read("partitioning_abi", &format.partitioning_abi);
        in->Read("profile", &format.profile);
      },
      [&] { return SerializeStoreFormat(format); }));
  return format;
}

Result<std::string> SerializeDeploymentIdentity(const DeploymentIdentity& identity) {
  if (!base::IsCanonicalUuid(identity.deployment_id)) {
    return Status::InvalidArgument(fmt::format(
        "identity.json.deployment_id '{}' is no canonical UUID", identity.deployment_id));
  }
  if (identity.slot_hash.function != kSlotHashXxh3) {
    return Status::InvalidArgument(fmt::format("identity.json.slot_hash.function '{}' is not {}",
                                               identity.slot_hash.function, kSlotHashXxh3));
  }
  return PrintRecord({{"created_ms", identity.created_ms},
                      {"deployment_id", identity.deployment_id},
                      {"pipeline_name", identity.pipeline_name},
                      {"slot_hash",
                       {{"function", identity.slot_hash.function},
                        {"seed", base::ToHex16(base::OperatorId(identity.slot_hash.seed))}}},
                      {"version", kIdentityRecordVersion}},
                     kSmallRecordBytesMax, kIdentityRecord);
}

Result<DeploymentIdentity> ParseDeploymentIdentity(std::string_view bytes) {
  DeploymentIdentity identity;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kSmallRecordBytesMax, kIdentityRecord, kIdentityRecordVersion, "version",
      [&](FieldReader* in) {
        in->Read("created_ms", &identity.created_ms);
        in->Read("deployment_id", &identity.deployment_id);
        in->Read("pipeline_name", &identity.pipeline_name);
        in->ReadObject("slot_hash", [&](FieldReader* hash) {
          hash->Read("function", &identity.slot_hash.function);
          hash->ReadHex16("seed", &identity.slot_hash.seed);
        });
      },
      [&] { return SerializeDeploymentIdentity(identity); }));
  return identity;
}

namespace {

Status BadHead(std::string_view what) {
  return Status::Corruption(fmt::format("decision-head.json: {}", what));
}

Status CheckCuts(const DecisionHead& head) {
  const CutReference* newer = head.latest_commit ? &*head.latest_commit : nullptr;
  if (newer != nullptr && (newer->id.value == 0 || newer->id >= head.next_id)) {
    return BadHead("latest_commit is not below next_id");
  }
  if (newer != nullptr && newer->id < head.floor) return BadHead("latest_commit is below floor");
  if (newer == nullptr && !head.retained.empty()) return BadHead("retained without latest_commit");
  for (const CutReference& cut : head.retained) {
    if (cut.id.value == 0 || cut.id >= newer->id) return BadHead("retained is not newest first");
    if (cut.id < head.floor) return BadHead("a retained cut is below floor");
    newer = &cut;
  }
  if (head.retained.size() > kRetainedCutsMax) return BadHead("too many retained cuts");
  return Status();
}

Status CheckPins(const DecisionHead& head) {
  if (head.pins.size() > kHeadPinsMax) return BadHead("too many pins");
  for (size_t i = 0; i < head.pins.size(); ++i) {
    const HeadPin& pin = head.pins[i];
    if (i > 0 &&
        std::tie(head.pins[i - 1].kind, head.pins[i - 1].name) >= std::tie(pin.kind, pin.name)) {
      return BadHead("a pin is there twice or out of order");
    }
    if (pin.kind != "savepoint" && pin.kind != "export" && pin.kind != "reader") {
      return BadHead(fmt::format("a pin has kind '{}'", pin.kind));
    }
    const bool named = (head.latest_commit && head.latest_commit->id == pin.checkpoint_id) ||
                       std::any_of(head.retained.begin(), head.retained.end(),
                                   [&](const auto& cut) { return cut.id == pin.checkpoint_id; });
    if (!named) return BadHead(fmt::format("pin '{}' is on a cut that is not kept", pin.name));
  }
  return Status();
}

Json CutToJson(const CutReference& cut) {
  return {{"exactly_once_output", cut.exactly_once_output},
          {"id", cut.id.value},
          {"manifest_length", cut.manifest_length},
          {"manifest_sha256", base::ToHex(cut.manifest_sha256)}};
}
void ReadCut(FieldReader* in, CutReference* cut) {
  in->Read("exactly_once_output", &cut->exactly_once_output);
  in->Read("id", &cut->id);
  in->Read("manifest_length", &cut->manifest_length);
  in->Read("manifest_sha256", &cut->manifest_sha256);
}

}  // namespace

Status ValidateDecisionHead(const DecisionHead& head) {
  if (!base::IsCanonicalUuid(head.deployment_id)) return BadHead("deployment_id is no UUID");
  if (head.seq == 0) return BadHead("seq is 0");
  if (head.next_id.value == 0) return BadHead("next_id is 0");
  CAIRN_RETURN_IF_ERROR(CheckCuts(head));
  return CheckPins(head);
}

Result<std::string> SerializeDecisionHead(const DecisionHead& head) {
  CAIRN_RETURN_IF_ERROR(AsInternal(ValidateDecisionHead(head)));
  Json json = {{"deployment_id", head.deployment_id}, {"floor", head.floor.value},
               {"next_id", head.next_id.value},       {"pins", Json::array()},
               {"retained", Json::array()},           {"seq", head.seq},
               {"version", kDecisionHeadVersion}};
  if (head.latest_commit) json["latest_commit"] = CutToJson(*head.latest_commit);
  for (const CutReference& cut : head.retained) json["retained"].push_back(CutToJson(cut));
  for (const HeadPin& pin : head.pins) {
    json["pins"].push_back(
        {{"checkpoint_id", pin.checkpoint_id.value}, {"kind", pin.kind}, {"name", pin.name}});
  }
  return PrintRecord(json, kDecisionHeadBytesMax, kHeadRecord);
}

Result<DecisionHead> ParseDecisionHead(std::string_view bytes) {
  DecisionHead head;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kDecisionHeadBytesMax, kHeadRecord, kDecisionHeadVersion, "version",
      [&](FieldReader* in) {
        in->Read("deployment_id", &head.deployment_id);
        in->Read("floor", &head.floor);
        in->Read("next_id", &head.next_id);
        in->ReadArray("pins", [&](FieldReader* pin_in) {
          HeadPin& pin = head.pins.emplace_back();
          pin_in->Read("checkpoint_id", &pin.checkpoint_id);
          pin_in->Read("kind", &pin.kind);
          pin_in->Read("name", &pin.name);
        });
        in->ReadArray("retained",
                      [&](FieldReader* cut) { ReadCut(cut, &head.retained.emplace_back()); });
        in->Read("seq", &head.seq);
        if (in->Has("latest_commit")) {
          in->ReadObject("latest_commit",
                         [&](FieldReader* cut) { ReadCut(cut, &head.latest_commit.emplace()); });
        }
      },
      [&] { return SerializeDecisionHead(head); }));
  return head;
}

Result<std::string> SerializeLease(const Lease& lease) {
  return PrintRecord({{"holder", lease.holder},
                      {"machine", lease.machine},
                      {"process", lease.process},
                      {"process_started", lease.process_started},
                      {"released", lease.released},
                      {"renewals", lease.renewals},
                      {"term", lease.term},
                      {"ttl_ms", lease.ttl_ms},
                      {"version", kLeaseVersion}},
                     kSmallRecordBytesMax, kLeaseRecord);
}

Result<Lease> ParseLease(std::string_view bytes) {
  Lease lease;
  CAIRN_RETURN_IF_ERROR(ReadExactRecord(
      bytes, kSmallRecordBytesMax, kLeaseRecord, kLeaseVersion, "version",
      [&](FieldReader* in) {
        in->Read("holder", &lease.holder);
        in->Read("machine", &lease.machine);
        in->Read("process", &lease.process);
        in->Read("process_started", &lease.process_started);
        in->Read("released", &lease.released);
        in->Read("renewals", &lease.renewals);
        in->Read("term", &lease.term);
        in->Read("ttl_ms", &lease.ttl_ms);
      },
      [&] { return SerializeLease(lease); }));
  return lease;
}

}  // namespace cairn::format
