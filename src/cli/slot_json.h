// SPDX-License-Identifier: Apache-2.0
//
// Slot descriptors as JSON: printed by the tools and carried in the metadata of exports.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "format/manifest.h"

namespace cairn::cli {

/// Schema metadata key of an exported table that holds one slot, or of one that holds several.
inline constexpr std::string_view kSlotMetadataKey = "cairn.slot";
inline constexpr std::string_view kSlotsMetadataKey = "cairn.slots";

nlohmann::ordered_json ColumnsToJson(const std::vector<ColumnSpec>& columns);

/// {"operator":"<16 hex>","uid":…,"slot":…,"kind":…,"key_codec":…,"value_codec":…,"version":…,
///  "key_columns":[{"name":…,"type":…,"nullable":…}],"value_columns":[…],"frame_per_group":…}
nlohmann::ordered_json SlotToJson(const SlotDescriptor& slot);

/// Errors:   kInvalidArgument for anything that SlotToJson does not write.
Result<SlotDescriptor> SlotFromJson(const nlohmann::json& json);
Result<SlotDescriptor> SlotFromText(std::string_view text);

/// The descriptor of a slot as a manifest has it.
SlotDescriptor SlotOf(const format::OperatorRecord& op, const format::SlotRecord& slot);

}  // namespace cairn::cli
