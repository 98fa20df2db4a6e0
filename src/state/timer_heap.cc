// SPDX-License-Identifier: Apache-2.0
#include "cairn/detail/timer_heap.h"

#include <algorithm>
#include <new>

namespace cairn {
inline namespace v0 {
namespace detail {

TimerHeap::~TimerHeap() {
  for (TimerEntry* chunk : chunks_) core_->pool.Free(chunk, BlockPool::ClassOf(kChunkBytes));
}

bool TimerHeap::Reserve(size_t entries) {
  while (chunks_.size() * kChunkEntries < entries) {
    if (!AddChunk(false)) return false;
  }
  return true;
}

bool TimerHeap::AddChunk(bool force) {
  chunks_.push_back(nullptr);
  chunks_.back() = static_cast<TimerEntry*>(core_->pool.Allocate(kChunkBytes, force));
  if (chunks_.back() != nullptr) return true;
  chunks_.pop_back();
  return false;
}

void TimerHeap::Append(const TimerEntry& entry) {
  if (chunks_.size() * kChunkEntries == size_ && !AddChunk(true)) throw std::bad_alloc();
  At(size_++) = entry;
}

void TimerHeap::Push(const TimerEntry& entry) {
  size_t hole = size_++;
  while (hole > 0) {
    const size_t parent = (hole - 1) / kArity;
    if (!(entry < At(parent))) break;
    At(hole) = At(parent);
    hole = parent;
  }
  At(hole) = entry;
}

void TimerHeap::Pop() {
  const TimerEntry last = At(--size_);
  if (size_ > 0) SiftDown(0, last);
}

void TimerHeap::SiftDown(size_t hole, const TimerEntry& entry) {
  for (;;) {
    const size_t first = hole * kArity + 1;
    if (first >= size_) break;
    const size_t last = std::min(first + kArity, size_);
    size_t least = first;
    for (size_t child = first + 1; child < last; ++child) {
      if (At(child) < At(least)) least = child;
    }
    if (!(At(least) < entry)) break;
    At(hole) = At(least);
    hole = least;
  }
  At(hole) = entry;
}

void TimerHeap::Order() {
  if (size_ < 2) return;
  for (size_t i = (size_ - 2) / kArity + 1; i > 0; --i) {
    const TimerEntry entry = At(i - 1);
    SiftDown(i - 1, entry);
  }
}

void TimerHeap::Trim() {
  while (chunks_.size() * kChunkEntries >= size_ + 2 * kChunkEntries) {
    core_->pool.Free(chunks_.back(), BlockPool::ClassOf(kChunkBytes));
    chunks_.pop_back();
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn
