// SPDX-License-Identifier: Apache-2.0
//
// The seam to threads: a checkpoint asks its caller to run tasks, and owns no thread itself.
#pragma once

#include <cstddef>
#include <functional>

namespace cairn::checkpoint {

/// Run independent tasks, at the same time or one after another.
///
/// Threads:  Run may be called from one thread at a time; tasks may run on any.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Call `task(0)` … `task(count - 1)` and return when all have returned. Tasks do not throw.
  virtual void Run(size_t count, const std::function<void(size_t)>& task) = 0;
};

/// Run every task on the calling thread, in order.
class InlineExecutor final : public Executor {
 public:
  void Run(size_t count, const std::function<void(size_t)>& task) override {
    for (size_t i = 0; i < count; ++i) task(i);
  }
};

/// Run the tasks of one call on up to `threads` threads that live as long as the call.
///
/// Cost:     about 20 µs a thread and call.
class ThreadsExecutor final : public Executor {
 public:
  explicit ThreadsExecutor(size_t threads) : threads_(threads == 0 ? 1 : threads) {}
  void Run(size_t count, const std::function<void(size_t)>& task) override;

 private:
  size_t threads_;
};

}  // namespace cairn::checkpoint
