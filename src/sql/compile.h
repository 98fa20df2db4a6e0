// SPDX-License-Identifier: Apache-2.0
//
// SQL text → logical plan. What is supported and what it means: docs/sql.md.
//
// Threads: any; calls are independent.
#pragma once

#include <string>
#include <string_view>

#include "cairn/status.h"
#include "stream/plan.h"

namespace cairn::sql {

struct CompileOptions {
  std::string name;  ///< of the text, put before line:column in messages: "job.sql"
};

/// Compile CREATE TABLE, INSERT INTO ... SELECT, SELECT and SET statements, in their order.
///
/// Shape:    UTF-8, at most 256 KiB. The expressions of the plan are bound and ready to execute.
///           The sink of a bare SELECT is a table "select" ("select_2", ...) with connector
///           "print".
/// Errors:   kInvalidArgument: "name:line:column: what is wrong", the line and a caret below it.
///           Everything that is not supported is refused at its place.
Result<stream::LogicalPlan> Compile(std::string_view text, const CompileOptions& options = {});

}  // namespace cairn::sql
