// SPDX-License-Identifier: Apache-2.0
//
// Values as text: how NDJSON and CSV spell the SQL types, read and written.
//
// Threads: free functions; no state.
// Invariants
//  1. Nothing is rounded in silence: an integer out of range or a decimal with too many fraction
//     digits is an error. The one exception is a timestamp's fraction, cut to microseconds.
//  2. What Append… writes, Parse… reads back to the same value.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cairn::connectors {

/// Why a text is not a value of the type; null = it is one.
using TextError = const char*;

namespace internal {

/// True when all eight bytes are ASCII digits.
inline bool AllDigits(uint64_t eight) {
  return ((eight & 0xF0F0F0F0F0F0F0F0ULL) |
          (((eight + 0x0606060606060606ULL) & 0xF0F0F0F0F0F0F0F0ULL) >> 4)) ==
         0x3333333333333333ULL;
}

/// The number of eight ASCII digits, the first in the lowest byte.
inline uint64_t EightDigits(uint64_t eight) {
  eight = (eight & 0x0F0F0F0F0F0F0F0FULL) * 2561 >> 8;
  eight = (eight & 0x00FF00FF00FF00FFULL) * 6553601 >> 16;
  return (eight & 0x0000FFFF0000FFFFULL) * 42949672960001ULL >> 32;
}

TextError ParseInt64Slow(std::string_view text, int64_t* value);

}  // namespace internal

/// Bytes that must be readable behind every text given to ParseInt64.
inline constexpr size_t kTextPadding = 64;

/// Read a decimal integer.
///
/// Shape:    `text` is followed by kTextPadding readable bytes.
inline TextError ParseInt64(std::string_view text, int64_t* value) {
  if (text.size() - 1 < 8) {  // 1..8 bytes: the common case, without a loop
    uint64_t eight;
    std::memcpy(&eight, text.data(), 8);
    const unsigned unused_bits = 64 - 8 * static_cast<unsigned>(text.size());
    eight <<= unused_bits;
    if (unused_bits != 0) eight |= 0x3030303030303030ULL >> (64 - unused_bits);
    if (internal::AllDigits(eight)) [[likely]] {
      *value = static_cast<int64_t>(internal::EightDigits(eight));
      return nullptr;
    }
  }
  return internal::ParseInt64Slow(text, value);
}

TextError ParseInt32(std::string_view text, int32_t* value);

/// Read a decimal floating-point number; NaN, Infinity and -Infinity too.
TextError ParseDouble(std::string_view text, double* value);

/// Read true or false, t or f, 1 or 0, in any case.
TextError ParseBool(std::string_view text, bool* value);

/// Read YYYY-MM-DD as days since 1970-01-01.
TextError ParseDate(std::string_view text, int32_t* days);

/// Remember the last date, since neighbouring rows mostly share it.
struct DateCache {
  char text[10] = {'1', '9', '7', '0', '-', '0', '1', '-', '0', '1'};
  int64_t day_micros = 0;
};

/// Read YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]]][Z] as microseconds since 1970-01-01T00:00:00Z. The
/// fraction has up to 9 digits; those behind the sixth are dropped.
TextError ParseTimestamp(std::string_view text, DateCache* cache, int64_t* micros);

/// Read a decimal number, an exponent allowed, into 16 little-endian bytes.
TextError ParseDecimal(std::string_view text, int precision, int scale, uint8_t out[16]);

/// Bytes that a Put… writes at most.
inline constexpr size_t kTextMax = 64;

// Each Put… writes a value at `out` and returns the place behind it; Append… adds the same text.

inline char* PutInt64(int64_t value, char* out) {
  return std::to_chars(out, out + kTextMax, value).ptr;
}
/// The shortest text that reads back to the same double; NaN, Infinity, -Infinity.
char* PutDouble(double value, char* out);
/// YYYY-MM-DD.
char* PutDate(int64_t days, char* out);
/// "YYYY-MM-DD HH:MM:SS", and ".ffffff" when there is a fraction.
char* PutTimestamp(int64_t micros, char* out);
char* PutDecimal(const uint8_t value[16], int scale, char* out);

void AppendInt64(int64_t value, std::string* out);
void AppendDouble(double value, std::string* out);
void AppendDate(int64_t days, std::string* out);
void AppendTimestamp(int64_t micros, std::string* out);
void AppendDecimal(const uint8_t value[16], int scale, std::string* out);

}  // namespace cairn::connectors
