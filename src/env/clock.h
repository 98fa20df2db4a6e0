// SPDX-License-Identifier: Apache-2.0
//
// The seams to time and randomness: tests replace both, so a run can be repeated.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::env {

/// Tell the time.
///
/// Threads:  any.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t UnixMillis() const = 0;
  /// Nanoseconds of a clock that never goes back; meaningful only as a difference.
  virtual int64_t MonotonicNanos() const = 0;
  virtual void SleepMillis(int64_t ms) = 0;
};

/// Give random bits.
///
/// Threads:  any.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
};

/// 128 random bits in hex: names what nobody else has named.
std::string RandomToken(Random* random);

/// A UUID of version 7 of the clock's time. The same on every compiler for the same seed.
std::string NewUuid(Clock* clock, Random* random);

Clock* SystemClock();
/// Seeded once from the system.
Random* SystemRandom();

}  // namespace cairn::env
