// SPDX-License-Identifier: Apache-2.0
//
// What a table's memory is made of: slots, boxes, log records and owned keys.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "cairn/bytes.h"
#include "cairn/detail/domain_core.h"
#include "cairn/state_table.h"

namespace cairn {
inline namespace v0 {
namespace detail {

template <class K>
struct KeyArgOf {
  using type = K;
};
template <>
struct KeyArgOf<Bytes> {
  using type = std::string_view;
};

/// Values that lie in their slot; others lie in a box.
template <class V>
inline constexpr bool kInlineValue = std::is_trivially_copyable_v<V> && sizeof(V) <= 256;

template <class V>
struct Box : BoxHeader {
  V value{};
};

template <class V>
void DestroyBox(void* box) {
  static_cast<Box<V>*>(static_cast<BoxHeader*>(box))->~Box<V>();
}

/// Shape:    stamp = epoch of the last change of the value or of its existence; undo = number of
/// the
///           newest pre-image. The two may be stale in a free slot.
template <class K, class Cell>
struct Slot {
  K key;
  uint32_t stamp;
  uint32_t undo;
  Cell cell;
};

/// A pre-image: the cell as it was from epoch `stamp` on.
template <class Cell>
struct LogRecord {
  static constexpr uint32_t kExisted = 1u << 31;
  uint32_t stamp;
  uint32_t next;  ///< the older record's number, 0 = none; kExisted when the row was live
  Cell cell;
};

/// In front of the bytes of a long key that a table owns.
struct OwnedKey {
  uint32_t birth;
  BlockClass block_class;
  static OwnedKey* Of(const Bytes& key) {
    return reinterpret_cast<OwnedKey*>(const_cast<char*>(key.data())) - 1;
  }
};
static_assert(sizeof(OwnedKey) == 8);

template <class Codec>
constexpr bool HasRawBytes() {
  if constexpr (requires { Codec::kRawBytes; }) {
    return Codec::kRawBytes;
  } else {
    return false;
  }
}

/// Values that die: TimedTable's rows.
template <class V>
concept HasDeadline = requires(const V& value) {
  { value.deadline_ms } -> std::convertible_to<int64_t>;
  value.generation;
};

/// The part of an encoded key that decides its key group: all of it, unless the codec says which.
template <class Codec>
std::string_view GroupKeyOf(std::string_view key_bytes) {
  if constexpr (requires { Codec::GroupKey(key_bytes); }) {
    return Codec::GroupKey(key_bytes);
  } else {
    return key_bytes;
  }
}

/// Bytes of every encoding, 0 = they differ.
template <class Codec>
constexpr size_t FixedEncodedBytes() {
  if constexpr (requires { Codec::kEncodedBytes; }) {
    return Codec::kEncodedBytes;
  } else {
    return 0;
  }
}

/// "slot S of operator U: cannot decode key 0x2a (codec C): cause".
Status RowErrorOf(const SlotDescriptor& slot, const Status& cause, std::string_view what,
                  std::string_view key_bytes);

/// Why a value of more than kSavedValueBytesMax is not saved.
std::string SavedValueTooLarge(size_t value_bytes);

/// End the process: a view of another domain was given to a table.
[[noreturn]] void FailForeignView();

}  // namespace detail
}  // namespace v0
}  // namespace cairn
