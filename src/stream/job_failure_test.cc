// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints that fail, time out or are in doubt: what a job loses by it, which is nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "env/manual_clock.h"
#include "stream/test_job.h"

namespace cairn::stream {
namespace {

using testing::ExpectConsistentCuts;
using testing::Gate;
using ::testing::HasSubstr;
using testing::MemoryStore;
using testing::RunBeside;
using testing::TestJob;
using testing::UpTo;

TEST(Job, AFailedPersistHandsItsDescriptorsToTheNextCheckpoint) {
  TestJob job;
  job.sources[0]->HoldOpen();
  MemoryStore store;
  Gate failed;
  store.on_persist = [&](base::CheckpointId id) {
    if (id.value != 1) return Status();
    failed.Open();
    return Status::ResourceExhausted("disk full");
  };
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    coordinator->RequestCheckpoint();
    failed.Wait();
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->progress.checkpoints_failed, 1u);
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
  ExpectConsistentCuts(store, *job.sink);
  ASSERT_THAT(job.log, ::testing::Contains(HasSubstr("disk full")));
}

TEST(Job, APersistThatFailsForAMomentIsTriedAgainUnderAnotherId) {
  TestJob job;
  job.options.coordinator.persist_retries = 3;
  job.options.coordinator.retry_wait_ms = 1;
  MemoryStore store;
  std::vector<uint64_t> tried;
  store.on_persist = [&](base::CheckpointId id) {
    tried.push_back(id.value);
    return tried.size() < 4 ? Status::Unavailable("upload cut") : Status();
  };
  const auto outcome = job.Run(&store);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_THAT(tried, ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(outcome->progress.checkpoints_failed, 0u);
  EXPECT_EQ(outcome->progress.checkpoint, base::CheckpointId(4));
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
  ExpectConsistentCuts(store, *job.sink);
  EXPECT_THAT(job.log, ::testing::Contains(HasSubstr("upload cut")));
}

TEST(Job, APersistThatKeepsFailingLeavesItsChangesToTheNextCheckpoint) {
  TestJob job;
  job.options.coordinator.persist_retries = 2;
  job.options.coordinator.retry_wait_ms = 1;
  job.sources[0]->HoldOpen();
  MemoryStore store;
  Gate failed;
  std::atomic<int> tries{0};
  store.on_persist = [&](base::CheckpointId) {
    if (++tries > 3) return Status();
    if (tries == 3) failed.Open();
    return Status::Unavailable("no route");
  };
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    coordinator->RequestCheckpoint();
    failed.Wait();
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->progress.checkpoints_failed, 1u);
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
  ExpectConsistentCuts(store, *job.sink);
}

TEST(Job, AFaultThatNoLaterCheckpointMendsEndsTheJob) {
  for (const Status& fault :
       {Status::Internal("manifest breaks a rule"), Status::Corruption("frame does not decode")}) {
    TestJob job;
    job.sources[0]->HoldOpen();  // only a failure can end it
    MemoryStore store;
    store.on_persist = [&](base::CheckpointId) { return fault; };
    const auto outcome =
        RunBeside(&job, &store, [](Coordinator* coordinator) { coordinator->RequestCheckpoint(); });
    EXPECT_EQ(outcome.status().code(), fault.code());
    EXPECT_THAT(outcome.status().message(), HasSubstr(std::string(fault.message())));
    EXPECT_TRUE(job.sink->visible().empty());
  }
}

TEST(Job, AFailedDecisionLeavesItsRowsForTheNextCheckpoint) {
  TestJob job;
  job.sources[0]->HoldOpen();
  MemoryStore store;
  Gate failed;
  store.on_commit = [&](base::CheckpointId id) {
    if (id.value != 1) return Status();
    failed.Open();
    return Status::Unavailable("no answer");
  };
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    coordinator->RequestCheckpoint();
    failed.Wait();
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
}

TEST(Job, ADecisionInDoubtFailsTheJobAtOnce) {
  TestJob job;
  job.sources[0]->HoldOpen();  // only a failure can end it
  MemoryStore store;
  store.on_commit = [&](base::CheckpointId) {
    store.Latch();
    return Status::Unavailable("no answer");
  };
  const auto outcome =
      RunBeside(&job, &store, [](Coordinator* coordinator) { coordinator->RequestCheckpoint(); });
  EXPECT_EQ(outcome.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(job.sink->visible().empty());
}

TEST(Job, APersistThatOutlastsTheTimeoutIsAbandoned) {
  TestJob job;
  job.sources[0]->HoldOpen();
  env::ManualClock clock;
  job.options.coordinator.clock = &clock;
  MemoryStore store;
  Gate late;
  store.on_persist = [&](base::CheckpointId id) {
    if (id.value == 1) clock.Advance(job.options.coordinator.timeout_ms + 1);
    late.Open();
    return Status();
  };
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    coordinator->RequestCheckpoint();
    late.Wait();
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(store.abandoned(), 1);
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
}

TEST(Job, AFencedStoreFailsTheJobAndPublishesNothing) {
  TestJob job;
  MemoryStore store;
  store.on_commit = [](base::CheckpointId) { return Status::Fenced("another process"); };
  const auto outcome = job.Run(&store);
  EXPECT_EQ(outcome.status().code(), StatusCode::kFenced);
  EXPECT_TRUE(job.sink->visible().empty());
}

TEST(Job, TheLastCheckpointsFailureIsTheJobs) {
  TestJob job;
  MemoryStore store;
  store.on_persist = [](base::CheckpointId) { return Status::ResourceExhausted("disk full"); };
  const auto outcome = job.Run(&store);
  EXPECT_EQ(outcome.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("last checkpoint"));
  EXPECT_TRUE(job.sink->visible().empty());
}

TEST(Job, ARefusedSinkCommitFailsTheJobAndTheNextRunPublishesOnce) {
  TestJob job;
  MemoryStore store;
  job.sink->RefuseCommit(true);
  const auto refused = job.Run(&store);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(job.sink->visible().empty());
  job.sink->RefuseCommit(false);
  const auto again = job.Run(&store);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(again->nothing_new);
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
}

TEST(Job, ATimedOutAlignmentIsGivenUpAndItsRowsGoIntoTheNextCheckpoint) {
  TestJob job;
  job.sources[0]->HoldOpen();
  env::ManualClock clock;
  job.options.coordinator.clock = &clock;
  job.options.coordinator.timeout_ms = 1000;
  Gate stuck;
  Gate let_go;
  job.function = [&](const Batch&, uint32_t) {
    stuck.Open();
    let_go.Wait();
    return Status();
  };
  Gate given_up;
  job.control.log = [&](LogLevel, const std::string& line) {
    if (line.find("failed") != std::string::npos) given_up.Open();
  };
  MemoryStore store;
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    stuck.Wait();
    coordinator->RequestCheckpoint();
    while (!given_up.IsOpen()) {
      clock.Advance(500);
      coordinator->Wake();
      std::this_thread::yield();
    }
    let_go.Open();
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->progress.checkpoints_failed, 1u);
  ASSERT_EQ(store.cuts().size(), 1u);
  // The barrier of the attempt that was given up still came; its rows are pieces of the next cut.
  EXPECT_EQ(store.cuts()[0]->sinks()[0].pieces[0].checkpoint, base::CheckpointId(1));
  ExpectConsistentCuts(store, *job.sink);
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
}

TEST(Job, RandomFailuresOfAttemptsNeitherLoseNorRepeatARow) {
  const char* fixed = std::getenv("CAIRN_SEED");
  const uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  TestJob job({{0, 100000}, {100000, 50000}});
  job.sources[0]->HoldOpen();
  MemoryStore store;
  std::atomic<bool> calm{false};
  // Both are called by the persist thread only.
  store.on_persist = [&](base::CheckpointId) {
    return !calm && random() % 3 == 0 ? Status::Unavailable("persist failed") : Status();
  };
  store.on_commit = [&](base::CheckpointId) {
    return !calm && random() % 3 == 0 ? Status::Unavailable("no decision") : Status();
  };
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    for (size_t cuts = 1; cuts <= 100; ++cuts) {
      while (store.cuts().size() < cuts) {
        coordinator->RequestCheckpoint();
        std::this_thread::yield();
      }
    }
    calm = true;
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_GT(outcome->progress.checkpoints_failed, 0u);
  ExpectConsistentCuts(store, *job.sink);
  EXPECT_EQ(job.sink->visible(), UpTo(150000));
}
}  // namespace
}  // namespace cairn::stream
