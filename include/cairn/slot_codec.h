// SPDX-License-Identifier: Apache-2.0
//
// SlotCodec: which codec a slot of type T uses when its declaration names none, and how saved state
// calls that codec. A restore refuses a slot that was saved under another name or version.
//
// Your own type: specialise cairn::Codec<T> (cairn/codec.h) with
//   static constexpr std::string_view kName = "session";
//   static constexpr uint32_t kVersion = 1;      // optional; raise it when the bytes change
// A trivially copyable type without a codec is saved as its own bytes; its size is part of the
// name, so a struct that grew is refused, not misread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/codec.h"
#include "cairn/column_spec.h"
#include "cairn/ordered_codec.h"

namespace cairn {
inline namespace v0 {

namespace detail {

template <class T>
concept HasCodec = requires { sizeof(Codec<T>); };

template <class T, bool = HasCodec<T>>
struct SlotCodecOf {
  using type = Codec<T>;
};
template <class T>
struct SlotCodecOf<T, false> {
  static_assert(std::is_trivially_copyable_v<T>,
                "specialise cairn::Codec<T> for a type that owns memory");
  using type = RawCodec<T>;
};

}  // namespace detail

template <class T>
using SlotCodec = typename detail::SlotCodecOf<T>::type;

namespace detail {

template <class T>
struct OrderedSlotCodecOf {
  using type = SlotCodec<T>;
};
template <class T>
  requires std::is_arithmetic_v<T>
struct OrderedSlotCodecOf<T> {
  using type = OrderedNumberCodec<T>;
};
template <>
struct OrderedSlotCodecOf<std::string> {
  using type = OrderedTextCodec<std::string>;
};

}  // namespace detail

/// The codec of a map key: one whose bytes lie in order, where T has one.
template <class T>
using OrderedSlotCodec = typename detail::OrderedSlotCodecOf<T>::type;

/// The type a table keeps for keys of type K: std::string keys lie in it as Bytes, found by
/// std::string_view.
template <class K>
using SlotKey = std::conditional_t<std::is_same_v<K, std::string>, Bytes, K>;

/// How saved state names the encoding of one side of a slot.
struct SlotEncoding {
  std::string codec;
  uint32_t version = 1;
  std::vector<ColumnSpec> columns;  ///< empty = opaque, or told by the codec's name
};

/// The encoding of a T; `column` names its column in typed exports.
template <class T>
SlotEncoding SlotEncodingOf([[maybe_unused]] std::string_view column) {
  SlotEncoding encoding;
  [[maybe_unused]] const auto typed = [&](std::string_view codec, std::string_view type) {
    encoding.codec = codec;
    encoding.columns = {{std::string(column), std::string(type), false}};
  };
  if constexpr (requires { SlotCodec<T>::kName; }) {
    encoding.codec = SlotCodec<T>::kName;
    if constexpr (requires { SlotCodec<T>::kVersion; }) encoding.version = SlotCodec<T>::kVersion;
  } else if constexpr (std::is_same_v<T, bool>) {
    typed("bool", "boolean");
  } else if constexpr (std::is_same_v<T, int64_t>) {
    typed("int64", "bigint");
  } else if constexpr (std::is_same_v<T, int32_t>) {
    typed("int32", "integer");
  } else if constexpr (std::is_same_v<T, double>) {
    typed("double", "double");
  } else if constexpr (std::is_same_v<T, std::string>) {
    encoding.codec = "string";
  } else if constexpr (std::is_same_v<T, Bytes>) {
    encoding.codec = "bytes";
  } else {
    encoding.codec = "raw:" + std::to_string(sizeof(T));
  }
  return encoding;
}

}  // namespace v0
}  // namespace cairn
