// SPDX-License-Identifier: Apache-2.0
//
// Replays every file of testdata/fuzz/<target> and random damage of good inputs, without libFuzzer.
#include <gtest/gtest.h>

#include <random>

#include "backend/fuzz_targets.h"
#include "base/fuzz_replay.h"

namespace cairn::backend {
namespace {

TEST(BackendFuzzReplay, SurvivesEveryKeptInput) {
  for (const FuzzTarget& target : kFuzzTargets) {
    const auto inputs = base::FilesOf(std::string("testdata/fuzz/") + target.name);
    EXPECT_FALSE(inputs.empty()) << target.name;
    for (const std::string& bytes : inputs) target.run(bytes);
  }
}

TEST(BackendFuzzReplay, SurvivesRandomDamageOfGoodInputs) {
  std::mt19937_64 random(base::ReplaySeed());
  const std::vector<std::string> golden = base::FilesOf("testdata/format/v1");
  ASSERT_FALSE(golden.empty());
  for (const FuzzTarget& target : kFuzzTargets) {
    std::vector<std::string> inputs = base::FilesOf(std::string("testdata/fuzz/") + target.name);
    inputs.insert(inputs.end(), golden.begin(), golden.end());
    for (int round = 0; round < 1000; ++round) {
      target.run(base::Damage(inputs[random() % inputs.size()], &random));
    }
  }
}

}  // namespace
}  // namespace cairn::backend
