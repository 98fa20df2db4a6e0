// SPDX-License-Identifier: Apache-2.0
//
// Replays every file of testdata/fuzz/<target> and random damage of it, without libFuzzer.
#include "base/fuzz_replay.h"

#include <gtest/gtest.h>

#include "env/fuzz_targets.h"

namespace cairn::env {
namespace {

TEST(EnvFuzzReplay, SurvivesKeptInputsAndTheirDamage) {
  std::mt19937_64 random(base::ReplaySeed());
  for (const EnvFuzzTarget& target : kEnvFuzzTargets) {
    const auto inputs = base::FilesOf(std::string("testdata/fuzz/") + target.name);
    ASSERT_FALSE(inputs.empty()) << target.name;
    for (const std::string& bytes : inputs) target.run(bytes);
    for (int round = 0; round < 2000; ++round) {
      target.run(base::Damage(inputs[random() % inputs.size()], &random));
    }
  }
}

}  // namespace
}  // namespace cairn::env
