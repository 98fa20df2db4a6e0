// SPDX-License-Identifier: Apache-2.0
#include "network.h"

namespace cairn::sim {

std::string_view Network::NameOf(const Status& status) {
  return status.ok() ? "ok" : StatusCodeName(status.code());
}

Status Network::Gone(const char* verb, const std::string& about) {
  return Status::Unavailable(std::string("no answer: ") + verb + " " + about);
}

void Network::MayPause(Host* host) {
  if (world_->now_us() >= host->paused_until_us && world_->Chance(weather_->pause)) {
    world_->Count(Met::kPause);
    world_->Note(host->name, "pauses", "", "");
    host->paused_until_us =
        world_->now_us() + static_cast<int64_t>(world_->Draw(weather_->pause_us));
  }
  while (world_->now_us() < host->paused_until_us) {
    world_->SleepMicros(host->paused_until_us - world_->now_us());
    if (world_->now_us() == host->paused_until_us) world_->Note(host->name, "wakes up", "", "");
  }
}

void Network::MayCrash(Host* host) {
  if (host->dead || !world_->Chance(weather_->crash)) return;
  world_->Count(Met::kCrash);
  world_->Note(host->name, "crashes", "", "");
  host->dead = true;
}

Network::Fate Network::Begin(Host* host, bool write, const char* verb, const std::string& about) {
  if (host->dead || world_->stopped()) return Fate::kNotSent;
  MayPause(host);
  MayCrash(host);
  if (host->dead || world_->stopped()) return Fate::kNotSent;
  if (world_->Chance(weather_->cut_off)) {
    world_->Count(Met::kCutOff);
    host->cut_off_until_us =
        world_->now_us() + static_cast<int64_t>(world_->Draw(weather_->pause_us));
    world_->Note(host->name, "is cut off", "", "");
  }
  Fate fate = Fate::kDone;
  if (world_->now_us() < host->cut_off_until_us || world_->Chance(weather_->lost_before)) {
    world_->Count(Met::kLostBefore);
    fate = Fate::kLostBefore;
  } else if (world_->Chance(weather_->lost_after)) {
    world_->Count(Met::kLostAfter);
    fate = Fate::kLostAfter;
  } else if (write && world_->Chance(weather_->late)) {
    fate = Fate::kLate;
  }
  if (fate != Fate::kDone) {
    world_->Note(host->name, verb, about,
                 fate == Fate::kLostBefore  ? "request lost"
                 : fate == Fate::kLostAfter ? "answer will be lost"
                                            : "request is late");
  }
  return fate;
}

bool Network::End(Host* host, bool lose_answer) {
  MayCrash(host);  // after the effect, before the caller knows
  world_->SleepMicros(lose_answer ? weather_->timeout_us : Delay());
  MayPause(host);
  return !lose_answer && !host->dead && !world_->stopped();
}

void Network::SendLate(std::string who, const char* verb, std::string about,
                       std::function<Status()> effect) {
  const auto after = static_cast<int64_t>(world_->Draw(weather_->late_us));
  world_->After(after, [this, who = std::move(who), verb, about = std::move(about),
                        effect = std::move(effect)] {
    const Status status = effect();
    if (status.code() == StatusCode::kFenced) world_->Count(Met::kLateSwapRefused);
    world_->Note(who, verb, about, std::string("late, ").append(NameOf(status)));
  });
}

void Network::Idle(Host* host, int64_t us) {
  MayPause(host);
  MayCrash(host);
  world_->SleepMicros(static_cast<int64_t>(world_->Draw(static_cast<uint64_t>(us) + 1)));
}

}  // namespace cairn::sim
