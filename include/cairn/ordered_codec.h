// SPDX-License-Identifier: Apache-2.0
//
// Codecs whose bytes sort as their values do. Range and prefix scans need one: the built-in codecs
// write little-endian integers, whose bytes are in no order. A scan over a key of another codec
// does not compile.
//
// Order:
//   integers   by value
//   floats     -NaN < -inf < ... < -0.0 < +0.0 < ... < +inf < NaN; every NaN keeps its bits
//   text       by bytes, which for UTF-8 is by code point
//   optional   nothing before every value
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "cairn/bytes.h"
#include "cairn/codec.h"

namespace cairn {
inline namespace v0 {

template <class C>
concept OrderedCodec = requires { requires C::kOrdered; };

namespace detail {

template <class T>
using UnsignedOf =
    std::conditional_t<sizeof(T) == 8, uint64_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t,
                                          std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

template <class T>
T SwapBytes(T word) {
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(word);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(word);
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(word);
  return word;
}

}  // namespace detail

/// Integers, floating point and bool: big-endian with the sign flipped; of negative floats all
/// bits.
template <class T>
  requires std::is_arithmetic_v<T>
struct OrderedNumberCodec {
  using Word = detail::UnsignedOf<T>;
  static constexpr bool kOrdered = true;
  static constexpr size_t kEncodedBytes = sizeof(T);
  static constexpr Word kSign = Word{1} << (8 * sizeof(T) - 1);

  /// The value as a word that sorts as it does.
  static Word Rank(T value) {
    const auto word = std::bit_cast<Word>(value);
    if constexpr (std::is_floating_point_v<T>) {
      return (word & kSign) != 0 ? static_cast<Word>(~word) : static_cast<Word>(word ^ kSign);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<Word>(word ^ kSign);
    } else {
      return word;
    }
  }
  size_t EncodedSize(const T&) const { return sizeof(T); }
  void Encode(const T& value, char* out) const {
    const Word word = detail::SwapBytes(Rank(value));
    std::memcpy(out, &word, sizeof(T));
  }
  Result<T> Decode(std::string_view bytes) const {
    if (bytes.size() != sizeof(T)) {
      return Status::Corruption(std::to_string(sizeof(T)) + " bytes expected, got " +
                                std::to_string(bytes.size()));
    }
    Word word;
    std::memcpy(&word, bytes.data(), sizeof(T));
    word = detail::SwapBytes(word);
    if constexpr (std::is_floating_point_v<T>) {
      word = (word & kSign) != 0 ? static_cast<Word>(word ^ kSign) : static_cast<Word>(~word);
    } else if constexpr (std::is_signed_v<T>) {
      word = static_cast<Word>(word ^ kSign);
    }
    if constexpr (std::is_same_v<T, bool>) {
      if (word > 1) return Status::Corruption("a boolean is 0 or 1");
      return word != 0;
    } else {
      return std::bit_cast<T>(word);
    }
  }
  size_t MemoryBytes(const T&) const { return 0; }
  bool Less(const T& a, const T& b) const { return Rank(a) < Rank(b); }
};

using OrderedInt64Codec = OrderedNumberCodec<int64_t>;
using OrderedUint64Codec = OrderedNumberCodec<uint64_t>;
using OrderedInt32Codec = OrderedNumberCodec<int32_t>;
using OrderedDoubleCodec = OrderedNumberCodec<double>;

/// Text and byte strings: their bytes, which is what their own codec writes; declared in order.
template <class T>
  requires std::same_as<T, std::string> || std::same_as<T, Bytes>
struct OrderedTextCodec : Codec<T> {
  static constexpr bool kOrdered = true;
  static constexpr bool kText = true;
  bool Less(const T& a, const T& b) const { return a < b; }
};

/// A value or nothing: one byte 0, or 1 and the value.
template <class T, OrderedCodec Of>
struct OrderedOptionalCodec {
  static constexpr bool kOrdered = true;
  [[no_unique_address]] Of of;
  size_t EncodedSize(const std::optional<T>& value) const {
    return 1 + (value ? of.EncodedSize(*value) : 0);
  }
  void Encode(const std::optional<T>& value, char* out) const {
    *out = value ? 1 : 0;
    if (value) of.Encode(*value, out + 1);
  }
  Result<std::optional<T>> Decode(std::string_view bytes) const {
    if (bytes == std::string_view("\0", 1)) return std::optional<T>();
    if (bytes.empty() || bytes[0] != 1) return Status::Corruption("an optional starts with 0 or 1");
    CAIRN_ASSIGN_OR_RETURN(T value, of.Decode(bytes.substr(1)));
    return std::optional<T>(std::move(value));
  }
  size_t MemoryBytes(const std::optional<T>& value) const {
    return value ? of.MemoryBytes(*value) : 0;
  }
  bool Less(const std::optional<T>& a, const std::optional<T>& b) const {
    return a && b ? of.Less(*a, *b) : !a && b;
  }
};

}  // namespace v0
}  // namespace cairn
