// SPDX-License-Identifier: Apache-2.0
#include "backend/remote/hot_tier.h"

#include <algorithm>
#include <utility>

namespace cairn::backend {
namespace {

/// What a row costs beside its bytes: node, two strings' headers, control block, list links.
constexpr uint64_t kRowOverhead = 192;

}  // namespace

HotTier::~HotTier() { Clear(); }

uint64_t HotTier::BytesOf(size_t key_bytes, const PoolValue& value) {
  return kRowOverhead + key_bytes + (value != nullptr ? value->size() : 0);
}

bool HotTier::DeltasKnow(StateKeyRef key) const {
  if (open_.find(key) != open_.end()) return true;
  for (const auto& delta : frozen_) {
    if (delta->rows.find(key) != delta->rows.end()) return true;
  }
  return false;
}

bool HotTier::Find(StateKeyRef key, PoolValue* value) {
  if (const auto at = open_.find(key); at != open_.end()) {
    *value = at->second;
    return true;
  }
  for (auto delta = frozen_.rbegin(); delta != frozen_.rend(); ++delta) {
    const auto at = (*delta)->rows.find(key);
    if (at == (*delta)->rows.end()) continue;
    *value = at->second;
    return true;
  }
  const auto at = cache_.find(key);
  if (at == cache_.end()) return false;
  *value = at->second->value;
  Unlink(at->second.get());
  Link(at->second.get());
  return true;
}

Status HotTier::Write(StateKeyRef key, PoolValue value) {
  const uint64_t bytes = BytesOf(key.key.size(), value);
  const auto at = open_.find(key);
  const uint64_t before = at == open_.end() ? 0 : BytesOf(key.key.size(), at->second);
  if (bytes > before) CAIRN_RETURN_IF_ERROR(Charge(bytes - before));
  if (at == open_.end()) {
    Uncache(key);  // hidden from now on
    open_.emplace(StateKey(key.operator_id, std::string(key.key)), std::move(value));
  } else {
    at->second = std::move(value);
  }
  if (bytes < before) Release(before - bytes);
  open_bytes_ += bytes - before;
  EvictOver();
  return {};
}

void HotTier::Cache(StateKeyRef key, const PoolValue& value) {
  if (value == nullptr || DeltasKnow(key) || cache_.contains(key)) return;
  const uint64_t bytes = BytesOf(key.key.size(), value);
  if (bytes_max_ != 0 && bytes > bytes_max_) return;
  if (!Charge(bytes).ok()) return;  // it is only a copy
  auto cached = std::make_unique<Cached>();
  cached->key = StateKey(key.operator_id, std::string(key.key));
  cached->value = value;
  Link(cached.get());
  cache_bytes_ += bytes;
  const StateKeyRef own(cached->key);
  cache_.emplace(own, std::move(cached));
  EvictOver();
}

void HotTier::Freeze(uint64_t epoch) {
  if (open_.empty()) return;
  auto delta = std::make_shared<FrozenDelta>();
  delta->epoch = epoch;
  delta->rows = std::exchange(open_, DeltaRows());
  delta->bytes = std::exchange(open_bytes_, 0);
  frozen_bytes_ += delta->bytes;
  frozen_.push_back(std::move(delta));
}

void HotTier::Thaw(uint64_t epoch) {
  while (!frozen_.empty() && frozen_.front()->epoch <= epoch) {
    frozen_bytes_ -= frozen_.front()->bytes;
    Release(frozen_.front()->bytes);
    frozen_.pop_front();
  }
}

std::vector<PoolRow> HotTier::Overlay(const StateKey& first,
                                      const std::optional<StateKey>& last) const {
  std::vector<PoolRow> rows;
  const auto take = [&](const DeltaRows& delta) {
    for (const auto& [key, value] : delta) {
      if (key < first || (last && key >= *last)) continue;
      rows.push_back({key, value});
    }
  };
  take(open_);
  for (auto delta = frozen_.rbegin(); delta != frozen_.rend(); ++delta) take((*delta)->rows);
  // Newest first among equals, and only the newest stays.
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto less = rows[a].key <=> rows[b].key;
    return less != 0 ? less < 0 : a < b;
  });
  std::vector<PoolRow> newest;
  newest.reserve(rows.size());
  for (const size_t i : order) {
    if (newest.empty() || newest.back().key != rows[i].key) newest.push_back(std::move(rows[i]));
  }
  return newest;
}

void HotTier::Clear() {
  cache_.clear();
  newest_ = oldest_ = nullptr;
  open_.clear();
  frozen_.clear();
  Release(open_bytes_ + frozen_bytes_ + cache_bytes_);
  open_bytes_ = frozen_bytes_ = cache_bytes_ = 0;
}

HotTierCounts HotTier::counts() const {
  HotTierCounts counts;
  counts.dirty_rows = open_.size();
  for (const auto& delta : frozen_) counts.dirty_rows += delta->rows.size();
  counts.rows = counts.dirty_rows + cache_.size();
  counts.dirty_bytes = open_bytes_ + frozen_bytes_;
  counts.resident_bytes = counts.dirty_bytes + cache_bytes_;
  counts.evictions = evictions_;
  return counts;
}

Status HotTier::Charge(uint64_t bytes) {
  for (;;) {
    Status charged = owner_->Charge(bytes);
    if (charged.ok() || !EvictOne()) return charged;
  }
}

void HotTier::Release(uint64_t bytes) { owner_->Release(bytes); }

void HotTier::EvictOver() {
  if (bytes_max_ == 0) return;
  while (open_bytes_ + frozen_bytes_ + cache_bytes_ > bytes_max_ && EvictOne()) {
  }
}

bool HotTier::EvictOne() {
  if (oldest_ == nullptr) return false;
  Uncache(oldest_->key);
  ++evictions_;
  return true;
}

void HotTier::Link(Cached* cached) {
  cached->previous = nullptr;
  cached->next = newest_;
  (newest_ != nullptr ? newest_->previous : oldest_) = cached;
  newest_ = cached;
}

void HotTier::Unlink(Cached* cached) {
  (cached->previous != nullptr ? cached->previous->next : newest_) = cached->next;
  (cached->next != nullptr ? cached->next->previous : oldest_) = cached->previous;
}

void HotTier::Uncache(StateKeyRef key) {
  const auto at = cache_.find(key);
  if (at == cache_.end()) return;
  const std::unique_ptr<Cached> cached = std::move(at->second);
  Unlink(cached.get());
  const uint64_t bytes = BytesOf(cached->key.key.size(), cached->value);
  cache_bytes_ -= bytes;
  Release(bytes);
  cache_.erase(at);  // its key lies in `cached`, which goes last
}

}  // namespace cairn::backend
