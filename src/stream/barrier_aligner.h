// SPDX-License-Identifier: Apache-2.0
//
// BarrierAligner: when a subtask with several inputs has seen everything before a barrier.
//
// Threads: one.
//
// Invariants
//  1. A barrier is complete when it came through every channel that has not ended: an ended channel
//     counts as past every barrier.
//  2. A barrier is completed once. Ended channels still carry barriers; what comes after completion
//     is ignored.
//  3. While a barrier is open no later one is taken from a channel that has not ended: such a
//     channel is blocked after its barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/status.h"
#include "stream/mailbox.h"

namespace cairn::stream {

class BarrierAligner {
 public:
  explicit BarrierAligner(size_t channels) : arrived_(channels, false), ended_(channels, false) {}

  /// Take a barrier. Return it when it is complete now.
  ///
  /// Errors:   kInternal when barriers of two checkpoints mix.
  Result<std::optional<Barrier>> OnBarrier(size_t channel, const Barrier& barrier);

  /// Take the end of a channel. Return the open barrier when it is complete now.
  std::optional<Barrier> OnEnd(size_t channel);

  /// True when no more may be read from `channel` until the open barrier is complete.
  bool IsHeld(size_t channel) const { return open_.has_value() && arrived_[channel]; }
  bool all_ended() const { return ended_count_ == ended_.size(); }

 private:
  std::optional<Barrier> CompleteIfDue();

  std::vector<bool> arrived_;
  std::vector<bool> ended_;
  size_t ended_count_ = 0;
  std::optional<Barrier> open_;
  base::CheckpointId last_complete_;
};

}  // namespace cairn::stream
