// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_domain.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cairn/detail/domain_core.h"

namespace cairn {
inline namespace v0 {

View::View(const View& other) noexcept : node_(other.node_) {
  if (node_ != nullptr) node_->handles.fetch_add(1);
}

uint64_t View::epoch() const { return node_ == nullptr ? 0 : node_->epoch; }

void View::Release() {
  detail::ViewNode* node = std::exchange(node_, nullptr);
  if (node == nullptr || node->handles.fetch_sub(1) != 1) return;
  detail::DomainCore* core = node->core;
  {
    std::lock_guard lock(core->mutex);
    core->open.erase(node->epoch);
  }
  delete node;
  core->Drop();
}

std::unique_ptr<StateDomain> StateDomain::Create(StateDomainOptions) {
  return std::unique_ptr<StateDomain>(new StateDomain(new detail::DomainCore));
}

StateDomain::~StateDomain() { core_->Drop(); }

View StateDomain::Capture() {
  auto* node = new detail::ViewNode;
  node->epoch = core_->epoch++;
  node->core = core_;
  core_->references.fetch_add(1);
  for (const auto& copy : core_->copy) node->cuts.push_back(copy());
  std::lock_guard lock(core_->mutex);
  core_->open.emplace(node->epoch, node);
  return View(node);
}

void StateDomain::SetCommitted(uint64_t epoch) { core_->committed = epoch; }
uint64_t StateDomain::committed_epoch() const { return core_->committed; }
uint64_t StateDomain::current_epoch() const { return core_->epoch; }
void StateDomain::Poll(size_t) {}
uint64_t StateDomain::MemoryBytes() const { return 0; }
uint64_t StateDomain::ViewBytes() const { return 0; }
uint64_t StateDomain::oldest_view_epoch() const {
  std::lock_guard lock(core_->mutex);
  return core_->open.empty() ? 0 : core_->open.begin()->first;
}
size_t StateDomain::open_views() const {
  std::lock_guard lock(core_->mutex);
  return core_->open.size();
}

namespace detail {
uint64_t SlotHashOf(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
}  // namespace detail

}  // namespace v0
}  // namespace cairn
