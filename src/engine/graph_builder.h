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

/// The place whose checkpoint a job begins with.
struct SinkOrigin {
  std::string deployment_id;                       ///< empty = the job's own place
  std::map<std::string, std::string> saved_names;  ///< of sinks that had another name there
};

/// Give the sinks the id by which they know their own files: of this checkpoint place, the same
/// after a restart. Only the place knows it, and only the graph says whether a place is this job's.
Status NameWriters(const std::string& deployment_id, const SinkOrigin& origin,
                   env::FileSystem* files, BuiltJob* job);

/// A tree a stage, one line a node.
std::string DescribeGraph(const stream::JobGraph& graph);

}  // namespace cairn::engine
