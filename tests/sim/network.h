// SPDX-License-Identifier: Apache-2.0
//
// What the network and the machine do to one call of a process: it is slow, lost, answered into the
// void, carried out long after the caller gave up, or the process is paused or dies in the middle.
//
// Threads: one. Every call is a point at which another actor may run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/status.h"
#include "world.h"

namespace cairn::sim {

/// How unkind a schedule is; each drawn once for it, so that some schedules have one kind of fault.
struct Weather {
  uint32_t lost_before = 0;  ///< per mille of calls, as all of these
  uint32_t lost_after = 0;
  uint32_t late = 0;  ///< of writes: it fails, and takes effect later
  uint32_t pause = 0;
  uint32_t crash = 0;
  uint32_t cut_off = 0;
  int64_t delay_us = 10'000;  ///< a way of a call takes up to so long
  int64_t timeout_us = 2'000'000;
  int64_t late_us = 20'000'000;
  int64_t pause_us = 40'000'000;
  int64_t stale_us = 0;  ///< lists are up to so old
};

/// One incarnation of a process, as the network sees it.
struct Host {
  uint32_t incarnation = 0;
  std::string name;
  bool dead = false;
  int64_t paused_until_us = 0;  ///< all that runs in the process stands still
  int64_t cut_off_until_us = 0;
};

class Network {
 public:
  Network(World* world, const Weather* weather) : world_(world), weather_(weather) {}

  /// Carry out `effect` for `host`, or not, and return what its caller sees. Null = for somebody
  /// who looks on: at once.
  ///
  /// Shape:    `effect` owns what it needs: it may run when the caller has long returned.
  template <class Answer>
  Answer Call(Host* host, bool write, const char* verb, const std::string& about,
              std::function<Answer()> effect) {
    if (host == nullptr) return effect();
    const Fate fate = Begin(host, write, verb, about);
    if (fate == Fate::kNotSent) return Answer(Gone(verb, about));
    if (fate == Fate::kLate) {
      world_->Count(Met::kLate);
      SendLate(host->name, verb, about, [effect] { return StatusOf(effect()); });
    }
    if (fate == Fate::kLostBefore || fate == Fate::kLate) {
      world_->SleepMicros(weather_->timeout_us);
      return Answer(Gone(verb, about));
    }
    world_->SleepMicros(Delay());
    if (world_->stopped()) return Answer(Gone(verb, about));
    Answer answer = effect();
    world_->Note(host->name, verb, about, NameOf(StatusOf(answer)));
    if (!End(host, fate == Fate::kLostAfter)) return Answer(Gone(verb, about));
    return answer;
  }

  /// Wait without a call, as a process does between two.
  void Idle(Host* host, int64_t us);
  World* world() { return world_; }
  const Weather& weather() const { return *weather_; }

 private:
  enum class Fate : uint8_t { kDone, kNotSent, kLostBefore, kLostAfter, kLate };

  static Status StatusOf(const Status& status) { return status; }
  template <class T>
  static Status StatusOf(const Result<T>& result) {
    return result.status();
  }
  static std::string_view NameOf(const Status& status);
  static Status Gone(const char* verb, const std::string& about);

  Fate Begin(Host* host, bool write, const char* verb, const std::string& about);
  bool End(Host* host, bool lose_answer);
  void MayPause(Host* host);
  void MayCrash(Host* host);
  int64_t Delay() { return static_cast<int64_t>(world_->Draw(weather_->delay_us + 1)); }
  void SendLate(std::string who, const char* verb, std::string about,
                std::function<Status()> effect);

  World* world_;
  const Weather* weather_;
};

}  // namespace cairn::sim
