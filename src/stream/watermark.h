// SPDX-License-Identifier: Apache-2.0
//
// Event time: how a source says how far it has come, and what a subtask with several inputs makes
// of it.
//
// A watermark of W says that no row with an event time before W is expected any more. Rows that
// come nevertheless are late: they are delivered like any other.
//
// Threads: one, the subtask's.
// Invariants
//  1. A watermark never goes back, across restore and rescale too.
//  2. That of a subtask is the least over its channels; one that has ended holds nothing back, and
//     one that has said nothing yet holds everything back.
#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace cairn::stream {

/// The watermark behind the last row of an input that has ended.
inline constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();

/// Where a source's rows tell their event time.
struct EventTimeSpec {
  int column = 0;        ///< of the source's schema: a TIMESTAMP
  int64_t delay_ms = 0;  ///< so much older than the newest row before it may a row be
};

/// The watermarks of one source subtask.
class WatermarkGenerator {
 public:
  /// `restored` is the watermark that a cut holds for the source.
  WatermarkGenerator(EventTimeSpec spec, std::optional<int64_t> restored)
      : spec_(spec), watermark_(restored) {}

  /// Take rows. Returns the watermark behind them when it has grown.
  ///
  /// Cost:     about a nanosecond a row.
  std::optional<int64_t> Observe(const arrow::RecordBatch& rows);

  /// In milliseconds since 1970; nothing before the first row.
  std::optional<int64_t> watermark() const { return watermark_; }

 private:
  const EventTimeSpec spec_;
  std::optional<int64_t> watermark_;
};

/// The watermark of a subtask with several inputs.
class WatermarkValve {
 public:
  explicit WatermarkValve(size_t channels) : channels_(channels) {}

  /// Take a channel's watermark, or its end. Returns the subtask's when it has grown. The end of
  /// the last channel returns nothing: it is the end of the input.
  std::optional<int64_t> OnWatermark(size_t channel, int64_t time_ms);
  std::optional<int64_t> OnEnd(size_t channel);

 private:
  struct Channel {
    std::optional<int64_t> watermark;
    bool ended = false;
  };
  std::optional<int64_t> Advance();

  std::vector<Channel> channels_;
  std::optional<int64_t> watermark_;
};

}  // namespace cairn::stream
