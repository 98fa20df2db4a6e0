// SPDX-License-Identifier: Apache-2.0
//
// Parts for tests of the runtime: sources and sinks in memory, a store that fails when told.
//
// Threads: as the interfaces they implement; what tests read is guarded.
#pragma once

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "stream/operator.h"
#include "stream/sink.h"
#include "stream/source.h"

namespace cairn::stream::testing {

/// Closed until opened; waiters go on then.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  bool IsOpen() {
    std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

inline std::shared_ptr<arrow::Schema> NumberSchema() {
  return arrow::schema({arrow::field("n", arrow::int64(), false)});
}

inline std::shared_ptr<arrow::RecordBatch> Numbers(const std::vector<int64_t>& values) {
  arrow::Int64Builder builder;
  (void)builder.AppendValues(values).ok();
  return arrow::RecordBatch::Make(NumberSchema(), static_cast<int64_t>(values.size()),
                                  {builder.Finish().ValueOrDie()});
}

inline std::vector<int64_t> NumbersOf(const Batch& batch) {
  const auto& column = static_cast<const arrow::Int64Array&>(*batch.rows->column(0));
  std::vector<int64_t> values;
  for (int64_t i = 0; i < batch.num_rows(); ++i) {
    values.push_back(
        column.Value(batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i));
  }
  return values;
}

/// Splits of consecutive numbers: split s holds first_[s] … first_[s] + size - 1.
class NumberSource final : public Source {
 public:
  struct Split {
    int64_t first = 0;
    int64_t size = 0;
  };

  NumberSource(std::vector<Split> splits, int64_t batch_rows)
      : splits_(std::move(splits)), batch_rows_(batch_rows) {}

  /// Hold every split open after its last number until this is called.
  void HoldOpen() { held_ = true; }
  void LetEnd() { held_ = false; }
  void FailAt(int64_t number) { fail_at_ = number; }
  int64_t produced() const { return produced_; }

  std::shared_ptr<arrow::Schema> schema() const override { return NumberSchema(); }

  Result<std::vector<SplitProgress>> Discover(const std::vector<SplitProgress>& saved) override {
    std::vector<SplitProgress> all = saved;
    for (size_t i = 0; i < splits_.size(); ++i) {
      const std::string name = std::to_string(i);
      const auto known = [&](const SplitProgress& split) { return split.split == name; };
      if (std::none_of(saved.begin(), saved.end(), known)) all.push_back({name, "", false});
    }
    return all;
  }

  Result<std::unique_ptr<SourceReader>> CreateReader(std::vector<SplitProgress> splits) override {
    return std::unique_ptr<SourceReader>(new Reader(this, std::move(splits)));
  }

  std::string Identity() const override { return "{}"; }

 private:
  class Reader final : public SourceReader {
   public:
    Reader(NumberSource* source, std::vector<SplitProgress> splits)
        : source_(source), splits_(std::move(splits)) {}

    Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
      for (;;) {
        bool waits = false;
        for (SplitProgress& split : splits_) {
          if (split.ended) continue;
          const Split& range = source_->splits_[std::stoul(split.split)];
          const int64_t at = split.position.empty() ? 0 : std::stoll(split.position);
          if (at < range.size) return Read(&split, range, at);
          if (source_->held_) {
            waits = true;
          } else {
            split.ended = true;
          }
        }
        if (!waits) return std::shared_ptr<arrow::RecordBatch>();
        // Nothing to read, but barriers must pass: an empty batch gives the thread back.
        return Numbers({});
      }
    }

    std::vector<SplitProgress> Progress() const override { return splits_; }

   private:
    Result<std::shared_ptr<arrow::RecordBatch>> Read(SplitProgress* split, const Split& range,
                                                     int64_t at) {
      std::vector<int64_t> values;
      for (int64_t i = at; i < std::min(range.size, at + source_->batch_rows_); ++i) {
        if (range.first + i == source_->fail_at_) {
          return Status::InvalidArgument("numbers: row " + std::to_string(i) + " is malformed");
        }
        values.push_back(range.first + i);
      }
      source_->produced_ += static_cast<int64_t>(values.size());
      split->position = std::to_string(at + static_cast<int64_t>(values.size()));
      return Numbers(values);
    }

    NumberSource* source_;
    std::vector<SplitProgress> splits_;
  };

  const std::vector<Split> splits_;
  const int64_t batch_rows_;
  std::atomic<bool> held_{false};
  std::atomic<int64_t> fail_at_{-1};
  std::atomic<int64_t> produced_{0};
};

/// Keep prepared rows by descriptor and committed ones in order.
class MemorySink final : public Sink {
 public:
  bool exactly_once() const override { return true; }

  Result<std::unique_ptr<SinkWriter>> CreateWriter(uint32_t subtask) override {
    return std::unique_ptr<SinkWriter>(new Writer(this, subtask));
  }

  Status Commit(const std::vector<std::string>& descriptors) override {
    std::lock_guard lock(mutex_);
    ++commits_;
    if (refuse_commit_ && !descriptors.empty()) return Status::Unavailable("the sink is gone");
    for (const std::string& descriptor : descriptors) {
      if (!committed_.insert(descriptor).second) continue;
      const auto rows = prepared_.find(descriptor);
      if (rows == prepared_.end()) return Status::Corruption("rows of " + descriptor + " are gone");
      visible_.insert(visible_.end(), rows->second.begin(), rows->second.end());
    }
    return {};
  }

  Status Recover(base::CheckpointId, const std::vector<std::string>& committed) override {
    CAIRN_RETURN_IF_ERROR(Commit(committed));
    std::lock_guard lock(mutex_);
    std::erase_if(prepared_, [&](const auto& entry) { return !committed_.contains(entry.first); });
    return {};
  }

  std::string Identity() const override { return "{}"; }

  void RefuseCommit(bool refuse) {
    std::lock_guard lock(mutex_);
    refuse_commit_ = refuse;
  }
  /// Committed rows, sorted.
  std::vector<int64_t> visible() const {
    std::lock_guard lock(mutex_);
    std::vector<int64_t> rows = visible_;
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  size_t RowsOf(const std::string& descriptor) const {
    std::lock_guard lock(mutex_);
    const auto rows = prepared_.find(descriptor);
    return rows == prepared_.end() ? 0 : rows->second.size();
  }
  int commits() const {
    std::lock_guard lock(mutex_);
    return commits_;
  }

 private:
  class Writer final : public SinkWriter {
   public:
    Writer(MemorySink* sink, uint32_t subtask) : sink_(sink), subtask_(subtask) {}
    Status Write(const Batch& batch) override {
      for (int64_t value : NumbersOf(batch)) rows_.push_back(value);
      return {};
    }
    Result<std::optional<std::string>> Prepare(base::CheckpointId id) override {
      if (rows_.empty()) return std::optional<std::string>();
      const std::string descriptor = std::to_string(id.value) + "/" + std::to_string(subtask_);
      std::lock_guard lock(sink_->mutex_);
      sink_->prepared_[descriptor] = std::exchange(rows_, {});
      return std::optional<std::string>(descriptor);
    }

   private:
    MemorySink* sink_;
    const uint32_t subtask_;
    std::vector<int64_t> rows_;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::vector<int64_t>> prepared_;
  std::set<std::string> committed_;
  std::vector<int64_t> visible_;
  int commits_ = 0;
  bool refuse_commit_ = false;
};

/// A cut in memory, without state.
class MemoryCut final : public checkpoint::Cut {
 public:
  MemoryCut(base::CheckpointId id, const checkpoint::CapturedCut& cut)
      : id_(id), parallelism_(cut.parallelism), sources_(cut.sources), sinks_(cut.sinks) {}
  base::CheckpointId id() const override { return id_; }
  int64_t timestamp_ms() const override { return 0; }
  uint32_t parallelism() const override { return parallelism_; }
  uint32_t key_groups() const override { return kDefaultKeyGroups; }
  bool ended() const override {
    return std::all_of(sources_.begin(), sources_.end(), [](const auto& s) { return s.ended; });
  }
  std::optional<int64_t> watermark_ms() const override { return std::nullopt; }
  const std::vector<checkpoint::SourceOffsets>& sources() const override { return sources_; }
  const std::vector<checkpoint::PreparedSink>& sinks() const override { return sinks_; }
  const std::vector<state::SlotDescriptor>& slots() const override { return slots_; }
  Result<checkpoint::LoadReceipt> LoadSubtask(std::span<state::StateTable* const>) const override {
    return checkpoint::LoadReceipt();
  }
  Status CheckReceipts(std::span<const checkpoint::LoadReceipt>) const override { return {}; }

  /// Rows that the sources had read.
  int64_t RowsRead() const {
    int64_t rows = 0;
    for (const auto& source : sources_) {
      for (const auto& split : source.splits) {
        if (!split.position.empty()) rows += std::stoll(split.position);
      }
    }
    return rows;
  }

 private:
  const base::CheckpointId id_;
  const uint32_t parallelism_;
  const std::vector<checkpoint::SourceOffsets> sources_;
  const std::vector<checkpoint::PreparedSink> sinks_;
  const std::vector<state::SlotDescriptor> slots_;
};

/// Keep committed cuts in memory; fail when a script says so.
class MemoryStore final : public checkpoint::CheckpointStore {
 public:
  /// Asked at every call with the checkpoint's id; OK = go on. Set before the job runs.
  std::function<Status(base::CheckpointId)> on_persist;
  std::function<Status(base::CheckpointId)> on_commit;

  Result<std::shared_ptr<const checkpoint::Cut>> Recover() override {
    std::lock_guard lock(mutex_);
    return cuts_.empty() ? nullptr : std::shared_ptr<const checkpoint::Cut>(cuts_.back());
  }
  Result<std::shared_ptr<const checkpoint::Cut>> RecoverAt(base::CheckpointId id) override {
    return Status::NotFound("checkpoint " + std::to_string(id.value));
  }
  /// Answer nothing any more, as a store whose last decision is in doubt.
  void Latch() { latched_ = true; }
  Result<base::CheckpointId> NextId() override {
    if (latched_) return Status::Unavailable("the store must be opened again");
    return base::CheckpointId(++next_id_);
  }
  Result<checkpoint::PersistedCut> Persist(base::CheckpointId id,
                                           const checkpoint::CapturedCut& captured,
                                           checkpoint::Executor*) override {
    if (on_persist) CAIRN_RETURN_IF_ERROR(on_persist(id));
    persisted_ = std::make_shared<MemoryCut>(id, captured);
    checkpoint::PersistedCut cut;
    cut.id = id;
    return cut;
  }
  Status Commit(const checkpoint::PersistedCut& persisted) override {
    if (on_commit) CAIRN_RETURN_IF_ERROR(on_commit(persisted.id));
    std::lock_guard lock(mutex_);
    cuts_.push_back(persisted_);
    changed_.notify_all();
    return {};
  }
  Status Abandon(const checkpoint::PersistedCut&) override {
    ++abandoned_;
    return {};
  }
  Result<checkpoint::RetireReport> Retire() override { return checkpoint::RetireReport(); }
  void MaterializeNow() override {}  // every cut is whole
  base::CheckpointId latest_commit() const override {
    std::lock_guard lock(mutex_);
    return cuts_.empty() ? base::CheckpointId() : cuts_.back()->id();
  }
  uint64_t slot_hash_seed() const override { return 1; }
  const std::string& deployment_id() const override { return deployment_id_; }
  base::CheckpointId first_id() const override { return base::CheckpointId(1); }
  env::StoreUse use() const override { return {}; }
  uint64_t expected_bytes() const override { return 0; }
  const std::vector<std::string>& notes() const override { return notes_; }

  std::vector<std::shared_ptr<MemoryCut>> cuts() const {
    std::lock_guard lock(mutex_);
    return cuts_;
  }
  void AwaitCuts(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cuts_.size() >= count; });
  }
  int abandoned() const { return abandoned_; }

 private:
  std::atomic<uint64_t> next_id_{0};
  std::atomic<int> abandoned_{0};
  std::atomic<bool> latched_{false};
  std::shared_ptr<MemoryCut> persisted_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<MemoryCut>> cuts_;
  const std::string deployment_id_ = "test";
  const std::vector<std::string> notes_;
};

/// An operator that calls a function on every batch and emits what it leaves.
class FunctionOperator final : public Operator {
 public:
  using Function = std::function<Status(const Batch&, uint32_t subtask)>;
  FunctionOperator(Function function, bool staged)
      : function_(std::move(function)), staged_(staged) {}
  Status Open(const OperatorContext& context) override {
    subtask_ = context.subtask;
    return {};
  }
  Status ProcessBatch(Batch batch, Collector* out) override {
    if (function_) CAIRN_RETURN_IF_ERROR(function_(batch, subtask_));
    if (!staged_) return out->Emit(std::move(batch));
    stage_.push_back(std::move(batch));
    return {};
  }
  Status Flush(Collector* out) override {
    for (Batch& batch : stage_) CAIRN_RETURN_IF_ERROR(out->Emit(std::move(batch)));
    stage_.clear();
    return {};
  }

 private:
  const Function function_;
  const bool staged_;
  uint32_t subtask_ = 0;
  std::vector<Batch> stage_;
};

class FunctionFactory final : public OperatorFactory {
 public:
  explicit FunctionFactory(FunctionOperator::Function function, bool staged = false)
      : function_(std::move(function)), staged_(staged) {}
  std::string name() const override { return "function"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return NumberSchema(); }
  bool keyed() const override { return true; }
  bool updating() const override { return false; }
  std::unique_ptr<Operator> Create() const override {
    return std::make_unique<FunctionOperator>(function_, staged_);
  }
  std::string Identity() const override { return "{}"; }

 private:
  const FunctionOperator::Function function_;
  const bool staged_;
};

}  // namespace cairn::stream::testing
