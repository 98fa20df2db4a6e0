// SPDX-License-Identifier: Apache-2.0
#include "stream/barrier_aligner.h"

#include <gtest/gtest.h>

namespace cairn::stream {
namespace {

Barrier At(uint64_t id) { return {base::CheckpointId(id)}; }

TEST(BarrierAligner, CompletesWhenEveryChannelHasTheBarrier) {
  BarrierAligner aligner(3);
  EXPECT_FALSE(aligner.OnBarrier(0, At(1))->has_value());
  EXPECT_FALSE(aligner.OnBarrier(2, At(1))->has_value());
  const auto complete = aligner.OnBarrier(1, At(1));
  ASSERT_TRUE(complete.ok() && complete->has_value());
  EXPECT_EQ((*complete)->id, base::CheckpointId(1));
}

TEST(BarrierAligner, HoldsOnlyChannelsWhoseBarrierHasCome) {
  BarrierAligner aligner(2);
  EXPECT_FALSE(aligner.IsHeld(0));
  ASSERT_TRUE(aligner.OnBarrier(0, At(1)).ok());
  EXPECT_TRUE(aligner.IsHeld(0));
  EXPECT_FALSE(aligner.IsHeld(1));
  ASSERT_TRUE(aligner.OnBarrier(1, At(1)).ok());
  EXPECT_FALSE(aligner.IsHeld(0));
}

TEST(BarrierAligner, AnEndedChannelCountsAsPastTheBarrier) {
  BarrierAligner aligner(2);
  EXPECT_FALSE(aligner.OnEnd(0).has_value());
  EXPECT_TRUE(aligner.OnBarrier(1, At(4))->has_value());
}

TEST(BarrierAligner, AChannelThatEndsDuringAlignmentCompletesIt) {
  BarrierAligner aligner(2);
  ASSERT_FALSE(aligner.OnBarrier(0, At(4))->has_value());
  EXPECT_TRUE(aligner.OnEnd(1).has_value());
}

TEST(BarrierAligner, OneBarrierCompletesWhenAllChannelsHaveEndedAndTheRestAreIgnored) {
  BarrierAligner aligner(2);
  EXPECT_FALSE(aligner.OnEnd(0).has_value());
  EXPECT_FALSE(aligner.OnEnd(1).has_value());
  EXPECT_TRUE(aligner.all_ended());
  EXPECT_TRUE(aligner.OnBarrier(1, At(7))->has_value());
  EXPECT_FALSE(aligner.OnBarrier(0, At(7))->has_value());
  EXPECT_TRUE(aligner.OnBarrier(0, At(8))->has_value());
}

TEST(BarrierAligner, ABarrierOnAnEndedChannelWaitsForTheOthers) {
  BarrierAligner aligner(2);
  EXPECT_FALSE(aligner.OnEnd(0).has_value());
  EXPECT_FALSE(aligner.OnBarrier(0, At(7))->has_value());
  EXPECT_TRUE(aligner.OnBarrier(1, At(7))->has_value());
}

TEST(BarrierAligner, RefusesABarrierThatOvertakesAnOpenOne) {
  BarrierAligner aligner(2);
  ASSERT_TRUE(aligner.OnBarrier(0, At(1)).ok());
  EXPECT_EQ(aligner.OnBarrier(1, At(2)).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace cairn::stream
