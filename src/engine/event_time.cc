// SPDX-License-Identifier: Apache-2.0
#include "engine/event_time.h"

#include <arrow/type.h>

#include <algorithm>
#include <string>

#include "base/units.h"
#include "stream/event_time_options.h"

namespace cairn::engine {
namespace {

constexpr int64_t kMostDelayMs = int64_t{366} * 24 * 3600 * 1000;

}  // namespace

Result<std::optional<EventTimeOption>> ReadEventTime(const stream::TableDefinition& table) {
  const auto column = table.options.find(stream::kWatermarkOption);
  const auto delay = table.options.find(stream::kWatermarkDelayOption);
  if (column == table.options.end()) {
    if (delay == table.options.end()) return std::optional<EventTimeOption>();
    return Status::InvalidArgument("watermark_delay needs watermark = 'COLUMN'");
  }
  const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [&](const auto& each) { return each.name == column->second; });
  if (found == table.columns.end()) {
    return Status::InvalidArgument("watermark: there is no column \"" + column->second + "\"");
  }
  if (!found->type->Equals(arrow::timestamp(arrow::TimeUnit::MICRO))) {
    return Status::InvalidArgument("watermark: column " + found->name + " is " +
                                   stream::SqlTypeName(*found->type) +
                                   "; event time is told by a TIMESTAMP");
  }
  EventTimeOption option;
  option.column = static_cast<int>(found - table.columns.begin());
  if (delay != table.options.end()) {
    const Result<int64_t> parsed = base::ParseDurationMs(delay->second);
    if (!parsed.ok()) return parsed.status().WithContext("watermark_delay");
    if (*parsed > kMostDelayMs) {
      return Status::InvalidArgument("watermark_delay is " + delay->second +
                                     "; it may be 366 days at most");
    }
    option.delay_ms = *parsed;
  }
  return std::optional(option);
}

}  // namespace cairn::engine
