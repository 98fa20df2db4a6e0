// SPDX-License-Identifier: Apache-2.0
#include "stream/memory_pressure.h"

namespace cairn::stream {
namespace {

/// All garbage there is.
constexpr size_t kPollAllGarbage = 1 << 20;

}  // namespace

MemoryPressure::Verdict MemoryPressure::Settle(Verdict verdict) {
  waiting_since_ns_ = -1;
  most_held_ = domain_->MemoryBytes();
  return verdict;
}

MemoryPressure::Verdict MemoryPressure::CheckSlow() {
  domain_->Poll(kPollAllGarbage);
  // Without a view of its own the subtask holds nothing that waiting would free. A view that was
  // waited for in vain is not waited for again before every batch.
  const uint64_t oldest = domain_->oldest_view_epoch();
  if (!NearLimit() || oldest == 0 || domain_->ViewBytes() == 0 || oldest == view_given_up_) {
    return Settle(Verdict::kGo);
  }
  const int64_t now_ns = clock_->MonotonicNanos();
  if (waiting_since_ns_ < 0) {
    waiting_since_ns_ = now_ns;
    ++waits_;
  }
  if (now_ns - waiting_since_ns_ < wait_ms_ * 1'000'000) return Verdict::kWait;
  view_given_up_ = oldest;
  ++given_up_;
  return Settle(Verdict::kGaveUp);
}

}  // namespace cairn::stream
