// SPDX-License-Identifier: Apache-2.0
#include "schedule.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint/job_testing.h"

namespace cairn::sim {
namespace {

/// Schedules of one test: more in the long tier.
uint64_t HowMany(uint64_t schedules) {
  return std::getenv("CAIRN_LONG") != nullptr ? schedules * 60 : schedules;
}

/// Run `count` schedules from `seed` on; what they met.
MetCounts MustHold(uint64_t seed, uint64_t count) {
  MetCounts met{};
  for (uint64_t i = 0; i < count; ++i) {
    const ScheduleOutcome outcome = RunSchedule(seed + i);
    EXPECT_EQ(outcome.violation, "") << "replay: " << ReplayLine(seed + i, {});
    if (!outcome.violation.empty()) break;
    for (size_t kind = 0; kind < met.size(); ++kind) met[kind] += outcome.met[kind];
  }
  return met;
}

TEST(ScheduleTest, ASeedRepeatsAScheduleToTheLastCall) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const ScheduleOutcome first = RunSchedule(seed);
    const ScheduleOutcome second = RunSchedule(seed);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_NE(first.trace_hash, RunSchedule(seed + 1).trace_hash) << "seed " << seed;
  }
}

TEST(ScheduleTest, KeepingTheTraceChangesNothing) {
  const ScheduleOutcome traced = RunSchedule(7, {.keep_trace = true});
  EXPECT_EQ(traced.trace_hash, RunSchedule(7).trace_hash);
  EXPECT_GT(traced.trace.size(), 20u);
}

// Fixed seeds, so that a run that meets less than it should is one that was changed.
TEST(ScheduleTest, EveryScheduleOfTheFixedSeedsHoldsAndEveryKindOfFaultIsMet) {
  const MetCounts met = MustHold(1, HowMany(300));
  for (size_t kind = 0; kind < met.size(); ++kind) {
    EXPECT_GT(met[kind], 0u) << MetName(static_cast<Met>(kind));
  }
}

TEST(ScheduleTest, EveryScheduleOfANewSeedHolds) {
  MustHold(checkpoint::testing::TestSeed(), HowMany(300));
}

}  // namespace
}  // namespace cairn::sim
