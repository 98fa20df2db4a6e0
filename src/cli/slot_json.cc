// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_json.h"

#include <fmt/format.h>

#include <optional>

#include "base/ids.h"
#include "checkpoint/plan.h"

namespace cairn::cli {
namespace {

std::vector<ColumnSpec> ColumnsFromJson(const nlohmann::json& json) {
  std::vector<ColumnSpec> columns;
  for (const auto& column : json) {
    columns.push_back({column.at("name").get<std::string>(), column.at("type").get<std::string>(),
                       column.at("nullable").get<bool>()});
  }
  return columns;
}

}  // namespace

nlohmann::ordered_json ColumnsToJson(const std::vector<ColumnSpec>& columns) {
  auto json = nlohmann::ordered_json::array();
  for (const ColumnSpec& column : columns) {
    json.push_back({{"name", column.name}, {"type", column.type}, {"nullable", column.nullable}});
  }
  return json;
}

nlohmann::ordered_json SlotToJson(const SlotDescriptor& slot) {
  nlohmann::ordered_json json = {{"operator", base::ToHex16(slot.operator_id)},
                                 {"uid", slot.operator_uid},
                                 {"slot", slot.name},
                                 {"kind", NameOf(slot.kind)},
                                 {"key_codec", slot.key_codec},
                                 {"value_codec", slot.value_codec},
                                 {"version", slot.version},
                                 {"key_columns", ColumnsToJson(slot.key_columns)},
                                 {"value_columns", ColumnsToJson(slot.value_columns)},
                                 {"frame_per_group", slot.frame_per_group}};
  if (!slot.element_key_codec.empty()) json["element_key_codec"] = slot.element_key_codec;
  if (slot.ttl.enabled()) {
    json["ttl_ms"] = slot.ttl.ttl_ms;
    json["ttl_clock"] = NameOf(slot.ttl.clock);
    if (slot.ttl_time_ms) json["ttl_time_ms"] = *slot.ttl_time_ms;
    if (slot.ttl_first_ms) json["ttl_first_ms"] = *slot.ttl_first_ms;
  }
  return json;
}

Result<SlotDescriptor> SlotFromJson(const nlohmann::json& json) {
  SlotDescriptor slot;
  try {
    if (!base::ParseHex16(json.at("operator").get<std::string>(), &slot.operator_id)) {
      return Status::InvalidArgument("the slot's description has no operator id of 16 hex digits");
    }
    slot.operator_uid = json.at("uid").get<std::string>();
    slot.name = json.at("slot").get<std::string>();
    const auto kind = json.at("kind").get<std::string>();
    const std::optional<SlotKind> known = SlotKindOf(kind);
    if (!known) return Status::InvalidArgument(fmt::format("'{}' is no kind of slot", kind));
    slot.kind = *known;
    slot.key_codec = json.at("key_codec").get<std::string>();
    slot.value_codec = json.at("value_codec").get<std::string>();
    slot.version = json.at("version").get<uint32_t>();
    slot.key_columns = ColumnsFromJson(json.at("key_columns"));
    slot.value_columns = ColumnsFromJson(json.at("value_columns"));
    slot.frame_per_group = json.at("frame_per_group").get<bool>();
    if (json.contains("element_key_codec")) {
      slot.element_key_codec = json.at("element_key_codec").get<std::string>();
    }
    if (json.contains("ttl_ms")) {
      slot.ttl.ttl_ms = json.at("ttl_ms").get<int64_t>();
      const auto clock = TtlClockOf(json.at("ttl_clock").get<std::string>());
      if (!clock) return Status::InvalidArgument("the slot's TTL has no known clock");
      slot.ttl.clock = *clock;
      if (json.contains("ttl_time_ms")) slot.ttl_time_ms = json.at("ttl_time_ms").get<int64_t>();
      if (json.contains("ttl_first_ms")) {
        slot.ttl_first_ms = json.at("ttl_first_ms").get<int64_t>();
      }
    }
  } catch (const nlohmann::json::exception& error) {
    return Status::InvalidArgument(
        fmt::format("the slot's description is not as an export writes it: {}", error.what()));
  }
  return slot;
}

Result<SlotDescriptor> SlotFromText(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Status::InvalidArgument("the slot's description is no JSON");
  return SlotFromJson(json);
}

SlotDescriptor SlotOf(const format::OperatorRecord& op, const format::SlotRecord& slot) {
  return checkpoint::ToSlotDescriptor(op, slot);
}

}  // namespace cairn::cli
