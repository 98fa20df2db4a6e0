// SPDX-License-Identifier: Apache-2.0
//
// Event time of a table: WITH (watermark = 'column', watermark_delay = '4s'), for every connector.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/status.h"
#include "stream/table_definition.h"

namespace cairn::engine {

struct EventTimeOption {
  int column = 0;  ///< of the table
  int64_t delay_ms = 0;
};

/// Nothing when the table says nothing of it.
///
/// Errors:   kInvalidArgument: no such column, no TIMESTAMP, a delay that is none.
Result<std::optional<EventTimeOption>> ReadEventTime(const stream::TableDefinition& table);

}  // namespace cairn::engine
