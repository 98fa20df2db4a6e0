// SPDX-License-Identifier: Apache-2.0
//
// The key of a saved timer:
//
//   [user key bytes: 4, big-endian][user key][1][time domain][time: 8, big-endian, sign flipped]
//   [namespace]
//
// The key group is that of the user key. Rows of one key and domain ascend by time.
//
// Source:   docs/formats/keys.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {
inline namespace v0 {

/// Which clock a timer waits for.
enum class TimeDomain : uint8_t {
  kEvent = 0,       ///< the watermark
  kProcessing = 1,  ///< the wall clock
};
inline constexpr int kTimeDomains = 2;

namespace detail {

struct TimerRowKey {
  std::string_view bytes;
  std::string_view user_key;
  TimeDomain domain = TimeDomain::kEvent;
  int64_t time = 0;
  std::string_view ns;

  static constexpr size_t kLengthBytes = 4;
  static constexpr size_t kTimeBytes = 8;
  static constexpr char kTimerPart = 1;

  static constexpr size_t Size(size_t user_key_bytes, size_t ns_bytes) {
    return kLengthBytes + user_key_bytes + 2 + kTimeBytes + ns_bytes;
  }
  /// Write what comes before the user key; returns where that goes.
  static char* WriteLength(char* out, size_t user_key_bytes);
  /// Write what comes after the user key; returns where the namespace goes.
  static char* WriteTime(char* out, TimeDomain domain, int64_t time);

  /// Take `bytes` apart; false when they are no such key.
  static bool Parse(std::string_view bytes, TimerRowKey* key);
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
