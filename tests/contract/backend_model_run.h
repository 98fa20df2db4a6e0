// SPDX-License-Identifier: Apache-2.0
//
// ModelRun: a job of 1 to 16 subtasks over one backend beside a plain map, driven by a seed: writes
// of every kind, reads, scans that are written into, captures that are persisted late, out of
// order, after an error or never, restores, rescales, time that kills rows and sweeps.
//
// Threads:  one.
// Invariants
//  1. What is drawn depends on the seed alone, never on the backend, its failures or the number of
//     subtasks it is run with: a seed has one trace, whatever runs it.
//  2. An operator-state row is written by one subtask in one incarnation of the job; from the next
//     restore on every subtask sees it and nobody writes it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend_cases.h"
#include "base/coding.h"
#include "base/hash.h"
#include "cairn/async_reads.h"

namespace cairn::contract {

class ModelRun {
 public:
  ModelRun(const BackendCase& one, uint64_t seed)
      : case_(one), one_subtask_(one.restart || one.budget_bytes != 0), random_(seed) {
    for (uint32_t number = 0; number < kNumbers; ++number) {
      for (const char* slot : {"a", "aa", "t"}) {
        keyed_keys_.insert(Row(slot, UserKeyOf(number)));
      }
    }
    Open(DrawParallelism());
  }

  void Step() {
    const uint64_t choice = random_() % 100;
    if (choice < 46) {
      Write();
    } else if (choice < 52) {
      Update();
    } else if (choice < 62) {
      CheckReads();
    } else if (choice < 67) {
      CheckScan(RandomRange());
    } else if (choice < 70) {
      WriteInsideOfAScan();
    } else if (choice < 80) {
      Capture();
    } else if (choice < 88) {
      PersistOne();
    } else if (choice < 90) {
      Abort();
    } else if (choice < 92) {
      PersistOnFailingStore();
    } else if (choice < 94) {
      RestoreOne();
    } else if (choice < 95) {
      Rescale();
    } else if (choice < 98) {
      Advance();
    } else {
      Sweep();
    }
    Trace(std::to_string(choice));
  }

  /// Check the state as it is, and every cut that is kept.
  void Finish() {
    CheckScan(ScanRange::All());
    while (!saved_.empty() && !::testing::Test::HasFailure()) {
      Reopen(saved_.back(), DrawParallelism());
      saved_.pop_back();
    }
  }

  uint32_t trace() const { return trace_; }

 private:
  static constexpr uint32_t kNumbers = 150;
  using Key = std::pair<uint64_t, std::string>;  // operator, stored key
  struct OperatorStateRow {
    std::string value;
    uint32_t subtask;  // that wrote it
  };
  struct JobModel {
    std::map<Key, std::string> keyed;  // dead rows too
    std::map<Key, std::string> inherited;
    std::map<Key, OperatorStateRow> own;
  };
  struct HeldCut {
    uint64_t id;
    std::vector<std::unique_ptr<CapturedState>> parts;
    JobModel model;
  };
  struct SavedCut {
    uint64_t id;
    std::vector<RestorePart> parts;
    JobModel model;
  };
  /// A row to write or read, and the subtask that holds it.
  struct Target {
    OperatorId op;
    std::string key;
    uint32_t subtask;
    bool keyed;
  };

  uint32_t parallelism() const { return static_cast<uint32_t>(subtasks_.size()); }

  // --- random things ---------------------------------------------------------------------------

  static std::string UserKeyOf(uint32_t number) {
    return std::to_string(number) + std::string(number % 40, '|');
  }
  uint32_t DrawParallelism() {
    const auto few = static_cast<uint32_t>(random_() % 4 + 1);
    const auto many = static_cast<uint32_t>(random_() % 16 + 1);
    const uint32_t drawn = random_() % 3 == 0 ? many : few;
    return one_subtask_ ? 1 : drawn;
  }
  OperatorId RandomOperator() { return OperatorId(42 + random_() % 2); }
  std::string RandomValue() {
    const auto length = static_cast<size_t>(random_() % 60);
    return std::string(length, static_cast<char>('a' + random_() % 26));
  }
  Target KeyedTarget() {
    const OperatorId op = RandomOperator();
    const uint64_t slot = random_() % 8;
    std::string key = Row(slot == 0  ? "aa"
                          : slot < 3 ? "t"
                                     : "a",
                          UserKeyOf(static_cast<uint32_t>(random_() % kNumbers)));
    const uint32_t owner =
        OwnerOfKeyGroup(static_cast<uint8_t>(key[0]), parallelism(), kDefaultKeyGroups);
    return {op, std::move(key), owner, true};
  }
  Target OperatorTarget() {
    const OperatorId op = RandomOperator();
    const auto writer = static_cast<uint32_t>(random_() % 16);
    std::string key =
        OperatorRow("o" + std::to_string(writer) + "." + std::to_string(incarnation_) + "." +
                    std::to_string(random_() % 3));
    operator_keys_.emplace(op.value, key);
    return {op, std::move(key), writer % parallelism(), false};
  }
  Target RandomTarget() { return random_() % 8 == 0 ? OperatorTarget() : KeyedTarget(); }
  ScanRange RandomRange() {
    ScanRange range;
    if (random_() % 2 == 0) range.first = RandomTarget().key;
    if (random_() % 2 == 0) range.last = RandomTarget().key;
    return range;
  }

  void Trace(std::string_view bytes) {
    trace_ = base::Crc32c(trace_, bytes);
    trace_ = base::Crc32c(trace_, "\n");
  }

  // --- the model -------------------------------------------------------------------------------

  static bool Expires(const Target& target) {
    return target.keyed && target.key.compare(1, 2, "t|") == 0;
  }
  bool IsDead(std::string_view key, std::string_view value) const {
    return told_time_ && key.substr(1, 2) == "t|" && base::LoadLE<int64_t>(value.data()) <= now_ms_;
  }
  std::optional<std::string> Expected(const Target& target) const {
    const Key at(target.op.value, target.key);
    if (target.keyed) {
      const auto row = model_.keyed.find(at);
      if (row == model_.keyed.end() || IsDead(target.key, row->second)) return std::nullopt;
      return row->second;
    }
    if (const auto row = model_.own.find(at); row != model_.own.end()) return row->second.value;
    const auto row = model_.inherited.find(at);
    return row == model_.inherited.end() ? std::nullopt : std::optional(row->second);
  }
  void SetExpected(const Target& target, std::optional<std::string> value) {
    const Key at(target.op.value, target.key);
    if (target.keyed) {
      model_.keyed.erase(at);
      if (value) model_.keyed.emplace(at, *std::move(value));
    } else {
      model_.own.erase(at);
      if (value) model_.own.emplace(at, OperatorStateRow{*std::move(value), target.subtask});
    }
  }
  Rows ExpectedRows(uint32_t subtask, OperatorId op, const ScanRange& range) const {
    Rows rows;
    for (const auto& [at, value] : model_.keyed) {
      if (at.first != op.value || !range.Contains(at.second) || IsDead(at.second, value)) continue;
      if (OwnerOf(at.second) == subtask) rows.emplace_back(at.second, value);
    }
    std::map<std::string, std::string> operator_rows;
    for (const auto& [at, value] : model_.inherited) {
      if (at.first == op.value && range.Contains(at.second)) operator_rows[at.second] = value;
    }
    for (const auto& [at, row] : model_.own) {
      if (at.first != op.value || !range.Contains(at.second) || row.subtask != subtask) continue;
      operator_rows[at.second] = row.value;
    }
    rows.insert(rows.end(), operator_rows.begin(), operator_rows.end());
    return rows;
  }
  uint32_t OwnerOf(std::string_view keyed_key) const {
    return OwnerOfKeyGroup(static_cast<uint8_t>(keyed_key[0]), parallelism(), kDefaultKeyGroups);
  }

  // --- writes ----------------------------------------------------------------------------------

  void Write() {
    std::vector<WriteBatch> batches(parallelism());
    for (uint64_t i = random_() % 30 + 1; i > 0; --i) {
      const Target target = RandomTarget();
      std::string value = RandomValue();
      if (Expires(target))
        value = StampOf(now_ms_ + 1 + static_cast<int64_t>(random_() % 12)) + value;
      WriteBatch& batch = batches[target.subtask];
      switch (random_() % 4) {
        case 0:
          batch.Erase(target.op, target.key);
          SetExpected(target, std::nullopt);
          break;
        case 1:
          batch.Merge(target.op, target.key, value);
          SetExpected(target, Expected(target).value_or("") + value);
          break;
        default:
          batch.Put(target.op, target.key, value);
          SetExpected(target, value);
      }
    }
    for (uint32_t subtask = 0; subtask < parallelism(); ++subtask) {
      if (batches[subtask].empty()) continue;
      ASSERT_OK(subtasks_[subtask]->Apply(batches[subtask], nullptr));
    }
  }

  /// Read, and write what follows from what was read.
  void Update() {
    const Target target = KeyedTarget();
    StateBackend* backend = subtasks_[target.subtask].get();
    const std::optional<std::string> value = Read(backend, target.op, target.key);
    ASSERT_EQ(value, Expected(target));
    std::string next = value.value_or("");
    if (next.size() > 40 || (Expires(target) && next.empty())) next = StampOf(now_ms_ + 5);
    next += "u";
    ASSERT_OK(backend->Put(target.op, target.key, next));
    Trace(next);
    SetExpected(target, next);
  }

  static std::string StampOf(int64_t expire_at_ms) {
    std::string stamp(sizeof(expire_at_ms), '\0');
    base::StoreLE<int64_t>(stamp.data(), expire_at_ms);
    return stamp;
  }

  // --- reads -----------------------------------------------------------------------------------

  void CheckReads() {
    std::vector<Target> targets;
    for (int i = 0; i < 20; ++i) targets.push_back(RandomTarget());
    for (const Target& target : targets) {
      // Together with the others of its subtask and operator, whatever their order.
      std::vector<std::string_view> keys;
      size_t position = 0;
      for (const Target& other : targets) {
        if (other.subtask != target.subtask || other.op != target.op) continue;
        if (&other == &target) position = keys.size();
        keys.push_back(other.key);
      }
      StateBackend* backend = subtasks_[target.subtask].get();
      StateValue resident;
      if (backend->async_reads() != nullptr &&
          backend->async_reads()->TryGet(target.op, target.key, &resident)) {
        ASSERT_EQ(resident, Expected(target));
      }
      std::vector<std::optional<std::string>> values;
      ASSERT_OK(backend->GetMany(target.op, keys, &values));
      ASSERT_EQ(values[position], Expected(target));
      Trace(values[position].value_or("absent"));
    }
  }

  /// The rows of a subtask by a scan; where there is none, by reading every key there may be.
  Rows RowsOf(uint32_t subtask, OperatorId op, const ScanRange& range) {
    StateBackend* backend = subtasks_[subtask].get();
    if (case_.scans) return ScanRows(backend, op, range);
    std::vector<std::string_view> keys;
    for (const std::string& key : keyed_keys_) {
      if (range.Contains(key) && OwnerOf(key) == subtask) keys.push_back(key);
    }
    for (const Key& key : operator_keys_) {
      if (key.first == op.value && range.Contains(key.second)) keys.push_back(key.second);
    }
    std::vector<std::optional<std::string>> values;
    EXPECT_OK(backend->GetMany(op, keys, &values));
    Rows rows;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i]) rows.emplace_back(keys[i], *values[i]);
    }
    return rows;
  }

  void CheckScan(const ScanRange& range) {
    for (const uint64_t op : {42, 43}) {
      std::map<std::string, std::string> seen;
      for (uint32_t subtask = 0; subtask < parallelism(); ++subtask) {
        const Rows rows = RowsOf(subtask, OperatorId(op), range);
        ASSERT_EQ(rows, ExpectedRows(subtask, OperatorId(op), range)) << "subtask " << subtask;
        seen.insert(rows.begin(), rows.end());
      }
      for (const auto& [key, value] : seen) {
        Trace(key);
        Trace(value);
      }
    }
  }

  /// A scan shows the cut at its begin, whatever is written while it runs.
  void WriteInsideOfAScan() {
    const auto subtask = static_cast<uint32_t>(random_() % 16) % parallelism();
    const OperatorId op = RandomOperator();
    const uint64_t after_rows = random_() % 60;
    const Rows expected = ExpectedRows(subtask, op, ScanRange::All());
    bool written = false;
    if (case_.scans) {
      Rows rows;
      ASSERT_OK(subtasks_[subtask]->Scan(op, ScanRange::All(),
                                         [&](std::string_view key, std::string_view value) {
                                           rows.emplace_back(key, value);
                                           if (rows.size() == after_rows) {
                                             Write();
                                             written = true;
                                           }
                                           return true;
                                         }));
      ASSERT_EQ(rows, expected);
    }
    if (!written) Write();
  }

  // --- checkpoints -----------------------------------------------------------------------------

  void Capture() {
    if (held_.size() >= 4) held_.pop_front();
    HeldCut& cut = held_.emplace_back();
    cut.id = next_id_++;
    for (const auto& subtask : subtasks_) {
      Result<std::unique_ptr<CapturedState>> captured = subtask->Capture(cut.id);
      ASSERT_TRUE(captured.ok()) << captured.status().ToString();
      cut.parts.push_back(*std::move(captured));
    }
    cut.model = model_;
  }

  /// Remove a random cut from those that are held; nothing when there is none.
  std::optional<HeldCut> TakeHeld() {
    const uint64_t drawn = random_();
    if (held_.empty()) return std::nullopt;
    const auto at = held_.begin() + static_cast<long>(drawn % held_.size());
    HeldCut cut = std::move(*at);
    held_.erase(at);
    return cut;
  }

  void PersistOne() {
    std::optional<HeldCut> cut = TakeHeld();
    if (cut) Save(*std::move(cut));
  }

  void Save(HeldCut cut) {
    SavedCut saved{cut.id, {}, std::move(cut.model)};
    for (uint32_t subtask = 0; subtask < parallelism(); ++subtask) {
      Result<BackendSnapshot> snapshot = cut.parts[subtask]->Persist();
      ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
      saved.parts.push_back({*std::move(snapshot), subtask, parallelism()});
    }
    saved_.push_back(std::move(saved));
    if (saved_.size() <= 6) return;
    for (const auto& subtask : subtasks_) {
      if (subtask->snapshot_place() == nullptr) continue;
      ASSERT_OK(subtask->snapshot_place()->Purge(saved_.front().id));
    }
    saved_.pop_front();
  }

  void Abort() { (void)TakeHeld(); }

  /// A persist that may fail is made again, or given up: as if it had not been.
  void PersistOnFailingStore() {
    const uint64_t call = random_() % 8;
    const auto kind = random_() % 2 == 0 ? env::FaultKind::kFail : env::FaultKind::kShortWrite;
    const bool again = random_() % 2 == 0;
    std::optional<HeldCut> cut = TakeHeld();
    if (!cut) return;
    world_.Arm(call, kind);
    for (const auto& part : cut->parts) (void)part->Persist();
    world_.Disarm();
    if (again) Save(*std::move(cut));
  }

  void RestoreOne() {
    const uint64_t drawn = random_();
    if (saved_.empty()) return;
    const SavedCut& saved = saved_[drawn % saved_.size()];
    held_.clear();
    for (const auto& subtask : subtasks_) ASSERT_OK(subtask->Restore(saved.parts).status());
    Become(saved);
  }

  void Rescale() {
    const uint64_t drawn = random_();
    const uint32_t next = DrawParallelism();
    if (!saved_.empty()) Reopen(saved_[drawn % saved_.size()], next);
  }

  /// End the job and begin it from a cut, with any number of subtasks.
  void Reopen(const SavedCut& saved, uint32_t next) {
    SCOPED_TRACE(std::to_string(parallelism()) + " to " + std::to_string(next) + " subtasks");
    held_.clear();
    for (const auto& subtask : subtasks_) ASSERT_OK(subtask->Close());
    subtasks_.clear();
    Open(next);
    for (const auto& subtask : subtasks_) ASSERT_OK(subtask->Restore(saved.parts).status());
    Become(saved);
  }

  /// Go on from a cut that was just restored.
  void Become(const SavedCut& saved) {
    model_ = saved.model;
    for (const auto& [at, row] : model_.own) model_.inherited[at] = row.value;
    model_.own.clear();
    ++incarnation_;
    CheckScan(ScanRange::All());
  }

  void Open(uint32_t count) {
    for (uint32_t subtask = 0; subtask < count; ++subtask) {
      Result<std::unique_ptr<StateBackend>> opened = OpenCase(case_, &world_, subtask, count);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      subtasks_.push_back(*std::move(opened));
      for (const uint64_t op : {42, 43}) {
        subtasks_.back()->expiry()->Declare(OperatorId(op), "t");
      }
      if (told_time_) subtasks_.back()->expiry()->Advance(now_ms_);
    }
  }

  // --- time ------------------------------------------------------------------------------------

  void Advance() {
    now_ms_ += static_cast<int64_t>(random_() % 4);
    told_time_ = true;
    for (const auto& subtask : subtasks_) subtask->expiry()->Advance(now_ms_);
  }

  void Sweep() {
    const uint64_t rows_max = random_() % 200;
    for (const auto& subtask : subtasks_) {
      ASSERT_OK(subtask->expiry()->Sweep(rows_max).status());
    }
  }

  const BackendCase case_;
  const bool one_subtask_;
  std::mt19937_64 random_;
  BackendWorld world_;
  std::vector<std::unique_ptr<StateBackend>> subtasks_;
  std::set<std::string> keyed_keys_;
  std::set<Key> operator_keys_;
  JobModel model_;
  std::deque<HeldCut> held_;  // goes before the backends
  std::deque<SavedCut> saved_;
  uint64_t next_id_ = 1;
  uint64_t incarnation_ = 0;
  int64_t now_ms_ = 0;
  bool told_time_ = false;
  uint32_t trace_ = 0;
};

}  // namespace cairn::contract
