// SPDX-License-Identifier: Apache-2.0
#include "stream/watermark.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <memory>

namespace cairn::stream {
namespace {

std::shared_ptr<arrow::RecordBatch> RowsAt(const std::vector<std::optional<int64_t>>& times_us) {
  const auto type = arrow::timestamp(arrow::TimeUnit::MICRO);
  arrow::TimestampBuilder times(type, arrow::default_memory_pool());
  for (const std::optional<int64_t>& time : times_us) {
    EXPECT_TRUE((time.has_value() ? times.Append(*time) : times.AppendNull()).ok());
  }
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("t", type)}),
                                  static_cast<int64_t>(times_us.size()),
                                  {times.Finish().ValueOrDie()});
}

TEST(WatermarkGenerator, StaysTheDelayBehindTheNewestRowAndNeverGoesBack) {
  WatermarkGenerator watermarks({0, 100}, std::nullopt);
  EXPECT_EQ(watermarks.watermark(), std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({5'000'000, 7'000'999, 6'000'000})), 6900);
  EXPECT_EQ(watermarks.Observe(*RowsAt({6'500'000})), std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({7'001'000})), 6901);
  EXPECT_EQ(watermarks.watermark(), 6901);
}

TEST(WatermarkGenerator, LearnsNothingFromNullsAndEmptyBatches) {
  WatermarkGenerator watermarks({0, 0}, std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({})), std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({std::nullopt, std::nullopt})), std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({std::nullopt, -1, std::nullopt})), -1);
}

TEST(WatermarkGenerator, RoundsTowardsThePastBefore1970) {
  WatermarkGenerator watermarks({0, 0}, std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({-1'500})), -2);
  EXPECT_EQ(watermarks.Observe(*RowsAt({-1'000})), -1);
}

TEST(WatermarkGenerator, GoesOnFromARestoredWatermark) {
  WatermarkGenerator watermarks({0, 0}, 5000);
  EXPECT_EQ(watermarks.Observe(*RowsAt({4'000'000})), std::nullopt);
  EXPECT_EQ(watermarks.Observe(*RowsAt({6'000'000})), 6000);
}

TEST(WatermarkValve, GivesTheLeastOfItsChannelsWhenAllHaveSpoken) {
  WatermarkValve valve(3);
  EXPECT_EQ(valve.OnWatermark(0, 10), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(1, 30), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(2, 20), 10);
  EXPECT_EQ(valve.OnWatermark(0, 25), 20);
  EXPECT_EQ(valve.OnWatermark(0, 40), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(2, 50), 30);
}

TEST(WatermarkValve, IsNotHeldBackByWhatHasEnded) {
  WatermarkValve valve(3);
  EXPECT_EQ(valve.OnEnd(1), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(0, 10), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(2, 7), 7);
  EXPECT_EQ(valve.OnEnd(2), 10);
  EXPECT_EQ(valve.OnEnd(0), std::nullopt);
}

TEST(WatermarkValve, NeverGoesBack) {
  WatermarkValve valve(2);
  EXPECT_EQ(valve.OnWatermark(0, 10), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(1, 10), 10);
  EXPECT_EQ(valve.OnWatermark(0, 5), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(1, 20), std::nullopt);
  EXPECT_EQ(valve.OnWatermark(0, 12), 12);
}

}  // namespace
}  // namespace cairn::stream
