// SPDX-License-Identifier: Apache-2.0
//
// Core: what a StateStore, its partitions and its checkpoint handles share. It gathers the
// partitions' parts of one checkpoint, has it persisted, and keeps what recovery found.
//
// Threads:  any; mutex_ guards everything that changes. Persisting itself runs without it, by one
// thread at a time.
// Invariants
//  1. At most one attempt is current: gathering, then ready, persisting, done. Only a done attempt
//     gives way to the next.
//  2. A partition's committed epoch moves only when a cut that holds its view was decided.
//  3. A partition joins an attempt when it has run exactly the broadcasts that were posted before
//     the attempt began.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cairn/memory_budget.h"
#include "cairn/state_store.h"
#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "env/clock.h"
#include "env/file_system.h"

namespace cairn::store {

/// The seams of a store, for tests.
struct Environment {
  env::FileSystem* files = nullptr;  ///< null = the machine's
  env::Clock* clock = nullptr;       ///< null = SystemClock()
  env::Random* random = nullptr;     ///< null = SystemRandom()
  std::function<void(checkpoint::Step)> observer;
};

/// As StateStore::Seed.
Result<std::unique_ptr<SavepointWriter>> SeedStore(const Environment& environment,
                                                   const std::string& directory,
                                                   const StateStoreOptions& options,
                                                   std::string_view offsets);

/// What one partition brings to a checkpoint.
struct Joined {
  View view;
  std::string offsets;
};

struct Attempt {
  enum class Phase : uint8_t { kGathering, kReady, kPersisting, kDone };

  base::CheckpointId id;
  int64_t started_ns = 0;
  Phase phase = Phase::kGathering;
  std::vector<std::optional<Joined>> joined;  ///< by partition
  size_t missing = 0;
  uint64_t broadcasts = 0;  ///< how many had been posted when it began
  Status status;
  std::vector<std::function<void(const Status&)>> callbacks;
};

/// What the other threads may know of a partition.
struct Member {
  std::thread::id owner;
  bool opened = false;
  std::vector<const StateTable*> tables;  ///< after Recover
  /// Of the last committed cut; after a restore, of a view captured right after it.
  std::optional<uint64_t> committed_epoch;
  uint64_t broadcasts_run = 0;
  checkpoint::LoadReceipt receipt;
};

/// A partition's own part, its thread's except where a member says otherwise.
struct PartitionState {
  uint32_t index = 0;
  KeyGroupRange range;
  std::thread::id owner;
  std::unique_ptr<StateDomain> domain;
  std::map<std::string, std::unique_ptr<RuntimeContext>, std::less<>> operators;
  bool sealed = false;         ///< Recover was called: no more declarations
  bool recovered = false;      ///< and succeeded
  bool broadcasting = false;   ///< inside a function that was broadcast
  uint64_t applied_epoch = 0;  ///< committed epoch that the domain knows
  int64_t published_ns = 0;

  std::mutex view_mutex;
  View published;            ///< guarded by view_mutex
  bool view_wanted = false;  ///< guarded by view_mutex
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  static Result<std::shared_ptr<Core>> Open(std::string_view uri, StateStoreOptions options,
                                            Environment environment);

  const StateStoreOptions& options() const { return options_; }
  const std::string& place() const { return place_; }
  uint64_t slot_hash_seed() const { return store_ == nullptr ? 0 : store_->slot_hash_seed(); }
  MemoryBudget* budget() const { return budget_; }
  const checkpoint::Cut* cut() const { return cut_.get(); }
  std::vector<std::string> notes() const;
  int64_t NowNanos() const { return clock_->MonotonicNanos(); }
  int64_t UnixMillis() const { return clock_->UnixMillis(); }

  Status ClaimPartition(uint32_t index);
  /// What the cut says of partition `index`'s input.
  Status ReadOffsets(uint32_t index, Recovered* recovered) const;
  /// Note that a partition has loaded its rows; the last one's call checks the receipts of all.
  Status NoteRecovered(uint32_t index, std::vector<const StateTable*> tables,
                       std::optional<uint64_t> epoch, checkpoint::LoadReceipt receipt);

  void Broadcast(BroadcastFn fn);
  /// What partition `index` is to run next, as Partition::RunBroadcasts; null = nothing.
  std::shared_ptr<const BroadcastFn> NextBroadcast(uint32_t index) const;
  /// Note that `index` has run it.
  void NoteBroadcast(uint32_t index);

  /// Null: `index` has to run broadcasts before it may join.
  Result<std::shared_ptr<Attempt>> Join(uint32_t index, StateDomain* domain,
                                        std::string_view offsets);
  bool IsDue(uint32_t index) const;
  std::optional<uint64_t> committed_epoch(uint32_t index) const;

  /// True when something was done.
  bool Poll();
  Status Wait(Attempt* attempt);
  bool IsDone(const Attempt& attempt) const;
  Status ResultOf(const Attempt& attempt) const;
  void OnDone(Attempt* attempt, std::function<void(const Status&)> fn);
  StateStoreStats stats() const;

  /// Fail what is not persisting, wait for what is.
  void Close();

 private:
  /// An attempt that has just ended, with those who are to be told, outside the lock.
  struct Ended {
    std::shared_ptr<Attempt> attempt;  ///< null = none has
    std::vector<std::function<void(const Status&)>> callbacks;
  };

  Core(StateStoreOptions options, Environment environment);
  Status OpenPlace(const Environment& environment);

  /// These three are called with the lock held.
  Status WhyNotJoin(uint32_t index) const;
  Ended FinishLocked(std::shared_ptr<Attempt> attempt, Status status);
  checkpoint::CapturedCut CutOfLocked(const Attempt& attempt) const;

  /// Give up a checkpoint that not all partitions joined in time.
  bool GiveUpLate();
  void Post(const std::shared_ptr<Attempt>& attempt);
  bool PersistReady();
  Status PersistCut(base::CheckpointId id, int64_t started_ns,
                    const checkpoint::CapturedCut& captured, checkpoint::PersistedCut* persisted);
  void Announce(const Ended& ended);

  const StateStoreOptions options_;
  env::FileSystem* const files_;
  env::Clock* const clock_;
  std::string place_;
  std::unique_ptr<MemoryBudget> own_budget_;
  MemoryBudget* budget_;
  std::unique_ptr<checkpoint::CheckpointStore> store_;
  std::shared_ptr<const checkpoint::Cut> cut_;
  checkpoint::InlineExecutor inline_executor_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  size_t recovered_count_ = 0;
  Status fatal_;  ///< why no checkpoint may be taken any more
  std::shared_ptr<Attempt> attempt_;
  std::deque<std::shared_ptr<const BroadcastFn>> broadcasts_;  ///< that a partition has yet to run
  uint64_t broadcasts_gone_ = 0;                               ///< posted before those
  int64_t last_start_ns_ = 0;
  bool closed_ = false;
  StateStoreStats stats_;
};

}  // namespace cairn::store
