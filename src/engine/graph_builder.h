// SPDX-License-Identifier: Apache-2.0
//
// From the logical plan to a job graph: connectors for tables, operators for nodes, an exchange
// before every keyed operator. Pipelines that read the same table share one source, so its rows are
// read and decoded once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "env/file_system.h"
#include "stream/job_graph.h"
#include "stream/plan.h"

namespace cairn::engine {

/// A job graph and what identifies its pipeline.
struct BuiltJob {
  /// Where a sink stands in the graph, and what made it.
  struct SinkPlace {
    size_t stage = 0;
    size_t node = 0;
    const stream::TableDefinition* table = nullptr;  ///< of the plan
    bool updating = false;
  };

  stream::JobGraph graph;
  checkpoint::Pipeline pipeline;
  std::vector<SinkPlace> sinks;
};

struct GraphOptions {
  std::string job;
  std::string sql_name;  ///< of the text, for messages
  uint32_t parallelism = 1;
  uint32_t key_groups = 128;
  env::FileSystem* files = nullptr;
};

/// Make sources, operators and sinks. `plan` outlives the result.
///
/// Errors:   kInvalidArgument: what a connector or an operator refuses, two INSERTs into one table,
///           an updating query into a table without changelog. Names table or statement.
Result<BuiltJob> BuildGraph(const stream::LogicalPlan& plan, const GraphOptions& options);

/// The name by which sink `sink` of a deployment knows its own files: of this checkpoint place, the
/// same after a restart.
std::string WriterNameOf(const std::string& deployment_id, const std::string& sink);

/// Give the sinks their writer ids. Only the place knows its deployment and which run of it this
/// is, and only the graph says whether a place is this job's.
Status NameWriters(const std::string& deployment_id, uint64_t run, env::FileSystem* files,
                   BuiltJob* job);

/// A tree a stage, one line a node.
std::string DescribeGraph(const stream::JobGraph& graph);

}  // namespace cairn::engine
