// SPDX-License-Identifier: Apache-2.0
//
// Durations, sizes and counts as people write and read them: options, progress lines, listings.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::base {

/// Parse a duration: a whole number and one of ms, s, m, h, d.
///
/// Units:    the result is in milliseconds.
/// Errors:   kInvalidArgument for anything else ("10", "1.5s", "-1s") and past 2^63 - 1 ms.
Result<int64_t> ParseDurationMs(std::string_view text);

/// Parse a size: a whole number, then nothing or B (bytes), kB, MB, GB, TB (powers of 1,000) or
/// KiB, MiB, GiB, TiB (powers of 1,024). Case matters only for the first letter of kB.
///
/// Errors:   kInvalidArgument for anything else and past 2^64 - 1.
Result<uint64_t> ParseBytes(std::string_view text);

/// "0 B", "999 B", "1.0 KiB", "43.2 MiB", "7.1 GiB": one decimal above bytes.
std::string FormatBytes(uint64_t bytes);

/// "0.00 s", "9.87 s", "59.9 s", "2 m 05 s", "3 h 07 m": what is left out would not matter.
std::string FormatDurationMs(int64_t ms);

/// "1,234,567".
std::string FormatCount(uint64_t count);

/// "0", "950", "12.3 k", "1.23 M", "4.56 G": three digits that count.
std::string FormatRate(double per_second);

/// "2026-11-30T06:20:46.123Z".
std::string FormatUtcMs(int64_t unix_ms);

}  // namespace cairn::base
