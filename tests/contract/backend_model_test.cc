// SPDX-License-Identifier: Apache-2.0
//
// Every backend against an ordered map: random writes, scans, captures that are persisted late, out
// of order or never, restores, failing disks, rescales. The seed is printed with a failure; the
// same seed gives the same trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend_cases.h"
#include "base/hash.h"

namespace cairn::contract {
namespace {

using Model = std::map<std::pair<uint64_t, std::string>, std::string>;

uint64_t SeedOf(uint64_t fallback) {
  const char* chosen = std::getenv("CAIRN_SEED");
  return chosen == nullptr ? fallback : std::strtoull(chosen, nullptr, 10);
}

/// A capture with what it must show.
struct HeldCut {
  std::unique_ptr<CapturedState> captured;
  Model model;
};
struct SavedCut {
  BackendSnapshot snapshot;
  Model model;
};

class ModelRun {
 public:
  ModelRun(const BackendCase& one, uint64_t seed) : case_(one), random_(seed) {
    Result<std::unique_ptr<StateBackend>> opened = OpenCase(one, &world_);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    backend_ = *std::move(opened);
  }

  void Step() {
    const uint64_t choice = random_() % 100;
    trace_ = base::Crc32c(trace_, std::to_string(choice));
    if (choice < 60) {
      Write();
    } else if (choice < 70) {
      CheckReads();
    } else if (choice < 74) {
      CheckScan();
    } else if (choice < 84) {
      Capture();
    } else if (choice < 92) {
      PersistOne();
    } else if (choice < 95) {
      if (!held_.empty()) held_.erase(held_.begin() + static_cast<long>(random_() % held_.size()));
    } else if (choice < 98) {
      RestoreOne();
    } else {
      PersistOnFailingDisk();
    }
  }

  void Finish() {
    CheckScan();
    for (const SavedCut& saved : saved_) CheckSaved(saved);
  }

  uint32_t trace() const { return trace_; }

 private:
  std::string RandomKey() {
    const uint64_t number = random_() % 300;
    const std::string text = std::to_string(number) + std::string(number % 40, '|');
    switch (random_() % 8) {
      case 0:
        return OperatorRow("o" + text);
      case 1:
        return Row("aa", text);
      default:
        return Row("a", text);
    }
  }
  OperatorId RandomOperator() { return OperatorId(42 + random_() % 2); }

  void Write() {
    WriteBatch batch;
    Model after = model_;
    for (uint64_t i = random_() % 30 + 1; i > 0; --i) {
      const OperatorId op = RandomOperator();
      const std::string key = RandomKey();
      const std::string value(random_() % 60, static_cast<char>('a' + random_() % 26));
      switch (random_() % 4) {
        case 0:
          batch.Erase(op, key);
          after.erase({op.value, key});
          break;
        case 1:
          batch.Merge(op, key, value);
          after[{op.value, key}] += value;
          break;
        default:
          batch.Put(op, key, value);
          after[{op.value, key}] = value;
      }
    }
    ASSERT_OK(backend_->Apply(batch, nullptr));
    model_ = std::move(after);
    ASSERT_EQ(backend_->Describe().rows, model_.size());
  }

  void CheckReads() {
    const OperatorId op = RandomOperator();
    std::vector<std::string> keys;
    for (int i = 0; i < 20; ++i) keys.push_back(RandomKey());
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::optional<std::string>> values;
    ASSERT_OK(backend_->GetMany(op, views, &values));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto expected = model_.find({op.value, keys[i]});
      ASSERT_EQ(values[i].has_value(), expected != model_.end());
      if (values[i]) {
        ASSERT_EQ(*values[i], expected->second);
      }
    }
  }

  static Rows RowsOf(const Model& model, OperatorId op, const ScanRange& range) {
    Rows rows;
    for (const auto& [at, value] : model) {
      if (at.first == op.value && range.Contains(at.second)) rows.emplace_back(at.second, value);
    }
    return rows;
  }

  void CheckScan() {
    for (const uint64_t op : {42, 43}) {
      ScanRange range;
      if (random_() % 2 == 0) range.first = RandomKey();
      if (random_() % 2 == 0) range.last = RandomKey();
      ASSERT_EQ(ScanRows(backend_.get(), OperatorId(op), range),
                RowsOf(model_, OperatorId(op), range));
    }
  }

  void Capture() {
    if (held_.size() >= 4) held_.pop_front();
    Result<std::unique_ptr<CapturedState>> captured = backend_->Capture(next_id_++);
    ASSERT_TRUE(captured.ok()) << captured.status().ToString();
    held_.push_back({*std::move(captured), model_});
  }

  void PersistOne() {
    if (held_.empty()) return;
    const size_t at = random_() % held_.size();
    Result<BackendSnapshot> snapshot = held_[at].captured->Persist();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    saved_.push_back({*std::move(snapshot), held_[at].model});
    if (saved_.size() > 6) saved_.pop_front();
    held_.erase(held_.begin() + static_cast<long>(at));
  }

  // A persist that fails is tried again later, or never.
  void PersistOnFailingDisk() {
    if (held_.empty()) return;
    world_.files.Arm({random_() % 8,
                      random_() % 2 == 0 ? env::FaultKind::kFail : env::FaultKind::kShortWrite,
                      false, nullptr});
    const Result<BackendSnapshot> snapshot = held_.back().captured->Persist();
    world_.files.Disarm();
    if (snapshot.ok()) saved_.push_back({*snapshot, held_.back().model});
  }

  void RestoreOne() {
    if (saved_.empty()) return;
    const SavedCut saved = saved_[random_() % saved_.size()];
    const RestorePart part{saved.snapshot, 0, 1};
    const Result<RestoreCounts> counts = backend_->Restore({&part, 1});
    ASSERT_TRUE(counts.ok()) << counts.status().ToString();
    model_ = saved.model;
    held_.clear();
    CheckScan();
  }

  void CheckSaved(const SavedCut& saved) {
    const RestorePart part{saved.snapshot, 0, 1};
    const Result<RestoreCounts> counts = backend_->Restore({&part, 1});
    ASSERT_TRUE(counts.ok()) << counts.status().ToString();
    for (const uint64_t op : {42, 43}) {
      ASSERT_EQ(ScanRows(backend_.get(), OperatorId(op)),
                RowsOf(saved.model, OperatorId(op), ScanRange::All()));
    }
  }

  const BackendCase case_;
  std::mt19937_64 random_;
  BackendWorld world_;
  std::unique_ptr<StateBackend> backend_;
  Model model_;
  std::deque<HeldCut> held_;
  std::deque<SavedCut> saved_;
  uint64_t next_id_ = 1;
  uint32_t trace_ = 0;
};

class BackendModel : public ::testing::TestWithParam<BackendCase> {};

INSTANTIATE_TEST_SUITE_P(Every, BackendModel, ::testing::ValuesIn(AllBackends()),
                         [](const auto& info) { return info.param.name; });

TEST_P(BackendModel, AgreesWithAnOrderedMap) {
  const uint64_t first = SeedOf(20'261'130);
  const int seeds = GetParam().restart ? 1 : 3;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " (CAIRN_SEED)");
    ModelRun run(GetParam(), seed);
    for (int step = 0; step < (GetParam().restart ? 150 : 600); ++step) {
      run.Step();
      ASSERT_FALSE(HasFailure()) << "step " << step;
    }
    run.Finish();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(BackendModel, TheSameSeedGivesTheSameTrace) {
  ModelRun a(GetParam(), 7);
  ModelRun b(GetParam(), 7);
  for (int step = 0; step < 60; ++step) {
    a.Step();
    b.Step();
  }
  EXPECT_EQ(a.trace(), b.trace());
}

TEST_P(BackendModel, ARescaleOfAnyParallelismKeepsEveryRow) {
  if (GetParam().restart) return;
  const uint64_t seed = SeedOf(11);
  SCOPED_TRACE("seed " + std::to_string(seed) + " (CAIRN_SEED)");
  std::mt19937_64 random(seed);
  BackendWorld world;
  std::map<std::string, std::string> model;
  for (int i = 0; i < 2000; ++i) model[Row("s", std::to_string(random()))] = std::to_string(i);
  std::vector<RestorePart> parts;
  uint32_t p = 0;
  for (uint64_t round = 1; round <= 6; ++round) {
    const uint32_t q = static_cast<uint32_t>(random() % 16 + 1);
    SCOPED_TRACE(std::to_string(p) + " to " + std::to_string(q) + " subtasks");
    std::vector<RestorePart> saved;
    Rows rows;
    for (uint32_t subtask = 0; subtask < q; ++subtask) {
      Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world, subtask, q);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      StateBackend* backend = opened->get();
      if (round == 1) {
        for (const auto& [key, value] : model) {
          const auto group = static_cast<uint8_t>(key[0]);
          if (OwnerOfKeyGroup(group, q, kDefaultKeyGroups) != subtask) continue;
          ASSERT_OK(backend->Put(OperatorId(42), key, value));
        }
      } else {
        const Result<RestoreCounts> counts = backend->Restore(parts);
        ASSERT_TRUE(counts.ok()) << counts.status().ToString();
      }
      const Rows mine = ScanRows(backend, OperatorId(42));
      rows.insert(rows.end(), mine.begin(), mine.end());
      Result<BackendSnapshot> snapshot = backend->Snapshot(round);
      ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
      saved.push_back({*std::move(snapshot), subtask, q});
    }
    // Owners hold ascending ranges, so that their scans follow each other.
    ASSERT_EQ(rows, Rows(model.begin(), model.end()));
    parts = std::move(saved);
    p = q;
  }
}

// Writers on two operators, captures at random moments: each snapshot equals the model at its cut.
TEST_P(BackendModel, CutsBesideWritersLoseNothing) {
  if (GetParam().restart) return;
  BackendWorld world;
  Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world);
  ASSERT_TRUE(opened.ok());
  StateBackend* backend = opened->get();
  if (!backend->Describe().any_thread) return;  // one owner: the model above covers it
  std::shared_mutex cut_mutex;  // a writer holds it shared over one batch and its model's change
  std::atomic<bool> cut_wanted{false};  // writers stand back then: readers of the mutex go first
  std::map<std::string, std::string> models[2];
  std::vector<std::jthread> writers;  // told to stop and joined on every way out
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back([&, w](const std::stop_token& stop) {
      std::mt19937_64 random(w + 1);
      while (!stop.stop_requested()) {
        WriteBatch batch;
        cut_wanted.wait(true);
        std::shared_lock lock(cut_mutex);
        for (int i = 0; i < 8; ++i) {
          const std::string key = Row("s", std::to_string(random() % 500));
          if (random() % 4 == 0) {
            batch.Erase(OperatorId(42 + w), key);
            models[w].erase(key);
          } else {
            const std::string value = std::to_string(random());
            batch.Put(OperatorId(42 + w), key, value);
            models[w][key] = value;
          }
        }
        EXPECT_OK(backend->Apply(batch, nullptr));
      }
    });
  }
  BackendWorld fresh_world;
  for (uint64_t id = 1; id <= 100; ++id) {
    std::unique_ptr<CapturedState> captured;
    Rows expected[2];
    {
      cut_wanted = true;
      std::unique_lock lock(cut_mutex);
      captured = *backend->Capture(id);
      for (int w = 0; w < 2; ++w) expected[w].assign(models[w].begin(), models[w].end());
      cut_wanted = false;
      cut_wanted.notify_all();
    }
    const Result<BackendSnapshot> snapshot = captured->Persist();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    Result<std::unique_ptr<StateBackend>> fresh = OpenCase(GetParam(), &fresh_world);
    ASSERT_TRUE(fresh.ok());
    const RestorePart part{*snapshot, 0, 1};
    ASSERT_OK((*fresh)->Restore({&part, 1}).status());
    for (int w = 0; w < 2; ++w) {
      EXPECT_EQ(ScanRows(fresh->get(), OperatorId(42 + w)), expected[w]);
    }
  }
}

// With the budget used up, writes are refused naming their owner, reads and erases go on, and what
// was applied stays.
TEST_P(BackendModel, AFullBudgetRefusesByNameAndRecovers) {
  if (GetParam().restart || GetParam().budget_bytes == 0) return;
  BackendWorld world;
  Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world);
  ASSERT_TRUE(opened.ok());
  StateBackend* backend = opened->get();
  const OperatorId op{42};
  uint64_t written = 0;
  Status status;
  for (; status.ok() && written < 1'000'000; ++written) {
    status = backend->Put(op, Row("s", std::to_string(written)), std::string(1000, 'v'));
  }
  ASSERT_EQ(status.code(), StatusCode::kResourceExhausted);
  --written;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("slot s, key"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("largest: state"));
  EXPECT_LE(world.budget.total(), GetParam().budget_bytes);
  ASSERT_EQ(backend->Describe().rows, written);
  WriteBatch batch;
  batch.Erase(op, Row("s", "0"));
  for (int i = 0; i < 5000; ++i) batch.Put(op, Row("t", std::to_string(i)), std::string(1000, 'w'));
  size_t applied = 0;
  EXPECT_EQ(backend->Apply(batch, &applied).code(), StatusCode::kResourceExhausted);
  EXPECT_GE(applied, 1u);
  EXPECT_LT(applied, 5001u);
  EXPECT_EQ(Read(backend, op, Row("s", "0")), std::nullopt);
  EXPECT_EQ(Read(backend, op, Row("s", "1")), std::string(1000, 'v'));
  for (uint64_t i = 0; i < written; ++i) ASSERT_OK(backend->Erase(op, Row("s", std::to_string(i))));
  EXPECT_EQ(backend->Describe().rows, applied - 1);
  ASSERT_OK(backend->Put(op, Row("s", "again"), std::string(1000, 'v')));
}

}  // namespace
}  // namespace cairn::contract
