// SPDX-License-Identifier: Apache-2.0
//
// Runs the fuzz targets over what was found (testdata/fuzz) and over random damage.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "connectors/fuzz_targets.h"

namespace cairn::connectors {
namespace {

void Replay(const std::string& target, const std::function<void(std::string_view)>& run) {
  size_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator("testdata/fuzz/" + target)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream in(entry.path(), std::ios::binary);
    run(std::string(std::istreambuf_iterator<char>(in), {}));
    ++inputs;
  }
  EXPECT_GT(inputs, 0U);
}

TEST(FuzzReplay, NdjsonLines) {
  Replay("ndjson_lines", [](std::string_view bytes) { FuzzLines(bytes, "ndjson"); });
}
TEST(FuzzReplay, CsvLines) {
  Replay("csv_lines", [](std::string_view bytes) { FuzzLines(bytes, "csv"); });
}
TEST(FuzzReplay, SplitPositions) { Replay("split_position", FuzzSplitPosition); }

/// Some bytes of `text` overwritten, removed, doubled or swapped for ones that mean something.
std::string Damaged(std::string text, std::mt19937_64* random) {
  const std::string letters = "\"\\{}[]:,\n\r\t 01e-.ntf\xC3\xA9\xFF";
  for (uint64_t edits = (*random)() % 5; edits > 0 && !text.empty(); --edits) {
    const size_t at = (*random)() % text.size();
    switch ((*random)() % 4) {
      case 0:
        text[at] = letters[(*random)() % letters.size()];
        break;
      case 1:
        text.erase(at, 1 + (*random)() % 5);
        break;
      case 2:
        text.insert(at, 1, letters[(*random)() % letters.size()]);
        break;
      default:
        text.insert(at, text.substr((*random)() % text.size(), (*random)() % 60));
    }
  }
  return text;
}

void DamageRows(const std::string& format) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));  // a failed check aborts
  std::mt19937_64 random(seed);
  const bool csv = format == "csv";
  std::string text = csv ? "b,a,o,s,d\n" : "";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i * 37);
    text += csv ? "\"q,\n\"\"" + n + "\"," + n + ",true,2020-01-02 03:04:05," + n + ".5\r\n"
                : R"({"a":)" + n + R"(,"b":"\"é\u00e9","o":true,"s":"2020-01-02 03:04:05","d":)" +
                      n + ".5,\"x\":[{}]}\n";
  }
  for (int i = 0; i < 150; ++i) {
    const std::string damaged = Damaged(text, &random);
    FuzzLines(damaged, format);
  }
}

TEST(FuzzDamage, NdjsonRowsDoNotDependOnTheSplits) { DamageRows("ndjson"); }
TEST(FuzzDamage, CsvRowsDoNotDependOnTheSplits) { DamageRows("csv"); }

}  // namespace
}  // namespace cairn::connectors
