// SPDX-License-Identifier: Apache-2.0
//
// Merged scan: the live rows of one operator of a cut, its deltas laid over their bases.
//
// Rows of a frame ascend by (key group, slot, slot hash of the user key, user key), so bases and
// deltas merge front to back: at most the frames of one key group are in memory at a time, and the
// rows come out in the order in which a base of this state would hold them.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/ids.h"
#include "cairn/hash.h"
#include "cairn/status.h"
#include "checkpoint/inspect.h"
#include "format/frame.h"

namespace cairn::checkpoint {

/// A live row. The views die with the call that got them.
struct MergedRow {
  bool keyed = true;  ///< false: operator state, and `group` is the subtask that saved it
  uint32_t group = 0;
  std::string_view slot;
  std::string_view user_key;    ///< of operator state without a slot: the whole logical key
  std::string_view stored_key;  ///< as in the file
  std::string_view value;
};

/// Take a row. kCancelled ends the scan early, and the scan then returns OK.
using MergedRowVisitor = std::function<Status(const MergedRow&)>;

/// Visit the live rows of `operator_id`: keyed rows whose group is in `groups`, then, when `groups`
/// is all of the cut's, operator-state rows.
///
/// Blocks:   on reads of the frames that overlap `groups`.
/// Errors:   kCorruption (a frame as CutReader::ReadFrame, rows out of order) · what `visit`
///           returned.
/// Cost:     about 50 ns a row beside the reads.
Status ScanOperator(const CutReader& cut, base::OperatorId operator_id, KeyGroupRange groups,
                    const MergedRowVisitor& visit);

}  // namespace cairn::checkpoint
