// SPDX-License-Identifier: Apache-2.0
//
// I/O without threads: operations wait in a list, and one that a seed picks is run each time the
// runner has nothing else to do. The same seed gives the same order of everything.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "cairn/async_io.h"

namespace cairn::async {

/// Threads:  one, the runner's.
class SimulatedIo final : public IoExecutor {
 public:
  explicit SimulatedIo(uint64_t seed) : bits_(seed) {}
  ~SimulatedIo() override { CancelAll(); }

  void Submit(std::shared_ptr<IoOperation> operation) override {
    waiting_.push_back(std::move(operation));
  }

  /// Run one operation; false when none waits. Fits ResumeQueueOptions::idle.
  bool RunOne() {
    if (waiting_.empty()) return false;
    const size_t at = bits_() % waiting_.size();
    std::swap(waiting_[at], waiting_.back());
    std::shared_ptr<IoOperation> next = std::move(waiting_.back());
    waiting_.pop_back();
    IoOperation::Run(std::move(next));
    return true;
  }
  void CancelAll() {
    for (std::shared_ptr<IoOperation>& operation : std::exchange(waiting_, {})) {
      IoOperation::Cancel(std::move(operation));
    }
  }
  size_t waiting() const { return waiting_.size(); }

 private:
  std::mt19937_64 bits_;
  std::vector<std::shared_ptr<IoOperation>> waiting_;
};

}  // namespace cairn::async
