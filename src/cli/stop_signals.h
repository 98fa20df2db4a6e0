// SPDX-License-Identifier: Apache-2.0
//
// StopSignals: SIGINT and SIGTERM ask for a clean stop; a second one ends the process at once.
//
// Threads: made on the main thread before any other thread exists, so that all inherit its mask.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "cairn/status.h"

namespace cairn::cli {

class StopSignals {
 public:
  /// Block both signals and watch for them on a thread of its own. `on_first` is called there.
  static Result<std::unique_ptr<StopSignals>> Watch(std::function<void(int)> on_first);
  ~StopSignals();

  std::stop_token token() const { return source_.get_token(); }
  /// The first signal that came; 0 = none.
  int signal() const { return signal_.load(); }

 private:
  StopSignals() = default;
  void Run();

  std::function<void(int)> on_first_;
  std::stop_source source_;
  std::atomic<int> signal_{0};
  int signal_fd_ = -1;
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace cairn::cli
