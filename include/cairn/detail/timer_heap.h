// SPDX-License-Identifier: Apache-2.0
//
// TimerHeap: the pending timers of one time domain by when they fire. It is derived from the rows
// of a slot of timers and never saved.
//
// A 4-ary heap in chunks of pooled memory: growing it copies nothing, so no registration meets a
// pause, and what it gives back serves the tables.
//
// Threads:  the writer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/detail/domain_core.h"

namespace cairn {
inline namespace v0 {
namespace detail {

/// A timer without its key: where its row is and what it fires after.
struct TimerEntry {
  int64_t time = 0;
  uint64_t rank = 0;  ///< orders timers of one time: FNV-1a 64 of key and namespace
  uint64_t hash = 0;  ///< of the row, with `group` its address
  uint32_t group = 0;
  uint32_t generation = 0;  ///< of the row: one registered anew does not answer to an older entry

  friend bool operator<(const TimerEntry& a, const TimerEntry& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.rank != b.rank) return a.rank < b.rank;
    return a.hash < b.hash;
  }
};
static_assert(sizeof(TimerEntry) == 32);

class TimerHeap {
 public:
  explicit TimerHeap(DomainCore* core) : core_(core) {}
  ~TimerHeap();
  TimerHeap(const TimerHeap&) = delete;
  TimerHeap& operator=(const TimerHeap&) = delete;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  uint64_t bytes() const { return chunks_.size() * kChunkBytes; }

  /// Take memory for `entries` in all, so that pushing up to there cannot fail; false when refused.
  bool Reserve(size_t entries);

  /// Add an entry; Reserve has made room.
  void Push(const TimerEntry& entry);

  /// The entry that fires first. Not on an empty heap.
  const TimerEntry& top() const { return At(0); }
  /// Take it away; its memory stays until Trim.
  void Pop();

  // Filling it as a whole: Clear, Append for every entry, Order. Append takes memory over the
  // budget where Reserve has not made room.
  void Clear() { size_ = 0; }
  void Append(const TimerEntry& entry);
  void Order();

  /// Give back the memory that no entry needs, but for one chunk.
  void Trim();

 private:
  static constexpr size_t kChunkShift = 9;
  static constexpr size_t kChunkEntries = size_t{1} << kChunkShift;
  static constexpr size_t kChunkBytes = kChunkEntries * sizeof(TimerEntry);
  static constexpr size_t kArity = 4;
  static_assert(kChunkBytes <= BlockPool::kMaxPooledBytes);

  TimerEntry& At(size_t i) { return chunks_[i >> kChunkShift][i & (kChunkEntries - 1)]; }
  const TimerEntry& At(size_t i) const {
    return chunks_[i >> kChunkShift][i & (kChunkEntries - 1)];
  }
  bool AddChunk(bool force);
  void SiftDown(size_t hole, const TimerEntry& entry);

  DomainCore* const core_;
  std::vector<TimerEntry*> chunks_;
  size_t size_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
