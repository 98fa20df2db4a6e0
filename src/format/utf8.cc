// SPDX-License-Identifier: Apache-2.0
#include "format/utf8.h"

#include <cstdint>
#include <cstring>

namespace cairn::format {
namespace {

/// Return the bytes of the non-ASCII character at `p`, 0 when it is malformed.
size_t CharacterBytes(const uint8_t* p, size_t left) {
  const auto continues = [&](size_t i) { return (p[i] & 0xc0) == 0x80; };
  if (p[0] >= 0xc2 && p[0] <= 0xdf) return left >= 2 && continues(1) ? 2 : 0;
  if ((p[0] & 0xf0) == 0xe0) {
    if (left < 3 || !continues(1) || !continues(2)) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;   // overlong
    if (p[0] == 0xed && p[1] >= 0xa0) return 0;  // surrogate
    return 3;
  }
  if (p[0] >= 0xf0 && p[0] <= 0xf4) {
    if (left < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;   // overlong
    if (p[0] == 0xf4 && p[1] >= 0x90) return 0;  // past U+10FFFF
    return 4;
  }
  return 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  size_t left = text.size();
  while (left > 0) {
    if (left >= 8) {
      uint64_t word;
      std::memcpy(&word, p, sizeof(word));
      if ((word & 0x8080808080808080ULL) == 0) {
        p += 8;
        left -= 8;
        continue;
      }
    }
    const size_t bytes = *p < 0x80 ? 1 : CharacterBytes(p, left);
    if (bytes == 0) return false;
    p += bytes;
    left -= bytes;
  }
  return true;
}

}  // namespace cairn::format
