// SPDX-License-Identifier: Apache-2.0
//
// The simulation finds what it is there for: each planted bug within a bounded number of schedules,
// in a way that its line repeats.
#include "planted_bug.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "schedule.h"

namespace cairn::sim {
namespace {

constexpr uint64_t kSchedulesMax = 2000;

struct Planted {
  PlantedBugName bug;
  Profile profile;
};

std::vector<Planted> AllPlanted() {
  std::vector<Planted> all;
  for (const PlantedBugName& bug : kPlantedBugs) {
    all.push_back({bug, Profile::kOneProcess});
    if (bug.in_cluster) all.push_back({bug, Profile::kCluster});
  }
  return all;
}

class PlantedBugTest : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedBugTest, IsFoundAndItsSeedFindsItAgain) {
  ScheduleOptions options;
  options.bug = GetParam().bug.bug;
  options.profile = GetParam().profile;
  const ScheduleOptions without{.profile = options.profile};
  for (uint64_t seed = 1; seed <= kSchedulesMax; ++seed) {
    const ScheduleOutcome found = RunSchedule(seed, options);
    if (found.violation.empty()) continue;
    std::printf("seed %lu: %s\nreplay: %s\n", seed, found.violation.c_str(),
                ReplayLine(seed, options).c_str());
    options.keep_trace = true;
    const ScheduleOutcome again = RunSchedule(seed, options);
    EXPECT_EQ(again.violation, found.violation);
    EXPECT_EQ(again.trace_hash, found.trace_hash);
    EXPECT_EQ(RunSchedule(seed, without).violation, "") << "it fails without the bug, too";
    return;
  }
  FAIL() << "not found in " << kSchedulesMax << " schedules";
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedBugTest, ::testing::ValuesIn(AllPlanted()),
                         [](const auto& info) {
                           std::string name(info.param.bug.name);
                           name.append("_").append(ProfileName(info.param.profile));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cairn::sim
