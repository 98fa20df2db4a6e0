// SPDX-License-Identifier: Apache-2.0
//
// TableBackend: Cairn's tables behind the byte contract: memory://, memory+sharded:// and file://,
// and what changelog:// keeps its state in.
//
// Rows of undeclared slots are Table<Bytes, std::string>; a declared slot has a table of its own
// types, encoded on read. A scan sorts one key group at a time from a view. Captures are views:
// taking one costs the same at any size, and it is encoded where it is persisted.
//
// Threads:  one shard: the owner's, as the contract says. Several: every call from any thread; each
//           shard has its lock, and a cut takes all of them.
// Invariants
//  1. Key group g lies in shard g % shards; operator state and raw rows in shard 0.
//  2. Equal states give equal snapshots, however they are sharded.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/snapshot_files.h"
#include "backend/table/table_cut.h"
#include "backend/table/table_set.h"
#include "cairn/state_backend.h"
#include "env/file_system.h"
#include "format/canonical_stream.h"
#include "format/keys.h"

namespace cairn::backend {

/// Shards of memory+sharded://.
inline constexpr size_t kShards = 16;

struct TableBackendOptions {
  BackendOptions state;
  std::string uri = "memory://";
  size_t shards = 1;
  bool track_deltas = false;  ///< for changelogs: erased rows are remembered until committed
  /// Where snapshots go; null = to the caller as bytes. With it, `directory` is the backend's own.
  env::FileSystem* files = nullptr;
  std::string directory;
  bool fsync = true;
};

class TableBackend final : public StateBackend,
                           private StateStamps,
                           private SnapshotPlace,
                           private ExpirySweep {
 public:
  static Result<std::unique_ptr<TableBackend>> Open(TableBackendOptions options);
  ~TableBackend() override;

  /// Give `descriptor`'s slot a table of its own types. Before its first row.
  Status DeclareSlot(const SlotDescriptor& descriptor, SlotMaker maker);

  Status Apply(const WriteBatch& batch, size_t* applied) override;
  Result<std::optional<std::string>> Get(OperatorId op, std::string_view key) override;
  Status GetMany(OperatorId op, std::span<const std::string_view> keys,
                 std::vector<std::optional<std::string>>* values) override;
  Status Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) override;
  Result<std::unique_ptr<CapturedState>> Capture(uint64_t checkpoint_id) override;
  Result<RestoreCounts> Restore(std::span<const RestorePart> parts) override;
  BackendDescription Describe() const override;
  Status Close() override;

  StateStamps* stamps() override { return this; }
  SnapshotPlace* snapshot_place() override { return snapshots_ == nullptr ? nullptr : this; }
  ExpirySweep* expiry() override { return this; }

  // For the backends over this one.

  /// Errors: kInvalidArgument after Close.
  Status CheckOpen() const;
  /// Cut all shards at one moment.
  std::shared_ptr<const TableCut> CutTables();
  /// Record that the cut of `epochs` is a base: deltas are taken since it.
  void SetCommitted(const std::vector<uint64_t>& epochs);
  /// What a changelog adds to a restore of its parts. Both may be empty.
  struct RestoreHooks {
    /// The materialisation's bytes of a part.
    std::function<Result<std::string>(const RestorePart& part, const format::ChangelogStream& log)>
        fetch_base;
    /// Called between the base and the log of a part, with a cut of the new tables.
    std::function<void(const std::vector<SetCut>& cut)> base_loaded;
  };
  /// Replace the content by `parts`, whose bytes are read already.
  Result<RestoreCounts> RestoreBytes(std::span<const RestorePart> parts, const RestoreHooks& hooks);
  /// Write all of `cut` as a canonical stream with the current stamps.
  Status WriteCanonical(const TableCut& cut, format::ByteSink* sink) const;
  /// Grows with every restore: captures of an older one are not to be persisted.
  uint64_t incarnation() const { return incarnation_.load(std::memory_order_acquire); }
  std::vector<StateStamp> current_stamps() const;
  const BackendOptions& options() const { return options_.state; }
  void NotePersisted(uint64_t checkpoint_id, uint64_t bytes);

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::shared_ptr<TableSet> tables;
    uint64_t applies = 0;
  };
  class Captured;

  explicit TableBackend(TableBackendOptions options, const format::KeyLayout& layout);

  size_t ShardOf(const format::StoredKey& key) const {
    return key.kind == format::StoredKeyKind::kKeyed ? key.group % shards_.size() : 0;
  }
  std::unique_lock<std::mutex> Lock(const Shard& shard) const;
  std::vector<std::unique_lock<std::mutex>> LockAll() const;
  std::vector<SetCut> CutLocked() const;
  std::shared_ptr<TableSet> NewSet(size_t shard) const;
  Status ApplyEntry(const WriteEntry& entry, const format::StoredKey& key, TableSet* set);
  Result<BackendSnapshot> PersistCut(const TableCut& cut, uint64_t checkpoint_id);

  // Restoring.
  struct Loader;
  Result<std::string> BytesOf(const RestorePart& part) const;

  // StateStamps, SnapshotPlace, ExpirySweep.
  Status Set(std::vector<StateStamp> stamps) override;
  std::vector<StateStamp> restored() const override;
  Result<std::vector<uint64_t>> List() override;
  Status Purge(uint64_t checkpoint_id) override;
  void Declare(OperatorId op, std::string_view slot) override;
  void Advance(int64_t now_ms) override;
  Result<uint64_t> Sweep(uint64_t rows_max) override;

  TableBackendOptions options_;
  const format::KeyLayout layout_;
  const KeyGroupRange owned_;
  SlotCatalog catalog_;
  std::unique_ptr<SnapshotFiles> snapshots_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<uint64_t> rows_{0};
  std::atomic<int64_t> now_ms_;
  std::atomic<uint64_t> incarnation_{1};
  std::atomic<bool> open_{true};
  size_t sweep_next_ = 0;  ///< where the last sweep stopped, in (operator, slot, group) order

  mutable std::mutex figures_mutex_;  ///< guards what follows
  std::vector<StateStamp> stamps_;
  std::vector<StateStamp> restored_stamps_;
  uint64_t last_checkpoint_id_ = 0;
  uint64_t last_snapshot_bytes_ = 0;
};

}  // namespace cairn::backend
