// SPDX-License-Identifier: Apache-2.0
//
// RowFields: a saved row as named JSON values, so that two of one key can be compared column by
// column.
//
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "cli/typed_slot.h"

namespace cairn::cli {

struct RowFields {
  std::string key;  ///< as JSON, with an element's index or map key
  /// Name and JSON value: the value columns; of Top-N "rank 1", "rank 2", … with a ranked row each;
  /// last expires_at_ms of a slot with a TTL.
  std::vector<std::pair<std::string, std::string>> fields;

  /// {"count":1}; of Top-N [{"price":9},{"price":7}]. The deadline is a member of the former only.
  std::string ValueText(bool ranked) const;
};

/// One field that differs. A side that does not have it is empty.
struct FieldChange {
  std::string name;
  std::string before;
  std::string after;
};

/// What differs, in the order of `before`, then what only `after` has. Empty when the bytes differ
/// and no column does.
std::vector<FieldChange> ChangesOf(const RowFields& before, const RowFields& after);

/// Decodes saved rows of one slot.
class RowFieldsReader {
 public:
  static Result<std::unique_ptr<RowFieldsReader>> Make(const SlotDescriptor& slot);

  bool ranked() const { return ranked_; }

  /// Errors:   kCorruption naming operator, slot, key and codec.
  Result<RowFields> Read(std::string_view row_key, std::string_view value);

 private:
  explicit RowFieldsReader(TypedSlotDecoder decoder);

  TypedSlotDecoder decoder_;
  bool ranked_;
};

}  // namespace cairn::cli
