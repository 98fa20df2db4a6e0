// SPDX-License-Identifier: Apache-2.0
//
// ExpiryIndex: which rows of a slot may be dead by when, so that a sweep costs O(expired).
//
// Deadlines fall into buckets of a power of two of milliseconds, about ttl / 64 wide. A row has one
// entry from its birth to its death: a write that moves the deadline leaves the entry where it is,
// and when the entry's bucket is past, the sweep finds the row alive and enters it anew, at most
// once a bucket. An entry names its row by slot hash and generation, never by key: an erased key
// leaves an orphan, which a row born later under the same key does not answer to.
//
// Rejected: an entry a deadline (a row written often would have dozens), and the bucket in the row
// (it changes under the eyes of views).
//
// Threads:  the writer's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "cairn/detail/domain_core.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace detail {

struct ExpiryEntry {
  uint64_t hash = 0;
  uint32_t group = 0;
  uint32_t generation = 0;
};

class ExpiryIndex {
 public:
  /// Memory is taken from the pools of `core`, over the budget if it must be.
  ExpiryIndex(DomainCore* core, int64_t ttl_ms)
      : core_(core), shift_(ttl_ms < 64 ? 0 : std::bit_width(uint64_t(ttl_ms) / 64) - 1) {}
  ~ExpiryIndex();
  ExpiryIndex(const ExpiryIndex&) = delete;
  ExpiryIndex& operator=(const ExpiryIndex&) = delete;

  /// Enter a row. A deadline that is already past comes up with the next Take.
  ///
  /// Cost:     O(1) amortised: a look into an ordered map when the bucket is not the last one used.
  void Add(int64_t deadline_ms, ExpiryEntry entry) {
    if (deadline_ms == kPendingDeadline) return Push(&pending_, entry);
    const int64_t bucket = deadline_ms >> shift_;
    if (last_ == nullptr || bucket != last_bucket_) {
      last_ = &buckets_[bucket];
      last_bucket_ = bucket;
    }
    Push(last_, entry);
  }

  /// Take up to `count` entries of buckets that are past at `now`; returns how many.
  size_t Take(const TtlNow& now, size_t count, ExpiryEntry* entries);

  uint64_t entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct alignas(16) Chunk {
    Chunk* next;
    uint32_t count;
    uint32_t capacity;
    ExpiryEntry* entries() { return reinterpret_cast<ExpiryEntry*>(this + 1); }
  };
  static constexpr uint32_t kFirstCapacity = 7;  // 128 bytes with the header
  static constexpr uint32_t kCapacityMax = 255;  // 4 KiB
  static size_t BytesOf(uint32_t capacity) {
    return sizeof(Chunk) + capacity * sizeof(ExpiryEntry);
  }

  void Push(Chunk** list, ExpiryEntry entry) {
    Chunk* chunk = *list;
    if (chunk == nullptr || chunk->count == chunk->capacity) chunk = Grow(list);
    chunk->entries()[chunk->count++] = entry;
    ++entries_;
  }
  Chunk* Grow(Chunk** list);
  void FreeFirst(Chunk** list);

  DomainCore* const core_;
  const int shift_;
  std::map<int64_t, Chunk*> buckets_;
  Chunk* pending_ = nullptr;  ///< written before there was a time
  Chunk** last_ = nullptr;
  int64_t last_bucket_ = 0;
  uint64_t entries_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
