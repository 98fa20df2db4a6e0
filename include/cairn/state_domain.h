// SPDX-License-Identifier: Apache-2.0
//
// StateDomain: what the tables of one subtask share: the writer's epoch, the open views, the memory
// pools and the place in the budget.
//
// Threads:  one writer, which owns the domain and its tables; readers hold views. The calls say
//           which of the two may make them.
// Invariants
//  1. The epoch starts at 1 and grows by one with every capture; a change made now is stamped with
//     it. Every open view is older than the epoch.
//  2. The committed epoch is a number, not a view: nothing stays open for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/memory_budget.h"
#include "cairn/ttl.h"
#include "cairn/view.h"

namespace cairn {
inline namespace v0 {

namespace detail {
class DomainCore;
}  // namespace detail

struct StateDomainOptions {
  std::string name = "state";      ///< how the budget names it, e.g. "q19/rank/0 subtask 1"
  MemoryBudget* budget = nullptr;  ///< null = MemoryBudget::Default(); outlives domain and views
  /// Keep erased keys as tombstones until the erase is committed. Without it EncodeDelta and Delta
  /// are not to be used, and an erased key is forgotten as soon as no view shows it.
  bool track_deltas = true;
};

class StateDomain {
 public:
  static std::unique_ptr<StateDomain> Create(StateDomainOptions options);
  ~StateDomain();
  StateDomain(const StateDomain&) = delete;
  StateDomain& operator=(const StateDomain&) = delete;

  /// Cut all tables as they are now.
  ///
  /// Threads:  the writer's.
  /// Cost:     a few words a table, at any size of the state. Nothing is copied.
  View Capture();

  /// Record that the view of `epoch` is committed: deltas are taken since it, and tombstones up to
  /// it may go. An aborted checkpoint calls nothing: its changes are in the next delta.
  ///
  /// Threads:  the writer's.
  void SetCommitted(uint64_t epoch);
  uint64_t committed_epoch() const;

  /// Epoch that changes are stamped with now. Threads: the writer's.
  uint64_t current_epoch() const;

  /// Tell the domain what time it is, for the slots with a TTL. A time before an earlier one is
  /// ignored. Event time is the watermark; wall time drives kWall and kStoppedWhileDown.
  ///
  /// Units:    milliseconds; for wall time since the Unix epoch.
  /// Threads:  the writer's.
  void AdvanceEventTime(int64_t time_ms);
  void AdvanceWallTime(int64_t time_ms);

  /// Continue the clock that stops while down from where a saved view had it. Call it before the
  /// first AdvanceWallTime; without it the clock starts at 0. Slots with a TTL do so when they are
  /// restored from a cut that says where it was.
  ///
  /// Threads:  the writer's.
  void ResumeStoppedClock(int64_t time_ms);

  /// What a clock shows; nothing before its first time. Threads: the writer's.
  std::optional<int64_t> TimeOf(TtlClock clock) const;

  /// Return garbage of released views, at most about `steps` hundred pieces of it. Call it now and
  /// then between batches when nothing else changes the tables.
  ///
  /// Threads:  the writer's.
  void Poll(size_t steps);

  /// Bytes the domain holds from the operating system; charged to the budget. Threads: any.
  uint64_t MemoryBytes() const;
  /// Of these, bytes kept only because views are open. Threads: any.
  uint64_t ViewBytes() const;
  /// Epoch of the oldest open view, 0 = none; and the number of open views. Threads: any.
  uint64_t oldest_view_epoch() const;
  size_t open_views() const;

  /// For the tables.
  detail::DomainCore* core() const { return core_; }

 private:
  explicit StateDomain(detail::DomainCore* core) : core_(core) {}
  detail::DomainCore* const core_;
  std::optional<int64_t> wall_seen_ms_;  ///< in this run
};

}  // namespace v0
}  // namespace cairn
