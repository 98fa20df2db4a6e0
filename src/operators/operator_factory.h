// SPDX-License-Identifier: Apache-2.0
//
// From a node of the plan to the factory of its operators.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

#include "cairn/status.h"
#include "stream/operator.h"
#include "stream/plan.h"

namespace cairn::operators {

/// Make the factory of `node` over rows of `input`. `input_updates` = the input carries row kinds
/// other than +I (OperatorFactory::updating of the node before it).
///
/// Threads:  the factory is immutable: any.
/// Errors:   kInvalidArgument for what the node asks and no operator does, saying what and why.
Result<std::unique_ptr<stream::OperatorFactory>> MakeOperator(const stream::PlanNode& node,
                                                              std::shared_ptr<arrow::Schema> input,
                                                              bool input_updates);

}  // namespace cairn::operators
