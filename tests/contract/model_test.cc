// SPDX-License-Identifier: Apache-2.0
//
// Seeded model test of tables and views: one writer changes five tables of different types at
// random, captures views, takes checkpoints that commit or abort, and readers on other threads
// compare every view and every delta with maps that were copied at the capture.
//
// CAIRN_SEED picks the first seed, CAIRN_ROUNDS the number of seeds. Both are printed.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "model_tables.h"

namespace cairn::model {
namespace {

constexpr size_t kTables = 5;
constexpr size_t kViewsMax = 12;
constexpr int kReaders = 2;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// An open view with what the tables held at its capture.
struct HeldView {
  View view;
  std::array<ModelTable, kTables> models;
  uint64_t committed = 0;  ///< committed epoch at its capture: deltas since it are complete
};

/// Views that are open, given to readers at random.
class ViewShelf {
 public:
  void Put(std::shared_ptr<const HeldView> held) {
    std::lock_guard lock(mutex_);
    held_.push_back(std::move(held));
    changed_.notify_all();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  /// Take one down; the caller's handle may be its last.
  std::shared_ptr<const HeldView> TakeAny(uint64_t choice) {
    std::lock_guard lock(mutex_);
    if (held_.empty()) return nullptr;
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(choice % held_.size());
    auto taken = std::move(*at);
    held_.erase(at);
    return taken;
  }
  /// Borrow two views, the older first; false once closed.
  bool WaitForTwo(uint64_t choice, std::shared_ptr<const HeldView>* older,
                  std::shared_ptr<const HeldView>* newer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !held_.empty(); });
    if (closed_) return false;
    *older = held_[choice % held_.size()];
    *newer = held_[(choice / 64) % held_.size()];
    if ((*newer)->view.epoch() < (*older)->view.epoch()) std::swap(*older, *newer);
    return true;
  }
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const HeldView>> held_;
  bool closed_ = false;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), budget_(0) {
    TableOptions options;
    options.slot_hash_seed = random_();
    options.key_groups = Pick({1, 4, 128});
    options.segment_bytes_max = Pick({1024, 4096, 16384});
    options.log_chunk_rows = Pick({8, 8, 512});
    options.log_percent_max = Pick({0, 25, 1000000, 1000000});
    keys_ = Pick({40, 600, 3000});
    domain_ = StateDomain::Create({.name = "model", .budget = &budget_});
    StateDomain* domain = domain_.get();
    tables_[0] = std::make_unique<TypedTable<int64_t, uint64_t>>(domain, "numbers", options);
    tables_[1] = std::make_unique<TypedTable<int64_t, Wide>>(domain, "wide", options);
    tables_[2] = std::make_unique<TypedTable<Bytes, std::string>>(domain, "strings", options);
    tables_[3] = std::make_unique<TypedTable<uint64_t, SharedRows>>(domain, "rows", options);
    tables_[4] = std::make_unique<TypedTable<Bytes, uint64_t>>(domain, "counts", options);
  }

  void Run(int steps) {
    std::vector<std::thread> readers;
    for (int i = 0; i < kReaders; ++i) {
      readers.emplace_back([this, seed = random_()] { Read(seed); });
    }
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) Step();
    shelf_.Close();
    for (std::thread& reader : readers) reader.join();
    Finish();
  }

  uint64_t checks() const { return checks_.load(); }
  uint64_t views() const { return views_; }

 private:
  uint32_t Pick(std::initializer_list<uint32_t> choices) {
    return choices.begin()[random_() % choices.size()];
  }
  bool OneIn(uint64_t n) { return random_() % n == 0; }

  void Step() {
    if (OneIn(12)) phase_ = random_() % 6;
    Change();
    if (phase_ != 5 && OneIn(2)) CaptureOne();  // phase 5 runs without new views
    if (OneIn(6)) Checkpoint();
    while (shelf_.size() > kViewsMax) ReleaseOne();
    if (shelf_.size() > 8 && OneIn(3)) ReleaseOne();
    if (phase_ == 5) ReleaseOne();
    if (OneIn(5)) domain_->Poll(1 + random_() % 8);
  }

  // One burst of changes to one table, of the kind the phase asks for.
  void Change() {
    AnyTable* table = tables_[random_() % kTables].get();
    const uint64_t keys = phase_ == 3 ? 5 : keys_;  // 3: hot keys
    const uint64_t bursts[] = {200, 200, 80, 60, 3, 40};
    const uint64_t changes = 1 + random_() % bursts[phase_];
    if (OneIn(3)) {
      std::vector<std::pair<uint64_t, uint64_t>> rows;
      for (uint64_t i = 0; i < changes; ++i) rows.emplace_back(random_() % keys, NextDigest());
      table->UpsertMany(rows);
      return;
    }
    // Of 10 changes so many are erases: growing, shrinking, mixed, hot, near idle, unseen.
    const uint64_t erases[] = {1, 9, 4, 3, 4, 4};
    for (uint64_t i = 0; i < changes; ++i) {
      const uint64_t number = random_() % keys;
      if (random_() % 10 < erases[phase_]) {
        table->Erase(number);
      } else {
        table->Upsert(number, NextDigest(), OneIn(2));
      }
      if (OneIn(50)) table->ThrowingUpdate(random_() % keys);
      if (OneIn(20)) table->CheckNow(random_() % keys);
    }
  }

  std::shared_ptr<const HeldView> CaptureOne() {
    auto held = std::make_shared<HeldView>();
    held->view = domain_->Capture();
    held->committed = domain_->committed_epoch();
    for (size_t i = 0; i < kTables; ++i) held->models[i] = tables_[i]->model;
    shelf_.Put(held);
    ++views_;
    return held;
  }

  void ReleaseOne() { shelf_.TakeAny(random_()); }

  // Persists a view; commits it or not. A commit that follows an abort covers what it covered.
  void Checkpoint() {
    const std::shared_ptr<const HeldView> held = CaptureOne();
    const uint64_t since = domain_->committed_epoch();
    const bool base = since == 0 || OneIn(4);
    std::array<std::unique_ptr<MemorySink>, kTables> saved;
    for (size_t i = 0; i < kTables; ++i) {
      saved[i] = std::make_unique<MemorySink>();
      const StateTable* table = tables_[i]->table();
      const KeyGroupRange all{0, kMaxKeyGroups};
      const Status status = base ? table->EncodeBase(held->view, all, saved[i].get())
                                 : table->EncodeDelta(held->view, since, all, saved[i].get());
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    if (OneIn(3)) return;  // aborted
    domain_->SetCommitted(held->view.epoch());
    for (size_t i = 0; i < kTables; ++i) {
      if (base) store_[i].clear();
      store_[i].push_back(std::move(saved[i]));
    }
    if (OneIn(4)) CheckStore(*held);
  }

  void CheckStore(const HeldView& held) {
    for (size_t i = 0; i < kTables; ++i) {
      std::vector<const MemorySink*> cuts;
      for (const auto& cut : store_[i]) cuts.push_back(cut.get());
      tables_[i]->CheckRestored(cuts, held.models[i]);
    }
    ++checks_;
  }

  void CheckHeld(const HeldView& older, const HeldView& newer, std::mt19937_64* random) {
    const size_t i = (*random)() % kTables;
    const AnyTable& table = *tables_[i];
    switch ((*random)() % 5) {
      case 0:
        table.CheckScan(newer.view, newer.models[i]);
        break;
      case 1:
        table.CheckGroup(older.view, older.models[i], static_cast<uint32_t>((*random)() % 4));
        break;
      case 2:
        table.CheckGets(older.view, older.models[i], random, keys_);
        break;
      case 3:
        table.CheckDelta(newer.view, older.view.epoch(), newer.models[i]);
        break;
      default:
        if (newer.committed != 0) {
          table.CheckDelta(newer.view, newer.committed, newer.models[i]);
        }
    }
    checks_.fetch_add(1);
  }

  void Read(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::shared_ptr<const HeldView> older;
    std::shared_ptr<const HeldView> newer;
    while (!testing::Test::HasFailure() && shelf_.WaitForTwo(random(), &older, &newer)) {
      CheckHeld(*older, *newer, &random);
      older.reset();  // may be the last handle: released on this thread
      newer.reset();
      if (random() % 8 == 0 && shelf_.size() > 4) shelf_.TakeAny(random());
    }
  }

  // Checks every view that is left, then that nothing is kept for views that are gone.
  void Finish() {
    std::mt19937_64 random(1);
    const auto last = CaptureOne();
    for (auto held = shelf_.TakeAny(random()); held != nullptr; held = shelf_.TakeAny(random())) {
      for (size_t i = 0; i < kTables; ++i) {
        tables_[i]->CheckScan(held->view, held->models[i]);
        tables_[i]->CheckGets(held->view, held->models[i], &random, keys_);
      }
    }
    // One view outlives its tables and its domain.
    View outliving = last->view;
    const_cast<HeldView&>(*last).view.Release();
    domain_->Poll(1 << 20);
    for (auto& table : tables_) table.reset();
    domain_->Poll(1 << 20);
    EXPECT_GT(domain_->ViewBytes(), 0u);
    EXPECT_EQ(domain_->open_views(), 1u);
    if (OneIn(2)) {
      outliving.Release();
      domain_->Poll(1 << 20);
      EXPECT_EQ(domain_->ViewBytes(), 0u);
    }
    domain_.reset();
    outliving.Release();
    EXPECT_EQ(budget_.total(), 0u);
  }

  uint64_t NextDigest() { return ++digest_; }

  std::mt19937_64 random_;
  MemoryBudget budget_;
  std::unique_ptr<StateDomain> domain_;
  std::array<std::unique_ptr<AnyTable>, kTables> tables_;
  std::array<std::vector<std::unique_ptr<MemorySink>>, kTables> store_;
  ViewShelf shelf_;
  uint64_t keys_ = 0;
  uint64_t phase_ = 0;
  uint64_t digest_ = 0;
  uint64_t views_ = 0;
  std::atomic<uint64_t> checks_{0};
};

TEST(TableModel, EveryViewAndEveryDeltaEqualsTheModel) {
  const uint64_t first = FromEnvironment("CAIRN_SEED", std::random_device()());
  const uint64_t rounds = FromEnvironment("CAIRN_ROUNDS", 24);
  std::cout << "CAIRN_SEED=" << first << " CAIRN_ROUNDS=" << rounds << std::endl;
  uint64_t checks = 0;
  uint64_t views = 0;
  for (uint64_t seed = first; seed < first + rounds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.Run(500);
    checks += world.checks();
    views += world.views();
    if (HasFailure()) std::cout << "failed with CAIRN_SEED=" << seed << " CAIRN_ROUNDS=1\n";
  }
  std::cout << views << " views, " << checks << " checks" << std::endl;
  EXPECT_GT(checks, rounds * 10);
}

}  // namespace
}  // namespace cairn::model
