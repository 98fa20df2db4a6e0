// SPDX-License-Identifier: Apache-2.0
//
// Blocking reads off the runner's thread, and their way back: an IoExecutor runs them, a
// ResumeScheduler takes what is done to the thread that awaits it.
//
// Invariants
//  1. A coroutine is resumed by the thread that runs the queue, never by an I/O thread.
//  2. A read that was handed over comes back exactly once: with its value, with its error, with
//     what it threw, or cancelled at shutdown. No thread ends by an exception.
//  3. Reads start, and coroutines resume, by order key, lower first; equal keys by arrival. Without
//     a key it is arrival alone.
//  4. An I/O thread touches the operation and what its function owns, nothing of the coroutine: the
//     coroutine may be destroyed at any time.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/async_task.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

/// Order key of a read without a deadline: after all that have one.
inline constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

class ResumeScheduler;

/// One read on its way. Made by IoRead; executors and schedulers pass it on.
class IoOperation {
 public:
  virtual ~IoOperation() = default;
  IoOperation(const IoOperation&) = delete;
  IoOperation& operator=(const IoOperation&) = delete;

  int64_t order_key() const { return order_key_; }

  /// For executors: run the read here, or give it up, and hand the operation to its scheduler.
  ///
  /// Threads:  any, once for each operation.
  static void Run(std::shared_ptr<IoOperation> operation) noexcept;
  static void Cancel(std::shared_ptr<IoOperation> operation) noexcept;

  /// For schedulers: resume the coroutine that waits, if it is still there. Threads: the runner's.
  void Resume() {
    if (auto waiter = std::exchange(waiter_, {})) waiter.resume();
  }

  /// Link of the list an operation is in, for the scheduler that holds it.
  std::shared_ptr<IoOperation> next;

 protected:
  IoOperation(std::shared_ptr<ResumeScheduler> scheduler, int64_t order_key)
      : scheduler_(std::move(scheduler)), order_key_(order_key) {}
  virtual void Load() noexcept = 0;

  std::coroutine_handle<> waiter_;
  bool cancelled_ = false;

 private:
  std::shared_ptr<ResumeScheduler> scheduler_;
  const int64_t order_key_;
};

/// Take operations that are done to the runner's thread.
class ResumeScheduler {
 public:
  virtual ~ResumeScheduler() = default;
  /// Threads:  any. Blocks: never. Must not call Resume itself.
  virtual void Post(std::shared_ptr<IoOperation> operation) noexcept = 0;
};

/// Run operations somewhere.
class IoExecutor {
 public:
  virtual ~IoExecutor() = default;
  /// Take an operation: IoOperation::Run or Cancel will be called for it, once.
  ///
  /// Threads:  any.
  /// Blocks:   while the executor is full.
  virtual void Submit(std::shared_ptr<IoOperation> operation) = 0;
};

/// A fixed number of threads behind a bounded queue.
class IoThreadPool final : public IoExecutor {
 public:
  static constexpr size_t kDefaultThreads = 8;
  static constexpr size_t kDefaultQueued = 8192;

  /// Errors:   kInvalidArgument for no threads or no room · kResourceExhausted when the system
  ///           gives no thread.
  static Result<std::unique_ptr<IoThreadPool>> Create(size_t threads = kDefaultThreads,
                                                      size_t queued_max = kDefaultQueued);
  ~IoThreadPool() override { Shutdown(); }

  /// Blocks:   while queued_max operations wait. Never on the threads of the pool itself.
  void Submit(std::shared_ptr<IoOperation> operation) override;

  /// Cancel what waits, let what runs end, join the threads. Later operations are cancelled.
  void Shutdown();

  size_t threads() const { return threads_.size(); }

 private:
  struct Queued {
    int64_t order_key;
    uint64_t arrival;
    std::shared_ptr<IoOperation> operation;
  };
  static bool Later(const Queued& a, const Queued& b) {
    return a.order_key != b.order_key ? a.order_key > b.order_key : a.arrival > b.arrival;
  }
  explicit IoThreadPool(size_t queued_max) : queued_max_(queued_max) {}
  Status StartThreads(size_t threads);
  void RunThread();

  const size_t queued_max_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable drained_;
  std::vector<Queued> queue_;  // a heap
  uint64_t arrivals_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

/// What ResumeQueue asks of its surroundings; all may be empty.
struct ResumeQueueOptions {
  /// Called after a post to an empty queue, on the posting thread: wakes an event loop that calls
  /// RunReady itself. It must not block.
  std::function<void()> wake;
  /// Called by WaitReady in place of blocking; false = nothing is to come. For simulations.
  std::function<bool()> idle;
};

/// The queue of a runner: what is done waits in it until the runner's thread runs it.
class ResumeQueue final : public ResumeScheduler {
 public:
  explicit ResumeQueue(ResumeQueueOptions options = {}) : options_(std::move(options)) {}
  ~ResumeQueue() override;

  void Post(std::shared_ptr<IoOperation> operation) noexcept override;

  /// Resume all that is done; what is posted meanwhile too. Returns how many.
  ///
  /// Threads:  the runner's. A coroutine that is resumed must not call it.
  size_t RunReady();

  /// Wait until something is done.
  ///
  /// Threads:  the runner's.
  /// Errors:   kCancelled when the queue was closed · kInternal when options.idle has nothing more.
  Status WaitReady();

  /// Drop what is done and all that comes. Threads: any.
  void Close();

 private:
  struct Ready {
    int64_t order_key;
    uint64_t arrival;
    std::shared_ptr<IoOperation> operation;
  };
  static bool Later(const Ready& a, const Ready& b) {
    return a.order_key != b.order_key ? a.order_key > b.order_key : a.arrival > b.arrival;
  }
  // Moves the inbox to the heap; false when both are empty.
  bool TakeInbox();
  static void DropList(std::shared_ptr<IoOperation> list);

  const ResumeQueueOptions options_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::shared_ptr<IoOperation> inbox_;  // a list in order of arrival: posting allocates nothing
  IoOperation* inbox_tail_ = nullptr;
  bool closed_ = false;
  // The runner's.
  std::vector<Ready> heap_;
  uint64_t arrivals_ = 0;
};

namespace detail {

/// The operation of one function.
template <class Fn>
class FunctionOperation final : public IoOperation {
 public:
  using Outcome = std::invoke_result_t<Fn&>;
  static_assert(kIsAsyncOutcome<Outcome>, "what runs on an I/O thread returns Status or Result");

  FunctionOperation(std::shared_ptr<ResumeScheduler> scheduler, int64_t order_key, Fn fn)
      : IoOperation(std::move(scheduler), order_key), fn_(std::move(fn)) {}

  void set_waiter(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  void Load() noexcept override {
    try {
      outcome_.emplace(fn_());
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  Outcome TakeOutcome() {
    if (cancelled_) return Status::Cancelled("the read was given up: its I/O threads shut down");
    if (thrown_) return StatusOfException(thrown_, "a read on an I/O thread");
    return std::move(*outcome_);
  }

 private:
  Fn fn_;
  std::optional<Outcome> outcome_;
  std::exception_ptr thrown_;
};

}  // namespace detail

/// One read off the runner's thread: `IoRead read(io, scheduler, order_key, fn);` and then
/// `co_await read` calls fn on an I/O thread and goes on, with what it returned, on the thread that
/// runs the scheduler's queue. Without an executor or a scheduler fn is called where it is awaited.
///
/// Shape:    fn returns Status or a Result and owns all it touches. Awaited once, as a variable:
/// GCC
///           12 destroys a lambda twice that is made inside of a co_await.
/// Errors:   kCancelled when the executor shut down · what fn returned, or threw.
template <class Fn>
class IoRead {
 public:
  IoRead(IoExecutor* io, std::shared_ptr<ResumeScheduler> scheduler, int64_t order_key, Fn fn)
      : io_(scheduler == nullptr ? nullptr : io),
        operation_(std::make_shared<detail::FunctionOperation<Fn>>(std::move(scheduler), order_key,
                                                                   std::move(fn))) {}
  IoRead(const IoRead&) = delete;
  IoRead& operator=(const IoRead&) = delete;
  ~IoRead() { operation_->set_waiter({}); }

  auto operator co_await() & {
    struct Awaiter {
      IoRead* read;
      bool await_ready() {
        if (read->io_ != nullptr) return false;
        read->operation_->Load();
        return true;
      }
      void await_suspend(std::coroutine_handle<> waiter) {
        read->operation_->set_waiter(waiter);
        read->io_->Submit(read->operation_);
      }
      auto await_resume() { return read->operation_->TakeOutcome(); }
    };
    return Awaiter{this};
  }
  auto operator co_await() && = delete;

 private:
  IoExecutor* const io_;
  const std::shared_ptr<detail::FunctionOperation<Fn>> operation_;
};

/// Run a task to its end, resuming what comes to `queue`.
///
/// Threads:  the runner's, outside of any task.
/// Errors:   the task's · WaitReady's, which ends the task.
template <class T>
T RunToEnd(AsyncTask<T> task, ResumeQueue* queue) {
  task.Start(nullptr, nullptr);
  while (!task.done()) {
    if (queue->RunReady() > 0) continue;
    if (Status waited = queue->WaitReady(); !waited.ok()) return waited;
  }
  return task.TakeOutcome();
}

}  // namespace v0
}  // namespace cairn
