// SPDX-License-Identifier: Apache-2.0
//
// SelectColumns: narrow a shared source's rows to the columns that one pipeline scans. Columns are
// shared, nothing is copied.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <vector>

#include "stream/operator.h"

namespace cairn::engine {

/// Shape:    `columns` are indices in the input; `output` is their schema.
std::unique_ptr<stream::OperatorFactory> MakeSelectColumns(std::vector<int> columns,
                                                           std::shared_ptr<arrow::Schema> output);

}  // namespace cairn::engine
