// SPDX-License-Identifier: Apache-2.0
//
// The simulation finds what it is there for: each planted bug within a bounded number of schedules,
// in a way that its line repeats.
#include "planted_bug.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "schedule.h"

namespace cairn::sim {
namespace {

constexpr uint64_t kSchedulesMax = 2000;

class PlantedBugTest : public ::testing::TestWithParam<PlantedBugName> {};

TEST_P(PlantedBugTest, IsFoundAndItsSeedFindsItAgain) {
  const PlantedBug bug = GetParam().bug;
  for (uint64_t seed = 1; seed <= kSchedulesMax; ++seed) {
    const ScheduleOutcome found = RunSchedule(seed, {.bug = bug});
    if (found.violation.empty()) continue;
    std::printf("%s: seed %lu: %s\nreplay: %s\n", GetParam().name.data(), seed,
                found.violation.c_str(), ReplayLine(seed, bug).c_str());
    const ScheduleOutcome again = RunSchedule(seed, {.bug = bug, .keep_trace = true});
    EXPECT_EQ(again.violation, found.violation);
    EXPECT_EQ(again.trace_hash, found.trace_hash);
    EXPECT_EQ(RunSchedule(seed).violation, "") << "it fails without the bug, too";
    return;
  }
  FAIL() << GetParam().name << " is not found in " << kSchedulesMax << " schedules";
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedBugTest, ::testing::ValuesIn(kPlantedBugs),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace cairn::sim
