// SPDX-License-Identifier: Apache-2.0
//
// Calc: WHERE and SELECT over one batch at a time. It moves as little as it can: a filter narrows
// the selection, a plain column is shared, and only computed columns are made.
//
// Threads: one per operator.
//
// Invariants
//  1. An expression that fails on a row which WHERE, CASE, AND or OR keeps from it does not fail
//  the
//     query: what fails on the whole batch is computed again on the rows that reach it.
//  2. An update pair of which only one half passes the filter becomes a plain -D or +I.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "stream/operator.h"
#include "stream/plan.h"

namespace cairn::operators {

class Calc final : public stream::Operator {
 public:
  /// Shape:    the node's expressions are bound to the schema of the batches.
  explicit Calc(std::shared_ptr<const stream::CalcNode> node);

  Status Open(const stream::OperatorContext& context) override;

  /// Errors:   kInvalidArgument when an expression meets a value it cannot compute with (division
  ///           by zero, overflow), naming the operator, the column and the first such row ·
  ///           kResourceExhausted.
  /// Cost:     the Arrow kernels of filter and projections; nothing a row for plain columns.
  Status ProcessBatch(stream::Batch batch, stream::Collector* out) override;

 private:
  Status Compute(stream::Batch* batch) const;
  Status WithFailingRow(const stream::Batch& batch, Status failure) const;
  Status Filter(stream::Batch* batch) const;
  Status Project(stream::Batch* batch) const;
  Status ProjectWhole(stream::Batch* batch, bool* failed) const;
  Status ProjectSelected(stream::Batch* batch) const;

  const std::shared_ptr<const stream::CalcNode> node_;
  bool computes_ = false;  ///< some projection is neither a column nor a literal
  std::string uid_;
};

}  // namespace cairn::operators
