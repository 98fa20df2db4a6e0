// SPDX-License-Identifier: Apache-2.0
//
// Top-N over an input that only appends: ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= limit.
//
// Threads: the operator is its subtask's; its table is read through views by others. A checkpoint
//          needs nothing of it: the rows of a view are shared and immutable.
// Format:  slot "topn", docs/formats/topn.md; one frame a key group.
//
// Invariants
//  1. Equal sort keys rank by arrival.
//  2. All rows of a batch are ranked before anything is sent, so what is sent is the net change of
//     each partition: a row that enters and leaves within one batch is never seen.
//  3. A row that does not reach the first `limit` is refused by one comparison with the last of
//     them, before it is encoded.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

#include "cairn/status.h"
#include "format/row_codec.h"
#include "operators/sort_key.h"
#include "stream/operator.h"
#include "stream/plan.h"

namespace cairn::operators {

/// What the ranking of one pipeline place needs; shared by its subtasks.
struct TopNSpec {
  stream::TopNNode node;
  std::shared_ptr<arrow::Schema> input;
  std::vector<int> payload_columns;  ///< of the input: all but the partition columns
  std::shared_ptr<const format::RowCodec> payload_codec;
  SortKeyEncoder sort_keys;  ///< copied by every operator, which binds its own
};

/// Errors:   kInvalidArgument when the input updates, when the limit is not positive, or for a
///           column that has no order or no encoding.
Result<std::shared_ptr<const TopNSpec>> MakeTopNSpec(const stream::TopNNode& node,
                                                     std::shared_ptr<arrow::Schema> input,
                                                     bool input_updates);

/// Shape:    without rank, +I for a row that enters and -D for one that leaves; with it, also
///           -U and +U for a rank that changes its row.
/// Cost:     ProcessBatch: about 15 ns a refused row, 100 ns a row that stays.
std::unique_ptr<stream::Operator> MakeTopN(std::shared_ptr<const TopNSpec> spec);

}  // namespace cairn::operators
