// SPDX-License-Identifier: Apache-2.0
//
// From a node of the plan to the factory of its operators.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>

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

/// Check that state saved by an operator of identity `saved` can serve one of identity `now`, whose
/// definition is another. What passes may still mean something else; what does not never serves.
///
/// Errors:   kInvalidArgument: why.
Status CheckSavedState(const std::string& saved, const std::string& now);

}  // namespace cairn::operators
