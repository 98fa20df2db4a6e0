// SPDX-License-Identifier: Apache-2.0
//
// HotTier: what a remote backend holds in memory. New writes lie in the open delta; a capture
// freezes it; what is durable may lie in the cache, from which it is evicted.
//
// Threads:  one at a time: the backend's lock is held. A frozen delta is immutable and may be read
//           without it.
// Invariants
//  1. The newest value of a key is the first found in: open delta, frozen deltas from the newest,
//     cache. A key found in none is as the newest durable checkpoint says.
//  2. A delta is never evicted; the cache may lose anything at any time.
//  3. All is charged to one owner; the cache gives way before a charge is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/remote/remote_pool.h"
#include "cairn/memory_budget.h"
#include "cairn/status.h"

namespace cairn::backend {

struct StateKeyHash {
  using is_transparent = void;
  size_t operator()(const StateKeyRef& key) const {
    return std::hash<std::string_view>()(key.key) ^ (key.operator_id.value * 0x9E3779B97F4A7C15ULL);
  }
};
struct StateKeyEqual {
  using is_transparent = void;
  bool operator()(const StateKeyRef& a, const StateKeyRef& b) const { return a == b; }
};

/// Writes between two captures: newest value a key, null = erased.
using DeltaRows = std::unordered_map<StateKey, PoolValue, StateKeyHash, StateKeyEqual>;

/// A delta that is written no more.
struct FrozenDelta {
  uint64_t epoch;
  DeltaRows rows;
  uint64_t bytes;
};

struct HotTierCounts {
  uint64_t rows = 0;        ///< resident, erased ones too
  uint64_t dirty_rows = 0;  ///< of these, in deltas
  uint64_t resident_bytes = 0;
  uint64_t dirty_bytes = 0;
  uint64_t evictions = 0;
};

class HotTier {
 public:
  /// Shape:    bytes_max 0 = bounded by the budget alone.
  HotTier(std::unique_ptr<MemoryBudget::Owner> owner, uint64_t bytes_max)
      : owner_(std::move(owner)), bytes_max_(bytes_max) {}
  ~HotTier();

  /// Find the newest value here; *value is null for an erased key. False when no tier knows the
  /// key.
  bool Find(StateKeyRef key, PoolValue* value);

  /// Write a value, or erase by null.
  ///
  /// Errors:   kResourceExhausted when the budget is full of what cannot be evicted. Nothing
  /// changes.
  Status Write(StateKeyRef key, PoolValue value);

  /// Put a value that the newest durable checkpoint holds into the cache, unless a delta knows the
  /// key.
  void Cache(StateKeyRef key, const PoolValue& value);

  /// Close the open delta under `epoch`; nothing to be seen when it is empty.
  void Freeze(uint64_t epoch);
  /// Frozen deltas, oldest first.
  const std::deque<std::shared_ptr<const FrozenDelta>>& frozen() const { return frozen_; }
  /// Let go of frozen deltas up to `epoch`: a checkpoint holds them now. Their rows move to the
  /// cache by Cache.
  void Thaw(uint64_t epoch);

  /// Rows of all deltas in [first, last), newest of each key, ascending.
  std::vector<PoolRow> Overlay(const StateKey& first, const std::optional<StateKey>& last) const;

  void Clear();
  HotTierCounts counts() const;
  uint64_t bytes_max() const { return bytes_max_; }

 private:
  struct Cached {
    StateKey key;
    PoolValue value;
    Cached* previous = nullptr;
    Cached* next = nullptr;
  };
  using CacheMap = std::unordered_map<StateKeyRef, std::unique_ptr<Cached>, StateKeyHash>;

  static uint64_t BytesOf(size_t key_bytes, const PoolValue& value);
  Status Charge(uint64_t bytes);
  void Release(uint64_t bytes);
  void EvictOver();
  bool EvictOne();
  void Link(Cached* cached);
  void Unlink(Cached* cached);
  void Uncache(StateKeyRef key);
  bool DeltasKnow(StateKeyRef key) const;

  const std::unique_ptr<MemoryBudget::Owner> owner_;
  const uint64_t bytes_max_;
  DeltaRows open_;
  uint64_t open_bytes_ = 0;
  std::deque<std::shared_ptr<const FrozenDelta>> frozen_;
  uint64_t frozen_bytes_ = 0;
  CacheMap cache_;
  uint64_t cache_bytes_ = 0;
  Cached* newest_ = nullptr;
  Cached* oldest_ = nullptr;
  uint64_t evictions_ = 0;
};

}  // namespace cairn::backend
