// SPDX-License-Identifier: Apache-2.0
//
// Operator tables: CREATE TABLE … WITH (connector = 'operator', …): a table whose rows a registered
// custom operator (cairn/operator.h) makes from those of another table.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/operator.h"
#include "cairn/status.h"
#include "stream/operator.h"
#include "stream/plan.h"
#include "stream/table_definition.h"

namespace cairn::engine {

/// An operator as it was registered.
struct RegisteredOperator {
  std::string name;
  OperatorFactory factory;
  uint32_t version = 1;
};

bool IsOperatorTable(const stream::TableDefinition& table);

/// What the options of an operator table say, checked.
struct OperatorTable {
  RegisteredOperator registered;
  const stream::TableDefinition* input = nullptr;  ///< of the plan
  std::vector<int> keys;                           ///< columns of the input; none = one key for all
};

/// Errors:   kInvalidArgument: an option that is missing or unknown, an operator that is not
///           registered (lists those that are), no such input table or key column, a column type
///           that custom operators do not have.
Result<OperatorTable> ReadOperatorTable(const stream::TableDefinition& table,
                                        const stream::LogicalPlan& plan);

/// The operator as the stream runs it: rows of `input` in, rows of `output` out.
std::unique_ptr<stream::OperatorFactory> MakeCustomOperator(RegisteredOperator registered,
                                                            std::shared_ptr<arrow::Schema> input,
                                                            std::vector<int> keys,
                                                            std::shared_ptr<arrow::Schema> output);

}  // namespace cairn::engine
