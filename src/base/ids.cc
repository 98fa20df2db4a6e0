// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

#include <cstdio>

namespace cairn::base {

std::string ToHex16(OperatorId id) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(id.value));
  return text;
}

bool ParseHex16(std::string_view text, OperatorId* id) {
  if (text.size() != 16) return false;
  uint64_t value = 0;
  for (char c : text) {
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return false;
    }
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  *id = OperatorId(value);
  return true;
}

std::string MakeUuidV7(uint64_t unix_ms, uint64_t random_high, uint64_t random_low) {
  const uint64_t high = unix_ms << 16 | 0x7000 | (random_high & 0xfff);
  const uint64_t low = (random_low & 0x3fffffffffffffffULL) | 0x8000000000000000ULL;
  char text[37];
  std::snprintf(text, sizeof(text), "%08llx-%04llx-%04llx-%04llx-%012llx",
                static_cast<unsigned long long>(high >> 32),
                static_cast<unsigned long long>(high >> 16 & 0xffff),
                static_cast<unsigned long long>(high & 0xffff),
                static_cast<unsigned long long>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffffULL));
  return text;
}

bool IsCanonicalUuid(std::string_view text) {
  if (text.size() != 36) return false;
  bool nil = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
    } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
      nil = nil && c == '0';
    } else {
      return false;
    }
  }
  return !nil;
}

}  // namespace cairn::base
