// SPDX-License-Identifier: Apache-2.0
//
// The remote backend against a plain map: random operations with delays, errors, restores and
// rescales on one thread, where a seed repeats everything; and writers on threads beside persists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "async/async_testing.h"
#include "backend/remote/remote_testing.h"
#include "cairn/async_execution_controller.h"

namespace cairn::backend::remote {
namespace {

uint64_t FirstSeed() {
  const char* text = std::getenv("CAIRN_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261130;
}
int Rounds(int otherwise) {
  const char* text = std::getenv("CAIRN_ROUNDS");
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// One subtask with everything random about it.
class RandomRun {
 public:
  explicit RandomRun(uint64_t seed)
      : random_(seed),
        io_(seed),
        queue_(std::make_shared<ResumeQueue>(
            ResumeQueueOptions{.wake = {}, .idle = [this] { return io_.RunOne(); }})) {
    Reopen();
  }
  ~RandomRun() { controller_.reset(); }

  uint64_t Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) Step();
    Drain();
    CheckAll();
    return Fnv1a64(trace_);
  }

 private:
  struct Saved {
    BackendSnapshot snapshot;
    RowMap rows;
  };

  void Reopen() {
    controller_.reset();
    RemoteReadOptions options;
    options.io = &io_;
    options.hot_max_bytes = 500 + random_() % 20'000;
    RemoteWorld::Subtask next = world_.Open(0, 1, options);
    // Errors of the pool: before or after a commit took effect, and of purges. Reads fail on
    // demand.
    next.pool->before_commit = [this](uint64_t) { return MaybeFail(8); };
    next.pool->after_commit = [this](uint64_t) { return MaybeFail(8); };
    next.pool->before_purge = [this] { return MaybeFail(3); };
    next.pool->before_read = [this] { return fail_reads_ ? MaybeFail(3) : Status(); };
    task_ = std::move(next);
    task_.backend->async_reads()->SetResumeScheduler(queue_);
    MakeController();
  }
  void MakeController() {
    controller_.emplace(AsyncExecutionOptions{.max_in_flight = 1 + random_() % 40,
                                              .queue = queue_.get(),
                                              .reads = task_.backend->async_reads(),
                                              .on_watermark = {}});
  }
  Status MaybeFail(uint64_t one_in) {
    return random_() % one_in == 0 ? Status::Unavailable("injected") : Status();
  }

  /// A record: read, and write what follows from what was read.
  AsyncTask<Status> Record(std::string key, std::string word, bool erase) {
    Result<StateValue> value = co_await task_.backend->async_reads()->GetAsync(
        kOp, key, static_cast<int64_t>(random_() % 5));
    if (!value.ok()) co_return value.status();
    if (erase) co_return task_.backend->Erase(kOp, key);
    std::string next = value->value_or("") + word;
    if (next.size() > 60) next = word;
    co_return task_.backend->Put(kOp, key, next);
  }
  void Apply(const std::string& key, const std::string& word, bool erase) {
    if (erase) {
      model_.erase(key);
      return;
    }
    std::string& value = model_[key];
    value = value.size() + word.size() > 60 ? word : value + word;
  }

  void Step() {
    const std::string key = KeyOf(static_cast<int>(random_() % 60));
    const uint64_t choice = random_() % 100;
    if (choice < 60) {
      const std::string word = std::to_string(random_() % 10);
      const bool erase = random_() % 6 == 0;
      EXPECT_TRUE(controller_->WaitForRoom().ok());
      const Status submitted =
          controller_->Submit(key, [this, key, word, erase] { return Record(key, word, erase); });
      EXPECT_TRUE(submitted.ok()) << submitted.ToString();
      Apply(key, word, erase);
    } else if (choice < 75) {
      io_.RunOne();
      EXPECT_TRUE(controller_->Poll().ok());
    } else if (choice < 85) {
      Checkpoint();
    } else if (choice < 90) {
      PersistOne();
    } else if (choice < 93) {
      RestoreOne();
    } else if (choice < 97) {
      Drain();
      CheckAll();
    } else {
      FailReads();
    }
    trace_ += std::to_string(choice) + ":" + std::to_string(controller_->completed()) + ",";
  }

  void Drain() { EXPECT_TRUE(controller_->Drain().ok()) << controller_->status().ToString(); }

  /// A barrier: all records end, then the cut is taken. It is persisted now, later or never.
  void Checkpoint() {
    Drain();
    auto captured = task_.backend->Capture(++last_id_);
    EXPECT_TRUE(captured.ok());
    captured_.push_back({std::move(*captured), model_});
    if (random_() % 2 == 0) PersistOne();
    if (random_() % 8 == 0 && !captured_.empty()) captured_.erase(captured_.begin());
  }
  void PersistOne() {
    if (captured_.empty()) return;
    const size_t at = random_() % captured_.size();
    const Result<BackendSnapshot> snapshot = captured_[at].first->Persist();
    trace_ += snapshot.ok() ? "+" : "-";
    if (!snapshot.ok()) {
      EXPECT_EQ(snapshot.status().code(), StatusCode::kUnavailable);
      if (random_() % 2 == 0) return;  // tried again some time
    } else {
      saved_.push_back({*snapshot, captured_[at].second});
    }
    captured_.erase(captured_.begin() + static_cast<ptrdiff_t>(at));
    while (saved_.size() > 3) {
      EXPECT_TRUE(
          task_.backend->snapshot_place()->Purge(saved_.front().snapshot.checkpoint_id).ok());
      saved_.erase(saved_.begin());
    }
  }
  void RestoreOne() {
    if (saved_.empty()) return;
    Drain();
    const Saved saved = saved_[random_() % saved_.size()];
    if (random_() % 2 == 0) {
      captured_.clear();
      Reopen();
    }
    const RestorePart parts[] = {{saved.snapshot}};
    const Result<RestoreCounts> counts = task_.backend->Restore(parts);
    ASSERT_TRUE(counts.ok()) << counts.status().ToString();
    EXPECT_EQ(counts->rows, saved.rows.size());
    captured_.clear();
    model_ = saved.rows;
    CheckAll();
  }
  /// Reads fail: a record that meets one fails the controller and writes nothing.
  void FailReads() {
    Drain();
    fail_reads_ = true;
    const RowMap before = *ScanAllQuietly();
    std::string key = KeyOf(static_cast<int>(random_() % 60));
    const Status submitted =
        controller_->Submit(key, [this, key] { return Record(key, "f", false); });
    const Status drained = submitted.ok() ? controller_->Drain() : submitted;
    fail_reads_ = false;
    trace_ += drained.ok() ? "." : "!";
    if (drained.ok()) {
      Apply(key, "f", false);
    } else {
      EXPECT_EQ(drained.code(), StatusCode::kUnavailable);
      EXPECT_EQ(*ScanAllQuietly(), before);
      MakeController();
    }
  }

  Result<RowMap> ScanAllQuietly() {
    const bool failing = std::exchange(fail_reads_, false);
    Result<RowMap> rows = ScanAll(task_.backend.get(), kOp);
    fail_reads_ = failing;
    return rows;
  }
  void CheckAll() {
    const Result<RowMap> rows = ScanAllQuietly();
    ASSERT_TRUE(rows.ok()) << rows.status().ToString();
    EXPECT_EQ(*rows, model_);
    for (int i = 0; i < 60; i += 7) {
      const auto at = model_.find(KeyOf(i));
      const StateValue value = MustGet(task_.backend.get(), KeyOf(i));
      EXPECT_EQ(value, at == model_.end() ? StateValue() : StateValue(at->second));
    }
  }

  std::mt19937_64 random_;
  async::SimulatedIo io_;
  std::shared_ptr<ResumeQueue> queue_;
  RemoteWorld world_;
  RemoteWorld::Subtask task_;
  std::optional<AsyncExecutionController> controller_;
  std::vector<std::pair<std::unique_ptr<CapturedState>, RowMap>> captured_;
  std::vector<Saved> saved_;
  RowMap model_;
  uint64_t last_id_ = 0;
  bool fail_reads_ = false;
  std::string trace_;
};

TEST(RemoteModel, EqualsAPlainMapUnderDelaysErrorsAndRestores) {
  const uint64_t first = FirstSeed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(Rounds(12)); ++seed) {
    SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
    const uint64_t trace = RandomRun(seed).Run(600);
    if (HasFailure()) break;
    EXPECT_EQ(trace, RandomRun(seed).Run(600)) << "the same seed must give the same run";
  }
}

/// A writer of one operator that stands still at cuts: its model is that of the cut.
class Writer {
 public:
  Writer(RemoteReadBackend* backend, OperatorId op, uint64_t seed)
      : backend_(backend), op_(op), random_(seed), thread_([this] { Run(); }) {}
  ~Writer() {
    stop_ = true;
    thread_.join();
  }
  /// Stand still between two writes, then go on.
  void Hold() {
    held_ = true;
    mutex_.lock();
  }
  void Go() {
    mutex_.unlock();
    held_ = false;
  }
  const RowMap& model() const { return model_; }

 private:
  void Run() {
    while (!stop_) {
      if (held_) {
        std::this_thread::yield();
        continue;
      }
      std::lock_guard lock(mutex_);
      const std::string key = KeyOf(static_cast<int>(random_() % 200));
      if (random_() % 5 == 0) {
        EXPECT_TRUE(backend_->Erase(op_, key).ok());
        model_.erase(key);
      } else {
        const std::string value = std::to_string(random_());
        EXPECT_TRUE(backend_->Put(op_, key, value).ok());
        model_[key] = value;
      }
      const auto at = model_.find(key);
      const Result<StateValue> read = backend_->Get(op_, key);
      EXPECT_TRUE(read.ok());
      EXPECT_EQ(read.ok() ? *read : StateValue(),
                at == model_.end() ? StateValue() : StateValue(at->second));
    }
  }
  RemoteReadBackend* const backend_;
  const OperatorId op_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  RowMap model_;
  std::atomic<bool> held_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(RemoteModel, SavesExactlyTheCutBesideWritersOfTwoOperators) {
  RemoteWorld world;
  RemoteReadOptions options;
  options.hot_max_bytes = 20'000;
  auto task = world.Open(0, 1, options);
  std::mt19937_64 random(FirstSeed());
  Writer one(task.backend.get(), kOp, 1);
  Writer two(task.backend.get(), kOther, 2);
  for (uint64_t id = 1; id <= static_cast<uint64_t>(Rounds(1000)); ++id) {
    one.Hold();
    two.Hold();
    const RowMap cut_of_one = one.model();
    const RowMap cut_of_two = two.model();
    const std::unique_ptr<CapturedState> captured = MustCapture(task.backend.get(), id);
    one.Go();
    two.Go();
    // Persisted beside the writers; now and then it fails, and the next one holds it all.
    const bool fail = random() % 4 == 0;
    task.pool->before_commit = [fail](uint64_t) {
      return fail ? Status::Unavailable("injected") : Status();
    };
    const Result<BackendSnapshot> snapshot = captured->Persist();
    ASSERT_EQ(snapshot.ok(), !fail);
    if (fail) continue;
    auto fresh = world.Open();
    MustRestore(fresh.backend.get(), {{*snapshot}});
    ASSERT_EQ(*ScanAll(fresh.backend.get(), kOp), cut_of_one) << "checkpoint " << id;
    ASSERT_EQ(*ScanAll(fresh.backend.get(), kOther), cut_of_two) << "checkpoint " << id;
    if (id > 2) {
      ASSERT_TRUE(task.backend->snapshot_place()->Purge(id - 2).ok());
    }
  }
}

}  // namespace
}  // namespace cairn::backend::remote
