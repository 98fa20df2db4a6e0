// SPDX-License-Identifier: Apache-2.0
//
// The keys of saved rows of lists and maps, which have a row an element:
//
//   header   [user key bytes: 4, big-endian][user key][0]
//   element  [user key bytes: 4, big-endian][user key][1][element key]
//
// Group and slot hash of such a row are those of the user key, and the length in front keeps one
// key's rows out of another's range.
//
// Source:   docs/formats/keys.md.
#pragma once

#include <cstddef>
#include <string_view>

#include "cairn/state_table.h"

namespace cairn {
inline namespace v0 {

/// The parts of a collection's row key.
struct ElementRowKey {
  static constexpr size_t kLengthBytes = 4;
  static constexpr char kHeader = 0;
  static constexpr char kElement = 1;
  std::string_view user_key;  ///< data() is null when the bytes are no such key
  char part = kHeader;
  std::string_view element_key;

  static ElementRowKey Parse(std::string_view row_key);
  static size_t Size(size_t user_key_bytes, size_t element_key_bytes) {
    return kLengthBytes + user_key_bytes + 1 + element_key_bytes;
  }
  /// Write everything up to the element key; returns where that goes.
  static char* Write(char* out, std::string_view user_key, char part);
};

/// The user key of a saved row of a slot of `kind`; data() is null when it has none.
inline std::string_view UserKeyOfRow(SlotKind kind, std::string_view row_key) {
  return HasElementRows(kind) ? ElementRowKey::Parse(row_key).user_key : row_key;
}

/// The bytes that decide the key group of a saved row of `slot`; data() is null when it has none.
/// Keys of timers start like those of elements (docs/formats/keys.md).
inline std::string_view GroupKeyOfRow(const SlotDescriptor& slot, std::string_view row_key) {
  const bool parted = HasElementRows(slot.kind) || slot.key_codec.starts_with("timer(");
  return parted ? ElementRowKey::Parse(row_key).user_key : row_key;
}

}  // namespace v0
}  // namespace cairn
