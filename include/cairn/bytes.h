// SPDX-License-Identifier: Apache-2.0
//
// Bytes: a byte string of any length in 16 bytes, made to be a key.
//
// Invariants
//  1. Up to 15 bytes lie in the object itself, padded with zeros; equal short strings are equal
//     words. The last byte holds the length.
//  2. A longer string is a pointer, a length and a 3-byte prefix; the last byte is kLong. The
//  object
//     does not own what it points to: the maker does. A table copies long keys into its pools.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cairn {
inline namespace v0 {

class Bytes {
 public:
  static constexpr size_t kInlineBytes = 15;

  constexpr Bytes() = default;

  /// Refer to `bytes`: a copy up to kInlineBytes, a pointer above.
  ///
  /// Shape:    at most 4 GiB - 1; a longer string must outlive the object.
  explicit Bytes(std::string_view bytes) {
    if (bytes.size() <= kInlineBytes) {
      LoadShort(bytes.data(), bytes.size());
    } else {
      lo_ = reinterpret_cast<uint64_t>(bytes.data());
      uint32_t prefix = 0;
      std::memcpy(&prefix, bytes.data(), 3);
      hi_ =
          (uint64_t{kLong} << 56) | (uint64_t{prefix} << 32) | static_cast<uint32_t>(bytes.size());
    }
  }

  bool is_inline() const { return (hi_ >> 56) != kLong; }
  size_t size() const {
    return is_inline() ? static_cast<size_t>(hi_ >> 56) : static_cast<uint32_t>(hi_);
  }
  const char* data() const& {
    return is_inline() ? reinterpret_cast<const char*>(this) : reinterpret_cast<const char*>(lo_);
  }
  /// The bytes. A short string's lie in this object.
  std::string_view view() const& { return {data(), size()}; }
  std::string_view view() const&& = delete;
  std::string ToString() const { return std::string(data(), size()); }

  friend bool operator==(const Bytes& a, const Bytes& b) {
    if (a.hi_ != b.hi_) return false;
    if (a.lo_ == b.lo_) return true;
    return !a.is_inline() && std::memcmp(a.data(), b.data(), a.size()) == 0;
  }
  friend std::strong_ordering operator<=>(const Bytes& a, const Bytes& b) {
    return a.view() <=> b.view();
  }

  /// The two words, for tables: equal words are equal strings; a difference in the second is a
  /// difference of the strings.
  uint64_t lo() const { return lo_; }
  uint64_t hi() const { return hi_; }

 private:
  static constexpr uint8_t kLong = 0xFF;

  template <class T>
  static uint64_t Load(const char* from) {
    T word;
    std::memcpy(&word, from, sizeof(T));
    return word;
  }

  // Composes the two words in registers: a byte-wise copy that is read back as words stalls.
  void LoadShort(const char* data, size_t size) {
    const uint64_t length = uint64_t{size} << 56;
    if (size > 8) {
      lo_ = Load<uint64_t>(data);
      hi_ = (Load<uint64_t>(data + size - 8) >> (8 * (16 - size))) | length;
    } else if (size == 8) {
      lo_ = Load<uint64_t>(data);
      hi_ = length;
    } else if (size >= 4) {
      lo_ = Load<uint32_t>(data) | (Load<uint32_t>(data + size - 4) << (8 * (size - 4)));
      hi_ = length;
    } else if (size > 0) {
      lo_ = Load<uint8_t>(data) | (Load<uint8_t>(data + size / 2) << (8 * (size / 2))) |
            (Load<uint8_t>(data + size - 1) << (8 * (size - 1)));
      hi_ = length;
    }
  }

  uint64_t lo_ = 0;
  uint64_t hi_ = 0;
};

static_assert(sizeof(Bytes) == 16 && std::endian::native == std::endian::little);

}  // namespace v0
}  // namespace cairn
