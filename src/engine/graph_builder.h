// SPDX-License-Identifier: Apache-2.0
//
// From the logical plan to a job graph: connectors for tables, operators for nodes, an exchange
// before every keyed operator. Pipelines that read the same table share one source, so its rows are
// read and decoded once.
#pragma once

#include <string>
#include <vector>

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "env/file_system.h"
#include "stream/job_graph.h"
#include "stream/plan.h"

namespace cairn::engine {

/// A job graph whose sinks are not made yet, and what identifies the pipeline.
struct BuiltJob {
  stream::JobGraph graph;
  checkpoint::Pipeline pipeline;
};

struct GraphOptions {
  std::string job;
  uint32_t parallelism = 1;
  uint32_t key_groups = 128;
  /// Names this job's files in a sink's directory: unique for each checkpoint place.
  std::string writer_id;
  env::FileSystem* files = nullptr;
};

/// Errors:   kInvalidArgument: what a connector or an operator refuses, two INSERTs into one table,
///           an updating query into a table without changelog. Names table or statement.
Result<BuiltJob> BuildGraph(const stream::LogicalPlan& plan, const GraphOptions& options);

/// One line a stage: "source bid → calc → exchange(auction)".
std::string DescribeGraph(const stream::JobGraph& graph);

}  // namespace cairn::engine
