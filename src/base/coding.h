// SPDX-License-Identifier: Apache-2.0
//
// Fixed-width integers to and from bytes. Every saved integer is little-endian; the only
// big-endian one is the two-byte key-group prefix (docs/formats/keys.md).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::base {

static_assert(std::endian::native == std::endian::little, "Cairn runs on little-endian machines");

template <class T>
void StoreLE(char* out, T value) {
  std::memcpy(out, &value, sizeof(T));
}

template <class T>
T LoadLE(const char* in) {
  T value;
  std::memcpy(&value, in, sizeof(T));
  return value;
}

template <class T>
void AppendLE(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Read bytes front to back and refuse to run past their end.
///
/// Threads:  one.
/// Errors:   kCorruption when fewer bytes are left than asked for. Nothing is consumed then.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  Result<T> ReadLE() {
    if (rest_.size() < sizeof(T)) return Short(sizeof(T));
    T value = LoadLE<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }

  Result<std::string_view> ReadBytes(size_t size) {
    if (rest_.size() < size) return Short(size);
    std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  /// Read a u32 length and that many bytes.
  Result<std::string_view> ReadLengthPrefixed() {
    CAIRN_ASSIGN_OR_RETURN(uint32_t size, ReadLE<uint32_t>());
    return ReadBytes(size);
  }

  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  Status Short(size_t wanted) const {
    return Status::Corruption("value ends early: " + std::to_string(wanted) + " bytes wanted, " +
                              std::to_string(rest_.size()) + " left");
  }

  std::string_view rest_;
};

}  // namespace cairn::base
