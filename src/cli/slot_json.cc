// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_json.h"

#include <fmt/format.h>

#include "base/ids.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kKeyedKind = "keyed_value";
constexpr std::string_view kOperatorKind = "operator_value";

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
  return {{"operator", base::ToHex16(slot.operator_id)},
          {"uid", slot.operator_uid},
          {"slot", slot.name},
          {"kind", slot.kind == SlotKind::kKeyedValue ? kKeyedKind : kOperatorKind},
          {"key_codec", slot.key_codec},
          {"value_codec", slot.value_codec},
          {"version", slot.version},
          {"key_columns", ColumnsToJson(slot.key_columns)},
          {"value_columns", ColumnsToJson(slot.value_columns)},
          {"frame_per_group", slot.frame_per_group}};
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
    if (kind != kKeyedKind && kind != kOperatorKind) {
      return Status::InvalidArgument(fmt::format("'{}' is no kind of slot", kind));
    }
    slot.kind = kind == kKeyedKind ? SlotKind::kKeyedValue : SlotKind::kOperatorValue;
    slot.key_codec = json.at("key_codec").get<std::string>();
    slot.value_codec = json.at("value_codec").get<std::string>();
    slot.version = json.at("version").get<uint32_t>();
    slot.key_columns = ColumnsFromJson(json.at("key_columns"));
    slot.value_columns = ColumnsFromJson(json.at("value_columns"));
    slot.frame_per_group = json.at("frame_per_group").get<bool>();
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
  SlotDescriptor descriptor;
  descriptor.operator_id = op.operator_id;
  descriptor.operator_uid = op.uid;
  descriptor.name = slot.name;
  descriptor.kind = slot.kind == kOperatorKind ? SlotKind::kOperatorValue : SlotKind::kKeyedValue;
  descriptor.key_codec = slot.key_codec;
  descriptor.value_codec = slot.value_codec;
  descriptor.version = slot.version;
  descriptor.key_columns = slot.key_columns;
  descriptor.value_columns = slot.value_columns;
  descriptor.frame_per_group = slot.frame_per_group;
  return descriptor;
}

}  // namespace cairn::cli
