// SPDX-License-Identifier: Apache-2.0
//
// SlotRow: a saved row taken apart by the kind and the TTL of its slot: whose it is, which element,
// until when it lives, and the value itself.
//
// Threads: any; the functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"

namespace cairn::cli {

/// The parts point into the row.
struct SlotRow {
  std::string_view user_key;
  bool is_header = false;                ///< of a list or map: no element and no value
  std::string_view element_key;          ///< as saved
  std::optional<int64_t> expires_at_ms;  ///< none = never, or its clock has no time yet
  bool expired = false;                  ///< by the clock of the cut
  std::string_view value;
};

/// Errors:   kCorruption for a key without the parts of its kind, or a value too short for its
///           deadline.
Result<SlotRow> TakeApart(const SlotDescriptor& slot, std::string_view row_key,
                          std::string_view value);

/// Key and value of a row as it is saved: TakeApart backwards.
struct SavedSlotRow {
  std::string key;
  std::string value;
};
SavedSlotRow PutTogether(const SlotDescriptor& slot, const SlotRow& row);
/// The header row of a list or map of `elements` elements.
SavedSlotRow HeaderRow(std::string_view user_key, uint64_t elements, uint64_t next_index);

/// The column of element keys: "index" of a list, "map_key" of a map.
ColumnSpec ElementColumnOf(const SlotDescriptor& slot);
/// True when element keys are numbers that sort as bytes: big-endian, sign flipped.
bool HasOrderedElementKeys(const SlotDescriptor& slot);
/// The number of an ordered element key as its column has it, little-endian; and back.
///
/// Errors:   kCorruption for another length, or a number that its column cannot hold.
Result<std::string> PlainElementKey(const SlotDescriptor& slot, std::string_view ordered);
std::string OrderedElementKey(const SlotDescriptor& slot, std::string_view plain);

}  // namespace cairn::cli
