// SPDX-License-Identifier: Apache-2.0
//
// MemoryPressure: what a subtask does before a batch when the memory budget is nearly used up. It
// first gives back what released views left, then waits while views that can still go hold memory,
// and in the end goes on and lets the tables refuse, which names the owners.
//
// Pools keep their pages, so a total near the limit alone says little: what counts is that the
// subtask takes more there than it ever held.
//
// Threads: the subtask's.
#pragma once

#include <cstdint>

#include "cairn/memory_budget.h"
#include "cairn/state_domain.h"
#include "env/clock.h"

namespace cairn::stream {

class MemoryPressure {
 public:
  enum class Verdict : uint8_t {
    kGo,      ///< there is room, or waiting would bring none
    kWait,    ///< a checkpoint or a reader holds memory and may let go of it: ask again soon
    kGaveUp,  ///< the wait was in vain
  };

  /// Everything outlives this. Shape: wait_ms = the longest wait before a batch.
  MemoryPressure(MemoryBudget* budget, StateDomain* domain, const env::Clock* clock,
                 int64_t wait_ms)
      : budget_(budget), domain_(domain), clock_(clock), wait_ms_(wait_ms) {}

  /// Part of the limit that is kept for batches under way.
  static constexpr uint64_t kHeadroom = 16;

  /// Decide about the next batch. Cost: a few loads unless memory was taken near the limit.
  Verdict Check() {
    if (!NearLimit() || domain_->MemoryBytes() <= most_held_) [[likely]] {
      return Verdict::kGo;
    }
    return CheckSlow();
  }

  /// Waits that were begun, and those that brought nothing.
  uint64_t waits() const { return waits_; }
  uint64_t given_up() const { return given_up_; }

 private:
  bool NearLimit() const {
    const uint64_t limit = budget_->limit();
    return limit != 0 && budget_->total() > limit - limit / kHeadroom;
  }
  Verdict CheckSlow();
  Verdict Settle(Verdict verdict);

  MemoryBudget* const budget_;
  StateDomain* const domain_;
  const env::Clock* const clock_;
  const int64_t wait_ms_;
  uint64_t most_held_ = 0;         ///< by the domain, when a batch was last let through
  int64_t waiting_since_ns_ = -1;  ///< -1 = not waiting
  uint64_t view_given_up_ = 0;     ///< oldest view that was waited for in vain
  uint64_t waits_ = 0;
  uint64_t given_up_ = 0;
};

}  // namespace cairn::stream
