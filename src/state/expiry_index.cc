// SPDX-License-Identifier: Apache-2.0
#include "cairn/detail/expiry_index.h"

#include <algorithm>
#include <new>

namespace cairn {
inline namespace v0 {
namespace detail {

ExpiryIndex::~ExpiryIndex() {
  for (auto& bucket : buckets_) {
    while (bucket.second != nullptr) FreeFirst(&bucket.second);
  }
  while (pending_ != nullptr) FreeFirst(&pending_);
}

ExpiryIndex::Chunk* ExpiryIndex::Grow(Chunk** list) {
  const uint32_t capacity =
      *list == nullptr ? kFirstCapacity : std::min((*list)->capacity * 2 + 1, kCapacityMax);
  void* block = core_->pool.Allocate(BytesOf(capacity), true);
  if (block == nullptr) throw std::bad_alloc();
  *list = new (block) Chunk{*list, 0, capacity};
  bytes_ += BytesOf(capacity);
  return *list;
}

void ExpiryIndex::FreeFirst(Chunk** list) {
  Chunk* chunk = std::exchange(*list, (*list)->next);
  bytes_ -= BytesOf(chunk->capacity);
  core_->pool.Free(chunk, BlockPool::ClassOf(BytesOf(chunk->capacity)));
}

size_t ExpiryIndex::Take(const TtlNow& now, size_t count, ExpiryEntry* entries) {
  if (now.now_ms == kNoTime) return 0;
  if (pending_ != nullptr) {
    Chunk** list = &buckets_[now.pending_ms >> shift_];
    while (*list != nullptr) list = &(*list)->next;
    *list = std::exchange(pending_, nullptr);
  }
  // Every deadline of a bucket below this one is at most now.
  const int64_t present = SaturatingAdd(now.now_ms, 1) >> shift_;
  size_t taken = 0;
  while (taken < count && !buckets_.empty() && buckets_.begin()->first < present) {
    Chunk*& list = buckets_.begin()->second;
    while (list != nullptr && taken < count) {
      const auto take = static_cast<uint32_t>(std::min<size_t>(list->count, count - taken));
      list->count -= take;
      std::copy_n(list->entries() + list->count, take, entries + taken);
      taken += take;
      if (list->count == 0) FreeFirst(&list);
    }
    if (list != nullptr) break;
    buckets_.erase(buckets_.begin());
    last_ = nullptr;
  }
  entries_ -= taken;
  return taken;
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn
