// SPDX-License-Identifier: Apache-2.0
#include "cairn/element_row_key.h"

#include <cstdint>
#include <cstring>

namespace cairn {
inline namespace v0 {

ElementRowKey ElementRowKey::Parse(std::string_view row_key) {
  if (row_key.size() < kLengthBytes + 1) return {};
  uint32_t length;
  std::memcpy(&length, row_key.data(), sizeof(length));
  length = __builtin_bswap32(length);
  if (length > row_key.size() - kLengthBytes - 1) return {};
  ElementRowKey parts;
  parts.part = row_key[kLengthBytes + length];
  parts.element_key = row_key.substr(kLengthBytes + length + 1);
  const bool header = parts.part == kHeader && parts.element_key.empty();
  if (!header && parts.part != kElement) return {};
  parts.user_key = row_key.substr(kLengthBytes, length);
  return parts;
}

char* ElementRowKey::Write(char* out, std::string_view user_key, char part) {
  const uint32_t length = __builtin_bswap32(static_cast<uint32_t>(user_key.size()));
  std::memcpy(out, &length, sizeof(length));
  std::memcpy(out + kLengthBytes, user_key.data(), user_key.size());
  out[kLengthBytes + user_key.size()] = part;
  return out + kLengthBytes + user_key.size() + 1;
}

}  // namespace v0
}  // namespace cairn
