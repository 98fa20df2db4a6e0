// SPDX-License-Identifier: Apache-2.0
//
// The canonical text of an expression: part of a pipeline's identity, so two expressions have the
// same text only if they compute the same, and the text does not depend on Arrow's version.
//
// Threads: any.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/type_fwd.h>

#include <string>

#include "stream/plan.h"

namespace cairn::sql {

/// Print an expression, columns by the names of `schema`.
///
/// Shape:    infix operators, cast(x as TYPE), function(arguments; options). A column whose name is
///           not unique is followed by #index.
std::string ExpressionText(const arrow::compute::Expression& expression,
                           const arrow::Schema& schema);

/// Print filter and projections of a calc node: "where F select A, B".
std::string CalcText(const stream::CalcNode& node, const arrow::Schema& input);

/// Print a whole pipeline, one line a node, for tests and messages.
std::string PipelineText(const stream::Pipeline& pipeline);

}  // namespace cairn::sql
