// SPDX-License-Identifier: Apache-2.0
#include "env/clock.h"

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "base/hash.h"
#include "base/ids.h"

namespace cairn::env {
namespace {

class MachineClock final : public Clock {
 public:
  int64_t UnixMillis() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  }
  int64_t MonotonicNanos() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
  void SleepMillis(int64_t ms) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }
};

class MachineRandom final : public Random {
 public:
  uint64_t Next() override {
    std::lock_guard<std::mutex> lock(mutex_);
    // A forked process has its parent's bits. Names and marks of the two would be the same.
    if (const pid_t process = ::getpid(); process != seeded_in_) {
      std::random_device device;
      std::seed_seq seed{device(), device(), device(), device()};
      bits_.seed(seed);
      seeded_in_ = process;
    }
    return bits_();
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 bits_;
  pid_t seeded_in_ = -1;
};

}  // namespace

std::string RandomToken(Random* random) {
  const uint64_t bits[2] = {random->Next(), random->Next()};
  return base::ToHex(std::string_view(reinterpret_cast<const char*>(bits), sizeof(bits)));
}

std::string NewUuid(Clock* clock, Random* random) {
  const uint64_t low = random->Next();  // in statements: the order of arguments is the compiler's
  const uint64_t high = random->Next();
  return base::MakeUuidV7(static_cast<uint64_t>(clock->UnixMillis()), high, low);
}

Clock* SystemClock() {
  static MachineClock* clock = new MachineClock();
  return clock;
}

Random* SystemRandom() {
  static MachineRandom* random = new MachineRandom();
  return random;
}

}  // namespace cairn::env
