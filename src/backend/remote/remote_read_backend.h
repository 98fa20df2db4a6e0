// SPDX-License-Identifier: Apache-2.0
//
// RemoteReadBackend: working state in two tiers, a hot one in memory over a remote one that holds
// the checkpoints, so that state may exceed memory, a checkpoint writes what changed and a restore
// loads nothing.
//
// Two constructions. Over a RemotePool: reads that memory cannot answer are made from the newest
// committed checkpoint, a capture freezes the writes since the last one and its Persist commits
// them. Over a RemoteLoader, which cannot be written or listed: reads go through to it, writes stay
// in memory and in checkpoints of the process; complete scans and exports are refused.
//
// Threads:  any, every call; of two writers of one key the order is theirs to fix. Asynchronous
//           reads belong to one runner. No lock is held while the remote tier works.
// Invariants
//  1. A read finds the newest write, whether it is dirty, being persisted or durable: a cold read
//     that a write overtook gives the written value.
//  2. What no checkpoint holds yet is never evicted.
//  3. A Persist that failed, or a capture that was dropped, leaves its writes in memory; the next
//     commit holds them. Persists may be made in any order.
//  4. A checkpoint that reads, scans or captures use is not purged under them: the purge waits, for
//     a scan at most reader_age_max_ms, after which the scan ends with kUnavailable.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/remote/expiry_rule.h"
#include "backend/remote/hot_tier.h"
#include "backend/remote/remote_pool.h"
#include "cairn/async_io.h"
#include "cairn/async_reads.h"
#include "cairn/state_backend.h"
#include "env/clock.h"
#include "format/keys.h"

namespace cairn::backend {

struct RemoteReadOptions {
  BackendOptions backend;
  std::string uri;       ///< for Describe
  bool durable = false;  ///< the pool survives the process
  /// Bytes of the hot tier; 0 = bounded by the budget alone. Nothing = a quarter of the budget, 64
  /// MiB at least.
  std::optional<uint64_t> hot_max_bytes;
  size_t io_threads = IoThreadPool::kDefaultThreads;
  IoExecutor* io = nullptr;     ///< used in place of own threads; outlives the backend
  env::Clock* clock = nullptr;  ///< null = the system's
  int64_t reader_age_max_ms = 600'000;
};

struct RemoteReadStats {
  uint64_t hot_hits = 0;
  uint64_t cold_keys = 0;   ///< keys asked of the remote tier
  uint64_t cold_reads = 0;  ///< round trips that took
  HotTierCounts hot;
  uint64_t open_readers = 0;
  int64_t oldest_reader_ms = 0;  ///< age
  uint64_t reader_bytes = 0;     ///< kept for them in memory
  uint64_t purges_waiting = 0;
};

class RemoteReadBackend final : public StateBackend {
 public:
  using Opened = Result<std::unique_ptr<RemoteReadBackend>>;
  static Opened OverPool(std::shared_ptr<RemotePool> pool, RemoteReadOptions options);
  static Opened OverLoader(std::shared_ptr<RemoteLoader> loader, RemoteReadOptions options);
  ~RemoteReadBackend() override;

  Status Apply(const WriteBatch& batch, size_t* applied) override;
  Result<StateValue> Get(OperatorId op, std::string_view key) override;
  Status GetMany(OperatorId op, std::span<const std::string_view> keys,
                 std::vector<StateValue>* values) override;
  /// Over a loader only operator state can be scanned; kInvalidArgument otherwise.
  Status Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) override;
  Result<std::unique_ptr<CapturedState>> Capture(uint64_t checkpoint_id) override;
  Result<RestoreCounts> Restore(std::span<const RestorePart> parts) override;
  BackendDescription Describe() const override;
  Status Close() override;

  AsyncReads* async_reads() override;
  StateStamps* stamps() override;
  SnapshotPlace* snapshot_place() override;
  ExpirySweep* expiry() override;

  using ExportVisitor =
      std::function<bool(OperatorId op, std::string_view key, std::string_view value)>;
  /// Visit every row as it is now: the newest committed checkpoint under the writes since, in order
  /// of operator and key.
  ///
  /// Errors:   kInvalidArgument over a loader · kUnavailable after reader_age_max_ms.
  Status ExportLive(const ExportVisitor& visit);

  RemoteReadStats stats() const;

 private:
  class Captured;
  class Lookup;
  class Reads;
  class Stamps;
  class Place;
  class Sweeper;
  struct Loading {
    uint64_t loads = 0;
    uint64_t version = 0;  // grows with every write while a load is under way
  };
  struct Reader {
    uint64_t checkpoint;
    int64_t since_ms;
    bool expired = false;
  };

  struct Tiers {
    std::shared_ptr<RemotePool> pool;
    std::shared_ptr<RemoteLoader> loader;
    format::KeyLayout layout;
  };

  RemoteReadBackend(Tiers tiers, RemoteReadOptions options);
  static Opened Make(Tiers tiers, RemoteReadOptions options);

  // With mutex_ held.
  Status CheckOpen() const;
  bool FindHot(StateKeyRef key, PoolValue* value);
  Status WriteHot(StateKeyRef key, PoolValue value);
  void Pin(uint64_t id) { ++pins_[id]; }
  void Unpin(uint64_t id);

  Status ApplyEntry(const WriteEntry& entry, std::unique_lock<std::mutex>* lock);
  Status ScanRows(const PoolRange& range, const ExportVisitor& visit);
  Status ScanLive(const PoolRange& range, const ExportVisitor& visit);
  Status ScanPages(const Reader& reader, const PoolRange& range, std::vector<PoolRow> overlay,
                   const ExportVisitor& visit);
  Result<BackendSnapshot> Persist(Captured* captured);
  Status CommitCaptured(const Captured& captured, uint64_t base, uint64_t base_epoch,
                        std::vector<StateStamp> stamps, DeltaRows* rows);
  void CacheCommitted(const DeltaRows& rows, uint64_t generation);
  void RunPurges();

  const RemoteReadOptions options_;
  const format::KeyLayout layout_;
  const std::shared_ptr<RemotePool> pool_;
  const std::shared_ptr<RemoteLoader> loader_;  // null over a pool
  env::Clock* const clock_;
  std::unique_ptr<IoThreadPool> own_io_;
  IoExecutor* io_;
  std::unique_ptr<MemoryBudget::Owner> reader_owner_;
  std::unique_ptr<Reads> reads_;
  std::unique_ptr<Stamps> stamps_;
  std::unique_ptr<Place> place_;
  std::unique_ptr<Sweeper> sweeper_;

  // Commits, purges and restores: one at a time. Taken before mutex_.
  std::mutex persist_mutex_;

  mutable std::mutex mutex_;
  HotTier hot_;
  ExpiryRule expiry_;
  std::unordered_map<StateKey, Loading, StateKeyHash, StateKeyEqual> loading_;
  uint64_t epoch_ = 1;
  uint64_t generation_ = 0;  // of restores
  uint64_t committed_id_ = 0;
  uint64_t committed_epoch_ = 0;
  std::map<uint64_t, uint64_t> pins_;
  std::set<uint64_t> purge_wanted_;
  std::list<Reader> readers_;
  std::vector<StateStamp> current_stamps_;
  std::vector<StateStamp> restored_stamps_;
  uint64_t last_snapshot_bytes_ = 0;
  bool closed_ = false;
  std::atomic<uint64_t> hot_hits_{0};
  std::atomic<uint64_t> cold_keys_{0};
  std::atomic<uint64_t> cold_reads_{0};
};

}  // namespace cairn::backend
