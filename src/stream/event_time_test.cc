// SPDX-License-Identifier: Apache-2.0
//
// Event time through a job, and processing time by the clock of the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "env/manual_clock.h"
#include "stream/test_job.h"

namespace cairn::stream {
namespace {

using ::testing::ElementsAre;
using testing::Gate;
using testing::MemorySink;
using testing::MemoryStore;
using testing::NumbersOf;

std::shared_ptr<arrow::Schema> TimeSchema() {
  return arrow::schema({arrow::field("n", arrow::int64(), false),
                        arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO))});
}

/// Rows (i, i milliseconds).
std::shared_ptr<arrow::RecordBatch> TimedRows(int64_t first, int64_t count) {
  arrow::Int64Builder numbers;
  arrow::TimestampBuilder times(TimeSchema()->field(1)->type(), arrow::default_memory_pool());
  for (int64_t i = first; i < first + count; ++i) {
    EXPECT_TRUE(numbers.Append(i).ok());
    EXPECT_TRUE(times.Append(i * 1000).ok());
  }
  return arrow::RecordBatch::Make(TimeSchema(), count,
                                  {numbers.Finish().ValueOrDie(), times.Finish().ValueOrDie()});
}

/// Splits of 100 rows that follow one another in time, in batches of 10. A batch whose first row
/// has a gate waits for it, so that the readers can be made to stand at different places.
class TimedSource final : public Source {
 public:
  explicit TimedSource(int64_t splits) : splits_(splits) {}
  Gate* gate_at(int64_t row) { return &gates_[row]; }

  std::shared_ptr<arrow::Schema> schema() const override { return TimeSchema(); }
  Result<std::vector<SplitProgress>> Discover(const std::vector<SplitProgress>& saved) override {
    std::vector<SplitProgress> all = saved;
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.split < b.split; });
    if (!all.empty()) return all;
    for (int64_t i = 0; i < splits_; ++i) all.push_back({std::to_string(i), "", false});
    return all;
  }
  Result<std::unique_ptr<SourceReader>> CreateReader(std::vector<SplitProgress> splits) override {
    return std::unique_ptr<SourceReader>(new Reader(this, std::move(splits)));
  }
  std::string Identity() const override { return "{}"; }

 private:
  class Reader final : public SourceReader {
   public:
    Reader(TimedSource* source, std::vector<SplitProgress> splits)
        : source_(source), splits_(std::move(splits)) {}
    Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
      for (SplitProgress& split : splits_) {
        if (split.ended) continue;
        const int64_t at = split.position.empty() ? 0 : std::stoll(split.position);
        const int64_t row = std::stoll(split.split) * 100 + at;
        const auto gate = source_->gates_.find(row);
        if (gate != source_->gates_.end() && !gate->second.IsOpen()) return TimedRows(0, 0);
        split.position = std::to_string(at + 10);
        split.ended = at + 10 == 100;
        return TimedRows(row, 10);
      }
      return std::shared_ptr<arrow::RecordBatch>();
    }
    std::vector<SplitProgress> Progress() const override { return splits_; }

   private:
    TimedSource* source_;
    std::vector<SplitProgress> splits_;
  };

  const int64_t splits_;
  std::map<int64_t, Gate> gates_;  ///< by the row that waits
};

/// What the subtasks of an operator learned.
struct Learned {
  std::mutex mutex;
  std::map<uint32_t, std::vector<int64_t>> watermarks;  ///< by subtask
  int64_t late = 0;
  std::vector<int64_t> fired_ms;
};

/// Notes watermarks and late rows; wants OnProcessingTime at `wake_ms`, once.
class LearningOperator final : public Operator {
 public:
  LearningOperator(Learned* learned, std::optional<int64_t> wake_ms)
      : learned_(learned), wake_ms_(wake_ms) {}
  Status Open(const OperatorContext& context) override {
    subtask_ = context.subtask;
    return {};
  }
  Status ProcessBatch(Batch batch, Collector* out) override {
    std::lock_guard lock(learned_->mutex);
    for (const int64_t number : NumbersOf(batch)) learned_->late += number < watermark_;
    return out->Emit(std::move(batch));
  }
  Status OnWatermark(int64_t time_ms, Collector*) override {
    std::lock_guard lock(learned_->mutex);
    learned_->watermarks[subtask_].push_back(watermark_ = time_ms);
    return {};
  }
  std::optional<int64_t> NextProcessingTime() override { return wake_ms_; }
  Status OnProcessingTime(int64_t now_ms, Collector*) override {
    std::lock_guard lock(learned_->mutex);
    learned_->fired_ms.push_back(now_ms);
    wake_ms_.reset();
    return {};
  }

 private:
  Learned* const learned_;
  std::optional<int64_t> wake_ms_;
  uint32_t subtask_ = 0;
  int64_t watermark_ = std::numeric_limits<int64_t>::min();
};

class LearningFactory final : public OperatorFactory {
 public:
  LearningFactory(Learned* learned, std::optional<int64_t> wake_ms)
      : learned_(learned), wake_ms_(wake_ms) {}
  std::string name() const override { return "learning"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return TimeSchema(); }
  bool keyed() const override { return true; }
  bool updating() const override { return false; }
  std::unique_ptr<Operator> Create() const override {
    return std::make_unique<LearningOperator>(learned_, wake_ms_);
  }
  std::string Identity() const override { return "{}"; }

 private:
  Learned* const learned_;
  const std::optional<int64_t> wake_ms_;
};

/// A source with event time → exchange → operator → exchange → operator → sink.
struct TimedJob {
  std::shared_ptr<TimedSource> source = std::make_shared<TimedSource>(7);
  std::shared_ptr<MemorySink> sink = std::make_shared<MemorySink>();
  Learned first;
  Learned second;
  std::optional<int64_t> wake_ms;
  uint32_t parallelism = 1;
  JobOptions options;
  JobControl control;
  std::stop_source stop;

  TimedJob() {
    options.coordinator.interval_ms = 0;
    control.stop = stop.get_token();
  }

  Result<JobOutcome> Run(MemoryStore* store) {
    JobGraph graph;
    graph.job = "timed";
    graph.parallelism = parallelism;
    graph.stages.resize(3);
    graph.stages[0].name = graph.stages[0].source_name = "source";
    graph.stages[0].source = source;
    graph.stages[0].event_time = EventTimeSpec{1, 5};
    graph.stages[0].nodes.push_back({-1, "", nullptr, nullptr, ExchangeSpec{1, TimeSchema(), {0}}});
    graph.stages[1].name = "one";
    graph.stages[1].nodes.push_back(
        {-1, "one", std::make_shared<LearningFactory>(&first, wake_ms), nullptr, {}});
    graph.stages[1].nodes.push_back({0, "", nullptr, nullptr, ExchangeSpec{2, TimeSchema(), {0}}});
    graph.stages[2].name = "two";
    graph.stages[2].nodes.push_back(
        {-1, "two", std::make_shared<LearningFactory>(&second, std::nullopt), nullptr, {}});
    graph.stages[2].nodes.push_back({0, "sink", nullptr, sink, {}});
    return RunGraph(graph, options, store, *store->Recover(), control);
  }

  Result<JobOutcome> RunWith(MemoryStore* store, const std::function<void(Coordinator*)>& drive) {
    std::thread driver;
    options.on_coordinator = [&](Coordinator* coordinator) {
      driver = std::thread([&drive, coordinator] { drive(coordinator); });
    };
    Result<JobOutcome> outcome = Run(store);
    driver.join();
    options.on_coordinator = nullptr;
    return outcome;
  }
};

TEST(EventTime, NoRowIsLateAndTheEndOfTheInputIsTheEndOfTime) {
  for (const uint32_t parallelism : {1U, 2U, 3U}) {
    TimedJob job;
    job.parallelism = parallelism;
    MemoryStore store;
    const auto outcome = job.Run(&store);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    for (Learned* learned : {&job.first, &job.second}) {
      EXPECT_EQ(learned->late, 0) << "of " << parallelism << " subtasks";
      ASSERT_EQ(learned->watermarks.size(), parallelism);
      for (const auto& [subtask, watermarks] : learned->watermarks) {
        EXPECT_TRUE(std::is_sorted(watermarks.begin(), watermarks.end(), std::less_equal<>()));
        EXPECT_EQ(watermarks.back(), kEndOfTime);
        EXPECT_EQ(std::count(watermarks.begin(), watermarks.end(), kEndOfTime), 1);
      }
    }
    EXPECT_EQ(job.sink->visible().size(), 700U);
    EXPECT_EQ(store.cuts().back()->sources()[0].watermark_ms, 694);
  }
}

TEST(EventTime, TheSlowestReaderHoldsTheWatermarkOfACutAndItComesBackAtAnyParallelism) {
  for (const uint32_t parallelism : {1U, 2U, 3U}) {
    TimedJob job;
    job.parallelism = 2;
    // The readers of splits 0 and 1 stand at rows 50 and 180.
    Gate* const gates[] = {job.source->gate_at(50), job.source->gate_at(180)};
    MemoryStore store;
    const auto stopped = job.RunWith(&store, [&](Coordinator* coordinator) {
      for (;;) {
        const size_t before = store.cuts().size();
        coordinator->RequestCheckpoint();
        store.AwaitCuts(before + 1);
        if (store.cuts().back()->RowsRead() == 50 + 80) break;
      }
      job.stop.request_stop();
    });
    ASSERT_TRUE(stopped.ok()) << stopped.status().ToString();
    ASSERT_TRUE(stopped->stopped);
    EXPECT_TRUE(store.cuts().back()->sources()[0].event_time);
    EXPECT_EQ(store.cuts().back()->sources()[0].watermark_ms, 44);
    for (Gate* gate : gates) gate->Open();
    TimedJob again;
    again.source = job.source;
    again.sink = job.sink;
    again.parallelism = parallelism;
    const auto outcome = again.Run(&store);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    for (Learned* learned : {&again.first, &again.second}) {
      EXPECT_EQ(learned->late, 0);
      for (const auto& [subtask, watermarks] : learned->watermarks) {
        // Beside other readers it may have grown before it came here.
        EXPECT_GE(watermarks.front(), 44);
        if (parallelism == 1) {
          EXPECT_EQ(watermarks.front(), 44) << "before any row";
        }
      }
    }
    EXPECT_EQ(again.sink->visible().size(), 700U);
  }
}

TEST(ProcessingTime, AnOperatorIsCalledWhenTheClockOfTheJobShowsItsTime) {
  for (const uint32_t parallelism : {1U, 2U}) {
    env::ManualClock clock(1000);
    TimedJob job;
    job.parallelism = parallelism;
    job.options.coordinator.clock = &clock;
    job.wake_ms = 1500;
    Gate* const gate = job.source->gate_at(650);
    MemoryStore store;
    const auto outcome = job.RunWith(&store, [&](Coordinator* coordinator) {
      coordinator->RequestCheckpoint();
      store.AwaitCuts(1);
      {
        std::lock_guard lock(job.first.mutex);
        EXPECT_THAT(job.first.fired_ms, ElementsAre());
      }
      clock.Advance(700);
      for (size_t fired = 0; fired < parallelism;) {
        // Barriers let the subtasks look at the clock again.
        const size_t before = store.cuts().size();
        coordinator->RequestCheckpoint();
        store.AwaitCuts(before + 1);
        std::lock_guard lock(job.first.mutex);
        fired = job.first.fired_ms.size();
      }
      gate->Open();
    });
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(job.first.fired_ms, std::vector<int64_t>(parallelism, 1700));
  }
}

TEST(ProcessingTime, WhatIsPendingAtTheEndOfTheInputIsNotCalled) {
  env::ManualClock clock(1000);
  TimedJob job;
  job.options.coordinator.clock = &clock;
  job.wake_ms = 1'000'000;
  MemoryStore store;
  ASSERT_TRUE(job.Run(&store).ok());
  EXPECT_THAT(job.first.fired_ms, ElementsAre());
}

}  // namespace
}  // namespace cairn::stream
