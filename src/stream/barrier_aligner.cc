// SPDX-License-Identifier: Apache-2.0
#include "stream/barrier_aligner.h"

#include <algorithm>
#include <string>

namespace cairn::stream {

Result<std::optional<Barrier>> BarrierAligner::OnBarrier(size_t channel, const Barrier& barrier) {
  if (barrier.id <= last_complete_) return std::optional<Barrier>();
  if (ended_[channel]) {
    // It counts as past the barrier already. Only when nothing else can bring the barrier, because
    // every channel has ended, is this the one that completes it.
    if (!all_ended()) return std::optional<Barrier>();
    last_complete_ = barrier.id;
    return std::optional<Barrier>(barrier);
  }
  if (open_.has_value() && open_->id != barrier.id) {
    return Status::Internal("barrier of checkpoint " + std::to_string(barrier.id.value) +
                            " came before checkpoint " + std::to_string(open_->id.value) +
                            " was aligned");
  }
  open_ = barrier;
  arrived_[channel] = true;
  return CompleteIfDue();
}

std::optional<Barrier> BarrierAligner::OnEnd(size_t channel) {
  if (!ended_[channel]) {
    ended_[channel] = true;
    ++ended_count_;
  }
  return open_.has_value() ? CompleteIfDue() : std::nullopt;
}

std::optional<Barrier> BarrierAligner::CompleteIfDue() {
  for (size_t i = 0; i < arrived_.size(); ++i) {
    if (!arrived_[i] && !ended_[i]) return std::nullopt;
  }
  std::optional<Barrier> complete = open_;
  last_complete_ = open_->id;
  open_.reset();
  std::fill(arrived_.begin(), arrived_.end(), false);
  return complete;
}

}  // namespace cairn::stream
