// SPDX-License-Identifier: Apache-2.0
//
// DomainCore: what the tables of a StateDomain share. See src/state/domain_core.cc for the
// algorithm as a whole and docs/state/views.md for the argument that it is right.
//
// Threads:  members say which. "Writer" is the one thread that changes the domain's tables.
// Invariants
//  1. newest is the epoch of the newest open view, 0 without one, and always below epoch. Only the
//     writer raises it. A value read too high costs a copy, never correctness.
//  2. A structure made at epoch b and replaced at epoch d is seen exactly by the open views v with
//     b <= v < d. Replaced structures are garbage and wait with the newest such view.
//  3. Chunks of the log have birth 0: a reader walks through records newer than its view, so a
//  chunk
//     is kept until no view that was open when it was filled, or any older one, is open.
//  4. Nobody waits for a view: the registry mutex is held for O(1) work, plus a walk over the open
//     views where garbage of a released one finds the next older.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cairn/detail/block_pool.h"
#include "cairn/memory_budget.h"
#include "cairn/state_domain.h"
#include "cairn/status.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace detail {

struct Root;
class DomainCore;

/// What garbage is, so that any thread can free it without the table it came from. Kinds from
/// kFirstBox on are boxes and index the core's destroyers.
enum GarbageKind : uint16_t { kBlock = 0, kSegment = 1, kLogChunk = 2, kFirstBox = 3 };

struct Garbage {
  void* block = nullptr;
  uint32_t birth = 0;
  BlockClass block_class = 0;
  uint16_t kind = kBlock;
};

/// Every box starts with the bytes that its value owns outside the pool.
struct BoxHeader {
  uint64_t external_bytes = 0;
};

/// A fixed number of garbage items: they move between views as a whole.
struct GarbageBag {
  static constexpr uint32_t kItems = 126;
  GarbageBag* next = nullptr;
  uint32_t limit = 0;  ///< no view newer than this sees an item
  uint32_t count = 0;
  uint32_t births_max = 0;
  Garbage items[kItems];
};

/// Bytes of the log chunks of one table that are not yet free again.
struct LogAccount {
  std::atomic<uint64_t> bytes{0};
};

/// A run of pre-images. Records follow the header.
struct LogChunk {
  uint32_t number;
  BlockClass block_class;
  LogAccount* account;
};

/// A table as the domain sees it at capture.
struct TableCut {
  const Root* root = nullptr;
  uint64_t live_rows = 0;
  uint32_t epoch = 1;  ///< the domain's, where the table has it at hand
};

struct ViewNode {
  std::atomic<uint64_t> handles{0};
  uint32_t epoch = 0;
  DomainCore* core = nullptr;
  ClockTimes times;            ///< of the capture
  std::vector<TableCut> cuts;  ///< by table index
  ViewNode* older = nullptr;
  ViewNode* newer = nullptr;
  GarbageBag* bags = nullptr;
  GarbageBag* last_bag = nullptr;
};

class DomainCore {
 public:
  static constexpr uint32_t kChunkShift = 9;  ///< at most 512 records a chunk
  using Destroyer = void (*)(void* box);

  explicit DomainCore(StateDomainOptions options);
  DomainCore(const DomainCore&) = delete;
  DomainCore& operator=(const DomainCore&) = delete;

  // Views. Capture, Commit and Poll are the writer's; the rest is any thread's.
  ViewNode* Capture();
  void Poll(size_t steps);
  void Release(ViewNode* node);
  void Unref();
  uint32_t OldestViewEpoch() const { return oldest.load(std::memory_order_acquire); }
  size_t OpenViews() const;

  /// Register a table; its cut is read at every capture until RemoveTable.
  uint32_t AddTable(TableCut* cut);
  void RemoveTable(uint32_t index) { tables_[index] = nullptr; }
  LogAccount* AddLogAccount();
  uint16_t AddDestroyer(Destroyer destroyer);

  // Memory, the writer's.
  /// Why the last allocation or charge was refused, with the oldest view that holds memory.
  Status Refusal() const;

  /// Give up something that the newest state no longer uses.
  void Retire(void* block, BlockClass block_class, uint16_t kind, uint32_t birth) noexcept {
    const uint32_t newest_open = newest.load(std::memory_order_acquire);
    if (birth > newest_open || newest_open == 0) {
      FreeNow({block, birth, block_class, kind});
    } else {
      RetireSlow({block, birth, block_class, kind});
    }
  }

  /// Account for memory that boxes own outside the pool. Charged in granules.
  Status ChargeExternal(uint64_t bytes, bool force);
  void ReleaseExternal(uint64_t bytes) {
    external_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // Log.
  /// Take a chunk and a number for it; null when refused. The writer's.
  LogChunk* NewChunk(size_t record_bytes, uint32_t records, LogAccount* account);
  /// Where record `number` lies. Any thread that has the number from a segment it has pinned.
  char* Record(uint32_t number, size_t record_bytes) const {
    const uint32_t chunk_number = number >> kChunkShift;
    LogChunk* chunk = chunk_tables_[chunk_number / kChunksATable]
                          .load(std::memory_order_acquire)[chunk_number % kChunksATable]
                          .load(std::memory_order_acquire);
    return reinterpret_cast<char*>(chunk + 1) + (number & ((1u << kChunkShift) - 1)) * record_bytes;
  }

  /// Tombstones stamped at or below it may go. The writer's.
  uint32_t TombstoneFloor() const {
    const uint32_t view = oldest.load(std::memory_order_acquire);
    const uint32_t seen = view == 0 ? UINT32_MAX : view;
    const uint32_t base = track_deltas ? committed : UINT32_MAX;
    return seen < base ? seen : base;
  }

  /// Times of the oldest open view, or of one before it; none without a view. The writer's.
  const ClockTimes& OldestViewTimes() {
    const uint32_t view = oldest.load(std::memory_order_acquire);
    if (view != oldest_times_of_) [[unlikely]] {
      NoteOldestTimes();
    }
    return oldest_times_;
  }

  uint64_t MemoryBytes() const;
  uint64_t ViewBytes() const;

  // The writer's, read on every change.
  uint32_t epoch = 1;
  uint32_t committed = 0;
  bool track_deltas = true;
  ClockTimes times;

  /// Stored with release after the last read of a view, loaded with acquire before what it showed
  /// is changed or freed: that orders the two.
  alignas(64) std::atomic<uint32_t> newest{0};
  std::atomic<uint32_t> oldest{0};

  alignas(64) BlockPool pool;

 private:
  static constexpr uint32_t kChunkTables = 1024;
  static constexpr uint32_t kChunksATable = 4096;
  static constexpr uint64_t kExternalGranule = 256 * 1024;
  using ChunkSlot = std::atomic<LogChunk*>;

  ~DomainCore();
  void NoteOldestTimes();
  void RetireSlow(const Garbage& item);
  void FreeNow(const Garbage& item);
  template <class FreeBlock>
  void FreeWith(const Garbage& item, FreeBlock&& free_block);
  void FreeBag(GarbageBag* bag, uint32_t seen_by, BlockPool::FreeChains* chains);
  void FinishBag();
  void HandOver();
  void HandOverLocked();
  void FreeDeferred(size_t bags);
  void Disperse(GarbageBag* bag, BlockPool::FreeChains* chains);
  void AttachLocked(ViewNode* node, GarbageBag* bag);
  void DeferLocked(GarbageBag* first, GarbageBag* last);
  ViewNode* NewestUpToLocked(uint32_t epoch) const;
  void UnlinkLocked(ViewNode* node);
  uint64_t GarbageBytes(const Garbage& item) const;

  std::unique_ptr<MemoryBudget::Owner> owner_;
  std::atomic<uint64_t> references_{1};

  // The writer's.
  std::vector<TableCut*> tables_;
  std::deque<LogAccount> log_accounts_;
  GarbageBag* pending_ = nullptr;  ///< not full yet
  GarbageBag* full_ = nullptr;     ///< full, waiting for the registry mutex
  uint32_t next_chunk_ = 1;
  uint64_t external_charged_ = 0;
  uint32_t oldest_times_of_ = 0;
  ClockTimes oldest_times_;

  std::atomic<uint64_t> garbage_bytes_{0};  ///< without log chunks
  std::atomic<uint64_t> log_bytes_{0};
  std::atomic<uint64_t> external_bytes_{0};

  std::atomic<ChunkSlot*> chunk_tables_[kChunkTables] = {};
  std::mutex chunk_mutex_;
  std::vector<uint32_t> free_chunks_;

  std::array<Destroyer, 1024> destroyers_{};
  uint16_t destroyer_count_ = 0;

  mutable std::mutex registry_mutex_;
  ViewNode* oldest_node_ = nullptr;
  ViewNode* newest_node_ = nullptr;
  ViewNode* free_nodes_ = nullptr;
  size_t open_views_ = 0;
  /// Garbage of views the writer released itself: freed step by step.
  GarbageBag* deferred_ = nullptr;
  GarbageBag* last_deferred_ = nullptr;
  std::atomic<std::thread::id> writer_{};
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
