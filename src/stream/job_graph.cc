// SPDX-License-Identifier: Apache-2.0
#include "stream/job_graph.h"

#include <set>

namespace cairn::stream {
namespace {

Status CheckNode(const JobGraph& graph, size_t stage_index, size_t node_index,
                 std::set<std::string>* uids, std::vector<size_t>* feeds) {
  const NodeSpec& node = graph.stages[stage_index].nodes[node_index];
  const std::string where =
      "stage " + graph.stages[stage_index].name + ", node " + std::to_string(node_index);
  if (node.parent < -1 || node.parent >= static_cast<int>(node_index)) {
    return Status::Internal(where + " stands before its parent");
  }
  const int roles = (node.op != nullptr) + (node.sink != nullptr) + node.exchange.has_value();
  if (roles != 1) return Status::Internal(where + " must be one of operator, sink and exchange");
  if (node.exchange.has_value()) {
    if (node.exchange->target_stage <= stage_index ||
        node.exchange->target_stage >= graph.stages.size()) {
      return Status::Internal(where + " does not lead to a later stage");
    }
    ++(*feeds)[node.exchange->target_stage];
    return {};
  }
  if (!uids->insert(node.uid).second) {
    return Status::Internal(where + ": the uid '" + node.uid + "' is used twice");
  }
  return {};
}

}  // namespace

Status CheckGraph(const JobGraph& graph) {
  if (graph.parallelism == 0) return Status::Internal("a job needs one subtask at least");
  std::set<std::string> uids;
  std::set<std::string> sources;
  std::vector<size_t> feeds(graph.stages.size(), 0);
  for (size_t stage = 0; stage < graph.stages.size(); ++stage) {
    const StageSpec& spec = graph.stages[stage];
    for (size_t node = 0; node < spec.nodes.size(); ++node) {
      CAIRN_RETURN_IF_ERROR(CheckNode(graph, stage, node, &uids, &feeds));
    }
    if ((spec.source != nullptr) == (feeds[stage] > 0)) {
      return Status::Internal("stage " + spec.name + " needs either a source or an exchange");
    }
    if (spec.source != nullptr && !sources.insert(spec.source_name).second) {
      return Status::Internal("the source name '" + spec.source_name + "' is used twice");
    }
  }
  return {};
}

}  // namespace cairn::stream
