// SPDX-License-Identifier: Apache-2.0
//
// TimerTable: the rows of a slot of timers and the heaps over them, without the types of keys and
// namespaces. See src/state/timer_table.cc for how the two are kept together.
//
// Threads:  as Table: the writer's, but for what takes a View.
// Invariants
//  1. A timer is pending exactly while its row is live.
//  2. Every live row has an entry of its generation in a heap, or among the held ones while firing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/detail/timer_heap.h"
#include "cairn/detail/timer_row_key.h"
#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

/// Count the timers of a slot, as of now.
struct TimerStatistics {
  uint64_t pending[kTimeDomains] = {};                 ///< by TimeDomain
  std::optional<int64_t> next_due[kTimeDomains] = {};  ///< time of the first one
  uint64_t bytes = 0;                                  ///< of memory: rows and heaps
};

namespace detail {

/// What is kept of a timer beside its key. Nothing of it is saved.
struct TimerRow {
  uint32_t generation = 0;
};

struct TimerRowCodec {
  size_t EncodedSize(const TimerRow&) const { return 0; }
  void Encode(const TimerRow&, char*) const {}
  Result<TimerRow> Decode(std::string_view bytes) const {
    if (!bytes.empty()) return WrongWidth(0, bytes.size());
    return TimerRow{};
  }
  size_t MemoryBytes(const TimerRow&) const { return 0; }
};

/// Keys of timers: bytes, checked when they come in.
struct TimerKeyCodec : Codec<Bytes> {
  /// Whether user key and namespace decode.
  std::function<Status(const TimerRowKey&)> check;

  Result<Bytes> Decode(std::string_view bytes) const;
  static std::string_view GroupKey(std::string_view bytes);
};

class TimerTable final : public StateTable {
 public:
  using Rows = Table<Bytes, TimerRow, TimerKeyCodec, TimerRowCodec>;
  using Fire = std::function<Status(const TimerRowKey&)>;

  TimerTable(StateDomain* domain, SlotDescriptor descriptor, TableOptions options,
             TimerKeyCodec key_codec);

  Status Register(const TimerRowKey& timer);
  bool Delete(const TimerRowKey& timer);
  bool IsPending(const TimerRowKey& timer) const;
  Status Advance(TimeDomain domain, int64_t time, const Fire& fire);
  int64_t now(TimeDomain domain) const { return now_[static_cast<int>(domain)]; }
  std::optional<int64_t> NextDue(TimeDomain domain);
  TimerStatistics Statistics();
  uint64_t size() const { return rows_.size(); }
  const Rows& rows() const { return rows_; }

  const SlotDescriptor& descriptor() const override { return rows_.descriptor(); }
  KeyGroupRange key_groups() const override { return rows_.key_groups(); }
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override {
    return rows_.EncodeBase(view, range, sink);
  }
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override {
    return rows_.EncodeDelta(view, since, range, sink);
  }
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override;
  uint64_t CountRows(const View& view) const override { return rows_.CountRows(view); }
  uint64_t MemoryBytes() const override {
    return rows_.MemoryBytes() + heap_bytes_.load(std::memory_order_relaxed);
  }

 private:
  /// One run of Advance.
  struct Firing {
    TimeDomain domain;
    int64_t now;
    TimerEntry current{};
    TimerEntry highest{.time = std::numeric_limits<int64_t>::min()};
    bool late = false;  ///< current is before highest
  };
  class FiringScope;

  TimerHeap& heap(TimeDomain domain) { return domain == TimeDomain::kEvent ? event_ : processing_; }
  uint64_t& pending(TimeDomain domain) { return pending_[static_cast<int>(domain)]; }
  TimerEntry EntryOf(const TimerRowKey& timer, uint64_t fnv, uint32_t generation) const;
  const Bytes* FindRow(const TimerEntry& entry) const;
  Status Insert(const TimerRowKey& timer, const TimerEntry& entry, uint64_t fnv, TimerHeap* into);
  bool IsHeldBack(TimeDomain domain, const TimerEntry& entry) const;
  Status FireOne(const TimerEntry& entry, const Bytes& row_key, const Fire& fire);
  Status PutBack(const TimerRowKey& timer);
  Status NeverEnds(const TimerEntry& entry, uint64_t fired) const;
  std::optional<int64_t> First(TimerHeap* heap);
  void RebuildIfSparse();
  void Rebuild();
  void CountHeapBytes();

  DomainCore* const core_;
  Rows rows_;
  TimerHeap event_;
  TimerHeap processing_;
  TimerHeap held_;  ///< registered by a callback, not to fire before the next Advance
  size_t loaded_[kTimeDomains] = {};  ///< rows that Load has seen and no heap has
  bool rebuild_due_ = false;
  uint64_t pending_[kTimeDomains] = {};
  uint32_t generation_ = 0;
  int64_t now_[kTimeDomains] = {std::numeric_limits<int64_t>::min(),
                                std::numeric_limits<int64_t>::min()};
  Firing* firing_ = nullptr;
  std::string fired_key_;
  std::atomic<uint64_t> heap_bytes_{0};
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
