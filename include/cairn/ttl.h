// SPDX-License-Identifier: Apache-2.0
//
// Time to live of state: how long a row or an element lives, and by which clock.
//
// The clocks belong to the StateDomain (AdvanceEventTime, AdvanceWallTime): all slots of a subtask
// agree on what time it is, and a view keeps the times of its capture. No clock ever goes back.
//
// Invariants
//  1. A row is dead when its deadline <= now. Before a clock has a time nothing is dead.
//  2. A row written before its clock has a time lives for the whole TTL from the first time on.
//  3. Arithmetic saturates: a deadline that does not fit never comes.
//
// Source:   docs/state/ttl.md.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace cairn {
inline namespace v0 {

/// By what a deadline is measured.
enum class TtlClock : uint8_t {
  kEvent = 0,             ///< the watermark
  kWall = 1,              ///< wall clock; goes on while the job is down
  kStoppedWhileDown = 2,  ///< wall clock that stands still while the job is down
};
inline constexpr int kTtlClocks = 3;
/// "event", "wall", "stopped_while_down": what options and manifests call a clock.
std::string_view NameOf(TtlClock clock);
std::optional<TtlClock> TtlClockOf(std::string_view name);

/// Say how long rows of a slot live.
///
/// Units:    ttl_ms, of the clock; 0 = rows live for ever and are saved without a deadline.
struct TtlConfig {
  int64_t ttl_ms = 0;
  TtlClock clock = TtlClock::kEvent;
  bool refresh_on_write = true;  ///< false: the deadline is that of the first write
  bool refresh_on_read = false;  ///< reads of the writer count; reads of a view never do
  bool enabled() const { return ttl_ms > 0; }
  friend bool operator==(const TtlConfig&, const TtlConfig&) = default;
};

/// Count the rows (of collections: the elements) of a slot in a view.
struct TtlStatistics {
  uint64_t live = 0;
  uint64_t expired = 0;      ///< dead but not yet swept
  uint64_t will_expire = 0;  ///< of the live ones, dead by the time asked for
  uint64_t bytes = 0;        ///< of memory, dead ones included
};

namespace detail {

/// No time yet.
inline constexpr int64_t kNoTime = std::numeric_limits<int64_t>::min();
/// Deadline of what was written before there was a time: the first time + TTL.
inline constexpr int64_t kPendingDeadline = std::numeric_limits<int64_t>::max();
/// Last deadline that stands for itself.
inline constexpr int64_t kDeadlineMax = kPendingDeadline - 1;

/// The times of a domain, by clock; copied into every view.
struct ClockTimes {
  int64_t now[kTtlClocks] = {kNoTime, kNoTime, kNoTime};
  int64_t first[kTtlClocks] = {kNoTime, kNoTime, kNoTime};

  void Advance(TtlClock clock, int64_t time_ms) {
    const int i = static_cast<int>(clock);
    if (time_ms == kNoTime) return;
    if (first[i] == kNoTime) first[i] = time_ms;
    if (time_ms > now[i]) now[i] = time_ms;
  }

  /// Go on from a saved cut: what is pending in it counts from the first time of its run.
  void Resume(TtlClock clock, std::optional<int64_t> time_ms, std::optional<int64_t> first_ms) {
    if (first_ms) first[static_cast<int>(clock)] = *first_ms;
    if (time_ms) Advance(clock, *time_ms);
  }
};

inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

/// What one slot asks of its clock, at one moment.
struct TtlNow {
  int64_t now_ms = kNoTime;
  int64_t pending_ms = kPendingDeadline;  ///< what kPendingDeadline stands for

  bool IsDead(int64_t deadline_ms) const {
    return Resolve(deadline_ms) <= now_ms && now_ms != kNoTime;
  }
  int64_t Resolve(int64_t deadline_ms) const {
    return deadline_ms == kPendingDeadline ? pending_ms : deadline_ms;
  }
};

/// The deadline `ttl_ms` after `time_ms`.
inline int64_t DeadlineAfter(int64_t time_ms, int64_t ttl_ms) {
  if (time_ms == kNoTime) return kPendingDeadline;
  const int64_t deadline = SaturatingAdd(time_ms, ttl_ms);
  return deadline > kDeadlineMax ? kDeadlineMax : deadline;
}

inline TtlNow TtlNowOf(const ClockTimes& times, const TtlConfig& config) {
  const int i = static_cast<int>(config.clock);
  return {times.now[i], DeadlineAfter(times.first[i], config.ttl_ms)};
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn
