// SPDX-License-Identifier: Apache-2.0
//
// Segments and the way to them: root -> directory of a key group -> segment.
//
//   Root        one entry a key group; copied before its first change after a capture
//   Directory   2^depth entries by the top bits of the slot hash; copied likewise
//   Segment     a head with 16 one-byte tags a bucket, and an array of slots of at most
//               segment_bytes_max. Tags lie apart from slots, so that the tags of many segments
//               share pages and cache lines and a probe misses once, on the slot.
//
// Within a segment, buckets ascend with the slot hash: a walk is nearly in saved order.
//
// Invariants
//  1. A root, directory or segment made at epoch e is never changed structurally while newest >= e:
//     it is replaced in a private copy. The exception is a segment under its busy bit.
//  2. In a segment with epoch <= newest, tags, keys, undo heads and a stamp that passes newest
//     change only under the busy bit. A value is written only while its stamp > newest.
//  3. A stamp never decreases; max_stamp is at least every stamp of the segment.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "cairn/detail/block_pool.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace cairn {
inline namespace v0 {
namespace detail {

inline constexpr uint32_t kBucketSlots = 16;
inline constexpr uint32_t kSegmentBusy = 1u << 31;

// A live slot's tag is one of 240 values by its hash, a tombstone's one of 8 above them.
inline constexpr uint8_t kTagTombstone = 0xF0;
inline constexpr uint8_t kTagDeleted = 0xFE;  ///< free, a probe goes on
inline constexpr uint8_t kTagEmpty = 0xFF;    ///< ends a probe

struct LiveTags {
  uint8_t of[256] = {};
  constexpr LiveTags() {
    for (uint32_t i = 0; i < 256; ++i) {
      of[i] = static_cast<uint8_t>(i < kTagTombstone ? i : (i - kTagTombstone) * 15);
    }
  }
};
inline constexpr LiveTags kLiveTags;

inline constexpr const uint8_t& LiveTag(uint64_t hash) { return kLiveTags.of[hash & 0xFF]; }
inline constexpr uint8_t TombstoneTag(uint64_t hash) {
  return static_cast<uint8_t>(kTagTombstone | (hash & 7));
}
inline constexpr bool IsLive(uint8_t tag) { return tag < kTagTombstone; }
inline constexpr bool IsTombstone(uint8_t tag) {
  return tag >= kTagTombstone && tag < kTagTombstone + 8;
}

struct alignas(64) SegmentHead {
  std::atomic<uint32_t> pin{0};        ///< readers inside, and kSegmentBusy while the writer is
  std::atomic<uint32_t> max_stamp{0};  ///< relaxed: touches a view may see precede its capture
  uint32_t epoch = 0;
  uint32_t used = 0;   ///< slots that are not empty
  uint32_t limit = 0;  ///< of used; below the number of slots, so every probe ends
  uint16_t buckets = 0;
  BlockClass head_class = 0;
  BlockClass slots_class = 0;
  void* slots = nullptr;

  uint8_t* tags() { return reinterpret_cast<uint8_t*>(this + 1); }
  const uint8_t* tags() const { return reinterpret_cast<const uint8_t*>(this + 1); }
};

/// What a probe needs of a segment without touching its head. Copied to every alias.
struct DirectoryEntry {
  SegmentHead* head;
  void* slots;
  uint32_t epoch;
  uint16_t buckets;
  uint8_t local_depth;
};

struct alignas(16) Directory {
  uint32_t epoch;
  uint32_t depth;
  BlockClass block_class;
  DirectoryEntry* entries() { return reinterpret_cast<DirectoryEntry*>(this + 1); }
};

struct RootEntry {
  const DirectoryEntry* entries;
  uint32_t depth;
  uint32_t shift;  ///< of a hash without its lowest bit, to the index
};

struct alignas(16) Root {
  uint32_t epoch;
  uint32_t groups;
  BlockClass block_class;
  RootEntry* entries() { return reinterpret_cast<RootEntry*>(this + 1); }
  const RootEntry* entries() const { return reinterpret_cast<const RootEntry*>(this + 1); }
};

/// The segment of a group that has no rows yet: empty and full at once. Never pinned or changed.
const DirectoryEntry* NoSegment();

inline RootEntry RootEntryOf(const DirectoryEntry* entries, uint32_t depth) {
  return {entries, depth, 63 - depth};
}

/// Index by the top bits of the hash; of depth 0 there are none.
inline uint64_t DirectoryIndex(uint64_t hash, uint32_t shift) { return (hash >> 1) >> shift; }

/// Home bucket: the hash bits below those the directory used, scaled.
inline uint32_t HomeBucket(uint64_t hash, uint32_t local_depth, uint32_t buckets) {
  return static_cast<uint32_t>((static_cast<unsigned __int128>(hash << local_depth) * buckets) >>
                               64);
}

/// The 16 tags of a bucket, compared at once.
class TagBucket {
 public:
#ifdef __SSE2__
  explicit TagBucket(const uint8_t* tags)
      : tags_(_mm_load_si128(reinterpret_cast<const __m128i*>(tags))) {}
  uint32_t Match(uint8_t tag) const {
    return static_cast<uint32_t>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags_, _mm_set1_epi8(static_cast<char>(tag)))));
  }

 private:
  __m128i tags_;
#else
  explicit TagBucket(const uint8_t* tags) : tags_(tags) {}
  uint32_t Match(uint8_t tag) const {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < kBucketSlots; ++i) mask |= uint32_t{tags_[i] == tag} << i;
    return mask;
  }

 private:
  const uint8_t* tags_;
#endif
 public:
  uint32_t Empty() const { return Match(kTagEmpty); }
};

/// Hold a segment still while a reader copies from it. Never allocate or compare strings inside.
///
/// Blocks:   while the writer is inside, which is for a few stores.
class SegmentPin {
 public:
  explicit SegmentPin(SegmentHead* head) : head_(head) {
    if (head->pin.fetch_add(1, std::memory_order_acquire) & kSegmentBusy) {
      while (head->pin.load(std::memory_order_acquire) & kSegmentBusy) std::this_thread::yield();
    }
  }
  ~SegmentPin() { head_->pin.fetch_sub(1, std::memory_order_release); }
  SegmentPin(const SegmentPin&) = delete;
  SegmentPin& operator=(const SegmentPin&) = delete;

 private:
  SegmentHead* const head_;
};

/// Keep readers out of a shared segment while the writer changes its structure.
class SegmentBusy {
 public:
  /// Take `head` unless a reader is inside. The writer never waits.
  static bool Take(SegmentHead* head) {
    uint32_t idle = 0;
    return head->pin.compare_exchange_strong(idle, kSegmentBusy, std::memory_order_acquire,
                                             std::memory_order_relaxed);
  }
  static void Drop(SegmentHead* head) {
    head->pin.fetch_and(~kSegmentBusy, std::memory_order_release);
  }
};

inline uint32_t LoadStamp(const uint32_t& stamp) {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(stamp)).load(std::memory_order_relaxed);
}
inline void StoreStamp(uint32_t& stamp, uint32_t epoch) {
  std::atomic_ref<uint32_t>(stamp).store(epoch, std::memory_order_relaxed);
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn
