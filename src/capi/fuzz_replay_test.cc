// SPDX-License-Identifier: Apache-2.0
//
// Replays the scripts of testdata/fuzz/c_api and random damage of them, without libFuzzer.
#include <gtest/gtest.h>

#include <random>

#include "capi/fuzz_targets.h"
#include "format/fuzz_replay.h"

namespace cairn::capi {
namespace {

TEST(CApiFuzzReplay, SurvivesEveryKeptScriptAndRandomOnes) {
  const auto scripts = format::FilesOf("testdata/fuzz/c_api");
  ASSERT_FALSE(scripts.empty());
  for (const std::string& script : scripts) FuzzCApi(script);
  std::mt19937_64 random(format::ReplaySeed());
  for (int round = 0; round < 500; ++round) {
    FuzzCApi(format::Damage(scripts[random() % scripts.size()], &random));
  }
}

}  // namespace
}  // namespace cairn::capi
