// SPDX-License-Identifier: Apache-2.0
//
// The logical plan: what SQL produces and the engine builds a job from. It names no parser, no
// connector and no thread.
//
// Invariants
//  1. A pipeline is a straight chain: one scan, then nodes in order, then one sink table.
//  2. Every node's columns are numbered in its input schema: the scan's, or the previous node's
//     `output`.
//  3. The last schema of the chain equals the sink table's columns in number, order and type.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stream/table_definition.h"

namespace cairn::stream {

/// Read a table.
///
/// Shape:    `columns` are the indices of the columns that the pipeline needs, ascending; `output`
///           is their schema. A query that needs none (SELECT count(*)) has one, the cheapest.
struct TableScan {
  TableDefinition table;
  std::vector<int> columns;
  std::shared_ptr<arrow::Schema> output;
};

/// Keep the rows for which `filter` is true (null is not true), then compute the columns.
///
/// Shape:    expressions are bound to the input schema, columns referred to by index. Empty
///           `projections` = all input columns as they are.
struct CalcNode {
  std::optional<arrow::compute::Expression> filter;
  std::vector<arrow::compute::Expression> projections;
  std::shared_ptr<arrow::Schema> output;
  std::string text;  ///< canonical SQL of filter and projections: part of the pipeline's identity
};

enum class AggregateFunction : uint8_t { kCountStar, kCount, kSum, kMin, kMax, kAvg };

/// "count(*)", "count", "sum", "min", "max", "avg".
std::string_view AggregateFunctionName(AggregateFunction function);

struct AggregateCall {
  AggregateFunction function = AggregateFunction::kCountStar;
  int column = -1;  ///< of the input; -1 for kCountStar
  bool distinct = false;
  std::string name;                       ///< of the output column
  std::shared_ptr<arrow::DataType> type;  ///< of the output column
};

/// GROUP BY: one row a key, updated as input comes.
///
/// Shape:    output = the key columns in the order of `keys`, then one column a call. No keys =
///           one row for all input.
struct GroupAggregateNode {
  std::vector<int> keys;
  std::vector<AggregateCall> calls;
  std::shared_ptr<arrow::Schema> output;
};

struct SortSpec {
  int column = 0;
  bool descending = false;
  bool nulls_first = false;  ///< already resolved: NULLs are last unless the query says otherwise
};

/// ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= limit. Equal sort keys rank by arrival.
///
/// Shape:    output = the input columns, then the rank (BIGINT) when emit_rank.
struct TopNNode {
  std::vector<int> partition;
  std::vector<SortSpec> sort;
  int64_t limit = 0;
  bool emit_rank = false;
  std::shared_ptr<arrow::Schema> output;
};

using PlanNode = std::variant<CalcNode, GroupAggregateNode, TopNNode>;

/// "calc", "group-aggregate", "top-n": the middle part of an operator's uid.
std::string_view PlanNodeName(const PlanNode& node);
const std::shared_ptr<arrow::Schema>& OutputSchemaOf(const PlanNode& node);

/// One INSERT INTO, or a bare SELECT: its sink is then a table with connector "print" whose name is
/// "select" ("select_2" for the second of a text, and so on).
///
/// Shape:    `sink.options` holds changelog = 'true' | 'false' when the sink table says so; whether
///           the query updates is known from its operators, and the engine compares the two.
struct Pipeline {
  TableScan scan;
  std::vector<PlanNode> nodes;
  TableDefinition sink;
  std::string text;       ///< the statement as written, for messages
  TextPosition position;  ///< of the statement
};

/// SET cairn.NAME = value, name without the "cairn." part.
struct OptionSetting {
  std::string name;
  std::string value;
  TextPosition position;
};

/// What one SQL text says.
struct LogicalPlan {
  std::vector<OptionSetting> options;  ///< in the order of the text
  std::vector<TableDefinition> tables;
  std::vector<Pipeline> pipelines;
};

}  // namespace cairn::stream
