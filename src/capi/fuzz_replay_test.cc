// SPDX-License-Identifier: Apache-2.0
//
// Replays the scripts of testdata/fuzz/c_api and random damage of them, without libFuzzer.
#include <gtest/gtest.h>

#include <random>

#include "base/fuzz_replay.h"
#include "capi/fuzz_targets.h"

namespace cairn::capi {
namespace {

TEST(CApiFuzzReplay, SurvivesEveryKeptScriptAndRandomOnes) {
  const auto scripts = base::FilesOf("testdata/fuzz/c_api");
  ASSERT_FALSE(scripts.empty());
  for (const std::string& script : scripts) FuzzCApi(script);
  std::mt19937_64 random(base::ReplaySeed());
  for (int round = 0; round < 500; ++round) {
    FuzzCApi(base::Damage(scripts[random() % scripts.size()], &random));
  }
}

}  // namespace
}  // namespace cairn::capi
