// SPDX-License-Identifier: Apache-2.0
//
// Eight processes race for one object, over a directory and over a real S3 server: one wins, and
// every other one knows that it did not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/layout.h"
#include "processes.h"
#include "test_places.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::PlaceKind;
using testing::RunProcesses;
using testing::StartingLine;
using testing::TestPlace;

constexpr int kProcesses = 8;
constexpr int kRounds = 10;

class RaceTest : public testing::PlaceTest {
 protected:
  void SetUp() override {
    testing::PlaceTest::SetUp();
    if (IsSkipped()) return;
    place_ = std::make_unique<TestPlace>(GetParam());
  }

  /// What a process writes: never the same twice, as versions may be digests of the bytes.
  static std::string BytesOf(int process, int round) {
    return "process " + std::to_string(process) + " in round " + std::to_string(round);
  }

  /// One text is "won", and its bytes are there; every other says `refused` and why.
  void ExpectOneWinner(const std::vector<std::string>& texts, int round, const std::string& key,
                       const std::string& refused, const std::string& why) {
    int winner = -1;
    for (int i = 0; i < kProcesses; ++i) {
      if (texts[i] == "won") {
        EXPECT_EQ(winner, -1) << "processes " << winner << " and " << i << " both won";
        winner = i;
      } else {
        EXPECT_THAT(texts[i], ::testing::StartsWith(refused));
        EXPECT_THAT(texts[i], HasSubstr(why));
        EXPECT_THAT(texts[i], HasSubstr(key));
      }
    }
    ASSERT_NE(winner, -1) << "nobody won";
    EXPECT_EQ(place_->Read(key), BytesOf(winner, round));
  }

  std::unique_ptr<TestPlace> place_;
};

TEST_P(RaceTest, OfEightProcessesThatCreateOneManifestOneWins) {
  for (int round = 1; round <= kRounds; ++round) {
    const std::string key = ManifestKey(base::CheckpointId(static_cast<uint64_t>(round)));
    const auto texts = RunProcesses(kProcesses, [&](int i, const StartingLine& line) {
      const auto objects = env::OpenObjects(env::PosixFileSystem(), place_->name());
      line.Wait();
      if (!objects.ok()) return objects.status().ToString();
      const Status created = (*objects)->CreateIfAbsent(key, BytesOf(i, round));
      return created.ok() ? std::string("won") : created.ToString();
    });
    ExpectOneWinner(texts, round, key, "already exists",
                    GetParam() == PlaceKind::kS3 ? "it exists with other bytes" : "File exists");
  }
}

TEST_P(RaceTest, OfEightProcessesThatReplaceOneHeadOneWins) {
  const std::string key(kHeadKey);
  std::optional<std::string> version;  // of the round before; the first creates it
  for (int round = 0; round < kRounds; ++round) {
    const auto texts = RunProcesses(kProcesses, [&](int i, const StartingLine& line) {
      const auto objects = env::OpenObjects(env::PosixFileSystem(), place_->name());
      line.Wait();
      if (!objects.ok()) return objects.status().ToString();
      const auto swapped = (*objects)->CompareAndSwap(key, version, BytesOf(i, round));
      return swapped.ok() ? std::string("won") : swapped.status().ToString();
    });
    ExpectOneWinner(texts, round, key, "fenced", "another process has written here");
    version = place_->objects()->Get(key, 100)->version;
  }
}

// The same bytes from everybody: nobody may take another's write for its own.
TEST_P(RaceTest, OfEightProcessesThatSwapInEqualBytesOneWins) {
  for (int round = 0; round < kRounds; ++round) {
    const std::string key = "control/equal-" + std::to_string(round);
    const auto texts = RunProcesses(kProcesses, [&](int, const StartingLine& line) {
      const auto objects = env::OpenObjects(env::PosixFileSystem(), place_->name());
      line.Wait();
      if (!objects.ok()) return objects.status().ToString();
      const auto swapped = (*objects)->CompareAndSwap(key, std::nullopt, "the same");
      return swapped.ok() ? std::string("won") : swapped.status().ToString();
    });
    EXPECT_EQ(std::count(texts.begin(), texts.end(), "won"), 1);
  }
}

/// "won CHECKPOINT", or why not.
std::string OpenAndCommit(TestPlace* place, int number, const StartingLine& line) {
  testing::TestJob job;
  job.options.clock = env::SystemClock();
  job.options.random = env::SystemRandom();
  job.open = [&](const StoreOptions& options) { return place->Open(options); };
  line.Wait();
  const Status started = job.Start(1);
  if (!started.ok()) return started.ToString();
  for (int i = 0; i < 20; ++i) job.Put(0, "key" + std::to_string(i), std::to_string(number));
  const Result<PersistedCut> done = job.Checkpoint();
  return done.ok() ? "won " + std::to_string(done->id.value) : done.status().ToString();
}

// The whole of it: of jobs that start at the same moment in one place, those that cannot have it
// are told so, and what is left is a cut of one that could.
TEST_P(RaceTest, OfEightJobsThatStartInOnePlaceTheOthersAreFenced) {
  const auto texts = RunProcesses(kProcesses, [&](int i, const StartingLine& line) {
    return OpenAndCommit(place_.get(), i, line);
  });
  std::vector<std::string> winners;
  for (const std::string& text : texts) {
    if (text.starts_with("won ")) {
      winners.push_back(text);
    } else {
      EXPECT_THAT(text, ::testing::StartsWith("fenced"));
      EXPECT_THAT(text, HasSubstr("process"));
    }
  }
  ASSERT_FALSE(winners.empty());
  std::sort(winners.begin(), winners.end());
  EXPECT_EQ(std::adjacent_find(winners.begin(), winners.end()), winners.end())
      << "one id was given out twice";
  testing::TestJob job;
  job.options.clock = env::SystemClock();
  job.open = [&](const StoreOptions& options) { return place_->Open(options); };
  ASSERT_TRUE(job.Start(1).ok());
  const testing::Rows rows = job.Contents(0);
  ASSERT_EQ(rows.size(), 20u);
  const auto other = [&](const auto& row) { return row.second != rows.begin()->second; };
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), other), 0) << "rows of two processes";
}

INSTANTIATE_TEST_SUITE_P(Places, RaceTest, ::testing::Values(PlaceKind::kDirectory, PlaceKind::kS3),
                         testing::PlaceName);

}  // namespace
}  // namespace cairn::checkpoint
