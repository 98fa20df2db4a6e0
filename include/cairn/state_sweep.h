// SPDX-License-Identifier: Apache-2.0
//
// StateSweep: upkeep of all tables of a subtask in bounded steps. The subtask's thread runs it
// between batches, after it has told the domain the time:
//
//   domain->AdvanceWallTime(now_ms);            // and AdvanceEventTime at a watermark
//   sweep.Run(tables, kSteps);
//
// Threads:  the writer's.
#pragma once

#include <cstddef>
#include <span>

#include "cairn/state_table.h"

namespace cairn {
inline namespace v0 {

class StateSweep {
 public:
  /// Sweep expired rows of `tables` and give memory back, in about `budget` steps of one row each;
  /// returns the steps taken: 0 = the tables looked at had nothing to do. Tables take turns from
  /// call to call, up to 32 a call.
  ///
  /// Cost:     without expired rows some 10 ns a table.
  size_t Run(std::span<StateTable* const> tables, size_t budget);

 private:
  size_t next_ = 0;
};

}  // namespace v0
}  // namespace cairn
