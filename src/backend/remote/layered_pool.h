// SPDX-License-Identifier: Apache-2.0
//
// LayeredPool: a RemotePool in the memory of the process, and LayeredPoolStore, the place where the
// pools of all subtasks find each other's checkpoints.
//
// Threads:  as RemotePool; the store's calls may come from any thread.
// Invariants
//  1. A checkpoint is a list of sorted, immutable layers, the newest first, above the parts it was
//     restored from. Checkpoints share layers; a layer goes with the last that holds it.
//  2. A new layer is merged with those below it that are not twice as large, so a checkpoint of n
//     rows has about log n layers and a commit costs its own rows times that.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/remote/remote_pool.h"
#include "cairn/memory_budget.h"
#include "format/keys.h"

namespace cairn::backend {

struct PoolLayer;
struct PoolCheckpoint;

class LayeredPoolStore {
 public:
  /// Shape:    `budget` is charged with what the checkpoints hold; null = nobody is.
  explicit LayeredPoolStore(MemoryBudget* budget = nullptr);
  ~LayeredPoolStore();
  LayeredPoolStore(const LayeredPoolStore&) = delete;
  LayeredPoolStore& operator=(const LayeredPoolStore&) = delete;

  /// The store of the process, for disagg-local://. Charges MemoryBudget::Default().
  static std::shared_ptr<LayeredPoolStore> Default();

  /// A location nobody has yet: `prefix` and a number.
  std::string MakeLocation(const std::string& prefix);
  /// The newest location made with `prefix` that holds checkpoint `id`.
  std::optional<std::string> FindLocation(const std::string& prefix, uint64_t id) const;

  /// Bytes of all layers, each counted once.
  uint64_t bytes() const;
  size_t checkpoints() const;

 private:
  friend class LayeredPool;
  using CheckpointMap = std::map<uint64_t, std::shared_ptr<const PoolCheckpoint>>;

  const std::shared_ptr<MemoryBudget::Owner> owner_;
  const std::shared_ptr<std::atomic<uint64_t>> bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, CheckpointMap> locations_;
  uint64_t locations_made_ = 0;
};

class LayeredPool final : public RemotePool {
 public:
  /// Shape:    commits write keyed rows of `groups` only.
  LayeredPool(std::shared_ptr<LayeredPoolStore> store, std::string location,
              format::KeyLayout layout, KeyGroupRange groups)
      : store_(std::move(store)),
        location_(std::move(location)),
        layout_(layout),
        groups_(groups) {}

  std::string location() const override { return location_; }
  Status Commit(PoolCommit commit) override;
  Result<PoolValue> Read(uint64_t id, StateKeyRef key) override;
  Result<std::vector<PoolValue>> ReadMany(uint64_t id, std::span<const StateKey> keys) override;
  Result<PoolPage> ScanCheckpoint(uint64_t id, const PoolRange& range, size_t rows_max) override;
  Result<uint64_t> CountRows(uint64_t id) override;
  Status Purge(uint64_t id) override;
  Result<std::vector<uint64_t>> List() override;
  Result<PoolRestored> PrepareRestore(uint64_t id, std::span<const PoolPart> parts,
                                      KeyGroupRange groups) override;

 private:
  Result<std::shared_ptr<const PoolCheckpoint>> Find(const std::string& location,
                                                     uint64_t id) const;
  void Publish(uint64_t id, std::shared_ptr<const PoolCheckpoint> checkpoint);

  const std::shared_ptr<LayeredPoolStore> store_;
  const std::string location_;
  const format::KeyLayout layout_;
  const KeyGroupRange groups_;
};

}  // namespace cairn::backend
