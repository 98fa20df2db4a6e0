// SPDX-License-Identifier: Apache-2.0
//
// The runtime as a whole: real threads, sources and sinks in memory, a store that fails when told.
#include "stream/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

#include "env/manual_clock.h"
#include "stream/test_job.h"

namespace cairn::stream {
namespace {

using testing::ExpectConsistentCuts;
using testing::Gate;
using ::testing::HasSubstr;
using testing::MemoryCut;
using testing::MemorySink;
using testing::MemoryStore;
using testing::NumberSource;
using testing::RunBeside;
using testing::TestJob;
using testing::UpTo;

// --- rows ---------------------------------------------------------------------------------------

TEST(Job, EveryRowReachesTheSinkOnceAtAnyParallelism) {
  for (const uint32_t parallelism : {1u, 2u, 3u, 5u}) {
    TestJob job;
    job.parallelism = parallelism;
    MemoryStore store;
    const auto outcome = job.Run(&store);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(job.sink->visible(), UpTo(1540));
    EXPECT_EQ(outcome->progress.rows_in, 1540u);
    EXPECT_EQ(outcome->progress.rows_out, 1540u);
    EXPECT_TRUE(store.cuts().back()->ended());
  }
}

TEST(Job, RowsOfOneKeyGoToOneSubtask) {
  TestJob job;
  job.parallelism = 3;
  std::atomic<int> strays{0};
  job.function = [&](const Batch& batch, uint32_t subtask) {
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const size_t row = batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i;
      const uint32_t group = KeyGroupOf(batch.keys->key(row), kDefaultKeyGroups);
      strays += OwnerOfKeyGroup(group, 3, kDefaultKeyGroups) != subtask;
    }
    return Status();
  };
  MemoryStore store;
  ASSERT_TRUE(job.Run(&store).ok());
  EXPECT_EQ(strays, 0);
}

TEST(Job, KeysAreComputedAtParallelismOneToo) {
  TestJob job;
  job.parallelism = 1;
  std::atomic<int> without_keys{0};
  job.function = [&](const Batch& batch, uint32_t) {
    without_keys += batch.keys == nullptr;
    return Status();
  };
  MemoryStore store;
  ASSERT_TRUE(job.Run(&store).ok());
  EXPECT_EQ(without_keys, 0);
}

TEST(Job, ASlowConsumerHoldsItsSourceBack) {
  TestJob job({{0, 20000}});
  job.options.channels.rows = 100;
  std::atomic<int64_t> consumed{0};
  std::atomic<int64_t> worst{0};
  NumberSource* source = job.sources[0].get();
  job.function = [&, source](const Batch& batch, uint32_t) {
    worst = std::max(worst.load(), source->produced() - consumed.load());
    consumed += batch.num_rows();
    return Status();
  };
  MemoryStore store;
  ASSERT_TRUE(job.Run(&store).ok());
  // Two channels of 100 rows, a batch over each, one in each operator, one being read.
  EXPECT_LE(worst, 2 * (100 + 16 + 16) + 16);
}

// --- checkpoints --------------------------------------------------------------------------------

TEST(Job, EveryCutHoldsWhatItsSourcesHadReadAndNoMore) {
  for (const uint32_t parallelism : {1u, 2u, 3u}) {
    for (const bool staged : {false, true}) {
      TestJob job({{0, 3000}, {3000, 100}, {3100, 7}});
      job.sources.push_back(
          std::make_shared<NumberSource>(std::vector<NumberSource::Split>{{10000, 2000}}, 7));
      job.sources[0]->HoldOpen();
      job.parallelism = parallelism;
      job.staged = staged;
      MemoryStore store;
      const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
        for (size_t i = 1; i <= 20; ++i) {
          coordinator->RequestCheckpoint();
          store.AwaitCuts(i);
        }
        job.sources[0]->LetEnd();
      });
      ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
      ExpectConsistentCuts(store, *job.sink);
      EXPECT_EQ(job.sink->visible().size(), 5107u);
    }
  }
}

TEST(Job, RowsAreVisibleOnlyAfterTheHeadDecision) {
  TestJob job;
  MemoryStore store;
  size_t visible_at_commit = 1;
  store.on_commit = [&](base::CheckpointId) {
    visible_at_commit = job.sink->visible().size();
    return Status();
  };
  ASSERT_TRUE(job.Run(&store).ok());
  EXPECT_EQ(visible_at_commit, 0u);
  EXPECT_EQ(job.sink->visible().size(), 1540u);
}

TEST(Job, TriggersWhileACheckpointIsInFlightAreSkippedAndCounted) {
  TestJob job;
  job.sources[0]->HoldOpen();
  env::ManualClock clock;
  job.options.coordinator.clock = &clock;
  job.options.coordinator.interval_ms = 100;
  job.control.progress_interval_ms = 0;
  std::atomic<uint64_t> skipped{0};
  job.control.on_progress = [&](const JobProgress& p) { skipped = p.checkpoints_skipped; };
  Gate persisting;
  Gate let_go;
  MemoryStore store;
  store.on_persist = [&](base::CheckpointId) {
    persisting.Open();
    let_go.Wait();
    return Status();
  };
  std::atomic<uint64_t> committed_while_held{99};
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    coordinator->RequestCheckpoint();
    persisting.Wait();
    while (skipped < 3) {
      clock.Advance(100);
      coordinator->Wake();
      std::this_thread::yield();
    }
    committed_while_held = store.cuts().size();
    let_go.Open();
    job.sources[0]->LetEnd();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(committed_while_held, 0u);
  EXPECT_GE(outcome->progress.checkpoints_skipped, 3u);
}

TEST(Job, SynchronousSnapshotsHoldTheSubtasksUntilTheCheckpointIsPersisted) {
  TestJob job({{0, 100000}, {100000, 100000}});
  job.options.coordinator.async_snapshots = false;
  std::atomic<int64_t> processed{0};
  job.function = [&](const Batch& batch, uint32_t) {
    processed += batch.num_rows();
    return Status();
  };
  MemoryStore store;
  std::atomic<int> moved{0};
  store.on_persist = [&](base::CheckpointId) {
    const int64_t before = processed;
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    moved += processed != before;
    return Status();
  };
  const auto outcome = RunBeside(&job, &store, [&](Coordinator* coordinator) {
    coordinator->RequestCheckpoint();
    store.AwaitCuts(1);
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(moved, 0);
  EXPECT_EQ(job.sink->visible().size(), 200000u);
}

/// The rows of `job` by way of `operators` operators in a chain.
JobGraph Chained(const TestJob& job, int operators) {
  JobGraph graph = job.Graph();
  if (operators == 0) {  // from the source straight into the sink
    graph.stages.resize(job.sources.size());
    for (StageSpec& stage : graph.stages) stage.nodes = {{-1, "sink", nullptr, job.sink, {}}};
    return graph;
  }
  std::vector<NodeSpec>& nodes = graph.stages.back().nodes;
  for (int i = 1; i < operators; ++i) {
    NodeSpec next = nodes.front();
    next.parent = i - 1;
    next.uid = "sink/function/" + std::to_string(i);
    nodes.insert(nodes.end() - 1, std::move(next));
  }
  nodes.back().parent = operators - 1;
  return graph;
}

// What a sink prepared at a barrier is in that barrier's cut, whatever is before the sink; a run
// that goes on from it finds and publishes it, though its subtasks have other numbers.
TEST(Job, Case14PreparedRowsAreInTheCutOfTheirBarrierWhateverFeedsTheSink) {
  for (const int operators : {0, 1, 2}) {
    for (const uint32_t parallelism : {2u, 1u, 5u}) {
      SCOPED_TRACE(std::to_string(operators) + " operators, then " + std::to_string(parallelism) +
                   " subtasks");
      TestJob job;
      job.sources[0]->HoldOpen();
      job.sink->RefuseCommit(true);
      std::thread driver;
      job.options.on_coordinator = [&](Coordinator* coordinator) {
        driver = std::thread([&job, coordinator] {
          while (job.sources[0]->produced() < 1540) std::this_thread::yield();
          coordinator->RequestCheckpoint();
        });
      };
      MemoryStore store;
      const auto crashed =
          RunGraph(Chained(job, operators), job.options, &store, nullptr, job.control);
      driver.join();
      EXPECT_FALSE(crashed.ok());
      ASSERT_EQ(store.cuts().size(), 1u);
      const MemoryCut& cut = *store.cuts()[0];
      ASSERT_EQ(cut.sinks().size(), 1u);
      for (const auto& piece : cut.sinks()[0].pieces) EXPECT_EQ(piece.checkpoint, cut.id());
      ExpectConsistentCuts(store, *job.sink);
      EXPECT_TRUE(job.sink->visible().empty());

      job.options.on_coordinator = nullptr;
      job.sources[0]->LetEnd();
      job.sink->RefuseCommit(false);
      job.parallelism = parallelism;
      const auto finished =
          RunGraph(Chained(job, operators), job.options, &store, *store.Recover(), job.control);
      ASSERT_TRUE(finished.ok()) << finished.status().ToString();
      EXPECT_EQ(job.sink->visible(), UpTo(1540)) << "as if nothing had happened";
      ExpectConsistentCuts(store, *job.sink);
    }
  }
}

// --- ends ---------------------------------------------------------------------------------------

TEST(Job, AStopTakesALastCheckpointAndTheNextRunGoesOnFromIt) {
  TestJob job({{0, 400000}, {400000, 100000}});
  job.sources[0]->HoldOpen();
  MemoryStore store;
  const auto stopped = RunBeside(&job, &store, [&](Coordinator*) { job.stop.request_stop(); });
  ASSERT_TRUE(stopped.ok()) << stopped.status().ToString();
  EXPECT_TRUE(stopped->stopped);
  EXPECT_EQ(store.cuts().size(), 1u);
  ExpectConsistentCuts(store, *job.sink);

  job.sources[0]->LetEnd();
  job.stop = std::stop_source();
  job.control.stop = job.stop.get_token();
  for (const uint32_t parallelism : {3u}) {
    job.parallelism = parallelism;
    const auto finished = job.Run(&store);
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    EXPECT_FALSE(finished->stopped);
  }
  EXPECT_EQ(job.sink->visible(), UpTo(500000));
}

TEST(Job, RunningAgainAfterTheEndAddsNothing) {
  TestJob job;
  MemoryStore store;
  ASSERT_TRUE(job.Run(&store).ok());
  const size_t cuts = store.cuts().size();
  const auto again = job.Run(&store);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->nothing_new);
  EXPECT_EQ(store.cuts().size(), cuts);
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
}

TEST(Job, WithoutCheckpointsTheSinkCommitsOnceAtTheEnd) {
  TestJob job;
  const auto outcome = job.Run(nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(job.sink->visible(), UpTo(1540));
  EXPECT_EQ(job.sink->commits(), 2);  // the recovery of nothing, and the end
}

TEST(Job, StoppedWithoutCheckpointsTheSinkCommitsNothing) {
  TestJob job;
  job.sources[0]->HoldOpen();
  const auto outcome = RunBeside(&job, nullptr, [&](Coordinator*) { job.stop.request_stop(); });
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_TRUE(outcome->stopped);
  EXPECT_TRUE(job.sink->visible().empty());
}

TEST(Job, AnOperatorsErrorFailsTheJobNamingTheOperator) {
  TestJob job;
  job.function = [](const Batch& batch, uint32_t) {
    for (int64_t n : testing::NumbersOf(batch)) {
      if (n == 700) return Status::InvalidArgument("division by zero");
    }
    return Status();
  };
  for (const uint32_t parallelism : {1u, 3u}) {
    job.parallelism = parallelism;
    MemoryStore store;
    const auto outcome = job.Run(&store);
    EXPECT_EQ(outcome.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("sink/function/0"));
    EXPECT_TRUE(job.sink->visible().empty());
  }
}

TEST(Job, AThrowingOperatorFailsTheJobAndNothingHangs) {
  TestJob job;
  job.function = [](const Batch&, uint32_t) -> Status { throw std::bad_alloc(); };
  MemoryStore store;
  EXPECT_EQ(job.Run(&store).status().code(), StatusCode::kResourceExhausted);
}

TEST(Job, AThrowingPersistFailsTheJobAndNothingHangs) {
  TestJob job;
  MemoryStore store;
  store.on_persist = [](base::CheckpointId) -> Status { throw std::runtime_error("codec broke"); };
  const auto outcome = job.Run(&store);
  EXPECT_EQ(outcome.status().code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("codec broke"));
}

TEST(Job, ASourcesErrorFailsTheJobWithItsReason) {
  TestJob job;
  job.sources[0]->FailAt(1200);
  MemoryStore store;
  const auto outcome = job.Run(&store);
  EXPECT_EQ(outcome.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("row 200 is malformed"));
}

TEST(Job, AFailureWhileASubtaskIsHeldByBackPressureEndsTheJob) {
  TestJob job({{0, 100000}});
  job.options.channels.rows = 16;
  std::atomic<int> batches{0};
  job.function = [&](const Batch&, uint32_t) {
    return ++batches < 20 ? Status() : Status::InvalidArgument("enough");
  };
  MemoryStore store;
  EXPECT_EQ(job.Run(&store).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::stream
