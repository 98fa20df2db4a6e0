// SPDX-License-Identifier: Apache-2.0
//
// State with a TTL in a running job: the runtime tells it the time and sweeps it between batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "cairn/value_state.h"
#include "env/manual_clock.h"
#include "stream/test_job.h"

namespace cairn::stream {
namespace {

using testing::MemoryStore;
using testing::TestJob;

constexpr int64_t kTtlMs = 500;

/// Keeps every key for half a second of the wall clock; a batch takes a second of it.
class ExpiringOperator final : public Operator {
 public:
  ExpiringOperator(env::ManualClock* clock, std::atomic<uint64_t>* most, std::atomic<uint64_t>* put)
      : clock_(clock), most_(most), put_(put) {}

  Status Open(const OperatorContext& context) override {
    SlotDescriptor slot;
    slot.operator_uid = context.uid;
    slot.operator_id = OperatorIdOf(context.uid);
    slot.name = "seen";
    slot.key_codec = "bytes";
    slot.value_codec = "int64";
    slot.ttl = {.ttl_ms = kTtlMs, .clock = TtlClock::kWall};
    TableOptions options;
    options.key_groups = context.key_groups;
    options.range = context.range;
    seen_ = std::make_unique<ValueState<Bytes, int64_t>>(context.state, slot, options);
    return {};
  }
  std::vector<state::StateTable*> tables() override { return {seen_.get()}; }

  Status ProcessBatch(Batch batch, Collector* out) override {
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const auto row = batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i;
      CAIRN_RETURN_IF_ERROR(seen_->Put(batch.keys->key(row), 1));
      ++*put_;
    }
    uint64_t most = most_->load();
    while (most < seen_->size() && !most_->compare_exchange_weak(most, seen_->size())) {
    }
    clock_->Advance(1000);
    return out->Emit(std::move(batch));
  }

 private:
  env::ManualClock* clock_;
  std::atomic<uint64_t>* most_;
  std::atomic<uint64_t>* put_;
  std::unique_ptr<ValueState<Bytes, int64_t>> seen_;
};

class ExpiringFactory final : public OperatorFactory {
 public:
  explicit ExpiringFactory(env::ManualClock* clock) : clock_(clock) {}
  std::string name() const override { return "expiring"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return testing::NumberSchema(); }
  bool keyed() const override { return true; }
  bool updating() const override { return false; }
  std::unique_ptr<Operator> Create() const override {
    return std::make_unique<ExpiringOperator>(clock_, &most, &put);
  }
  std::string Identity() const override { return "{}"; }

  mutable std::atomic<uint64_t> most{0};  ///< rows held at a time by one subtask
  mutable std::atomic<uint64_t> put{0};

 private:
  env::ManualClock* clock_;
};

TEST(Expiry, WhatHasExpiredByTheWallClockIsSweptBetweenBatches) {
  for (const uint32_t parallelism : {1u, 2u}) {
    env::ManualClock clock;
    const auto factory = std::make_shared<ExpiringFactory>(&clock);
    TestJob job;
    job.factory = factory;
    job.parallelism = parallelism;
    job.options.coordinator.clock = &clock;
    MemoryStore store;
    const auto outcome = job.Run(&store);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(factory->put, 1540u);
    // Of 1,540 keys no more than those of one batch of 16 are alive at a time.
    EXPECT_LE(factory->most, 16u);
    EXPECT_GT(factory->most, 0u);
  }
}

TEST(Expiry, Case52ARestoreTellsByWhichClockRowsLive) {
  env::ManualClock clock;
  MemoryStore store;
  TestJob job;
  job.factory = std::make_shared<ExpiringFactory>(&clock);
  ASSERT_TRUE(job.Run(&store).ok());
  job.log.clear();
  const auto again = job.Run(&store);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(std::any_of(job.log.begin(), job.log.end(), [](const std::string& line) {
    return line.find("slot seen: rows live") != std::string::npos &&
           line.find("by the wall clock, which went on while the job was down") !=
               std::string::npos;
  })) << ::testing::PrintToString(job.log);
}

}  // namespace
}  // namespace cairn::stream
