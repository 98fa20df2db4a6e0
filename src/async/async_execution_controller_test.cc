// SPDX-License-Identifier: Apache-2.0
#include "cairn/async_execution_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/async_testing.h"
#include "base/hash.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A runner without threads: its reads are made in an order the seed picks.
class SimulatedRunner {
 public:
  explicit SimulatedRunner(size_t max_in_flight = 6000, uint64_t seed = 1)
      : io(seed),
        queue(std::make_shared<ResumeQueue>(
            ResumeQueueOptions{.wake = {}, .idle = [this] { return io.RunOne(); }})),
        controller({.max_in_flight = max_in_flight,
                    .queue = queue.get(),
                    .reads = nullptr,
                    .on_watermark = [this](int64_t watermark) {
                      watermarks.push_back(watermark);
                      return on_watermark ? on_watermark(watermark) : Status();
                    }}) {}

  /// Wait for a read that ends with `status`.
  AsyncTask<Status> Read(Status status = {}) {
    IoRead read(&io, queue, kNoDeadline, [status] { return status; });
    co_return co_await read;
  }

  /// Wait, then append to the text of `key`.
  AsyncTask<Status> Append(std::string key, std::string word) {
    const std::string before = state[key];
    Status status = co_await Read();
    state[key] = before + word;
    co_return status;
  }
  Status SubmitAppend(const std::string& key, const std::string& word) {
    return controller.Submit(key, [this, key, word] { return Append(key, word); });
  }

  async::SimulatedIo io;
  std::shared_ptr<ResumeQueue> queue;
  std::map<std::string, std::string> state;
  std::vector<int64_t> watermarks;
  std::function<Status(int64_t)> on_watermark;
  AsyncExecutionController controller;
};

TEST(AsyncExecutionController, RunsRecordsOfAKeyInTurnAndShowsEachWhatTheLastWrote) {
  SimulatedRunner runner;
  for (const char* word : {"a", "b", "c", "d"}) ASSERT_TRUE(runner.SubmitAppend("k", word).ok());
  EXPECT_EQ(runner.io.waiting(), 1u);  // the others have not begun
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_EQ(runner.state["k"], "abcd");
}

TEST(AsyncExecutionController, OverlapsRecordsOfDistinctKeys) {
  SimulatedRunner runner;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(runner.SubmitAppend("k" + std::to_string(i), "x").ok());
  }
  EXPECT_EQ(runner.io.waiting(), 10u);
  EXPECT_EQ(runner.controller.in_flight(), 10u);
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_EQ(runner.controller.completed(), 10u);
}

TEST(AsyncExecutionController, RefusesARecordOverTheCapAndTakesItAfterWaitingForRoom) {
  SimulatedRunner runner(/*max_in_flight=*/3);
  // One key in the middle of an epoch: all three are in flight, one runs.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(runner.SubmitAppend("k", "x").ok());
  const Status refused = runner.SubmitAppend("k", "y");
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.ToString(), HasSubstr("cap of 3"));
  ASSERT_TRUE(runner.controller.WaitForRoom().ok());
  ASSERT_TRUE(runner.SubmitAppend("k", "y").ok());
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_EQ(runner.state["k"], "xxxy");
}

TEST(AsyncExecutionController, ReleasesAWatermarkWhenItsEpochHasEndedAndNotBefore) {
  SimulatedRunner runner;
  ASSERT_TRUE(runner.controller.Watermark(5).ok());
  EXPECT_THAT(runner.watermarks, ElementsAre(5));  // nothing was before it
  ASSERT_TRUE(runner.SubmitAppend("a", "x").ok());
  ASSERT_TRUE(runner.controller.Watermark(10).ok());
  EXPECT_THAT(runner.watermarks, ElementsAre(5));
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_THAT(runner.watermarks, ElementsAre(5, 10));
}

TEST(AsyncExecutionController, ReleasesWatermarksInTheOrderOfTheirEpochs) {
  SimulatedRunner runner;
  bool open = false;
  // The record of the first epoch ends last: it reads until the gate is open.
  const auto read_until_open = [&]() -> AsyncTask<Status> {
    while (!open) {
      Status read = co_await runner.Read();
      if (!read.ok()) co_return read;
    }
    co_return Status();
  };
  ASSERT_TRUE(runner.controller.Submit("slow", read_until_open).ok());
  ASSERT_TRUE(runner.controller.Watermark(1).ok());
  ASSERT_TRUE(runner.SubmitAppend("fast", "x").ok());
  ASSERT_TRUE(runner.controller.Watermark(2).ok());
  while (runner.state["fast"].empty()) {
    ASSERT_TRUE(runner.io.RunOne());
    ASSERT_TRUE(runner.controller.Poll().ok());
  }
  EXPECT_THAT(runner.watermarks, IsEmpty());
  open = true;
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_THAT(runner.watermarks, ElementsAre(1, 2));
}

TEST(AsyncExecutionController, LetsAReleasedWatermarkSubmitRecordsOfTheNextEpoch) {
  SimulatedRunner runner;
  runner.on_watermark = [&](int64_t watermark) {
    return watermark == 1 ? runner.SubmitAppend("timer", "fired") : Status();
  };
  ASSERT_TRUE(runner.SubmitAppend("a", "x").ok());
  ASSERT_TRUE(runner.controller.Watermark(1).ok());
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_EQ(runner.state["timer"], "fired");
  EXPECT_EQ(runner.controller.in_flight(), 0u);
}

TEST(AsyncExecutionController, RefusesToDrainInsideOfAReleasedWatermark) {
  SimulatedRunner runner;
  runner.on_watermark = [&](int64_t) {
    Status submitted = runner.SubmitAppend("b", "x");
    return submitted.ok() ? runner.controller.Drain() : submitted;
  };
  ASSERT_TRUE(runner.SubmitAppend("a", "x").ok());
  ASSERT_TRUE(runner.controller.Watermark(1).ok());
  EXPECT_EQ(runner.controller.Drain().code(), StatusCode::kInvalidArgument);
}

TEST(AsyncExecutionController, DrainsEveryRecordBeforeABarrier) {
  SimulatedRunner runner;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(runner.SubmitAppend("k" + std::to_string(i % 7), std::to_string(i) + " ").ok());
  }
  ASSERT_TRUE(runner.controller.Watermark(1).ok());
  ASSERT_TRUE(runner.controller.Drain().ok());
  const std::map<std::string, std::string> snapshot = runner.state;
  EXPECT_EQ(runner.controller.in_flight(), 0u);
  EXPECT_EQ(runner.io.waiting(), 0u);
  EXPECT_THAT(runner.watermarks, ElementsAre(1));
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 200; ++i) expected["k" + std::to_string(i % 7)] += std::to_string(i) + " ";
  EXPECT_EQ(snapshot, expected);
}

TEST(AsyncExecutionController, FailsWithTheErrorOfARead) {
  SimulatedRunner runner;
  ASSERT_TRUE(runner.SubmitAppend("good", "x").ok());
  ASSERT_TRUE(
      runner.controller
          .Submit("bad\x01", [&] { return runner.Read(Status::Unavailable("503 slow down")); })
          .ok());
  ASSERT_TRUE(runner.controller.Watermark(1).ok());
  const Status failed = runner.controller.Drain();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.ToString(), HasSubstr("record with key 'bad\\x01': 503 slow down"));
  EXPECT_THAT(runner.watermarks, IsEmpty());
  EXPECT_EQ(runner.SubmitAppend("later", "x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(runner.controller.Poll().code(), StatusCode::kUnavailable);
  EXPECT_EQ(runner.controller.Drain().code(), StatusCode::kUnavailable);
  EXPECT_EQ(runner.controller.Watermark(2).code(), StatusCode::kUnavailable);
}

TEST(AsyncExecutionController, AccountsForARecordThatThrows) {
  for (const bool inside : {false, true}) {
    SimulatedRunner runner;
    ASSERT_TRUE(runner.SubmitAppend("other", "x").ok());
    const auto in_the_body = []() -> AsyncTask<Status> {
      throw std::runtime_error("no state for this slot");
      co_return Status();
    };
    const auto record = [&]() -> AsyncTask<Status> {
      if (!inside) throw std::runtime_error("no state for this slot");
      return in_the_body();
    };
    const Status status = runner.controller.Submit("k", record);
    EXPECT_EQ(status.code(), StatusCode::kInternal) << inside;
    EXPECT_THAT(status.ToString(), HasSubstr("no state for this slot"));
    EXPECT_EQ(runner.controller.in_flight(), 1u) << "only the other record is left";
  }
}

TEST(AsyncExecutionController, BeginsNoRecordAfterOneOfItsKeyFailed) {
  SimulatedRunner runner;
  bool began = false;
  ASSERT_TRUE(
      runner.controller.Submit("k", [&] { return runner.Read(Status::Corruption("bad checksum")); })
          .ok());
  ASSERT_TRUE(runner.controller
                  .Submit("k",
                          [&] {
                            began = true;
                            return runner.Read();
                          })
                  .ok());
  EXPECT_EQ(runner.controller.Drain().code(), StatusCode::kCorruption);
  EXPECT_FALSE(began);
}

TEST(AsyncExecutionController, FailsWhenReadsAreGivenUpAtShutdown) {
  SimulatedRunner runner;
  ASSERT_TRUE(runner.SubmitAppend("k", "x").ok());
  runner.io.CancelAll();
  EXPECT_EQ(runner.controller.Drain().code(), StatusCode::kCancelled);
}

TEST(AsyncExecutionController, FailsWhenAWatermarkCannotBePassedOn) {
  SimulatedRunner runner;
  runner.on_watermark = [](int64_t) -> Status { throw std::runtime_error("downstream is gone"); };
  const Status status = runner.controller.Watermark(1);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.ToString(), HasSubstr("downstream is gone"));
}

TEST(AsyncExecutionController, RefusesARecordWithoutATask) {
  SimulatedRunner runner;
  EXPECT_EQ(runner.controller.Submit("k", [] { return AsyncTask<Status>(); }).code(),
            StatusCode::kInvalidArgument);
}

TEST(AsyncExecutionController, MayBeCancelledWithReadsUnderWay) {
  SimulatedRunner runner;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(runner.SubmitAppend("k" + std::to_string(i), "x").ok());
  ASSERT_TRUE(runner.SubmitAppend("k1", "y").ok());
  ASSERT_TRUE(runner.io.RunOne());
  runner.controller.Cancel();
  EXPECT_EQ(runner.controller.in_flight(), 0u);
  while (runner.io.RunOne()) {
  }
  runner.queue->RunReady();
  for (const auto& [key, text] : runner.state) EXPECT_EQ(text, "") << key;
  EXPECT_EQ(runner.SubmitAppend("k", "x").code(), StatusCode::kCancelled);
}

TEST(AsyncExecutionController, EndsALongRunOfOneKeyWithoutRecursion) {
  SimulatedRunner runner(/*max_in_flight=*/1'000'000);
  // The first waits; the rest, which resolve at once, end in one go after it.
  ASSERT_TRUE(runner.controller.Submit("k", [&] { return runner.Read(); }).ok());
  uint64_t sum = 0;
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(runner.controller
                    .Submit("k",
                            [&sum]() -> AsyncTask<Status> {
                              ++sum;
                              co_return Status();
                            })
                    .ok());
  }
  ASSERT_TRUE(runner.controller.Drain().ok());
  EXPECT_EQ(sum, 200'000u);
}

uint64_t SeedOfRun() {
  const char* text = std::getenv("CAIRN_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261130;
}

/// Random records, watermarks, polls and barriers. Returns a hash of all that happened.
uint64_t RunAtRandom(uint64_t seed) {
  std::mt19937_64 random(seed);
  SimulatedRunner runner(/*max_in_flight=*/1 + random() % 50, seed);
  std::map<std::string, std::string> expected;
  std::string trace;
  int64_t watermark = 0;
  size_t submitted = 0;
  std::map<int64_t, size_t> before_watermark;  // records submitted before it
  runner.on_watermark = [&](int64_t released) {
    EXPECT_GE(runner.controller.completed(), before_watermark[released]) << "seed " << seed;
    trace += "w" + std::to_string(released);
    return Status();
  };
  for (int i = 0; i < 2000; ++i) {
    const uint64_t choice = random() % 100;
    const std::string key = "k" + std::to_string(random() % 12);
    if (choice < 80) {
      const std::string word = std::to_string(i) + " ";
      Status status = runner.SubmitAppend(key, word);
      if (status.code() == StatusCode::kResourceExhausted) {
        EXPECT_TRUE(runner.controller.WaitForRoom().ok());
        status = runner.SubmitAppend(key, word);
      }
      EXPECT_TRUE(status.ok()) << status.ToString();
      expected[key] += word;
      ++submitted;
    } else if (choice < 90) {
      before_watermark[++watermark] = submitted;
      EXPECT_TRUE(runner.controller.Watermark(watermark).ok());
    } else if (choice < 97) {
      runner.io.RunOne();
      EXPECT_TRUE(runner.controller.Poll().ok());
    } else {
      EXPECT_TRUE(runner.controller.Drain().ok());
      for (const auto& [name, text] : expected) EXPECT_EQ(runner.state[name], text);
      EXPECT_EQ(runner.watermarks.size(), static_cast<size_t>(watermark));
      trace += "b";
    }
    trace += std::to_string(runner.controller.completed()) + ",";
  }
  EXPECT_TRUE(runner.controller.Drain().ok());
  for (const auto& [name, text] : expected) EXPECT_EQ(runner.state[name], text) << "seed " << seed;
  EXPECT_TRUE(std::is_sorted(runner.watermarks.begin(), runner.watermarks.end()));
  return Fnv1a64(trace);
}

TEST(AsyncExecutionController, EqualsAModelUnderRandomDelays) {
  const uint64_t first = SeedOfRun();
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
    const uint64_t trace = RunAtRandom(seed);
    EXPECT_EQ(trace, RunAtRandom(seed)) << "the same seed must give the same run";
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace cairn
