// SPDX-License-Identifier: Apache-2.0
//
// What each slot of a saved state holds, counted row by row.
//
// Threads: free functions.
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/status.h"
#include "cli/state_source.h"

namespace cairn::cli {

struct SlotTotals {
  uint64_t rows = 0;     ///< saved rows
  uint64_t live = 0;     ///< values or elements
  uint64_t expired = 0;  ///< of them, by the clock of the cut
  uint64_t bytes = 0;    ///< of stored keys and values
};

/// One a slot, in the order of source.slots(). `deadline_shifts` moves the deadlines of each slot's
/// rows by so many milliseconds, as another TTL would; empty = they stay.
///
/// Blocks:   on reads of the whole state.
/// Errors:   kCorruption for a row that is not of its slot's kind · as StateSource::Scan.
Result<std::vector<SlotTotals>> CountSlots(const StateSource& source,
                                           const std::vector<int64_t>& deadline_shifts = {});

}  // namespace cairn::cli
