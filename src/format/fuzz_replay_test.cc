// SPDX-License-Identifier: Apache-2.0
//
// Replays every file of testdata/fuzz/<target> and random damage of good inputs, without libFuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/fuzz_replay.h"
#include "format/fuzz_targets.h"

namespace cairn::format {
namespace {

namespace fs = std::filesystem;

TEST(FuzzReplay, FindsInputsForEveryTarget) {
  for (const FuzzTarget& target : kFuzzTargets) {
    EXPECT_FALSE(base::FilesOf(fs::path("testdata/fuzz") / target.name).empty()) << target.name;
  }
}

TEST(FuzzReplay, SurvivesEveryKeptInput) {
  for (const FuzzTarget& target : kFuzzTargets) {
    for (const std::string& bytes : base::FilesOf(fs::path("testdata/fuzz") / target.name)) {
      target.run(bytes);
    }
  }
}

TEST(FuzzReplay, SurvivesRandomDamageOfGoodInputs) {
  std::mt19937_64 random(base::ReplaySeed());
  const std::vector<std::string> golden = base::FilesOf("testdata/format/v1");
  ASSERT_FALSE(golden.empty());
  for (const FuzzTarget& target : kFuzzTargets) {
    std::vector<std::string> inputs = base::FilesOf(fs::path("testdata/fuzz") / target.name);
    inputs.insert(inputs.end(), golden.begin(), golden.end());
    for (int round = 0; round < 4000; ++round) {
      target.run(base::Damage(inputs[random() % inputs.size()], &random));
    }
  }
}

}  // namespace
}  // namespace cairn::format
