// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous reads of the remote backend, alone, coalesced and under the execution controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "async/async_testing.h"
#include "backend/remote/remote_testing.h"
#include "cairn/async_execution_controller.h"

namespace cairn::backend::remote {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr OperatorId kCounts{3};

std::string NumberedKey(int i) { return StoredKeyOf("n" + std::to_string(i)); }

/// A backend whose rows all are cold: restored, and read by simulated I/O.
class ColdState {
 public:
  explicit ColdState(int keys, uint64_t seed = 1)
      : io(seed),
        queue(std::make_shared<ResumeQueue>(
            ResumeQueueOptions{.wake = {}, .idle = [this] { return io.RunOne(); }})) {
    auto first = world.Open();
    for (int i = 0; i < keys; ++i) {
      EXPECT_TRUE(first.backend->Put(kCounts, NumberedKey(i), std::to_string(i)).ok());
    }
    const RestorePart parts[] = {{*first.backend->Snapshot(1)}};
    RemoteReadOptions options;
    options.io = &io;
    task = world.Open(0, 1, options);
    EXPECT_TRUE(task.backend->Restore(parts).ok());
    task.backend->async_reads()->SetResumeScheduler(queue);
  }
  AsyncReads* reads() { return task.backend->async_reads(); }

  async::SimulatedIo io;
  std::shared_ptr<ResumeQueue> queue;
  RemoteWorld world;
  RemoteWorld::Subtask task;
};

TEST(RemoteAsync, ResolvesAHotHitWithoutIo) {
  ColdState state(1);
  ASSERT_TRUE(state.task.backend->Put(kCounts, NumberedKey(9), "hot").ok());
  AsyncTask<Result<StateValue>> read = state.reads()->GetAsync(kCounts, NumberedKey(9));
  read.Start(nullptr, nullptr);
  ASSERT_TRUE(read.done());
  EXPECT_EQ(*read.TakeOutcome(), "hot");
  EXPECT_EQ(state.io.waiting(), 0u);
  EXPECT_EQ(state.task.pool->reads, 0u);
}

TEST(RemoteAsync, LoadsInlineWithoutAScheduler) {
  ColdState state(1);
  state.reads()->SetResumeScheduler(nullptr);
  AsyncTask<Result<StateValue>> read = state.reads()->GetAsync(kCounts, NumberedKey(0));
  read.Start(nullptr, nullptr);
  ASSERT_TRUE(read.done());
  EXPECT_EQ(*read.TakeOutcome(), "0");
  EXPECT_EQ(state.io.waiting(), 0u);
}

TEST(RemoteAsync, LoadsOnAnIoThreadAndResumesOnTheRunners) {
  RemoteWorld world;
  auto first = world.Open();
  ASSERT_TRUE(first.backend->Put(kCounts, NumberedKey(1), "v").ok());
  const RestorePart parts[] = {{*first.backend->Snapshot(1)}};
  RemoteReadOptions options;
  options.io_threads = 2;
  auto task = world.Open(0, 1, options);
  ASSERT_TRUE(task.backend->Restore(parts).ok());
  std::thread::id loaded_on;
  task.pool->before_read = [&] {
    loaded_on = std::this_thread::get_id();
    return Status();
  };
  auto queue = std::make_shared<ResumeQueue>();
  task.backend->async_reads()->SetResumeScheduler(queue);
  std::thread::id resumed_on;
  const auto record = [&]() -> AsyncTask<Result<StateValue>> {
    Result<StateValue> value =
        co_await task.backend->async_reads()->GetAsync(kCounts, NumberedKey(1));
    resumed_on = std::this_thread::get_id();
    co_return value;
  };
  EXPECT_EQ(*RunToEnd(record(), queue.get()), "v");
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
  EXPECT_NE(loaded_on, std::this_thread::get_id());
}

TEST(RemoteAsync, ReadsManyInOneBatchedCallByPosition) {
  ColdState state(20);
  ASSERT_TRUE(state.task.backend->Put(kCounts, NumberedKey(3), "hot").ok());
  std::vector<StateKey> keys;
  for (int i : {5, 3, 99, 5, 0}) keys.emplace_back(kCounts, NumberedKey(i));
  Result<std::vector<StateValue>> values =
      RunToEnd(state.reads()->GetManyAsync(keys), state.queue.get());
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(*values, ElementsAre("5", "hot", std::nullopt, "5", "0"));
  EXPECT_EQ(state.task.pool->batch_reads, 1u);
  EXPECT_EQ(state.task.pool->reads, 0u);
  EXPECT_EQ(state.task.backend->stats().cold_keys, 3u) << "a key that comes twice is asked once";
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(*state.task.backend->Get(kCounts, keys[i].key), (*values)[i]);
  }
}

TEST(RemoteAsync, MakesReadsOfLowerOrderKeysFirst) {
  RemoteWorld world;
  auto first = world.Open();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(first.backend->Put(kCounts, NumberedKey(i), "v").ok());
  const RestorePart parts[] = {{*first.backend->Snapshot(1)}};
  async::SimulatedIo io(1);
  auto queue = std::make_shared<ResumeQueue>();
  RemoteReadOptions options;
  options.io = &io;
  auto task = world.Open(0, 1, options);
  ASSERT_TRUE(task.backend->Restore(parts).ok());
  AsyncReads* reads = task.backend->async_reads();
  reads->SetResumeScheduler(queue);
  std::vector<int> order;
  const auto record = [&](int i, int64_t order_key) -> AsyncTask<Status> {
    AsyncTask<Result<StateValue>> read = order_key == kNoDeadline
                                             ? reads->GetAsync(kCounts, NumberedKey(i))
                                             : reads->GetAsync(kCounts, NumberedKey(i), order_key);
    Result<StateValue> value = co_await std::move(read);
    order.push_back(i);
    co_return value.status();
  };
  std::vector<AsyncTask<Status>> tasks;
  const int64_t order_keys[] = {kNoDeadline, 20, 10, 10};
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(record(i, order_keys[i]));
    tasks.back().Start(nullptr, nullptr);
    ASSERT_TRUE(io.RunOne());
  }
  queue->RunReady();
  EXPECT_THAT(order, ElementsAre(2, 3, 1, 0));
}

TEST(RemoteAsync, GivesAFailedReadToTheRecordThatAwaitsIt) {
  ColdState state(2);
  for (const bool thrown : {false, true}) {
    state.task.pool->before_read = [thrown]() -> Status {
      if (thrown) throw std::runtime_error("connection reset");
      return Status::Unavailable("503");
    };
    const Status one =
        RunToEnd(state.reads()->GetAsync(kCounts, NumberedKey(0)), state.queue.get()).status();
    EXPECT_EQ(one.code(), thrown ? StatusCode::kInternal : StatusCode::kUnavailable);
    std::vector<StateKey> keys;
    for (int i = 0; i < 2; ++i) keys.emplace_back(kCounts, NumberedKey(i));
    const Status many = RunToEnd(state.reads()->GetManyAsync(keys), state.queue.get()).status();
    EXPECT_EQ(many.code(), one.code());
  }
  state.task.pool->before_read = nullptr;
  EXPECT_EQ(*RunToEnd(state.reads()->GetAsync(kCounts, NumberedKey(0)), state.queue.get()), "0");
}

TEST(RemoteAsync, CancelsReadsUnderWayWhenTheBackendIsClosed) {
  ColdState state(1);
  AsyncTask<Result<StateValue>> read = state.reads()->GetAsync(kCounts, NumberedKey(0));
  read.Start(nullptr, nullptr);
  state.io.CancelAll();
  state.queue->RunReady();
  ASSERT_TRUE(read.done());
  EXPECT_EQ(read.TakeOutcome().status().code(), StatusCode::kCancelled);
}

TEST(RemoteAsync, CancelsAReadThatARestoreOvertook) {
  ColdState state(1);
  AsyncTask<Result<StateValue>> read = state.reads()->GetAsync(kCounts, NumberedKey(0));
  read.Start(nullptr, nullptr);
  ASSERT_TRUE(state.task.backend->Restore({}).ok());
  ASSERT_TRUE(state.io.RunOne());
  state.queue->RunReady();
  ASSERT_TRUE(read.done());
  EXPECT_EQ(read.TakeOutcome().status().code(), StatusCode::kCancelled);
}

TEST(RemoteAsync, GivesTheWrittenValueToAReadThatAWriteOvertook) {
  ColdState state(1);
  AsyncTask<Result<StateValue>> read = state.reads()->GetAsync(kCounts, NumberedKey(0));
  read.Start(nullptr, nullptr);
  ASSERT_TRUE(state.task.backend->Put(kCounts, NumberedKey(0), "new").ok());
  ASSERT_TRUE(state.io.RunOne());
  state.queue->RunReady();
  ASSERT_TRUE(read.done());
  EXPECT_EQ(*read.TakeOutcome(), "new");
}

/// A coalescing backend over a cold one, and a controller.
class CoalescedRunner {
 public:
  explicit CoalescedRunner(int keys, size_t round_max = CoalescingBackend::kDefaultRoundMax)
      : cold(keys), pool(cold.task.pool), backend(Coalesce(round_max)) {
    backend->async_reads()->SetResumeScheduler(cold.queue);
    controller.emplace(AsyncExecutionOptions{.max_in_flight = 6000,
                                             .queue = cold.queue.get(),
                                             .reads = backend->async_reads(),
                                             .on_watermark = {}});
  }
  /// Add one to the number under a key.
  AsyncTask<Status> Increment(int key) {
    Result<StateValue> value = co_await backend->async_reads()->GetAsync(kCounts, NumberedKey(key));
    if (!value.ok()) co_return value.status();
    const int number = *value ? std::atoi((*value)->c_str()) : 0;
    co_return backend->Put(kCounts, NumberedKey(key), std::to_string(number + 1));
  }
  Status Submit(int key) {
    return controller->Submit(NumberedKey(key), [this, key] { return Increment(key); });
  }

 private:
  std::unique_ptr<CoalescingBackend> Coalesce(size_t round_max) {
    return *CoalescingBackend::Create(std::move(cold.task.backend), round_max);
  }

 public:
  ColdState cold;
  std::shared_ptr<HookedPool> pool;
  std::unique_ptr<CoalescingBackend> backend;
  std::optional<AsyncExecutionController> controller;
};

TEST(RemoteCoalescing, TurnsColdReadsOfManyRecordsIntoOneRoundTrip) {
  CoalescedRunner runner(100);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(runner.Submit(i).ok());
  ASSERT_TRUE(runner.controller->Drain().ok());
  EXPECT_EQ(runner.pool->batch_reads, 1u);
  EXPECT_EQ(runner.pool->reads, 0u);
  EXPECT_EQ(runner.backend->counts().reads, 100u);
  EXPECT_EQ(runner.backend->counts().rounds, 1u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(**runner.backend->Get(kCounts, NumberedKey(i)), std::to_string(i + 1));
  }
}

TEST(RemoteCoalescing, RunsRecordsOfOneKeyInTurnAcrossRounds) {
  CoalescedRunner runner(2);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(runner.Submit(1).ok());
  ASSERT_TRUE(runner.Submit(0).ok());
  ASSERT_TRUE(runner.controller->Drain().ok());
  EXPECT_EQ(**runner.backend->Get(kCounts, NumberedKey(1)), "6");
  EXPECT_EQ(runner.pool->batch_reads + runner.pool->reads, 1u) << "later rounds find the key hot";
}

TEST(RemoteCoalescing, ReadsAKeyOfSeveralWaitersOnce) {
  CoalescedRunner runner(1);
  std::vector<AsyncTask<Result<StateValue>>> reads;
  for (int i = 0; i < 3; ++i) {
    reads.push_back(runner.backend->async_reads()->GetAsync(kCounts, NumberedKey(0)));
    reads.back().Start(nullptr, nullptr);
  }
  ASSERT_TRUE(runner.backend->async_reads()->FlushPendingReads());
  EXPECT_FALSE(runner.backend->async_reads()->FlushPendingReads());
  ASSERT_TRUE(runner.cold.io.RunOne());
  runner.cold.queue->RunReady();
  for (auto& read : reads) EXPECT_EQ(*read.TakeOutcome(), "0");
  EXPECT_EQ(runner.pool->reads + runner.pool->batch_reads, 1u);
}

TEST(RemoteCoalescing, SendsARoundThatIsFull) {
  CoalescedRunner runner(10, /*round_max=*/4);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(runner.Submit(i).ok());
  EXPECT_EQ(runner.backend->counts().rounds, 2u);
  ASSERT_TRUE(runner.controller->Drain().ok());
  EXPECT_EQ(runner.backend->counts().rounds, 3u);
}

TEST(RemoteCoalescing, GivesAFailedRoundToEveryRecordInIt) {
  for (const bool thrown : {false, true}) {
    CoalescedRunner runner(3);
    runner.pool->before_read = [thrown]() -> Status {
      if (thrown) throw std::runtime_error("reset");
      return Status::Unavailable("503");
    };
    std::vector<AsyncTask<Result<StateValue>>> reads;
    for (int i = 0; i < 3; ++i) {
      reads.push_back(runner.backend->async_reads()->GetAsync(kCounts, NumberedKey(i)));
      reads.back().Start(nullptr, nullptr);
    }
    runner.backend->async_reads()->FlushPendingReads();
    ASSERT_TRUE(runner.cold.io.RunOne());
    runner.cold.queue->RunReady();
    for (auto& read : reads) {
      ASSERT_TRUE(read.done());
      EXPECT_EQ(read.TakeOutcome().status().code(),
                thrown ? StatusCode::kInternal : StatusCode::kUnavailable);
    }
    // A record that awaits such a read fails the task and writes nothing.
    ASSERT_TRUE(runner.Submit(0).ok());
    EXPECT_FALSE(runner.controller->Drain().ok());
    runner.pool->before_read = nullptr;
    EXPECT_EQ(**runner.backend->Get(kCounts, NumberedKey(0)), "0");
  }
}

TEST(RemoteCoalescing, MayBeCancelledWhileARoundIsUnderWay) {
  CoalescedRunner runner(5);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(runner.Submit(i).ok());
  ASSERT_TRUE(runner.controller->Poll().ok());  // sends the round
  EXPECT_EQ(runner.cold.io.waiting(), 1u);
  runner.controller->Cancel();
  ASSERT_TRUE(runner.cold.io.RunOne());
  runner.cold.queue->RunReady();
  EXPECT_EQ(**runner.backend->Get(kCounts, NumberedKey(0)), "0") << "no record went on";
}

TEST(RemoteCoalescing, RefusesABackendThatNeverWaits) {
  class NoWaits final : public StateBackend {
    Status Apply(const WriteBatch&, size_t*) override { return {}; }
    Result<StateValue> Get(OperatorId, std::string_view) override { return StateValue(); }
    Status GetMany(OperatorId, std::span<const std::string_view>,
                   std::vector<StateValue>*) override {
      return {};
    }
    Status Scan(OperatorId, const ScanRange&, const ScanVisitor&) override { return {}; }
    Result<std::unique_ptr<CapturedState>> Capture(uint64_t) override {
      return Status::Cancelled("none");
    }
    Result<RestoreCounts> Restore(std::span<const RestorePart>) override { return RestoreCounts(); }
    BackendDescription Describe() const override { return {}; }
    Status Close() override { return {}; }
  };
  EXPECT_EQ(CoalescingBackend::Create(std::make_unique<NoWaits>()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RemoteController, TakesAConsistentSnapshotAtEveryBarrier) {
  CoalescedRunner runner(20);
  std::vector<int> model(20);
  for (int i = 0; i < 20; ++i) model[i] = i;
  std::mt19937_64 random(7);
  for (uint64_t checkpoint = 2; checkpoint < 12; ++checkpoint) {
    for (int i = 0; i < 200; ++i) {
      const int key = static_cast<int>(random() % 20);
      ASSERT_TRUE(runner.Submit(key).ok());
      ++model[key];
      if (random() % 4 == 0) {
        ASSERT_TRUE(runner.controller->Poll().ok());
      }
    }
    ASSERT_TRUE(runner.controller->Drain().ok());
    const RestorePart parts[] = {{*runner.backend->Snapshot(checkpoint)}};
    auto fresh = runner.cold.world.Open();
    ASSERT_TRUE(fresh.backend->Restore(parts).ok());
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(**fresh.backend->Get(kCounts, NumberedKey(i)), std::to_string(model[i]));
    }
  }
}

}  // namespace
}  // namespace cairn::backend::remote
