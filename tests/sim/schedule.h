// SPDX-License-Identifier: Apache-2.0
//
// One schedule: a seed makes a job, its weather and its machines; they run; then an undisturbed
// process comes last, and everything must be as if nothing had happened.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planted_bug.h"
#include "world.h"

namespace cairn::sim {

struct ScheduleOptions {
  PlantedBug bug = PlantedBug::kNone;
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
std::string ReplayLine(uint64_t seed, PlantedBug bug);

}  // namespace cairn::sim
