// SPDX-License-Identifier: Apache-2.0
//
// Codec: how a key or a value becomes saved bytes and back. Values live typed in a table; a codec
// runs only when a row leaves the process or comes in.
//
// A codec is a copyable object with
//   size_t EncodedSize(const T&) const;             bytes that Encode writes
//   void Encode(const T&, char* out) const;         exactly EncodedSize bytes
//   Result<T> Decode(std::string_view bytes) const; kCorruption on bytes that Encode never writes
//   size_t MemoryBytes(const T&) const;             memory T owns beyond sizeof(T), for the budget
// and, when every encoding has one size, `static constexpr size_t kEncodedBytes`. A codec that
// writes a trivially copyable T's own bytes says `static constexpr bool kRawBytes = true`; the
// table then hashes keys in registers. A key codec whose key group is that of a part of the key
// says which: `static std::string_view GroupKey(std::string_view bytes)`. EncodedSize and Encode
// may throw; the row's error names the throw.
//
// Threads:  all calls are const and made by several threads at once.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "cairn/bytes.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

namespace detail {
/// The error of Decode, apart so that Decode is small enough to inline.
[[gnu::noinline, gnu::cold]] inline Status WrongWidth(size_t expected, size_t got) {
  return Status::Corruption(std::to_string(expected) + " bytes expected, got " +
                            std::to_string(got));
}
}  // namespace detail

template <class T>
struct Codec;

/// Integers, floating point and bool: little-endian, fixed width.
template <class T>
  requires std::is_arithmetic_v<T>
struct Codec<T> {
  static constexpr size_t kEncodedBytes = sizeof(T);
  static constexpr bool kRawBytes = true;
  size_t EncodedSize(const T&) const { return sizeof(T); }
  void Encode(const T& value, char* out) const { std::memcpy(out, &value, sizeof(T)); }
  Result<T> Decode(std::string_view bytes) const {
    if (bytes.size() != sizeof(T)) return detail::WrongWidth(sizeof(T), bytes.size());
    if constexpr (std::is_same_v<T, bool>) {
      if (static_cast<uint8_t>(bytes[0]) > 1) return Status::Corruption("a boolean is 0 or 1");
      return bytes[0] != 0;
    } else {
      T value;
      std::memcpy(&value, bytes.data(), sizeof(T));
      return value;
    }
  }
  size_t MemoryBytes(const T&) const { return 0; }
};

/// Strings: their bytes, without a length.
template <>
struct Codec<std::string> {
  size_t EncodedSize(const std::string& value) const { return value.size(); }
  void Encode(const std::string& value, char* out) const {
    std::memcpy(out, value.data(), value.size());
  }
  Result<std::string> Decode(std::string_view bytes) const { return std::string(bytes); }
  size_t MemoryBytes(const std::string& value) const {
    return value.capacity() < sizeof(std::string) ? 0 : value.capacity();
  }
};

/// Byte strings: their bytes. Decode refers to its input.
template <>
struct Codec<Bytes> {
  size_t EncodedSize(const Bytes& value) const { return value.size(); }
  void Encode(const Bytes& value, char* out) const { std::memcpy(out, value.data(), value.size()); }
  Result<Bytes> Decode(std::string_view bytes) const { return Bytes(bytes); }
  size_t MemoryBytes(const Bytes&) const { return 0; }
};

/// The object's own bytes: for padding-free structs on the machines Cairn runs on.
template <class T>
  requires std::is_trivially_copyable_v<T>
struct RawCodec {
  static constexpr size_t kEncodedBytes = sizeof(T);
  static constexpr bool kRawBytes = true;
  size_t EncodedSize(const T&) const { return sizeof(T); }
  void Encode(const T& value, char* out) const { std::memcpy(out, &value, sizeof(T)); }
  Result<T> Decode(std::string_view bytes) const {
    if (bytes.size() != sizeof(T)) return detail::WrongWidth(sizeof(T), bytes.size());
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  size_t MemoryBytes(const T&) const { return 0; }
};

}  // namespace v0
}  // namespace cairn
