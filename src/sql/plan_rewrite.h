// SPDX-License-Identifier: Apache-2.0
//
// PlanChain: the nodes of one pipeline while it is built, and the rewrites that make it cheap:
// neighbouring calc nodes become one, columns that nobody needs are neither read nor carried.
//
// Threads: one.
//
// Invariants
//  1. Until Finish, expressions are not bound and refer to the columns of the node's input.
//  2. A rewrite changes neither the rows of the last node nor which rows an expression that can
//     fail is computed on.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <vector>

#include "cairn/status.h"
#include "stream/plan.h"

namespace cairn::sql {

/// Replace column i of an expression by `columns[i]`.
arrow::compute::Expression Substitute(const arrow::compute::Expression& expression,
                                      const std::vector<arrow::compute::Expression>& columns);

struct PlanChain {
  stream::TableScan scan;  ///< all columns of the table until Finish
  std::vector<stream::PlanNode> nodes;

  const std::shared_ptr<arrow::Schema>& output() const {
    return nodes.empty() ? scan.output : stream::OutputSchemaOf(nodes.back());
  }

  /// Add a filter, a projection or both, joined with the calc node before it where that is safe.
  void AddCalc(stream::CalcNode node);

  /// Drop unused columns, drop nodes that do nothing, write the texts, bind the expressions.
  ///
  /// Errors:   kInternal when an expression does not have the type of its column.
  Status Finish();
};

}  // namespace cairn::sql
