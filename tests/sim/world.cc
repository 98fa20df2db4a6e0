// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace cairn::sim {
namespace {

/// More than any schedule needs: one that passes it does not end.
constexpr uint64_t kEventsMax = 200'000;

[[noreturn]] void Abort(const char* why) {
  std::fprintf(stderr, "simulation: %s\n", why);
  std::abort();
}

}  // namespace

std::string_view MetName(Met met) {
  static constexpr std::string_view kNames[] = {
      "commits",         "attempts given up", "takeovers",    "crashes",       "pauses",
      "zombies fenced",  "requests lost",     "answers lost", "requests late", "late swaps refused",
      "cut off",         "stale lists",       "in doubt",     "recoveries",    "fresh starts",
      "objects deleted", "leases waited for"};
  static_assert(std::size(kNames) == static_cast<size_t>(Met::kCount));
  return kNames[static_cast<size_t>(met)];
}

World::World(uint64_t seed, bool keep_trace) : bits_(seed), keep_trace_(keep_trace) {}

World::~World() = default;

// SplitMix64: any seed, also 0, 1, 2, gives a sequence of its own.
uint64_t World::NextBits() {
  bits_ += 0x9e3779b97f4a7c15u;
  uint64_t z = bits_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t World::Draw(uint64_t below) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(NextBits()) * below >> 64);
}

void World::Push(Event event) {
  event.order = NextBits();
  heap_.push_back(std::move(event));
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void World::Spawn(std::function<void()> body) {
  fibers_.push_back(std::make_unique<Fiber>(std::move(body)));
  Push({now_us_, 0, fibers_.back().get(), nullptr});
}

void World::After(int64_t after_us, std::function<void()> event) {
  Push({now_us_ + std::max<int64_t>(after_us, 0), 0, nullptr, std::move(event)});
}

void World::SleepMicros(int64_t us) {
  Push({now_us_ + std::max<int64_t>(us, 0), 0, running_, nullptr});
  running_->Pause();
}

void World::Run() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    now_us_ = event.at_us;
    if (++events_ == kEventsMax) Violate("the schedule does not end");
    if (events_ == 2 * kEventsMax) Abort("the actors do not end after a violation");
    if (event.fiber != nullptr) {
      running_ = event.fiber;
      event.fiber->Resume();
      running_ = nullptr;
    } else if (!stopped()) {
      event.call();
    }
  }
  for (const auto& fiber : fibers_) {
    if (!fiber->done()) Abort("an actor waits for nothing");
  }
  fibers_.clear();
}

void World::Note(std::string_view who, std::string_view what, std::string_view about,
                 std::string_view outcome) {
  for (const std::string_view part : {who, what, about, outcome}) {
    trace_hash_ = XXH3_64bits_withSeed(part.data(), part.size(), trace_hash_ + part.size());
  }
  trace_hash_ ^= static_cast<uint64_t>(now_us_);
  if (!keep_trace_) return;
  char time[32];
  std::snprintf(time, sizeof(time), "%12.6f ", static_cast<double>(now_us_) / 1e6);
  std::string line = time;
  line.append(who).append("  ").append(what).append(" ").append(about);
  if (!outcome.empty()) line.append(": ").append(outcome);
  trace_.push_back(std::move(line));
}

void World::Violate(std::string what) {
  Note("", "VIOLATION", what, "");
  if (violation_.empty()) violation_ = std::move(what);
}

}  // namespace cairn::sim
