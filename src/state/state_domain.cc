// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_domain.h"

#include <utility>

#include "cairn/detail/domain_core.h"

namespace cairn {
inline namespace v0 {

View::View(const View& other) noexcept : node_(other.node_) {
  if (node_ != nullptr) node_->handles.fetch_add(1, std::memory_order_relaxed);
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
void StateDomain::Poll(size_t steps) { core_->Poll(steps); }
uint64_t StateDomain::MemoryBytes() const { return core_->MemoryBytes(); }
uint64_t StateDomain::ViewBytes() const { return core_->ViewBytes(); }
uint64_t StateDomain::oldest_view_epoch() const { return core_->OldestViewEpoch(); }
size_t StateDomain::open_views() const { return core_->OpenViews(); }

}  // namespace v0
}  // namespace cairn
