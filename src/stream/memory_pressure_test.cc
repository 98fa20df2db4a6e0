// SPDX-License-Identifier: Apache-2.0
#include "stream/memory_pressure.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cairn/table.h"
#include "env/manual_clock.h"

namespace cairn::stream {
namespace {

using Verdict = MemoryPressure::Verdict;

/// A table whose rows are all changed while a view of them is open: the view holds memory.
class MemoryPressureTest : public ::testing::Test {
 protected:
  MemoryPressureTest() {
    SlotDescriptor slot;
    slot.operator_id = OperatorIdOf("op");
    slot.operator_uid = "op";
    slot.name = "s";
    table_ = std::make_unique<Table<int64_t, std::string>>(domain_.get(), slot);
    Fill('a');
  }

  void Fill(char letter) {
    for (int64_t key = 0; key < 20'000; ++key) {
      const Status status =
          table_->Update(key, [&](std::string& value, bool) { value = std::string(200, letter); });
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  /// Set the limit so that the present total is at the mark, then take memory beyond it.
  void Grow() {
    const uint64_t total = budget_.total();
    budget_.set_limit(total + total / (MemoryPressure::kHeadroom - 1));
    while (budget_.total() == total) Put(next_key_++, 'n');
  }

  void Put(int64_t key, char letter) {
    const Status status =
        table_->Update(key, [&](std::string& value, bool) { value = std::string(200, letter); });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  MemoryBudget budget_{0};
  env::ManualClock clock_;
  std::unique_ptr<StateDomain> domain_ = StateDomain::Create({"op subtask 0", &budget_, true});
  std::unique_ptr<Table<int64_t, std::string>> table_;
  int64_t next_key_ = 1'000'000;
  MemoryPressure pressure_{&budget_, domain_.get(), &clock_, 1000};
};

TEST_F(MemoryPressureTest, WithRoomOrWithoutALimitTheBatchGoes) {
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  budget_.set_limit(budget_.total() * 2);
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  EXPECT_EQ(pressure_.waits(), 0u);
}

TEST_F(MemoryPressureTest, WithoutAViewThereIsNothingToWaitFor) {
  Grow();
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  EXPECT_EQ(pressure_.waits(), 0u);
}

TEST_F(MemoryPressureTest, AViewThatHoldsMemoryIsWaitedForUntilItGoes) {
  View view = domain_->Capture();
  Fill('b');
  ASSERT_GT(domain_->ViewBytes(), 0u);
  Grow();
  EXPECT_EQ(pressure_.Check(), Verdict::kWait);
  clock_.Advance(500);
  EXPECT_EQ(pressure_.Check(), Verdict::kWait);
  view.Release();
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  EXPECT_EQ(pressure_.waits(), 1u);
  EXPECT_EQ(pressure_.given_up(), 0u);
}

TEST_F(MemoryPressureTest, ATotalNearTheLimitThatDoesNotGrowHoldsNothingUp) {
  Grow();
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  const View view = domain_->Capture();
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  EXPECT_EQ(pressure_.waits(), 0u);
}

TEST_F(MemoryPressureTest, TheWaitIsBoundedAndNotRepeatedForTheSameView) {
  const View view = domain_->Capture();
  Fill('b');
  Grow();
  EXPECT_EQ(pressure_.Check(), Verdict::kWait);
  clock_.Advance(1000);
  EXPECT_EQ(pressure_.Check(), Verdict::kGaveUp);
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  clock_.Advance(5000);
  EXPECT_EQ(pressure_.Check(), Verdict::kGo);
  EXPECT_EQ(pressure_.given_up(), 1u);
}

TEST_F(MemoryPressureTest, WhatTheTablesThenRefuseNamesTheOwner) {
  const View view = domain_->Capture();
  Fill('b');
  budget_.set_limit(budget_.total());
  Status refused;
  for (int64_t key = 100'000; key < 900'000 && refused.ok(); ++key) {
    refused = table_->Update(key, [](std::string& value, bool) { value = std::string(500, 'c'); });
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("op subtask 0"), std::string_view::npos) << refused.ToString();
}

}  // namespace
}  // namespace cairn::stream
