// SPDX-License-Identifier: Apache-2.0
//
// StateStore: keyed state with exactly-once checkpoints inside your own process and your own event
// loop. docs/embedding.md tells the whole story; in short:
//
//   auto store = cairn::StateStore::Open("file:///var/lib/clicks", {"clicks"});
//   cairn::Partition* part = *(*store)->OpenPartition(0);
//   auto* counts = *part->Operator("count")->keyed_state<std::string, int64_t>("clicks");
//   auto start = part->Recover();               // state and offsets of one cut
//   input.Seek(start->offsets);                 // empty at the very first start
//   while (auto event = input.Next()) {      // your own loop
//     counts->Update(event->user, [](int64_t& n, bool) noexcept { ++n; });
//     if (part->CheckpointDue()) part->Checkpoint(input.Position());
//     (*store)->Poll();                         // persists here, unless you gave an executor
//   }
//
// Threads:  a partition and its state belong to the thread that opened it; StateStore's own calls
//           are made by any thread. Cairn starts no thread: a checkpoint is persisted on
//           Options::executor or, without one, inside Poll and Wait.
// Invariants
//  1. A checkpoint holds, for every partition, its state and its offsets as of that partition's
//     Checkpoint call. Recovery gives back both or neither.
//  2. One checkpoint is under way at a time. One that fails harms nothing: its changes are in the
//     next.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/hash.h"
#include "cairn/runtime_context.h"
#include "cairn/savepoint.h"
#include "cairn/slot_codec.h"
#include "cairn/status.h"
#include "cairn/view.h"

namespace cairn {

namespace store {
class Core;
struct Attempt;
struct PartitionState;
}  // namespace store

inline namespace v0 {

/// Where a StateStore's persist work goes: it is called with a task to run once, soon, on any one
/// thread.
using Executor = std::function<void(std::function<void()> task)>;

class Partition;
/// What every partition does with one event of a control stream: StateStore::Broadcast.
using BroadcastFn = std::function<Status(Partition*)>;

/// Options of a StateStore. A nested member is the option of that name: checkpoint.retained is
/// `checkpoint.retained` of docs/running.md.
struct StateStoreOptions {
  StateStoreOptions(std::string store_name = "store")  // NOLINT: implicit, as Open(uri, {"clicks"})
      : name(std::move(store_name)) {}

  std::string name;  ///< of the pipeline: a place holds one, and refuses another
  uint32_t partitions = 1;
  /// Where checkpoints go: a directory, file://DIR or s3://BUCKET/PREFIX. Empty = where the backend
  /// keeps them; memory:// has no such place and then takes no checkpoint.
  std::string checkpoints;
  uint64_t recover_at = 0;  ///< id of a retained checkpoint to go back to; 0 = the newest
  bool fresh = false;       ///< refuse a place that holds a checkpoint
  Executor executor;        ///< empty = persist inside Poll and Wait

  struct {
    std::chrono::milliseconds interval{10'000};  ///< what CheckpointDue goes by; 100 ms at least
    std::chrono::milliseconds timeout{120'000};
    uint32_t retained = 3;
    uint32_t rebase_chunks = 64;
    uint32_t max_concurrent_uploads = 8;  ///< parts of objects on their way to a bucket at once
  } checkpoint;
  struct {
    uint32_t key_groups = kDefaultKeyGroups;  ///< fixed once there is a checkpoint
    uint64_t memory_budget = 0;  ///< bytes; 0 = the process's: half of memory, shared by all stores
  } state;
  struct {
    bool fsync = true;  ///< false: checkpoints survive a kill but no power cut
  } fs;
  struct {
    std::chrono::milliseconds staleness{50};  ///< least age of a published view before the next
  } view;

  /// Set a nested option by its name, from text: Set("checkpoint.interval", "5s").
  ///
  /// Errors:   kInvalidArgument: unknown, not of a store, or out of bounds.
  Status Set(std::string_view name, std::string_view value);
};

/// What Partition::Recover found.
struct Recovered {
  uint64_t checkpoint = 0;  ///< 0 = none: the state is empty, begin from the start of the input
  uint64_t rows = 0;        ///< of state, loaded into this partition
  /// As this partition gave them to Checkpoint. Empty when there is no checkpoint, and when it was
  /// taken with another number of partitions: then divide all_offsets anew.
  std::string offsets;
  std::vector<std::string> all_offsets;  ///< of every partition of the checkpoint
};

/// One checkpoint on its way. Copies share it.
///
/// Threads:  any.
class CheckpointHandle {
 public:
  uint64_t id() const;

  /// Decided or failed: result() is final.
  bool done() const;

  /// OK = committed: recovery gives this cut or a later one. Before done, kUnavailable.
  ///
  /// Errors:   kUnavailable (a partition did not join in time, or I/O failed: the next checkpoint
  ///           holds its changes) · kResourceExhausted (disk) · kFenced (another process took the
  ///           place over: stop) · what a codec returned.
  Status result() const;

  /// Wait until it is done, then as result. Without an executor it persists here.
  ///
  /// Blocks:   on the other partitions and on the disk.
  /// Errors:   as result · kInvalidArgument: a partition of the calling thread has not joined yet,
  ///           so it would wait for itself.
  Status Wait();

  /// Call `fn` once with the result: on the thread that persisted, at once when it is done.
  void OnDone(std::function<void(const Status&)> fn);

 private:
  friend class Partition;
  CheckpointHandle(std::shared_ptr<store::Core> core, std::shared_ptr<store::Attempt> attempt)
      : core_(std::move(core)), attempt_(std::move(attempt)) {}
  std::shared_ptr<store::Core> core_;
  std::shared_ptr<store::Attempt> attempt_;
};

/// The key groups of one thread: their state and how far their input was read.
///
/// Threads:  the one that opened it, unless a call says otherwise.
class Partition {
 public:
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  uint32_t index() const;
  KeyGroupRange key_groups() const;

  /// Where operator `uid` declares its state, before Recover. One context a uid; it lives as long
  /// as the store.
  RuntimeContext* Operator(std::string_view uid);

  /// Load this partition's part of the cut that Open found.
  ///
  /// Blocks:   on reads of its frames.
  /// Errors:   kCorruption (damaged or missing: never an empty start) · kInvalidArgument (saved
  ///           state that no operator declared, or declared with another codec or version) ·
  ///           kResourceExhausted over the memory budget. The last partition's call also proves
  ///           that every saved row was loaded exactly once.
  Result<Recovered> Recover();

  /// Join the next checkpoint with the state as it is now and `offsets`, your own bytes. The
  /// checkpoint is complete when every partition has joined it.
  ///
  /// Shape:    offsets of at most kOffsetBytesMax. Runs first what was broadcast before the
  ///           checkpoint began.
  /// Errors:   kUnavailable: the checkpoint before is still on its way; try again later · kFenced ·
  ///           kInvalidArgument: not recovered yet, no checkpoint place, offsets too long · as
  ///           RunBroadcasts: this partition has not joined.
  /// Cost:     tens of microseconds at any size of the state, as it wakes the executor's thread;
  ///           nothing is copied. One checkpoint in 65,536 writes a small record.
  Result<CheckpointHandle> Checkpoint(std::string_view offsets);

  /// Run what StateStore::Broadcast was given and this partition has not run, in that order. While
  /// others have begun a checkpoint that this partition has yet to join, what came after its
  /// beginning waits. Call it between events; returns how many were run.
  ///
  /// Errors:   what a function returned: it and those behind it stay, for the next call ·
  ///           kInvalidArgument: not recovered yet, or called by such a function.
  Result<size_t> RunBroadcasts();

  /// True when checkpoint.interval has passed since the last one began and Checkpoint would join.
  bool CheckpointDue() const;

  /// Let event time come to `time_ms`: no older event is expected. State whose TTL goes by event
  /// time lives and dies by it. Fires the timers of event time
  /// that are due, operator by operator in the order of their uids. It never goes back; after
  /// Recover it is unknown until this is called.
  ///
  /// Units:    milliseconds since 1970, as those of AdvanceClock.
  /// Errors:   kInvalidArgument before Recover · as TimerService::Advance.
  Status AdvanceWatermark(int64_t time_ms);

  /// The same for processing time: the wall clock, or what you take for it.
  Status AdvanceClock(int64_t unix_ms);

  /// When the next timer is due, so that an event loop knows how long it may wait; nothing = no
  /// timer is pending.
  std::optional<int64_t> NextTimer(TimeDomain domain) const;

  /// Work off what the state owes, for about `budget`: free what released views held, sweep what
  /// its TTL has ended, publish a view that a reader asked for. Call it between events; TTLs of
  /// wall clocks go by the time of these calls.
  void Maintain(std::chrono::nanoseconds budget = std::chrono::microseconds(100));

  /// Cut the state as it is now, for readers on any thread. Release it before the store goes.
  View Capture();

  /// The newest view that was published, and ask Maintain for a newer one. Empty before the first.
  ///
  /// Threads:  any.
  View LatestView();

  uint64_t MemoryBytes() const;  ///< Threads: any.

 private:
  friend class StateStore;
  Partition(std::shared_ptr<store::Core> core, uint32_t index);
  Status CheckThread() const;
  Status AdvanceTime(TimeDomain domain, int64_t time_ms);
  bool Sweep();
  void ApplyCommitted();
  void Publish();

  std::shared_ptr<store::Core> core_;
  std::unique_ptr<store::PartitionState> state_;
};

/// Figures of a store since it was opened.
struct StateStoreStats {
  uint64_t last_checkpoint = 0;  ///< committed, also by an earlier run; 0 = none
  uint64_t committed = 0;
  uint64_t failed = 0;
  uint64_t skipped = 0;        ///< Checkpoint calls that came too early
  uint64_t bytes_written = 0;  ///< by committed checkpoints
  std::string last_warning;    ///< such as old checkpoints that could not be removed
};

class StateStore {
 public:
  using Options = StateStoreOptions;
  static constexpr size_t kOffsetBytesMax = size_t{1} << 20;

  /// Open the store, or make it, and find the newest committed cut.
  ///
  /// Shape:    `uri` is memory:// (state in memory, checkpoints where the options say) or
  /// file://DIR
  ///           (checkpoints in DIR).
  /// Errors:   kInvalidArgument (URI, options, a place of another pipeline) · kFenced (the place is
  ///           open elsewhere: names the process) · kCorruption · kUnsupportedFormat ·
  ///           kUnavailable.
  static Result<std::unique_ptr<StateStore>> Open(std::string_view uri,
                                                  Options options = Options());

  /// Make the first cut of a store that never ran, from rows, in fixed memory: give each slot with
  /// AddSlot(state->descriptor()), its rows with Put, then Commit. Open of file://`directory` then
  /// recovers it, with `offsets`: Recovered::offsets of a store of one partition, all_offsets of
  /// any other.
  ///
  /// Shape:    `options` as for Open; of them `name` and `state.key_groups` count.
  /// Errors:   kInvalidArgument: the place holds a checkpoint · as SavepointWriter::Create.
  static Result<std::unique_ptr<SavepointWriter>> Seed(const std::string& directory,
                                                       const Options& options,
                                                       std::string_view offsets = {});

  /// Waits for a persist that is running; a checkpoint that was not begun fails as kCancelled.
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// Make partition `index` the calling thread's. It lives as long as the store.
  ///
  /// Errors:   kInvalidArgument: no such partition · kAlreadyExists: opened before.
  Result<Partition*> OpenPartition(uint32_t index);

  uint32_t partitions() const;

  /// Connect a control stream, such as rules, with the keyed rows of every partition: run `fn` once
  /// in each, by its own thread, inside RunBroadcasts or Checkpoint. A checkpoint holds what `fn`
  /// did in all partitions or in none, so `fn` writes the event, and how far the control stream was
  /// read, to broadcast_state of its partition.
  ///
  /// Shape:    `fn` does not call Checkpoint or RunBroadcasts. What no checkpoint holds goes with
  ///           the process: read it again. It waits in memory until every partition has run it.
  /// Threads:  any; `fn` is called by several threads at once. Broadcasts of one thread keep their
  ///           order, and all partitions have the same.
  void Broadcast(BroadcastFn fn);

  /// Partition that owns a key: that of its key group.
  template <class K>
  uint32_t PartitionOf(const K& key) const {
    const SlotCodec<K> codec;
    std::string bytes(codec.EncodedSize(key), '\0');
    codec.Encode(key, bytes.data());
    return PartitionOfBytes(bytes);
  }
  uint32_t PartitionOfBytes(std::string_view key_bytes) const;

  /// Do what is due: persist a complete checkpoint when there is no executor, give up one whose
  /// partitions did not all join in time. True when something was done.
  ///
  /// Blocks:   on the disk while it persists.
  bool Poll();

  StateStoreStats stats() const;
  /// Where checkpoints go; empty = nowhere.
  const std::string& place() const;
  /// What opening found and repaired, one line each.
  std::vector<std::string> notes() const;

  /// For tests: a store over another file system and clock (src/store/core.h).
  static std::unique_ptr<StateStore> FromCore(std::shared_ptr<store::Core> core);

 private:
  explicit StateStore(std::shared_ptr<store::Core> core);
  std::shared_ptr<store::Core> core_;
  std::vector<std::unique_ptr<Partition>> partitions_;
};

}  // namespace v0
}  // namespace cairn
