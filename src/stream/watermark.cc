// SPDX-License-Identifier: Apache-2.0
#include "stream/watermark.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <algorithm>

namespace cairn::stream {
namespace {

constexpr int64_t kMicrosPerMilli = 1000;

int64_t FloorToMillis(int64_t micros) {
  return micros / kMicrosPerMilli - (micros % kMicrosPerMilli < 0 ? 1 : 0);
}

}  // namespace

std::optional<int64_t> WatermarkGenerator::Observe(const arrow::RecordBatch& rows) {
  const auto& times = static_cast<const arrow::TimestampArray&>(*rows.column(spec_.column));
  std::optional<int64_t> newest_us;
  for (int64_t i = 0; i < times.length(); ++i) {
    if (times.IsValid(i)) newest_us = std::max(newest_us.value_or(times.Value(i)), times.Value(i));
  }
  if (!newest_us.has_value()) return std::nullopt;
  // What a division by 1000 leaves has room for any delay.
  const int64_t time_ms = FloorToMillis(*newest_us) - spec_.delay_ms;
  if (watermark_.has_value() && time_ms <= *watermark_) return std::nullopt;
  watermark_ = time_ms;
  return watermark_;
}

std::optional<int64_t> WatermarkValve::OnWatermark(size_t channel, int64_t time_ms) {
  std::optional<int64_t>& known = channels_[channel].watermark;
  known = std::max(known.value_or(time_ms), time_ms);
  return Advance();
}

std::optional<int64_t> WatermarkValve::OnEnd(size_t channel) {
  channels_[channel].ended = true;
  return Advance();
}

std::optional<int64_t> WatermarkValve::Advance() {
  std::optional<int64_t> least;
  for (const Channel& channel : channels_) {
    if (channel.ended) continue;
    if (!channel.watermark.has_value()) return std::nullopt;
    least = std::min(least.value_or(*channel.watermark), *channel.watermark);
  }
  if (!least.has_value() || (watermark_.has_value() && *least <= *watermark_)) return std::nullopt;
  watermark_ = least;
  return watermark_;
}

}  // namespace cairn::stream
