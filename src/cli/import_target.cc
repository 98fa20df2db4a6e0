// SPDX-License-Identifier: Apache-2.0
#include "cli/import_target.h"

#include <fmt/format.h>

#include <vector>

#include "base/ids.h"
#include "cairn/element_row_key.h"
#include "cairn/hash.h"
#include "checkpoint/plan.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kUnknownCodec = "bytes";

/// What a snapshot does not say of a slot is taken from its declaration.
void FillIn(const SlotDescriptor& declared, SlotDescriptor* saved) {
  if (saved->key_codec == kUnknownCodec && saved->key_columns.empty()) {
    saved->key_codec = declared.key_codec;
    saved->key_columns = declared.key_columns;
  }
  if (saved->value_codec == kUnknownCodec && saved->value_columns.empty()) {
    saved->value_codec = declared.value_codec;
    saved->version = declared.version;
    saved->ttl = declared.ttl;
    if (IsKeyed(saved->kind) && IsKeyed(declared.kind)) saved->kind = declared.kind;
  }
  if (saved->value_columns.empty()) saved->value_columns = declared.value_columns;
}

std::string Listed(const JobDeclaration& declared) {
  std::string text;
  for (const SlotDescriptor& slot : declared.slots) {
    text += fmt::format("{}{} slot {}", text.empty() ? "" : "; ", slot.operator_uid, slot.name);
  }
  return text.empty() ? "no slots" : text;
}

}  // namespace

Status ImportTarget::Slot::Add(std::string_view user_key, std::string_view value,
                               checkpoint::DuplicateRule rule) {
  if (migration_.empty()) return builder_->Add(index_, user_key, value, rule);
  value_.clear();
  CAIRN_RETURN_IF_ERROR(
      migration_.Convert(user_key, value, &value_).WithContext("migration of slot " + saved_.name));
  return builder_->Add(index_, user_key, value_, rule);
}

Status ImportTarget::TakeKeyGroups(uint32_t key_groups, const std::string& file) {
  if (fixed_) return {};
  if (key_groups_from_ && key_groups != options_.key_groups) {
    return Status::InvalidArgument(
        fmt::format("'{}' is of a job with {} key groups, {} of {}. Choose with --key-groups N",
                    file, key_groups, *key_groups_from_, options_.key_groups));
  }
  if (builder_ != nullptr && key_groups != options_.key_groups) {
    return Status::InvalidArgument(
        fmt::format("'{}' is of a job with {} key groups, the files before it count as {}. Choose "
                    "with --key-groups N",
                    file, key_groups, options_.key_groups));
  }
  key_groups_from_ = "'" + file + "'";
  options_.key_groups = key_groups;
  return {};
}

Status ImportTarget::OpenBuilder() {
  if (builder_ != nullptr) return {};
  CAIRN_ASSIGN_OR_RETURN(builder_, checkpoint::CutBuilder::Open(options_));
  return {};
}

bool ImportTarget::Has(const SlotDescriptor& slot) const {
  return builder_ != nullptr && builder_->FindSlot(slot.operator_id, slot.name).has_value();
}

Result<ImportTarget::Slot> ImportTarget::SlotFor(SlotDescriptor saved) {
  CAIRN_RETURN_IF_ERROR(OpenBuilder());
  // A snapshot knows operators by their ids alone: an id in hex then stands for the uid.
  if (saved.operator_uid.empty()) saved.operator_uid = base::ToHex16(saved.operator_id);
  if (saved.name.empty()) {
    return Status::InvalidArgument(
        fmt::format("operator {} has rows that belong to no named slot, which a place cannot hold",
                    saved.operator_uid));
  }
  Slot slot;
  slot.builder_ = builder_.get();
  SlotDescriptor wanted = saved;
  if (declared_ != nullptr) {
    const SlotDescriptor* declaration = declared_->Find(saved.operator_id, saved.name);
    if (declaration == nullptr) {
      return Status::InvalidArgument(fmt::format("{} has no operator {} slot {}. It has: {}",
                                                 declared_->origin, saved.operator_uid, saved.name,
                                                 Listed(*declared_)));
    }
    wanted = *declaration;
    FillIn(wanted, &saved);
    Result<checkpoint::SlotMigration> plan = checkpoint::SlotMigration::Plan(
        checkpoint::ToSlotRecord(saved), checkpoint::ToSlotRecord(wanted), nullptr);
    if (!plan.ok()) return plan.status().WithContext("operator " + wanted.operator_uid);
    slot.migration_ = *std::move(plan);
    // Deadlines are kept as they were saved: the job that restores them applies its own TTL.
    wanted.ttl = saved.ttl;
    wanted.ttl_time_ms = saved.ttl_time_ms;
    wanted.ttl_first_ms = saved.ttl_first_ms;
  }
  if (const auto there = builder_->FindSlot(wanted.operator_id, wanted.name)) {
    const SlotDescriptor& other = builder_->slots()[*there];
    if (checkpoint::ToSlotRecord(other) != checkpoint::ToSlotRecord(wanted)) {
      return Status::InvalidArgument(
          fmt::format("operator {} slot {} is declared otherwise by an input before this one",
                      wanted.operator_uid, wanted.name));
    }
    slot.index_ = *there;
  } else {
    CAIRN_ASSIGN_OR_RETURN(slot.index_, builder_->AddSlot(wanted));
  }
  slot.saved_ = std::move(saved);
  return slot;
}

Status ImportTarget::TakeSource(const StateSource& source, bool keep_existing,
                                checkpoint::DuplicateRule rule) {
  std::vector<std::optional<Slot>> targets;
  for (const SlotDescriptor& slot : source.slots()) {
    if (keep_existing && Has(slot)) {
      targets.emplace_back();
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(Slot target, SlotFor(slot));
    targets.emplace_back(std::move(target));
  }
  return source.ScanAll([&](const StateRow& row) -> Status {
    std::optional<Slot>& target = targets[row.slot];
    if (!target) return {};
    if (row.keyed) {
      const uint32_t group =
          KeyGroupOf(GroupKeyOfRow(target->saved(), row.user_key), source.key_groups());
      if (group != row.group) {
        return Status::InvalidArgument(fmt::format(
            "{}: a row of slot {} lies in key group {}, its key belongs to group {}. The snapshot "
            "was written with another partitioning",
            source.Name(), target->saved().name, row.group, group));
      }
    }
    return target->Add(row.user_key, row.value, rule);
  });
}

Result<checkpoint::BuiltCut> ImportTarget::Commit() {
  CAIRN_RETURN_IF_ERROR(OpenBuilder());
  if (declared_ != nullptr) {
    for (const SlotDescriptor& slot : declared_->slots) {
      if (!Has(slot)) CAIRN_RETURN_IF_ERROR(SlotFor(slot).status());
    }
  }
  return builder_->Commit();
}

}  // namespace cairn::cli
