// SPDX-License-Identifier: Apache-2.0
//
// RestoreWorld: a job of real tables over a file system in memory that is started at any
// parallelism, with any declaration of its slots, and compared with a plain map.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/migration.h"
#include "cairn/operator_state.h"
#include "cairn/state_domain.h"
#include "cairn/table.h"
#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "env/manual_clock.h"
#include "env/memory_file_system.h"

namespace cairn::checkpoint::testing {

using RowMap = std::map<std::string, std::string>;

inline SlotDescriptor DeclareSlot(const std::string& uid, const std::string& name,
                                  SlotKind kind = SlotKind::kKeyedValue) {
  SlotDescriptor slot;
  slot.operator_id = base::OperatorIdOf(uid);
  slot.operator_uid = uid;
  slot.name = name;
  slot.kind = kind;
  slot.key_codec = "bytes";
  slot.value_codec = "text";
  return slot;
}

class RestoreWorld {
 public:
  /// Parallelism may not exceed the number of key groups.
  explicit RestoreWorld(std::vector<SlotDescriptor> slots, uint32_t key_groups = 128)
      : slots(std::move(slots)), model(this->slots.size()) {
    options.key_groups = key_groups;
    options.pipeline.job = "test";
    options.pipeline.components.push_back({"source", "in", "{}", false});
    for (const SlotDescriptor& slot : this->slots) {
      const PipelineComponent component{"operator", slot.operator_uid, "{}", false};
      if (options.pipeline.components.back() != component) {
        options.pipeline.components.push_back(component);
      }
    }
    options.clock = &clock;
    options.random = &random;
  }

  /// Begin as a new process does: open the place, recover, load at parallelism `p`.
  Status Start(uint32_t p) {
    Stop();
    CAIRN_ASSIGN_OR_RETURN(store, OpenStoreAt(&disk, place, options));
    CAIRN_ASSIGN_OR_RETURN(cut, store->Recover());
    std::vector<std::vector<StateTable*>> tables;
    for (uint32_t i = 0; i < p; ++i) {
      subtasks.push_back(MakeSubtask(i, p));
      tables.push_back(subtasks.back().tables());
    }
    if (cut == nullptr) return {};
    Result<std::vector<LoadReceipt>> loaded = LoadState(*cut, tables, &executor);
    if (!loaded.ok()) {
      Stop();
      return loaded.status();
    }
    receipts = *std::move(loaded);
    for (Subtask& subtask : subtasks) {
      const View view = subtask.domain->Capture();
      subtask.committed = view.epoch();
      subtask.domain->SetCommitted(*subtask.committed);
    }
    return {};
  }

  void Stop() {
    subtasks.clear();
    cut.reset();
    store.reset();
  }

  void Put(size_t slot, const std::string& key, const std::string& value) {
    Require(OwnerOf(key).keyed.at(slot)->Update(key, [&](std::string& now, bool) { now = value; }));
    model[slot][key] = value;
  }
  void Erase(size_t slot, const std::string& key) {
    OwnerOf(key).keyed.at(slot)->Erase(key);
    model[slot].erase(key);
  }

  Result<PersistedCut> Checkpoint() {
    CapturedCut captured;
    captured.parallelism = static_cast<uint32_t>(subtasks.size());
    std::vector<uint64_t> epochs;
    for (uint32_t i = 0; i < subtasks.size(); ++i) {
      CapturedSubtask one;
      one.subtask = i;
      for (StateTable* table : subtasks[i].tables()) one.tables.push_back(table);
      one.view = subtasks[i].domain->Capture();
      one.committed_epoch = subtasks[i].committed;
      epochs.push_back(one.view.epoch());
      captured.subtasks.push_back(std::move(one));
    }
    captured.sources.push_back({"in", {{"file#0", "7", false}}, false});
    CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id, store->NextId());
    CAIRN_ASSIGN_OR_RETURN(const PersistedCut persisted, store->Persist(id, captured, &executor));
    CAIRN_RETURN_IF_ERROR(store->Commit(persisted));
    for (size_t i = 0; i < subtasks.size(); ++i) {
      subtasks[i].committed = epochs[i];
      subtasks[i].domain->SetCommitted(epochs[i]);
    }
    CAIRN_RETURN_IF_ERROR(store->Retire().status());
    return persisted;
  }

  /// Rows of all subtasks. A key that two of them hold, or one that lies with the wrong one, shows.
  RowMap Contents(size_t slot) const {
    RowMap rows;
    for (const Subtask& subtask : subtasks) {
      const auto& table = *subtask.keyed.at(slot);
      table.ScanNow(table.key_groups(), [&](const Bytes& key, const std::string& value) {
        const std::string text = key.ToString();
        if (!table.key_groups().Contains(KeyGroupOf(text, options.key_groups))) {
          rows["misplaced: " + text] = value;
        }
        if (!rows.emplace(text, value).second) rows["twice: " + text] = value;
      });
    }
    return rows;
  }

  struct Subtask {
    std::unique_ptr<StateDomain> domain;
    std::map<size_t, std::unique_ptr<Table<Bytes, std::string>>> keyed;  ///< by slot
    std::map<size_t, std::unique_ptr<OperatorStateTable>> operator_state;
    std::optional<uint64_t> committed;

    std::vector<StateTable*> tables() const {
      std::vector<StateTable*> all;
      for (const auto& [slot, table] : keyed) all.push_back(table.get());
      for (const auto& [slot, table] : operator_state) all.push_back(table.get());
      return all;
    }
  };

  std::vector<SlotDescriptor> slots;
  std::vector<RowMap> model;
  StoreOptions options;
  std::string place = "/place";
  env::MemoryFileSystem disk;
  env::ManualClock clock;
  env::SeededRandom random{42};
  InlineExecutor executor;
  std::unique_ptr<CheckpointStore> store;
  std::shared_ptr<const Cut> cut;
  std::vector<Subtask> subtasks;
  std::vector<LoadReceipt> receipts;  ///< of the last restore

 private:
  static void Require(const Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }

  Subtask& OwnerOf(const std::string& key) {
    return subtasks[OwnerOfKeyGroup(KeyGroupOf(key, options.key_groups),
                                    static_cast<uint32_t>(subtasks.size()), options.key_groups)];
  }

  Subtask MakeSubtask(uint32_t index, uint32_t p) {
    Subtask subtask;
    subtask.domain = StateDomain::Create({});
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].kind == SlotKind::kKeyedValue) {
        TableOptions table;
        table.key_groups = options.key_groups;
        table.range = KeyGroupsOfSubtask(index, p, options.key_groups);
        table.slot_hash_seed = store->slot_hash_seed();
        subtask.keyed[slot] =
            std::make_unique<Table<Bytes, std::string>>(subtask.domain.get(), slots[slot], table);
      } else {
        subtask.operator_state[slot] = std::make_unique<OperatorStateTable>(
            subtask.domain.get(), slots[slot],
            OperatorStateOptions{index, p, options.key_groups, store->slot_hash_seed()});
      }
    }
    return subtask;
  }
};

}  // namespace cairn::checkpoint::testing
