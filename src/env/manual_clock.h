// SPDX-License-Identifier: Apache-2.0
//
// Time and randomness under a test's control: nothing moves unless the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>

#include "env/clock.h"

namespace cairn::env {

/// A clock that only moves when told to; sleeping moves it.
///
/// Threads:  any.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t unix_ms = 1'700'000'000'000) : unix_ms_(unix_ms) {}
  void Advance(int64_t ms) { unix_ms_ += ms; }
  int64_t UnixMillis() const override { return unix_ms_; }
  int64_t MonotonicNanos() const override { return unix_ms_ * 1'000'000; }
  void SleepMillis(int64_t ms) override { Advance(ms); }

 private:
  std::atomic<int64_t> unix_ms_;
};

/// Random bits that a seed repeats.
///
/// Threads:  any; the order of draws between threads is theirs to fix.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : bits_(seed) {}
  uint64_t Next() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return bits_();
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 bits_;
};

}  // namespace cairn::env
