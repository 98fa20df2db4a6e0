// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>
#include <optional>

namespace cairn::base {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array<Unit, 5> kDurations{
    {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};

constexpr std::array<Unit, 11> kSizes{{{"", 1},
                                       {"B", 1},
                                       {"kB", 1000},
                                       {"KB", 1000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"KiB", uint64_t{1} << 10},
                                       {"MiB", uint64_t{1} << 20},
                                       {"GiB", uint64_t{1} << 30},
                                       {"TiB", uint64_t{1} << 40}}};

/// Number times unit; nothing when `text` is not that or the product passes `most`.
template <size_t N>
std::optional<uint64_t> ParseWithUnit(std::string_view text, const std::array<Unit, N>& units,
                                      uint64_t most) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest == text.data()) return std::nullopt;
  const std::string_view name(rest, static_cast<size_t>(text.data() + text.size() - rest));
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (number > most / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

Result<int64_t> ParseDurationMs(std::string_view text) {
  const auto ms = ParseWithUnit(text, kDurations, std::numeric_limits<int64_t>::max());
  if (ms) return static_cast<int64_t>(*ms);
  return Status::InvalidArgument(fmt::format(
      "'{}' is not a duration: write a whole number with ms, s, m, h or d, as 100ms or 10s", text));
}

Result<uint64_t> ParseBytes(std::string_view text) {
  const auto bytes = ParseWithUnit(text, kSizes, std::numeric_limits<uint64_t>::max());
  if (bytes) return *bytes;
  return Status::InvalidArgument(
      fmt::format("'{}' is not a size: write a whole number of bytes, or one with kB, MB, GB, TB, "
                  "KiB, MiB, GiB or TiB, as 64MiB",
                  text));
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array<const char*, 6> kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string FormatDurationMs(int64_t ms) {
  if (ms < 0) return "-" + FormatDurationMs(ms == std::numeric_limits<int64_t>::min() ? 0 : -ms);
  if (ms < 10'000) return fmt::format("{:.2f} s", static_cast<double>(ms) / 1000);
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms / 100) / 10);
  const int64_t seconds = ms / 1000;
  if (seconds < 3600) return fmt::format("{} m {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} m", seconds / 3600, seconds / 60 % 60);
}

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string FormatRate(double per_second) {
  if (!(per_second >= 0)) per_second = 0;
  static constexpr std::array<const char*, 4> kNames{"", " k", " M", " G"};
  size_t unit = 0;
  while (per_second >= 999.5 && unit + 1 < kNames.size()) {
    per_second /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : per_second < 9.995 ? 2 : per_second < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", per_second, decimals, kNames[unit]);
}

std::string FormatUtcMs(int64_t unix_ms) {
  const int64_t ms = ((unix_ms % 1000) + 1000) % 1000;
  const std::time_t seconds = static_cast<std::time_t>((unix_ms - ms) / 1000);
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) return std::to_string(unix_ms) + " ms";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
}

}  // namespace cairn::base
