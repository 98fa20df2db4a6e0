// SPDX-License-Identifier: Apache-2.0
//
// ChangelogBackend: changelog:// and changelog+file://. Tables as they are, saved as a
// materialisation and the log of changes since it.
//
// The log is the tables' delta since the materialisation's epoch: nothing is written on the way of
// a change, and a key that changes often is in the log once. A materialisation is made where a
// snapshot is persisted, off the owner's thread, when the log passes half the materialisation and
// at least 64 KiB, or when MaterializeNow asked for it.
//
// Threads:  as TableBackend; persists of one backend run one at a time.
// Invariants
//  1. A snapshot is its materialisation and its log, whole: it needs no other snapshot.
//  2. A materialisation in a store stays as long as a snapshot of the place names it, or the next
//     one may. It is removed only when every snapshot there was read and none does.
//  3. A persist that fails leaves the materialisation before it in force.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/changelog/materialisation_store.h"
#include "backend/snapshot_files.h"
#include "backend/table/table_backend.h"
#include "cairn/state_backend.h"

namespace cairn::backend {

struct ChangelogOptions {
  /// The tables. With `files`, snapshots go to changelog-<id>.snap files in `directory` and
  /// materialisations to its `materializations` folder.
  TableBackendOptions tables;
  /// Where materialisations go; null = the directory's, or inside each snapshot without one.
  std::shared_ptr<MaterialisationStore> store;
  /// Keep materialisations inside the snapshots, though there is a directory.
  bool inline_materialisations = false;
  /// A log below it is never turned into a materialisation by itself.
  uint64_t rebase_bytes_min = 64 << 10;
};

class ChangelogBackend final : public StateBackend, private SnapshotPlace {
 public:
  static Result<std::unique_ptr<ChangelogBackend>> Open(ChangelogOptions options);
  ~ChangelogBackend() override;

  /// Make the next snapshot that is persisted a materialisation with an empty log. Threads: any.
  void MaterializeNow() { materialise_next_.store(true, std::memory_order_release); }
  Status DeclareSlot(const SlotDescriptor& descriptor, SlotMaker maker) {
    return tables_->DeclareSlot(descriptor, std::move(maker));
  }
  /// Materialisations made so far. Threads: any.
  uint64_t materialisations() const { return materialisations_.load(); }

  Status Apply(const WriteBatch& batch, size_t* applied) override {
    return tables_->Apply(batch, applied);
  }
  Result<std::optional<std::string>> Get(OperatorId op, std::string_view key) override {
    return tables_->Get(op, key);
  }
  Status GetMany(OperatorId op, std::span<const std::string_view> keys,
                 std::vector<std::optional<std::string>>* values) override {
    return tables_->GetMany(op, keys, values);
  }
  Status Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) override {
    return tables_->Scan(op, range, visit);
  }
  Result<std::unique_ptr<CapturedState>> Capture(uint64_t checkpoint_id) override;
  Result<RestoreCounts> Restore(std::span<const RestorePart> parts) override;
  BackendDescription Describe() const override;
  Status Close() override;

  StateStamps* stamps() override { return tables_->stamps(); }
  SnapshotPlace* snapshot_place() override { return snapshots_ == nullptr ? nullptr : this; }
  ExpirySweep* expiry() override { return tables_->expiry(); }

 private:
  /// The materialisation that later logs stand on.
  struct Base {
    std::string handle;                        ///< in the store
    std::shared_ptr<const std::string> bytes;  ///< without a store
    uint64_t size = 0;
    std::vector<uint64_t> epochs;  ///< of the shards' views it shows
    uint64_t incarnation = 0;
  };
  struct Log;
  class Captured;

  explicit ChangelogBackend(ChangelogOptions options) : options_(std::move(options)) {}

  Result<BackendSnapshot> Persist(const TableCut& cut, uint64_t checkpoint_id,
                                  uint64_t incarnation);
  Result<bool> CollectLog(const TableCut& cut, uint64_t incarnation, Log* log) const;
  Result<Base> Materialise(const TableCut& cut, uint64_t checkpoint_id, uint64_t incarnation);
  Status WriteFrame(const Base& base, const Log& log, format::ByteSink* sink) const;
  Result<BackendSnapshot> WriteSnapshot(const Base& base, const Log& log, uint64_t checkpoint_id);
  Status TakeBase(Base base);

  Result<RestorePart> ReadPart(const RestorePart& part) const;
  bool IsOwnPlace(const RestorePart& part) const;
  Result<std::string> ReadOutside(const RestorePart& part, const std::string& handle) const;
  Result<std::string> FetchBase(const RestorePart& part, const format::ChangelogStream& log,
                                Base* base) const;
  Result<std::string> HandleIn(uint64_t checkpoint_id);
  Status CollectMaterialisations();

  Result<std::vector<uint64_t>> List() override { return snapshots_->ListValid(); }
  Status Purge(uint64_t checkpoint_id) override;

  ChangelogOptions options_;
  std::unique_ptr<TableBackend> tables_;
  std::unique_ptr<SnapshotFiles> snapshots_;
  std::shared_ptr<MaterialisationStore> store_;
  std::unique_ptr<MemoryBudget::Owner> memory_;  ///< of a base that is held in memory
  std::atomic<bool> materialise_next_{false};
  std::atomic<uint64_t> materialisations_{0};

  mutable std::mutex mutex_;  ///< one persist, restore or purge at a time; guards what follows
  std::optional<Base> base_;
  std::map<uint64_t, std::string> handles_;  ///< of snapshots that were read or written here

  std::mutex committed_mutex_;     ///< guards what follows
  std::optional<Base> committed_;  ///< epochs for the tables' writer to take over
};

/// Reads the materialisation that a changelog names by a handle.
using FetchMaterialisation = std::function<Result<std::string>(std::string_view handle)>;

/// Turn a changelog snapshot into the canonical stream of its rows; `fetch` (may be empty) reads
/// its materialisation when that is outside.
///
/// Shape:    operators and keys ascending: the bytes that memory:// would have written.
/// Errors:   kCorruption · kInvalidArgument when a materialisation is outside and cannot be
/// fetched.
Result<std::string> CanonicaliseChangelog(std::string_view bytes,
                                          const FetchMaterialisation& fetch);

}  // namespace cairn::backend
