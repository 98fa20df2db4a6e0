// SPDX-License-Identifier: Apache-2.0
#include "stream/plan.h"

#include <arrow/type.h>

namespace cairn::stream {

std::string_view AggregateFunctionName(AggregateFunction function) {
  switch (function) {
    case AggregateFunction::kCountStar:
      return "count(*)";
    case AggregateFunction::kCount:
      return "count";
    case AggregateFunction::kSum:
      return "sum";
    case AggregateFunction::kMin:
      return "min";
    case AggregateFunction::kMax:
      return "max";
    case AggregateFunction::kAvg:
      return "avg";
  }
  return "unknown";
}

std::string_view PlanNodeName(const PlanNode& node) {
  constexpr std::string_view kNames[] = {"calc", "group-aggregate", "top-n"};
  return kNames[node.index()];
}

const std::shared_ptr<arrow::Schema>& OutputSchemaOf(const PlanNode& node) {
  return std::visit([](const auto& n) -> const std::shared_ptr<arrow::Schema>& { return n.output; },
                    node);
}

}  // namespace cairn::stream
