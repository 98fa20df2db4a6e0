// SPDX-License-Identifier: Apache-2.0
//
// ObjectSchema: what the schema message of a state object says about all its rows, and the
// state-version map that objects and canonical streams share.
//
// Format: docs/formats/object.md.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "format/keys.h"

namespace cairn::format {

/// Version of the state object; another one is refused with kUnsupportedFormat.
inline constexpr uint32_t kObjectFormatVersion = 1;

/// The hash by which rows of a key group are ordered. Saved by name.
inline constexpr std::string_view kSlotHashXxh3 = "xxh3-64";

/// Name a slot-hash function and its seed: equal in all files of a deployment.
struct SlotHash {
  std::string function{kSlotHashXxh3};
  uint64_t seed = 0;
  friend bool operator==(const SlotHash&, const SlotHash&) = default;
};

/// One line of the state-version map: which version of which state type a slot was written with.
struct StateVersion {
  uint64_t operator_id = 0;
  std::string state_type;
  uint32_t version = 1;
  std::string slot;  ///< empty = the three-field line
  friend auto operator<=>(const StateVersion&, const StateVersion&) = default;
};

/// Print lines `op|type|version[|slot]`, sorted by (operator, type, slot), joined by '\n'.
///
/// Errors:   kInvalidArgument for '|' or '\n' in a type or slot, or an empty type.
Result<std::string> PackStateVersions(std::vector<StateVersion> versions);
/// Errors:   kCorruption for a line of other than 3 or 4 fields or a bad number.
Result<std::vector<StateVersion>> ParseStateVersions(std::string_view text);

/// Schema-level facts of a state object.
struct ObjectSchema {
  KeyLayout layout;
  SlotHash slot_hash;
  /// True when any frame of the object is a delta: then every batch leads with row_kind.
  bool with_row_kind = false;
  std::vector<StateVersion> state_versions;  ///< sorted
  friend bool operator==(const ObjectSchema&, const ObjectSchema&) = default;
};

/// Errors:   kInvalidArgument as PackStateVersions.
Result<std::shared_ptr<arrow::Schema>> ToArrowSchema(const ObjectSchema& schema);
/// Errors:   kUnsupportedFormat for another version, key layout or slot hash; kCorruption for
///           missing or malformed metadata or other columns.
Result<ObjectSchema> FromArrowSchema(const arrow::Schema& schema);

}  // namespace cairn::format
