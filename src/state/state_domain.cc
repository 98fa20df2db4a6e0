// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_domain.h"

#include <optional>
#include <utility>

#include "cairn/detail/domain_core.h"

namespace cairn {
inline namespace v0 {

View::View(const View& other) noexcept : node_(other.node_) {
  if (node_ != nullptr) node_->handles.fetch_add(1, std::memory_order_relaxed);
}

namespace {

std::optional<int64_t> Known(const int64_t* times, TtlClock clock) {
  const int64_t time_ms = times[static_cast<int>(clock)];
  if (time_ms == detail::kNoTime) return std::nullopt;
  return time_ms;
}

}  // namespace

std::optional<int64_t> View::TimeOf(TtlClock clock) const {
  return node_ == nullptr ? std::nullopt : Known(node_->times.now, clock);
}

std::optional<int64_t> View::FirstTimeOf(TtlClock clock) const {
  return node_ == nullptr ? std::nullopt : Known(node_->times.first, clock);
}

uint64_t View::epoch() const { return node_ == nullptr ? 0 : node_->epoch; }

void View::Release() {
  detail::ViewNode* node = std::exchange(node_, nullptr);
  if (node == nullptr) return;
  if (node->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) node->core->Release(node);
}

std::unique_ptr<StateDomain> StateDomain::Create(StateDomainOptions options) {
  return std::unique_ptr<StateDomain>(new StateDomain(new detail::DomainCore(std::move(options))));
}

StateDomain::~StateDomain() { core_->Unref(); }

View StateDomain::Capture() { return View(core_->Capture()); }

void StateDomain::SetCommitted(uint64_t epoch) { core_->committed = static_cast<uint32_t>(epoch); }
uint64_t StateDomain::committed_epoch() const { return core_->committed; }
uint64_t StateDomain::current_epoch() const { return core_->epoch; }
void StateDomain::AdvanceEventTime(int64_t time_ms) {
  core_->times.Advance(TtlClock::kEvent, time_ms);
}

// The stopped clock runs by the steps of the wall clock that this process has seen.
void StateDomain::AdvanceWallTime(int64_t time_ms) {
  if (time_ms == detail::kNoTime) return;
  core_->times.Advance(TtlClock::kWall, time_ms);
  int64_t step = 0;
  if (!wall_seen_ms_ || time_ms > *wall_seen_ms_) {
    if (wall_seen_ms_) step = detail::SaturatingAdd(time_ms, -*wall_seen_ms_);
    wall_seen_ms_ = time_ms;
  }
  core_->times.Advance(
      TtlClock::kStoppedWhileDown,
      detail::SaturatingAdd(TimeOf(TtlClock::kStoppedWhileDown).value_or(0), step));
}

void StateDomain::ResumeStoppedClock(int64_t time_ms) {
  core_->times.Advance(TtlClock::kStoppedWhileDown, time_ms);
}

std::optional<int64_t> StateDomain::TimeOf(TtlClock clock) const {
  return Known(core_->times.now, clock);
}

void StateDomain::Poll(size_t steps) { core_->Poll(steps); }
uint64_t StateDomain::MemoryBytes() const { return core_->MemoryBytes(); }
uint64_t StateDomain::ViewBytes() const { return core_->ViewBytes(); }
uint64_t StateDomain::oldest_view_epoch() const { return core_->OldestViewEpoch(); }
size_t StateDomain::open_views() const { return core_->OpenViews(); }

}  // namespace v0
}  // namespace cairn
