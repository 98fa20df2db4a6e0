// SPDX-License-Identifier: Apache-2.0
//
// 64 bytes as bit masks: what the CSV and JSON scanners are made of. Only with AVX2.
#pragma once

#ifdef __AVX2__

#include <immintrin.h>

#include <cstdint>

namespace cairn::connectors {

class Block64 {
 public:
  explicit Block64(const char* data)
      : low_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data))),
        high_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32))) {}

  /// Bit i is set when byte i equals every byte of `byte`.
  uint64_t Equal(__m256i byte) const {
    return Mask(_mm256_cmpeq_epi8(low_, byte), _mm256_cmpeq_epi8(high_, byte));
  }
  /// Bit i is set when byte i is at most every byte of `limit`, unsigned.
  uint64_t AtMost(__m256i limit) const {
    return Mask(_mm256_cmpeq_epi8(_mm256_min_epu8(low_, limit), low_),
                _mm256_cmpeq_epi8(_mm256_min_epu8(high_, limit), high_));
  }
  /// Bit i is set when byte i, with the bits of `set` added, is the byte that `table` names for its
  /// low four bits (none for bytes above 0x7F).
  uint64_t InTable(__m256i table, __m256i set) const {
    return Mask(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, low_), _mm256_or_si256(low_, set)),
                _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, high_), _mm256_or_si256(high_, set)));
  }
  /// Bit i is set when byte i is above 0x7F.
  uint64_t HighBits() const { return Mask(low_, high_); }

 private:
  static uint64_t Mask(__m256i low, __m256i high) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
           (static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high))) << 32);
  }

  __m256i low_;
  __m256i high_;
};

/// Bit i of the result = parity of bits 0..i.
inline uint64_t PrefixXor(uint64_t bits) {
  bits ^= bits << 1;
  bits ^= bits << 2;
  bits ^= bits << 4;
  bits ^= bits << 8;
  bits ^= bits << 16;
  bits ^= bits << 32;
  return bits;
}

}  // namespace cairn::connectors

#endif  // __AVX2__
