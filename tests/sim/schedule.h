// SPDX-License-Identifier: Apache-2.0
//
// One schedule: a seed makes a job, its weather and its machines; they run; then an undisturbed
// process comes last, and everything must be as if nothing had happened.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planted_bug.h"
#include "world.h"

namespace cairn::sim {

/// Whose protocol a schedule is of.
enum class Profile : uint8_t {
  kOneProcess,  ///< at a time: checkpoint/store.h
  kCluster,     ///< several participants and a leader: checkpoint/shared
};

/// "one-process", "cluster".
std::string_view ProfileName(Profile profile);

struct ScheduleOptions {
  PlantedBug bug = PlantedBug::kNone;
  std::optional<Profile> profile;  ///< nothing = as the seed draws it
  bool keep_trace = false;
};

struct ScheduleOutcome {
  std::string violation;  ///< empty: all held
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  MetCounts met{};
  std::vector<std::string> trace;  ///< when it was kept
};

ScheduleOutcome RunSchedule(uint64_t seed, const ScheduleOptions& options = {});

/// The line that runs a schedule again and prints what happened in it.
std::string ReplayLine(uint64_t seed, const ScheduleOptions& options);

}  // namespace cairn::sim
