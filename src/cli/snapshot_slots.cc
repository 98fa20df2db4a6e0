// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshot_slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/snapshot_files.h"
#include "cli/state_source.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kOpaqueCodecOfSnapshots = "bytes";

}  // namespace

SnapshotKey SplitSnapshotKey(const format::StoredKey& key) {
  if (key.kind == format::StoredKeyKind::kKeyed) {
    return {SlotKind::kKeyedValue, key.slot, key.user_key};
  }
  if (key.kind == format::StoredKeyKind::kRaw) {
    return {SlotKind::kKeyedValue, key.slot, key.user_key};
  }
  const size_t bar = key.user_key.find('|');
  if (bar == std::string_view::npos) return {SlotKind::kOperatorValue, "", key.user_key};
  return {SlotKind::kOperatorValue, key.user_key.substr(0, bar), key.user_key.substr(bar + 1)};
}

SlotDescriptor SnapshotSlot(OperatorId op, std::string name, SlotKind kind,
                            const std::vector<format::StateVersion>& versions) {
  SlotDescriptor slot;
  slot.operator_id = op;
  slot.name = std::move(name);
  slot.kind = kind;
  slot.key_codec = slot.value_codec = std::string(kOpaqueCodecOfSnapshots);
  const format::StateVersion* unnamed = nullptr;
  size_t unnamed_lines = 0;
  for (const format::StateVersion& version : versions) {
    if (version.operator_id != op.value) continue;
    if (version.slot.empty()) {
      unnamed = &version;
      ++unnamed_lines;
    } else if (version.slot == slot.name) {
      slot.value_codec = version.state_type;
      slot.version = version.version;
      return slot;
    }
  }
  if (unnamed_lines == 1 && kind == SlotKind::kKeyedValue && !slot.name.empty()) {
    slot.value_codec = unnamed->state_type;
    slot.version = unnamed->version;
  }
  return slot;
}

Status CheckSnapshotSidecar(env::FileSystem* files, const std::string& path) {
  const std::string sidecar = path + std::string(kSidecarSuffix);
  if (files->Stat(sidecar).status().code() == StatusCode::kNotFound) return {};
  CAIRN_ASSIGN_OR_RETURN(const format::SnapshotVerdict verdict,
                         backend::JudgeSnapshotFile(files, path));
  if (verdict == format::SnapshotVerdict::kValid) return {};
  std::string message =
      fmt::format("'{}' is {} by its sidecar '{}'. Take another copy of the snapshot", path,
                  format::SnapshotVerdictName(verdict), sidecar);
  return verdict == format::SnapshotVerdict::kUnsupported
             ? Status::UnsupportedFormat(std::move(message))
             : Status::Corruption(std::move(message));
}

}  // namespace cairn::cli
