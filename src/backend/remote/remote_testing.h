// SPDX-License-Identifier: Apache-2.0
//
// A pool whose calls can be counted, failed and held, and keys to write to it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/remote/layered_pool.h"
#include "backend/remote/remote_read_backend.h"

namespace cairn::backend::remote {

/// Stored key of `user_key` in slot "s" of a job with 128 key groups.
inline std::string StoredKeyOf(std::string_view user_key) {
  std::string key;
  format::KeyLayout().AppendKeyed(KeyGroupOf(user_key, kDefaultKeyGroups), "s", user_key, &key);
  return key;
}
inline std::string OperatorKeyOf(std::string_view logical_key) {
  std::string key;
  format::KeyLayout().AppendOperatorState(logical_key, &key);
  return key;
}

/// Passes calls on, after asking a hook.
///
/// Threads:  as RemotePool; hooks are set while no call is under way.
class HookedPool final : public RemotePool {
 public:
  explicit HookedPool(std::shared_ptr<RemotePool> pool) : pool_(std::move(pool)) {}

  /// Called before a read, a commit or a purge; an error is the call's answer.
  std::function<Status()> before_read;
  std::function<Status(uint64_t id)> before_commit;
  std::function<Status()> before_purge;
  /// Called after a commit that was made; an error hides that it was.
  std::function<Status(uint64_t id)> after_commit;

  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> batch_reads{0};
  std::atomic<uint64_t> pages{0};
  std::atomic<uint64_t> rows_changed{0};
  std::atomic<uint64_t> rows_deleted{0};

  std::string location() const override { return pool_->location(); }
  Status Commit(PoolCommit commit) override {
    const uint64_t id = commit.id;
    if (before_commit) CAIRN_RETURN_IF_ERROR(before_commit(id));
    rows_changed += commit.changed.size();
    rows_deleted += commit.deleted.size();
    CAIRN_RETURN_IF_ERROR(pool_->Commit(std::move(commit)));
    return after_commit ? after_commit(id) : Status();
  }
  Result<PoolValue> Read(uint64_t id, StateKeyRef key) override {
    ++reads;
    if (before_read) CAIRN_RETURN_IF_ERROR(before_read());
    return pool_->Read(id, key);
  }
  Result<std::vector<PoolValue>> ReadMany(uint64_t id, std::span<const StateKey> keys) override {
    ++batch_reads;
    if (before_read) CAIRN_RETURN_IF_ERROR(before_read());
    return pool_->ReadMany(id, keys);
  }
  Result<PoolPage> ScanCheckpoint(uint64_t id, const PoolRange& range, size_t rows_max) override {
    ++pages;
    if (before_read) CAIRN_RETURN_IF_ERROR(before_read());
    return pool_->ScanCheckpoint(id, range, rows_max);
  }
  Result<uint64_t> CountRows(uint64_t id) override { return pool_->CountRows(id); }
  Status Purge(uint64_t id) override {
    if (before_purge) CAIRN_RETURN_IF_ERROR(before_purge());
    return pool_->Purge(id);
  }
  Result<std::vector<uint64_t>> List() override { return pool_->List(); }
  Result<PoolRestored> PrepareRestore(uint64_t id, std::span<const PoolPart> parts,
                                      KeyGroupRange groups) override {
    return pool_->PrepareRestore(id, parts, groups);
  }

 private:
  const std::shared_ptr<RemotePool> pool_;
};

/// The pools and backends of one job in a test.
class RemoteWorld {
 public:
  explicit RemoteWorld(uint64_t budget_bytes = 0)
      : budget(budget_bytes), store(std::make_shared<LayeredPoolStore>()) {}

  struct Subtask {
    std::shared_ptr<HookedPool> pool;
    std::unique_ptr<RemoteReadBackend> backend;
  };
  Subtask Open(uint32_t subtask = 0, uint32_t parallelism = 1, RemoteReadOptions options = {}) {
    options.backend.budget = &budget;
    options.backend.subtask = subtask;
    options.backend.parallelism = parallelism;
    options.uri = "disagg-local://";
    options.io_threads = 1;
    if (!options.hot_max_bytes) options.hot_max_bytes = 0;
    Subtask opened;
    opened.pool = std::make_shared<HookedPool>(
        std::make_shared<LayeredPool>(store, store->MakeLocation("test"), format::KeyLayout(),
                                      KeyGroupsOfSubtask(subtask, parallelism, kDefaultKeyGroups)));
    opened.backend = *RemoteReadBackend::OverPool(opened.pool, std::move(options));
    return opened;
  }

  MemoryBudget budget;
  std::shared_ptr<LayeredPoolStore> store;
};

using RowMap = std::map<std::string, std::string>;

constexpr OperatorId kOp{7};
constexpr OperatorId kOther{8};

inline std::string KeyOf(int i) { return StoredKeyOf("key" + std::to_string(i)); }

inline StateValue MustGet(StateBackend* backend, const std::string& key, OperatorId op = kOp) {
  Result<StateValue> value = backend->Get(op, key);
  EXPECT_TRUE(value.ok()) << value.status().ToString();
  return value.ok() ? *value : StateValue("the read failed");
}

inline BackendSnapshot MustSnapshot(StateBackend* backend, uint64_t id) {
  Result<BackendSnapshot> snapshot = backend->Snapshot(id);
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  return snapshot.ok() ? *snapshot : BackendSnapshot();
}

inline std::unique_ptr<CapturedState> MustCapture(StateBackend* backend, uint64_t id) {
  Result<std::unique_ptr<CapturedState>> captured = backend->Capture(id);
  EXPECT_TRUE(captured.ok()) << captured.status().ToString();
  return std::move(*captured);
}

inline RestoreCounts MustRestore(StateBackend* backend, const std::vector<RestorePart>& parts) {
  Result<RestoreCounts> counts = backend->Restore(parts);
  EXPECT_TRUE(counts.ok()) << counts.status().ToString();
  return counts.ok() ? *counts : RestoreCounts();
}

/// All rows of an operator by a scan.
inline Result<RowMap> ScanAll(StateBackend* backend, OperatorId op) {
  RowMap rows;
  CAIRN_RETURN_IF_ERROR(
      backend->Scan(op, ScanRange::All(), [&](std::string_view key, std::string_view value) {
        rows.emplace(key, value);
        return true;
      }));
  return rows;
}

}  // namespace cairn::backend::remote
