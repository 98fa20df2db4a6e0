// SPDX-License-Identifier: Apache-2.0
//
// Stored keys: the bytes under which a row of keyed or operator state is saved.
//
//   keyed row           [key group][slot]['|'][user key]
//   operator-state row  [FF or FF FF][logical key]
//   raw row             any other bytes: written before the prefix existed
//
// The key group takes one byte in jobs of up to 128 groups and two big-endian bytes above; which of
// the two is part of every file's metadata and never guessed.
//
// Threads: everything here is a value type or a pure function.
// Format:  docs/formats/keys.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/hash.h"
#include "cairn/status.h"

namespace cairn::format {

/// Number of a key layout in saved metadata.
enum class KeyLayoutId : uint8_t {
  kOneByteGroup = 1,  ///< 1..128 groups
  kTwoByteGroup = 2,  ///< 129..32768 groups, big-endian
};

/// What a stored key turned out to be.
enum class StoredKeyKind : uint8_t {
  kKeyed,          ///< group, slot and user key are set
  kOperatorState,  ///< user_key holds the logical key
  kRaw,            ///< no slot separator, or a group the job does not have: user_key = all bytes
};

/// A stored key taken apart. The views point into the parsed bytes.
struct StoredKey {
  StoredKeyKind kind = StoredKeyKind::kRaw;
  uint32_t group = 0;
  std::string_view slot;
  std::string_view user_key;
  friend bool operator==(const StoredKey&, const StoredKey&) = default;
};

/// Refuse a slot name that could not be told from the key after it or printed on one line.
///
/// Shape:    1..255 bytes of UTF-8 without '|', '\n' and NUL.
/// Errors:   kInvalidArgument, naming the slot and the character.
Status ValidateSlotName(std::string_view slot);

/// How the stored keys of one job are laid out.
class KeyLayout {
 public:
  /// The layout of the default 128 groups.
  constexpr KeyLayout() = default;

  /// Choose the layout for a number of key groups.
  ///
  /// Errors:   kInvalidArgument outside 1..kMaxKeyGroups.
  static Result<KeyLayout> ForKeyGroups(uint32_t key_groups);

  constexpr uint32_t key_groups() const { return key_groups_; }
  constexpr KeyLayoutId id() const {
    return key_groups_ <= 128 ? KeyLayoutId::kOneByteGroup : KeyLayoutId::kTwoByteGroup;
  }
  /// Bytes before the slot name (keyed) or the logical key (operator state).
  constexpr size_t prefix_bytes() const { return key_groups_ <= 128 ? 1 : 2; }

  /// Everything before the user key of a keyed row: group, slot, '|'.
  std::string KeyedPrefix(uint32_t group, std::string_view slot) const;
  /// Everything before the key of an operator-state row of a named slot: FF.., slot, '|'.
  std::string OperatorStatePrefix(std::string_view slot) const;

  void AppendKeyed(uint32_t group, std::string_view slot, std::string_view user_key,
                   std::string* out) const;
  void AppendOperatorState(std::string_view logical_key, std::string* out) const;

  /// Take a stored key apart. Every byte string has a reading, so this cannot fail.
  StoredKey Parse(std::string_view stored) const;

  friend constexpr bool operator==(const KeyLayout&, const KeyLayout&) = default;

 private:
  constexpr explicit KeyLayout(uint32_t key_groups) : key_groups_(key_groups) {}
  uint32_t key_groups_ = kDefaultKeyGroups;
};

}  // namespace cairn::format
