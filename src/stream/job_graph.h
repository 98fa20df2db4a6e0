// SPDX-License-Identifier: Apache-2.0
//
// JobGraph: what the engine wants to run, before it is cut into subtasks. A stage is a tree of
// operators and sinks that run in one thread for each of the job's `parallelism` subtasks; stages
// are joined by exchanges on key columns.
//
// Invariants
//  1. Stages are in topological order: an exchange leads to a later stage.
//  2. The nodes of a stage are in topological order: a parent comes before its children.
//  3. A stage has a source, or at least one exchange leads to it, never both.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/hash.h"
#include "cairn/status.h"
#include "stream/operator.h"
#include "stream/sink.h"
#include "stream/source.h"

namespace cairn::stream {

/// Send rows to the subtasks of another stage, by key group.
struct ExchangeSpec {
  size_t target_stage = 0;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<int> key_columns;  ///< of `schema`; empty = all rows have one key
};

/// One member of a stage's tree. Exactly one of `op`, `sink` and `exchange` is set.
struct NodeSpec {
  int parent = -1;  ///< index in the stage; -1 = the stage's input
  std::string uid;  ///< of an operator or sink; stable across runs
  std::shared_ptr<OperatorFactory> op;
  std::shared_ptr<Sink> sink;
  std::optional<ExchangeSpec> exchange;
};

struct StageSpec {
  std::string name;
  std::shared_ptr<Source> source;           ///< null = fed by exchanges
  std::string source_name;                  ///< names the source's progress; stable across runs
  std::optional<EventTimeSpec> event_time;  ///< of the source; nothing = it has no watermarks
  std::vector<NodeSpec> nodes;
};

struct JobGraph {
  std::string job;
  uint32_t parallelism = 1;
  uint32_t key_groups = kDefaultKeyGroups;
  uint64_t slot_hash_seed = 0;
  TtlConfig state_ttl;  ///< of what operators keep a key; disabled = for ever
  std::vector<StageSpec> stages;
};

/// Check the invariants above, and that uids and source names are unique.
///
/// Errors:   kInternal: a graph is made by code, not by a user.
Status CheckGraph(const JobGraph& graph);

}  // namespace cairn::stream
