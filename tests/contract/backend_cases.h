// SPDX-License-Identifier: Apache-2.0
//
// Every backend the contract suite runs on, and the ways it runs on each: as it is, with a restart
// after every operation, with a tiny memory budget. The remote backend comes over a pool, over a
// pool with a cache that holds next to nothing, and over a loader that has no rows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/changelog/changelog_backend.h"
#include "backend/remote/layered_pool.h"
#include "backend/remote/remote_read_backend.h"
#include "backend/remote/remote_testing.h"
#include "backend/table/table_backend.h"
#include "cairn/state_backend.h"
#include "env/fault_file_system.h"
#include "env/memory_file_system.h"
#include "format/keys.h"

namespace cairn::contract {

/// What the backends of one test share: a disk and remote pools that can fail, and a budget.
struct BackendWorld {
  BackendWorld() : files(&disk) {}

  /// Let the store below fail at call `call`, until Disarm.
  void Arm(uint64_t call, env::FaultKind kind) {
    files.Arm({call, kind, false, nullptr});
    pool_fault = call % 2 == 0 ? PoolFault::kBeforeCommit : PoolFault::kAfterCommit;
  }
  void Disarm() {
    files.Disarm();
    pool_fault = PoolFault::kNone;
  }

  enum class PoolFault { kNone, kBeforeCommit, kAfterCommit };
  env::MemoryFileSystem disk;
  env::FaultFileSystem files;
  MemoryBudget budget{0};
  std::shared_ptr<backend::LayeredPoolStore> pools =
      std::make_shared<backend::LayeredPoolStore>(&budget);
  PoolFault pool_fault = PoolFault::kNone;
};

/// One backend under one way of running.
using OpenBackend = std::function<Result<std::unique_ptr<StateBackend>>(BackendWorld* world,
                                                                        BackendOptions options)>;
struct BackendCase {
  std::string name;
  OpenBackend open;
  bool restart = false;       ///< after every operation
  uint64_t budget_bytes = 0;  ///< 0 = unbounded
  bool exact_rows = true;     ///< Describe counts rows, it does not estimate them
  bool scans = true;          ///< keyed rows can be listed
};

/// A backend that saves, closes, opens and restores itself after every write. While a capture is
/// held it stays as it is: the capture belongs to the process that took it.
class RestartingBackend final : public StateBackend, private ExpirySweep {
 public:
  using Open = std::function<Result<std::unique_ptr<StateBackend>>()>;

  RestartingBackend(Open open, uint32_t subtask, uint32_t parallelism)
      : open_(std::move(open)), subtask_(subtask), parallelism_(parallelism) {}

  Status Start() {
    CAIRN_ASSIGN_OR_RETURN(inner_, open_());
    return {};
  }

  Status Apply(const WriteBatch& batch, size_t* applied) override {
    CAIRN_RETURN_IF_ERROR(inner_->Apply(batch, applied));
    return Restart();
  }
  Result<std::optional<std::string>> Get(OperatorId op, std::string_view key) override {
    return inner_->Get(op, key);
  }
  Status GetMany(OperatorId op, std::span<const std::string_view> keys,
                 std::vector<std::optional<std::string>>* values) override {
    return inner_->GetMany(op, keys, values);
  }
  Status Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) override {
    in_scan_ = true;
    const Status status = inner_->Scan(op, range, visit);
    in_scan_ = false;
    return status;
  }
  Result<std::unique_ptr<CapturedState>> Capture(uint64_t checkpoint_id) override {
    next_id_ = std::max(next_id_, checkpoint_id + 1);
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<CapturedState> captured, inner_->Capture(checkpoint_id));
    return std::unique_ptr<CapturedState>(std::make_unique<Held>(std::move(captured), held_));
  }
  Result<RestoreCounts> Restore(std::span<const RestorePart> parts) override {
    return inner_->Restore(parts);
  }
  BackendDescription Describe() const override { return inner_->Describe(); }
  Status Close() override { return inner_->Close(); }
  StateStamps* stamps() override { return inner_->stamps(); }
  SnapshotPlace* snapshot_place() override { return inner_->snapshot_place(); }
  ExpirySweep* expiry() override { return inner_->expiry() == nullptr ? nullptr : this; }

  uint64_t restarts() const { return restarts_; }

 private:
  class Held final : public CapturedState {
   public:
    Held(std::unique_ptr<CapturedState> captured, std::shared_ptr<int> held)
        : captured_(std::move(captured)), held_(std::move(held)) {}
    uint64_t checkpoint_id() const override { return captured_->checkpoint_id(); }
    Result<BackendSnapshot> Persist() override { return captured_->Persist(); }

   private:
    std::unique_ptr<CapturedState> captured_;
    std::shared_ptr<int> held_;
  };

  Status Restart() {
    if (held_.use_count() > 1 || in_scan_) return {};
    RestorePart part;
    part.subtask = subtask_;
    part.parallelism = parallelism_;
    // Ids of restarts lie above those that tests use.
    CAIRN_ASSIGN_OR_RETURN(part.snapshot, inner_->Snapshot(kFirstRestartId + next_id_++));
    CAIRN_RETURN_IF_ERROR(inner_->Close());
    inner_.reset();
    CAIRN_ASSIGN_OR_RETURN(inner_, open_());
    for (const auto& [op, slot] : expiring_) inner_->expiry()->Declare(op, slot);
    if (now_ms_) inner_->expiry()->Advance(*now_ms_);
    ++restarts_;
    return inner_->Restore({&part, 1}).status();
  }

  void Declare(OperatorId op, std::string_view slot) override {
    expiring_.emplace_back(op, slot);
    inner_->expiry()->Declare(op, slot);
  }
  void Advance(int64_t now_ms) override {
    now_ms_ = now_ms;
    inner_->expiry()->Advance(now_ms);
  }
  Result<uint64_t> Sweep(uint64_t rows_max) override {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t removed, inner_->expiry()->Sweep(rows_max));
    CAIRN_RETURN_IF_ERROR(Restart());
    return removed;
  }

  static constexpr uint64_t kFirstRestartId = 1'000'000;

  const Open open_;
  const uint32_t subtask_;
  const uint32_t parallelism_;
  std::unique_ptr<StateBackend> inner_;
  std::shared_ptr<int> held_ = std::make_shared<int>();
  std::vector<std::pair<OperatorId, std::string>> expiring_;
  std::optional<int64_t> now_ms_;
  uint64_t next_id_ = 1;
  uint64_t restarts_ = 0;
  bool in_scan_ = false;
};

inline std::string SubtaskDirectory(const BackendOptions& options) {
  return "/state/" + std::to_string(options.subtask);
}

inline OpenBackend OpenTables(size_t shards, bool files) {
  return [=](BackendWorld* world, BackendOptions options) -> Result<std::unique_ptr<StateBackend>> {
    backend::TableBackendOptions tables;
    tables.state = options;
    tables.shards = shards;
    if (files) {
      tables.files = &world->files;
      tables.directory = SubtaskDirectory(options);
    }
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> opened,
                           backend::TableBackend::Open(tables));
    return opened;
  };
}

inline OpenBackend OpenChangelog(bool files, bool inside) {
  return [=](BackendWorld* world, BackendOptions options) -> Result<std::unique_ptr<StateBackend>> {
    backend::ChangelogOptions changelog;
    changelog.tables.state = options;
    changelog.inline_materialisations = inside;
    if (files) {
      changelog.tables.files = &world->files;
      changelog.tables.directory = SubtaskDirectory(options);
    }
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> opened,
                           backend::ChangelogBackend::Open(changelog));
    return opened;
  };
}

inline backend::RemoteReadOptions RemoteOptionsOf(const BackendOptions& options,
                                                  uint64_t hot_max_bytes) {
  backend::RemoteReadOptions remote;
  remote.backend = options;
  remote.hot_max_bytes = hot_max_bytes;
  remote.io_threads = 1;
  return remote;
}

inline OpenBackend OpenRemote(uint64_t hot_max_bytes) {
  return [=](BackendWorld* world, BackendOptions options) -> Result<std::unique_ptr<StateBackend>> {
    CAIRN_ASSIGN_OR_RETURN(const format::KeyLayout layout,
                           format::KeyLayout::ForKeyGroups(options.key_groups));
    auto pool =
        std::make_shared<backend::remote::HookedPool>(std::make_shared<backend::LayeredPool>(
            world->pools, world->pools->MakeLocation("pool"), layout,
            KeyGroupsOfSubtask(options.subtask, options.parallelism, options.key_groups)));
    const auto fail_when = [world](BackendWorld::PoolFault fault) {
      return [world, fault](uint64_t) {
        return world->pool_fault == fault ? Status::Unavailable("injected") : Status();
      };
    };
    pool->before_commit = fail_when(BackendWorld::PoolFault::kBeforeCommit);
    pool->after_commit = fail_when(BackendWorld::PoolFault::kAfterCommit);
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> opened,
                           backend::RemoteReadBackend::OverPool(
                               std::move(pool), RemoteOptionsOf(options, hot_max_bytes)));
    return opened;
  };
}

/// Knows no key.
class EmptyLoader final : public backend::RemoteLoader {
 public:
  Result<StateValue> Load(backend::StateKeyRef) override { return StateValue(); }
};

inline OpenBackend OpenOverLoader() {
  return [](BackendWorld*, BackendOptions options) -> Result<std::unique_ptr<StateBackend>> {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> opened,
                           backend::RemoteReadBackend::OverLoader(std::make_shared<EmptyLoader>(),
                                                                  RemoteOptionsOf(options, 4096)));
    return opened;
  };
}

/// The backends themselves, one way each.
inline std::vector<BackendCase> PlainBackends() {
  std::vector<BackendCase> cases = {{"Memory", OpenTables(1, false)},
                                    {"Sharded", OpenTables(backend::kShards, false)},
                                    {"File", OpenTables(1, true)},
                                    {"Changelog", OpenChangelog(false, true)},
                                    {"ChangelogFile", OpenChangelog(true, false)},
                                    {"ChangelogFileInside", OpenChangelog(true, true)},
                                    {"Remote", OpenRemote(0)},
                                    {"RemoteTinyCache", OpenRemote(4096)},
                                    {"RemoteOverLoader", OpenOverLoader()}};
  for (BackendCase& one : cases) one.exact_rows = !one.name.starts_with("Remote");
  cases.back().scans = false;
  return cases;
}

/// Every backend in every way.
inline std::vector<BackendCase> AllBackends() {
  std::vector<BackendCase> cases;
  for (const BackendCase& plain : PlainBackends()) {
    cases.push_back(plain);
    BackendCase restarted = plain;
    restarted.name += "Restarted";
    restarted.restart = true;
    cases.push_back(restarted);
    BackendCase tiny = plain;
    tiny.name += "TinyBudget";
    tiny.budget_bytes = uint64_t{40} << 20;
    cases.push_back(tiny);
  }
  return cases;
}

/// Open the backend of `one` in `world` as subtask `subtask` of `parallelism`.
inline Result<std::unique_ptr<StateBackend>> OpenCase(const BackendCase& one, BackendWorld* world,
                                                      uint32_t subtask = 0,
                                                      uint32_t parallelism = 1,
                                                      uint32_t key_groups = kDefaultKeyGroups,
                                                      uint64_t value_bytes_max = 1 << 30) {
  world->budget.set_limit(one.budget_bytes);
  BackendOptions options;
  options.budget = &world->budget;
  options.subtask = subtask;
  options.parallelism = parallelism;
  options.key_groups = key_groups;
  options.value_bytes_max = value_bytes_max;
  const auto open = [world, options, open = one.open] { return open(world, options); };
  if (!one.restart) return open();
  auto restarting = std::make_unique<RestartingBackend>(open, subtask, parallelism);
  CAIRN_RETURN_IF_ERROR(restarting->Start());
  return std::unique_ptr<StateBackend>(std::move(restarting));
}

inline format::KeyLayout LayoutOf(uint32_t key_groups) {
  return *format::KeyLayout::ForKeyGroups(key_groups);
}

/// The stored key of a keyed row.
inline std::string Row(std::string_view slot, std::string_view user_key,
                       uint32_t key_groups = kDefaultKeyGroups) {
  std::string key;
  LayoutOf(key_groups).AppendKeyed(KeyGroupOf(user_key, key_groups), slot, user_key, &key);
  return key;
}
inline std::string OperatorRow(std::string_view logical_key,
                               uint32_t key_groups = kDefaultKeyGroups) {
  std::string key;
  LayoutOf(key_groups).AppendOperatorState(logical_key, &key);
  return key;
}

using Rows = std::vector<std::pair<std::string, std::string>>;

inline Rows ScanRows(StateBackend* backend, OperatorId op,
                     const ScanRange& range = ScanRange::All()) {
  Rows rows;
  const Status status = backend->Scan(op, range, [&](std::string_view key, std::string_view value) {
    rows.emplace_back(key, value);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return rows;
}

inline std::optional<std::string> Read(StateBackend* backend, OperatorId op, std::string_view key) {
  Result<std::optional<std::string>> value = backend->Get(op, key);
  EXPECT_TRUE(value.ok()) << value.status().ToString();
  return value.ok() ? *std::move(value) : std::nullopt;
}

}  // namespace cairn::contract

#define ASSERT_OK(expression)                                          \
  do {                                                                 \
    const ::cairn::Status asserted_status_ = (expression);             \
    ASSERT_TRUE(asserted_status_.ok()) << asserted_status_.ToString(); \
  } while (false)
#define EXPECT_OK(expression)                                          \
  do {                                                                 \
    const ::cairn::Status expected_status_ = (expression);             \
    EXPECT_TRUE(expected_status_.ok()) << expected_status_.ToString(); \
  } while (false)
