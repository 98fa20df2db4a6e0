// SPDX-License-Identifier: Apache-2.0
//
// World: the time, the chance and the order of one simulated schedule. Everything that happens is
// drawn from one seed, so a seed repeats a schedule to the last call.
//
//   World world(seed);
//   world.Spawn("a", [&] { … world.SleepMicros(5) … });
//   world.Run();                   until nothing is left to happen
//   world.violation()              empty, or what went wrong first
//
// Threads: one. An actor is a fiber; between two sleeps of an actor nothing else runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "fiber.h"

namespace cairn::sim {

/// Things that a run of many schedules must have met, or it shows less than it says.
enum class Met : uint8_t {
  kCommit,
  kAbandoned,
  kTakeover,
  kCrash,
  kPause,
  kZombieFenced,
  kLostBefore,
  kLostAfter,
  kLate,
  kLateSwapRefused,
  kCutOff,
  kStaleList,
  kInDoubt,
  kRecovery,
  kFreshStart,
  kObjectDeleted,
  kLeaseWaited,
  kCount,
};
std::string_view MetName(Met met);
using MetCounts = std::array<uint64_t, static_cast<size_t>(Met::kCount)>;

class World {
 public:
  /// `keep_trace` keeps what happened as text, too.
  explicit World(uint64_t seed, bool keep_trace = false);
  ~World();

  /// A number in [0, below).
  uint64_t Draw(uint64_t below);
  bool Chance(uint32_t per_mille) { return per_mille > 0 && Draw(1000) < per_mille; }
  uint64_t NextBits();

  int64_t now_us() const { return now_us_; }
  env::Clock* clock() { return &clock_; }
  env::Random* random() { return &random_; }

  /// Begin an actor, now.
  void Spawn(std::function<void()> body);
  /// Let `event` happen `after_us` from now. It does not sleep.
  void After(int64_t after_us, std::function<void()> event);
  /// Let time pass for the actor that calls.
  void SleepMicros(int64_t us);

  void Run();

  /// Enter what happened into the trace.
  void Note(std::string_view who, std::string_view what, std::string_view about,
            std::string_view outcome);
  void Count(Met met) { ++met_[static_cast<size_t>(met)]; }
  /// The first violation ends the schedule: all calls fail from then on, so all actors end.
  void Violate(std::string what);

  bool stopped() const { return !violation_.empty(); }
  const std::string& violation() const { return violation_; }
  uint64_t trace_hash() const { return trace_hash_; }
  const std::vector<std::string>& trace() const { return trace_; }
  const MetCounts& met() const { return met_; }
  uint64_t events() const { return events_; }

 private:
  struct Event {
    int64_t at_us = 0;
    uint64_t order = 0;  // drawn: of two at one moment either may be first
    Fiber* fiber = nullptr;
    std::function<void()> call;
  };
  class VirtualClock final : public env::Clock {
   public:
    explicit VirtualClock(World* world) : world_(world) {}
    int64_t UnixMillis() const override { return 1'700'000'000'000 + world_->now_us_ / 1000; }
    int64_t MonotonicNanos() const override { return world_->now_us_ * 1000; }
    void SleepMillis(int64_t ms) override { world_->SleepMicros(ms * 1000); }

   private:
    World* world_;
  };
  class DrawnRandom final : public env::Random {
   public:
    explicit DrawnRandom(World* world) : world_(world) {}
    uint64_t Next() override { return world_->NextBits(); }

   private:
    World* world_;
  };

  static bool Later(const Event& a, const Event& b) {
    return a.at_us != b.at_us ? a.at_us > b.at_us : a.order > b.order;
  }
  void Push(Event event);

  uint64_t bits_;
  bool keep_trace_;
  int64_t now_us_ = 0;
  uint64_t events_ = 0;
  VirtualClock clock_{this};
  DrawnRandom random_{this};
  std::vector<Event> heap_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* running_ = nullptr;
  std::string violation_;
  uint64_t trace_hash_ = 0;
  std::vector<std::string> trace_;
  MetCounts met_{};
};

}  // namespace cairn::sim
