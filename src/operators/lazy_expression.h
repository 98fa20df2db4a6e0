// SPDX-License-Identifier: Apache-2.0
//
// Evaluate bound Arrow expressions over chosen rows of a record batch. Arrow computes every branch
// of CASE, AND and OR for every row; where that fails on a row that SQL would not look at, the lazy
// form computes each part only for the rows that need it.
//
// Threads: free functions over immutable batches.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/datum.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cairn/status.h"

namespace cairn::operators {

using RowSelection = std::vector<uint32_t>;

/// Compute `expression` for all rows of `batch`.
Result<arrow::Datum> Evaluate(const arrow::compute::Expression& expression,
                              const arrow::RecordBatch& batch);

/// Compute `expression` for the selected rows: an array of selection.size() values, or a scalar.
/// Branches of CASE and the right sides of AND and OR see only the rows that reach them.
///
/// Cost:     several kernel calls and copies more than Evaluate: for when that fails.
Result<arrow::Datum> EvaluateLazily(const arrow::compute::Expression& expression,
                                    const arrow::RecordBatch& batch, const RowSelection& selection);

/// Return the rows of `rows` (null = all) for which `truth` (by position in `rows`, or one for all)
/// is true. `by_row`: truth is by row of the batch.
RowSelection SelectTrue(const arrow::Datum& truth, const RowSelection* rows, int64_t batch_rows,
                        bool by_row);

/// Copy the selected values of `array`.
Result<std::shared_ptr<arrow::Array>> TakeRows(const std::shared_ptr<arrow::Array>& array,
                                               const RowSelection& selection);

}  // namespace cairn::operators
