// SPDX-License-Identifier: Apache-2.0
//
// Replays every file of testdata/fuzz/<target> and random damage of good inputs, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "format/fuzz_targets.h"

namespace cairn::format {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const fs::path& directory) {
  std::vector<std::string> files;
  if (!fs::is_directory(directory)) return files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

/// CAIRN_SEED, else a fresh one; printed.
uint64_t Seed() {
  const char* given = std::getenv("CAIRN_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "seed " << seed << " (CAIRN_SEED=" << seed << " repeats it)\n";
  return seed;
}

/// Change a few bytes: overwrite, insert, remove, cut, or copy a piece elsewhere.
std::string Damage(std::string bytes, std::mt19937_64* random) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : (*random)() % limit; };
  for (size_t change = 1 + below(4); change > 0 && !bytes.empty(); --change) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>((*random)());
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2:
        bytes.insert(at, 1 + below(8), static_cast<char>((*random)()));
        break;
      case 3:
        bytes.erase(at, 1 + below(8));
        break;
      case 4:
        bytes.resize(at);
        break;
      default:
        bytes.replace(at, std::min<size_t>(8, bytes.size() - at),
                      bytes.substr(below(bytes.size()), 8));
    }
  }
  return bytes;
}

TEST(FuzzReplay, FindsInputsForEveryTarget) {
  for (const FuzzTarget& target : kFuzzTargets) {
    EXPECT_FALSE(FilesOf(fs::path("testdata/fuzz") / target.name).empty()) << target.name;
  }
}

TEST(FuzzReplay, SurvivesEveryKeptInput) {
  for (const FuzzTarget& target : kFuzzTargets) {
    for (const std::string& bytes : FilesOf(fs::path("testdata/fuzz") / target.name)) {
      target.run(bytes);
    }
  }
}

TEST(FuzzReplay, SurvivesRandomDamageOfGoodInputs) {
  std::mt19937_64 random(Seed());
  const std::vector<std::string> golden = FilesOf("testdata/format/v1");
  ASSERT_FALSE(golden.empty());
  for (const FuzzTarget& target : kFuzzTargets) {
    std::vector<std::string> inputs = FilesOf(fs::path("testdata/fuzz") / target.name);
    inputs.insert(inputs.end(), golden.begin(), golden.end());
    for (int round = 0; round < 4000; ++round) {
      target.run(Damage(inputs[random() % inputs.size()], &random));
    }
  }
}

}  // namespace
}  // namespace cairn::format
