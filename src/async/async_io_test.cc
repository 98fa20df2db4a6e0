// SPDX-License-Identifier: Apache-2.0
#include "cairn/async_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/async_testing.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AsyncTask<Result<int>> Value(int value) { co_return value; }

AsyncTask<Result<int>> Sum(int terms) {
  int sum = 0;
  for (int i = 0; i < terms; ++i) {
    Result<int> term = co_await Value(1);
    sum += *term;
  }
  co_return sum;
}

AsyncTask<Result<int>> Throws(const char* what) {
  if (what != nullptr) throw std::runtime_error(what);
  co_return 0;
}

TEST(AsyncTask, RunsNothingUntilItIsStarted) {
  bool ran = false;
  const auto set = [&ran]() -> AsyncTask<Status> {
    ran = true;
    co_return Status();
  };
  {
    AsyncTask<Status> task = set();
    EXPECT_FALSE(ran);
  }
  EXPECT_FALSE(ran);
  AsyncTask<Status> task = set();
  task.Start(nullptr, nullptr);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(task.TakeOutcome().ok());
}

TEST(AsyncTask, AwaitsManyTasksThatResolveAtOnce) {
  ResumeQueue queue;
  Result<int> sum = RunToEnd(Sum(1000), &queue);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(*sum, 1000);
}

TEST(AsyncTask, TurnsAnExceptionIntoAStatusOfWhoeverAwaits) {
  ResumeQueue queue;
  const auto outer = []() -> AsyncTask<Status> {
    Result<int> inner = co_await Throws("codec fell over");
    co_return inner.status().WithContext("outer");
  };
  const Status status = RunToEnd(outer(), &queue);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.ToString(), HasSubstr("outer: an asynchronous task threw: codec fell over"));
}

TEST(AsyncTask, CallsWantOfMemoryByItsName) {
  const auto starved = []() -> AsyncTask<Status> {
    throw std::bad_alloc();
    co_return Status();
  };
  ResumeQueue queue;
  EXPECT_EQ(RunToEnd(starved(), &queue).code(), StatusCode::kResourceExhausted);
}

TEST(AsyncTask, RefusesToBeAwaitedAfterItWasMoved) {
  const auto outer = []() -> AsyncTask<Status> {
    AsyncTask<Result<int>> task = Value(1);
    AsyncTask<Result<int>> moved = std::move(task);
    Result<int> outcome = co_await std::move(task);  // NOLINT: the point of the test
    co_return outcome.status();
  };
  ResumeQueue queue;
  EXPECT_EQ(RunToEnd(outer(), &queue).code(), StatusCode::kInternal);
}

/// A read that notes the threads it ran and came back on.
AsyncTask<Result<std::thread::id>> ReadThread(IoExecutor* io, std::shared_ptr<ResumeQueue> queue,
                                              std::thread::id* resumed_on) {
  IoRead read(io, std::move(queue), kNoDeadline,
              [] { return Result<std::thread::id>(std::this_thread::get_id()); });
  Result<std::thread::id> ran_on = co_await read;
  *resumed_on = std::this_thread::get_id();
  co_return ran_on;
}

TEST(AsyncIo, ReadsOnAnIoThreadAndResumesOnTheRunners) {
  auto queue = std::make_shared<ResumeQueue>();
  auto pool = IoThreadPool::Create(2);
  ASSERT_TRUE(pool.ok());
  std::thread::id resumed_on;
  Result<std::thread::id> ran_on =
      RunToEnd(ReadThread(pool->get(), queue, &resumed_on), queue.get());
  ASSERT_TRUE(ran_on.ok());
  EXPECT_NE(*ran_on, std::this_thread::get_id());
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
}

TEST(AsyncIo, ReadsInlineWithoutAScheduler) {
  auto pool = IoThreadPool::Create(1);
  ASSERT_TRUE(pool.ok());
  ResumeQueue unused;
  std::thread::id resumed_on;
  Result<std::thread::id> ran_on = RunToEnd(ReadThread(pool->get(), nullptr, &resumed_on), &unused);
  ASSERT_TRUE(ran_on.ok());
  EXPECT_EQ(*ran_on, std::this_thread::get_id());
}

AsyncTask<Status> Note(IoExecutor* io, std::shared_ptr<ResumeQueue> queue, int64_t order_key,
                       int name, std::vector<int>* order) {
  IoRead read(io, std::move(queue), order_key, [] { return Status(); });
  Status status = co_await read;
  order->push_back(name);
  co_return status;
}

TEST(AsyncIo, ResumesLowerOrderKeysFirstAndTiesByArrival) {
  async::SimulatedIo io(1);
  auto queue = std::make_shared<ResumeQueue>();
  std::vector<int> order;
  std::vector<AsyncTask<Status>> tasks;
  const int64_t keys[] = {30, 10, kNoDeadline, 20, 10, kNoDeadline, -5};
  for (int i = 0; i < 7; ++i) {
    tasks.push_back(Note(&io, queue, keys[i], i, &order));
    tasks.back().Start(nullptr, nullptr);
    ASSERT_TRUE(io.RunOne());  // so they are done in the order of their names
  }
  EXPECT_EQ(queue->RunReady(), 7u);
  EXPECT_THAT(order, ElementsAre(6, 1, 4, 3, 0, 2, 5));
}

TEST(AsyncIo, ResumesInOrderOfArrivalWithoutOrderKeys) {
  async::SimulatedIo io(1);
  auto queue = std::make_shared<ResumeQueue>();
  std::vector<int> order;
  std::vector<AsyncTask<Status>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(Note(&io, queue, kNoDeadline, i, &order));
    tasks.back().Start(nullptr, nullptr);
    ASSERT_TRUE(io.RunOne());
  }
  EXPECT_EQ(queue->RunReady(), 4u);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST(AsyncIo, MakesReadsThatWaitByOrderKeyToo) {
  auto queue = std::make_shared<ResumeQueue>();
  auto pool = IoThreadPool::Create(1);
  ASSERT_TRUE(pool.ok());
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  std::promise<void> at_gate;
  std::vector<int> made;  // the one I/O thread's, until all are back
  std::vector<AsyncTask<Status>> tasks;
  const auto read = [&](int64_t order_key, std::function<void()> load) -> AsyncTask<Status> {
    IoRead read(pool->get(), queue, order_key, [load] {
      load();
      return Status();
    });
    co_return co_await read;
  };
  tasks.push_back(read(0, [gate, &at_gate] {
    at_gate.set_value();
    gate.wait();
  }));
  tasks.back().Start(nullptr, nullptr);
  at_gate.get_future().wait();
  for (int key : {3, 1, 2, 1}) {
    tasks.push_back(read(key, [&made, key] { made.push_back(key); }));
    tasks.back().Start(nullptr, nullptr);
  }
  open.set_value();
  for (AsyncTask<Status>& task : tasks) {
    while (!task.done()) {
      ASSERT_TRUE(queue->WaitReady().ok());
      queue->RunReady();
    }
  }
  EXPECT_THAT(made, ElementsAre(1, 1, 2, 3));
}

TEST(AsyncIo, GivesWhatAReadThrewToWhoAwaitsIt) {
  auto queue = std::make_shared<ResumeQueue>();
  auto pool = IoThreadPool::Create(2);
  ASSERT_TRUE(pool.ok());
  const auto read = [&](int kind) -> AsyncTask<Status> {
    IoRead read(pool->get(), queue, 0, [kind]() -> Status {
      if (kind == 0) throw std::runtime_error("connection reset");
      if (kind == 1) throw std::bad_alloc();
      if (kind == 2) throw 7;
      return Status::Unavailable("503");
    });
    co_return co_await read;
  };
  const Status thrown = RunToEnd(read(0), queue.get());
  EXPECT_EQ(thrown.code(), StatusCode::kInternal);
  EXPECT_THAT(thrown.ToString(), HasSubstr("connection reset"));
  EXPECT_EQ(RunToEnd(read(1), queue.get()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RunToEnd(read(2), queue.get()).code(), StatusCode::kInternal);
  EXPECT_EQ(RunToEnd(read(3), queue.get()).code(), StatusCode::kUnavailable);
}

TEST(AsyncIo, CancelsAtShutdownWhatHasNotStarted) {
  auto queue = std::make_shared<ResumeQueue>();
  auto pool = IoThreadPool::Create(1);
  ASSERT_TRUE(pool.ok());
  std::promise<void> open;
  std::promise<void> at_gate;
  const auto read = [&](std::function<void()> load) -> AsyncTask<Status> {
    IoRead read(pool->get(), queue, 0, [load] {
      load();
      return Status();
    });
    co_return co_await read;
  };
  std::vector<AsyncTask<Status>> tasks;
  tasks.push_back(read([&] {
    at_gate.set_value();
    open.get_future().wait();
  }));
  for (int i = 0; i < 3; ++i) tasks.push_back(read([] {}));
  for (AsyncTask<Status>& task : tasks) task.Start(nullptr, nullptr);
  at_gate.get_future().wait();
  std::thread stopper([&] { (*pool)->Shutdown(); });
  for (int i = 1; i < 4; ++i) {
    while (!tasks[i].done()) {
      ASSERT_TRUE(queue->WaitReady().ok());
      queue->RunReady();
    }
    EXPECT_EQ(tasks[i].TakeOutcome().code(), StatusCode::kCancelled);
  }
  EXPECT_FALSE(tasks[0].done());
  open.set_value();
  stopper.join();
  queue->RunReady();
  ASSERT_TRUE(tasks[0].done());
  EXPECT_TRUE(tasks[0].TakeOutcome().ok());
  EXPECT_EQ(RunToEnd(read([] {}), queue.get()).code(), StatusCode::kCancelled);
}

TEST(AsyncIo, LetsATaskBeDestroyedWhileItsReadIsUnderWay) {
  auto queue = std::make_shared<ResumeQueue>();
  auto pool = IoThreadPool::Create(1);
  ASSERT_TRUE(pool.ok());
  std::promise<void> open;
  std::promise<void> at_gate;
  bool resumed = false;
  {
    const auto read = [&]() -> AsyncTask<Status> {
      IoRead read(pool->get(), queue, 0, [&] {
        at_gate.set_value();
        open.get_future().wait();
        return Status();
      });
      Status status = co_await read;
      resumed = true;
      co_return status;
    };
    AsyncTask<Status> task = read();
    task.Start(nullptr, nullptr);
    at_gate.get_future().wait();
  }
  open.set_value();
  ASSERT_TRUE(queue->WaitReady().ok());
  EXPECT_EQ(queue->RunReady(), 1u);
  EXPECT_FALSE(resumed);
}

TEST(AsyncIo, HoldsASubmitBackWhileTheQueueIsFull) {
  auto queue = std::make_shared<ResumeQueue>();
  auto pool = IoThreadPool::Create(2, 4);
  ASSERT_TRUE(pool.ok());
  std::atomic<int> waiting{0};
  std::atomic<int> most{0};
  std::vector<AsyncTask<Status>> tasks;
  const auto read = [&]() -> AsyncTask<Status> {
    IoRead read(pool->get(), queue, 0, [&] {
      --waiting;
      return Status();
    });
    co_return co_await read;
  };
  for (int i = 0; i < 1000; ++i) {
    tasks.push_back(read());
    ++waiting;
    tasks.back().Start(nullptr, nullptr);
    most = std::max(most.load(), waiting.load());
  }
  size_t done = 0;
  while (done < tasks.size()) {
    ASSERT_TRUE(queue->WaitReady().ok());
    done += queue->RunReady();
  }
  EXPECT_LE(most, 4 + 2 + 1);  // queued, on a thread before it counts down, being submitted
  for (AsyncTask<Status>& task : tasks) EXPECT_TRUE(task.TakeOutcome().ok());
}

TEST(AsyncIo, DropsWhatComesToAClosedQueue) {
  async::SimulatedIo io(1);
  auto queue = std::make_shared<ResumeQueue>();
  std::vector<int> order;
  AsyncTask<Status> before = Note(&io, queue, 0, 0, &order);
  AsyncTask<Status> after = Note(&io, queue, 0, 1, &order);
  before.Start(nullptr, nullptr);
  ASSERT_TRUE(io.RunOne());
  queue->Close();
  after.Start(nullptr, nullptr);
  ASSERT_TRUE(io.RunOne());
  EXPECT_EQ(queue->RunReady(), 0u);
  EXPECT_EQ(queue->WaitReady().code(), StatusCode::kCancelled);
  EXPECT_TRUE(order.empty());
}

TEST(AsyncIo, WakesAnEventLoopOncePerFilledQueue) {
  async::SimulatedIo io(1);
  int wakes = 0;
  auto queue = std::make_shared<ResumeQueue>(ResumeQueueOptions{.wake = [&] { ++wakes; }});
  std::vector<int> order;
  std::vector<AsyncTask<Status>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(Note(&io, queue, 0, i, &order));
    tasks.back().Start(nullptr, nullptr);
  }
  while (io.RunOne()) {
  }
  EXPECT_EQ(wakes, 1);
  queue->RunReady();
  tasks.push_back(Note(&io, queue, 0, 3, &order));
  tasks.back().Start(nullptr, nullptr);
  ASSERT_TRUE(io.RunOne());
  EXPECT_EQ(wakes, 2);
}

TEST(AsyncIo, SaysWhenATaskWaitsForNothing) {
  auto queue = std::make_shared<ResumeQueue>(ResumeQueueOptions{.idle = [] { return false; }});
  const auto forever = []() -> AsyncTask<Status> {
    co_await std::suspend_always();
    co_return Status();
  };
  EXPECT_EQ(RunToEnd(forever(), queue.get()).code(), StatusCode::kInternal);
}

TEST(AsyncIo, RefusesAPoolWithoutThreads) {
  EXPECT_EQ(IoThreadPool::Create(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(IoThreadPool::Create(1, 0).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
