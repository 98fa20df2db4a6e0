// SPDX-License-Identifier: Apache-2.0
//
// SerialExecutor: one thread that runs what it is given, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cairn::stream {

/// Threads:  Post by any. The destructor runs what was posted, then joins.
class SerialExecutor {
 public:
  SerialExecutor() : thread_([this] { Loop(); }) {}
  ~SerialExecutor() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    arrival_.notify_one();
    thread_.join();
  }
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  void Post(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    arrival_.notify_one();
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      arrival_.wait(lock, [this] { return closing_ || !work_.empty(); });
      if (work_.empty()) return;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrival_;
  std::deque<std::function<void()>> work_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace cairn::stream
