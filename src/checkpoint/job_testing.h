// SPDX-License-Identifier: Apache-2.0
//
// TestJob: a small job over a file system in memory, for the tests of this module and of
// tests/crash. It changes tables and a model together, takes checkpoints, dies and comes back with
// any parallelism, and compares.
//
// The tables behind it are either ModelTable, which can be told to fail, or real ones
// (tests/crash/real_tables.h).
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "env/fault_file_system.h"
#include "env/manual_clock.h"
#include "env/memory_file_system.h"

namespace cairn::checkpoint::testing {

using Rows = std::map<std::string, std::string>;

/// The seed of a random test: CAIRN_SEED, else a new one. Printed, so that a failure can be
/// repeated.
inline uint64_t TestSeed() {
  const char* given = std::getenv("CAIRN_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// The tables of one subtask, whatever they are made of. One slot "rows" for each operator.
class SubtaskTables {
 public:
  virtual ~SubtaskTables() = default;
  virtual std::vector<state::StateTable*> tables() = 0;
  virtual void Put(size_t op, const std::string& key, const std::string& value) = 0;
  virtual void Erase(size_t op, const std::string& key) = 0;
  virtual View Capture() = 0;
  virtual uint64_t EpochOf(const View& view) = 0;
  virtual void SetCommitted(uint64_t epoch) = 0;
  /// Rows of operator `op` as they are now.
  virtual Rows Contents(size_t op) = 0;
};

/// A table that is a std::map with stamps. It sees every view as "now": tests do not change it
/// between capture and persist.
class ModelTable final : public state::StateTable {
 public:
  ModelTable(state::SlotDescriptor descriptor, KeyGroupRange groups, uint32_t key_groups,
             uint64_t seed)
      : descriptor_(std::move(descriptor)), groups_(groups), key_groups_(key_groups), seed_(seed) {}

  void Put(const std::string& key, const std::string& value) { rows_[key] = {value, epoch_, true}; }
  void Erase(const std::string& key) {
    if (auto found = rows_.find(key); found != rows_.end()) found->second = {"", epoch_, false};
  }
  uint64_t NextEpoch() { return epoch_++; }
  /// Make encoding fail at `key`: with a Status, or by throwing.
  void FailAt(std::string key, bool by_throwing) {
    fail_at_ = std::move(key);
    throw_ = by_throwing;
  }
  Rows Live() const {
    Rows live;
    for (const auto& [key, row] : rows_) {
      if (row.live) live[key] = row.value;
    }
    return live;
  }

  const state::SlotDescriptor& descriptor() const override { return descriptor_; }
  KeyGroupRange key_groups() const override { return groups_; }
  Status EncodeBase(const View&, KeyGroupRange range, state::SavedRowSink* sink) const override {
    return Encode(range, std::nullopt, sink);
  }
  Status EncodeDelta(const View&, uint64_t since, KeyGroupRange range,
                     state::SavedRowSink* sink) const override {
    return Encode(range, since, sink);
  }
  Status Load(const state::SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              state::LoadCounts* counts) override {
    for (size_t i = 0; i < rows.rows; ++i) {
      const std::string_view stored = rows.key(i);
      uint32_t group = static_cast<uint8_t>(stored[0]);
      if (group_prefix_bytes == 2) group = group << 8 | static_cast<uint8_t>(stored[1]);
      const bool keyed = descriptor_.kind == state::SlotKind::kKeyedValue;
      if (keyed && !groups_.Contains(group)) {
        ++counts->skipped;
        continue;
      }
      const std::string key(stored.substr(key_prefix_bytes));
      if (rows.kind(i) == state::SavedRowKind::kErase) {
        Erase(key);
      } else {
        Put(key, std::string(rows.value(i)));
      }
      ++counts->rows;
    }
    return {};
  }
  uint64_t CountRows(const View&) const override { return Live().size(); }
  uint64_t MemoryBytes() const override { return rows_.size() * 64; }

 private:
  struct Row {
    std::string value;
    uint64_t stamp = 0;
    bool live = true;
  };

  uint32_t GroupOf(const std::string& key) const {
    return descriptor_.kind == state::SlotKind::kKeyedValue ? KeyGroupOf(key, key_groups_) : 0;
  }

  Status Encode(KeyGroupRange range, std::optional<uint64_t> since,
                state::SavedRowSink* sink) const {
    std::map<uint32_t, std::vector<std::pair<uint64_t, const std::string*>>> by_group;
    for (const auto& [key, row] : rows_) {
      const uint32_t group = GroupOf(key);
      if (!range.Contains(group) || (since ? row.stamp <= *since : !row.live)) continue;
      by_group[group].emplace_back(XXH3_64bits_withSeed(key.data(), key.size(), seed_), &key);
    }
    for (auto& [group, keys] : by_group) {
      std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first, *a.second) < std::pair(b.first, *b.second);
      });
      CAIRN_ASSIGN_OR_RETURN(state::SavedRows * rows, sink->BeginGroup(group));
      for (const auto& [hash, key] : keys) {
        if (*key == fail_at_) {
          if (throw_) throw std::runtime_error("key \"" + *key + "\" is too odd");
          return Status::InvalidArgument("key \"" + *key + "\" does not encode");
        }
        const Row& row = rows_.at(*key);
        const state::SavedRowKind kind = !since     ? state::SavedRowKind::kMaterialised
                                         : row.live ? state::SavedRowKind::kPut
                                                    : state::SavedRowKind::kErase;
        const auto at = rows->Append(kind, key->size(), row.value.size());
        if (!key->empty()) std::memcpy(at.key, key->data(), key->size());
        if (!row.value.empty()) std::memcpy(at.value, row.value.data(), row.value.size());
        if (rows->bytes() >= state::kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
      }
    }
    return {};
  }

  state::SlotDescriptor descriptor_;
  KeyGroupRange groups_;
  uint32_t key_groups_;
  uint64_t seed_;
  uint64_t epoch_ = 1;
  std::map<std::string, Row> rows_;
  std::string fail_at_ = "\x01 no such key";
  bool throw_ = false;
};

/// How the tables of a subtask are made.
struct TablesSpec {
  std::vector<state::SlotDescriptor> slots;  ///< one an operator
  uint32_t subtask = 0;
  KeyGroupRange groups;
  uint32_t key_groups = kDefaultKeyGroups;
  uint64_t slot_hash_seed = 0;
};
using TablesFactory = std::function<std::unique_ptr<SubtaskTables>(const TablesSpec&)>;

class ModelTables final : public SubtaskTables {
 public:
  explicit ModelTables(const TablesSpec& spec) {
    for (const state::SlotDescriptor& slot : spec.slots) {
      const bool keyed = slot.kind == state::SlotKind::kKeyedValue;
      tables_.push_back(std::make_unique<ModelTable>(
          slot, keyed ? spec.groups : KeyGroupRange{0, 1}, spec.key_groups, spec.slot_hash_seed));
    }
  }
  std::vector<state::StateTable*> tables() override {
    std::vector<state::StateTable*> all;
    for (auto& table : tables_) all.push_back(table.get());
    return all;
  }
  void Put(size_t op, const std::string& key, const std::string& value) override {
    tables_[op]->Put(key, value);
  }
  void Erase(size_t op, const std::string& key) override { tables_[op]->Erase(key); }
  View Capture() override {
    for (auto& table : tables_) epoch_ = table->NextEpoch();
    return {};
  }
  uint64_t EpochOf(const View&) override { return epoch_; }
  void SetCommitted(uint64_t) override {}
  Rows Contents(size_t op) override { return tables_[op]->Live(); }
  ModelTable* table(size_t op) { return tables_[op].get(); }

 private:
  std::vector<std::unique_ptr<ModelTable>> tables_;
  uint64_t epoch_ = 0;
};

inline state::SlotDescriptor SlotOf(const std::string& uid,
                                    state::SlotKind kind = state::SlotKind::kKeyedValue) {
  state::SlotDescriptor slot;
  slot.operator_id = base::OperatorIdOf(uid);
  slot.operator_uid = uid;
  slot.name = "rows";
  slot.kind = kind;
  slot.key_codec = "bytes";
  slot.value_codec = "bytes";
  return slot;
}

/// See the file comment.
class TestJob {
 public:
  explicit TestJob(
      std::vector<state::SlotDescriptor> slots = {SlotOf("out/count/0")},
      TablesFactory factory =
          [](const TablesSpec& spec) { return std::make_unique<ModelTables>(spec); })
      : slots_(std::move(slots)), factory_(std::move(factory)), model_(slots_.size()) {
    options.pipeline.job = "test";
    options.pipeline.components.push_back({"source", "in", "{}", false});
    std::set<std::string> operators;
    for (const state::SlotDescriptor& slot : slots_) operators.insert(slot.operator_uid);
    for (const std::string& uid : operators) {
      options.pipeline.components.push_back({"operator", uid, "{}", false});
    }
    options.pipeline.components.push_back({"sink", "out", "{}", true});
    options.clock = &clock;
    options.random = &random;
  }

  /// Open the place, recover and load at parallelism `p`. Rows in memory before are forgotten.
  Status Start(uint32_t p, std::optional<base::CheckpointId> at = std::nullopt) {
    Stop();
    CAIRN_ASSIGN_OR_RETURN(store, open ? open(options) : OpenStoreAt(&files, directory, options));
    CAIRN_ASSIGN_OR_RETURN(cut, at ? store->RecoverAt(*at) : store->Recover());
    std::vector<std::vector<state::StateTable*>> tables;
    for (uint32_t i = 0; i < p; ++i) {
      TablesSpec spec{slots_, i, KeyGroupsOfSubtask(i, p, options.key_groups), options.key_groups,
                      store->slot_hash_seed()};
      subtasks.push_back({factory_(spec), std::nullopt});
      tables.push_back(subtasks.back().tables->tables());
    }
    if (cut != nullptr) {
      Result<std::vector<LoadReceipt>> loaded = LoadState(*cut, tables, &executor);
      if (!loaded.ok()) return loaded.status();
      receipts = *std::move(loaded);
      for (Subtask& subtask : subtasks) {
        const View view = subtask.tables->Capture();
        subtask.committed = subtask.tables->EpochOf(view);
        subtask.tables->SetCommitted(*subtask.committed);
      }
    }
    return {};
  }

  /// Forget everything in memory, as a killed process does.
  void Stop() {
    subtasks.clear();
    receipts.clear();
    cut.reset();
    store.reset();
  }

  void Put(size_t op, const std::string& key, const std::string& value) {
    OwnerOf(key).tables->Put(op, key, value);
    model_[op][key] = value;
  }
  void Erase(size_t op, const std::string& key) {
    OwnerOf(key).tables->Erase(op, key);
    model_[op].erase(key);
  }

  CapturedCut Capture() {
    CapturedCut captured;
    captured.parallelism = static_cast<uint32_t>(subtasks.size());
    for (uint32_t i = 0; i < subtasks.size(); ++i) {
      CapturedSubtask one;
      one.subtask = i;
      for (state::StateTable* table : subtasks[i].tables->tables()) one.tables.push_back(table);
      one.view = subtasks[i].tables->Capture();
      one.committed_epoch = subtasks[i].committed;
      epochs_.resize(subtasks.size());
      epochs_[i] = subtasks[i].tables->EpochOf(one.view);
      captured.subtasks.push_back(std::move(one));
    }
    SourceOffsets source;
    source.source = "in";
    source.splits.push_back({"file#0", std::to_string(offset), false});
    captured.sources.push_back(source);
    if (!prepared.empty()) captured.sinks.push_back({"out", prepared});
    if (add_to_capture) add_to_capture(&captured);
    return captured;
  }

  /// Capture and persist under the next id.
  Result<PersistedCut> Persist() {
    CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id, store->NextId());
    last_id = id;
    const CapturedCut captured = Capture();
    return store->Persist(id, captured, &executor);
  }

  /// Commit, and note what the tables may forget.
  Status Commit(const PersistedCut& persisted) {
    CAIRN_RETURN_IF_ERROR(store->Commit(persisted));
    for (size_t i = 0; i < subtasks.size(); ++i) {
      subtasks[i].committed = epochs_[i];
      subtasks[i].tables->SetCommitted(epochs_[i]);
    }
    committed_[persisted.id.value] = model_;
    return {};
  }

  /// A whole checkpoint. Retention failing is not the checkpoint's failure.
  Result<PersistedCut> Checkpoint() {
    CAIRN_ASSIGN_OR_RETURN(const PersistedCut persisted, Persist());
    CAIRN_RETURN_IF_ERROR(Commit(persisted));
    retired = store->Retire();
    return persisted;
  }

  /// Rows of all subtasks' tables of operator `op`; a key in two of them fails the comparison.
  Rows Contents(size_t op) {
    Rows all;
    for (Subtask& subtask : subtasks) {
      for (auto& [key, value] : subtask.tables->Contents(op)) {
        if (!all.emplace(key, value).second) all["twice: " + key] = value;
      }
    }
    return all;
  }
  const Rows& model(size_t op) const { return model_[op]; }
  /// The model as it was when checkpoint `id` was captured; null for one that was not committed.
  const std::vector<Rows>* ModelAt(base::CheckpointId id) const {
    const auto found = committed_.find(id.value);
    return found == committed_.end() ? nullptr : &found->second;
  }
  /// Take the model of a committed or an undecided checkpoint as the present one.
  void SetModel(std::vector<Rows> model) { model_ = std::move(model); }
  const std::vector<Rows>& whole_model() const { return model_; }

  ModelTable* model_table(uint32_t subtask, size_t op) {
    return static_cast<ModelTables*>(subtasks[subtask].tables.get())->table(op);
  }

  std::string PathOf(base::CheckpointId id, const std::string& name) const {
    std::string digits = std::to_string(id.value);
    return directory + "/nodes/1/checkpoints/" + std::string(20 - digits.size(), '0') + digits +
           "/" + name;
  }

  struct Subtask {
    std::unique_ptr<SubtaskTables> tables;
    std::optional<uint64_t> committed;
  };

  env::MemoryFileSystem& disk() { return memory_; }

 private:
  env::MemoryFileSystem memory_;

 public:
  env::FaultFileSystem files{&memory_};
  env::ManualClock clock;
  env::SeededRandom random{42};
  InlineExecutor executor;
  StoreOptions options;
  std::string directory = "/place";
  /// Opens the store; nothing = that of `directory`.
  std::function<Result<std::unique_ptr<CheckpointStore>>(const StoreOptions&)> open;
  std::unique_ptr<CheckpointStore> store;
  std::shared_ptr<const Cut> cut;
  std::vector<LoadReceipt> receipts;
  std::vector<Subtask> subtasks;
  uint64_t offset = 0;
  std::vector<PreparedPiece> prepared;
  std::function<void(CapturedCut*)> add_to_capture;  ///< what else a cut saves
  base::CheckpointId last_id;
  Result<RetireReport> retired = RetireReport{};

 private:
  Subtask& OwnerOf(const std::string& key) {
    return subtasks[OwnerOfKeyGroup(KeyGroupOf(key, options.key_groups),
                                    static_cast<uint32_t>(subtasks.size()), options.key_groups)];
  }

  std::vector<state::SlotDescriptor> slots_;
  TablesFactory factory_;
  std::vector<Rows> model_;
  std::vector<uint64_t> epochs_;
  std::map<uint64_t, std::vector<Rows>> committed_;
};

/// Put `count` rows of operator `op`, all of one value.
inline void Fill(TestJob* job, size_t op, int count, const std::string& value) {
  for (int i = 0; i < count; ++i) job->Put(op, "key" + std::to_string(i), value);
}

/// Expect what the tables hold to be what was put.
inline void ExpectModel(TestJob* job) {
  for (size_t op = 0; op < job->whole_model().size(); ++op) {
    ASSERT_EQ(job->Contents(op), job->model(op)) << "operator " << op;
  }
}

/// Base, deltas and erases in one cut.
inline void BuildHistory(TestJob* job, uint32_t p) {
  ASSERT_TRUE(job->Start(p).ok());
  for (size_t op = 0; op < job->whole_model().size(); ++op) Fill(job, op, 1000, "base");
  ASSERT_TRUE(job->Checkpoint().ok());
  for (int round = 0; round < 3; ++round) {
    for (int i = round; i < 1000; i += 50) job->Put(0, "key" + std::to_string(i), "delta");
    job->Erase(0, "key" + std::to_string(500 + round));
    ASSERT_TRUE(job->Checkpoint().ok());
  }
}

}  // namespace cairn::checkpoint::testing
