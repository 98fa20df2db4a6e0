// SPDX-License-Identifier: Apache-2.0
#include "engine/graph_builder.h"

#include <arrow/type.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/ids.h"
#include "base/units.h"
#include "connectors/factory.h"
#include "engine/event_time.h"
#include "engine/operator_table.h"
#include "engine/select_columns.h"
#include "operators/operator_factory.h"
#include "stream/event_time_options.h"

namespace cairn::engine {
namespace {

using stream::JobGraph;
using stream::NodeSpec;
using stream::Pipeline;
using stream::PlanNode;
using stream::StageSpec;

/// Key columns of a keyed node; null = not keyed.
const std::vector<int>* KeyColumnsOf(const PlanNode& node) {
  if (const auto* aggregate = std::get_if<stream::GroupAggregateNode>(&node)) {
    return &aggregate->keys;
  }
  if (const auto* topn = std::get_if<stream::TopNNode>(&node)) return &topn->partition;
  return nullptr;
}

class GraphBuilder {
 public:
  GraphBuilder(const stream::LogicalPlan& plan, const GraphOptions& options)
      : plan_(plan), options_(options) {
    built_.graph.job = options.job;
    built_.graph.parallelism = options.parallelism;
    built_.graph.key_groups = options.key_groups;
    built_.pipeline.job = options.job;
  }

  Result<BuiltJob> Build() {
    if (plan_.pipelines.empty()) {
      return Status::InvalidArgument("the text has no INSERT INTO and no SELECT: nothing to run");
    }
    CAIRN_RETURN_IF_ERROR(AddSources());
    for (const Pipeline& pipeline : plan_.pipelines) {
      if (Status status = AddPipeline(pipeline); !status.ok()) {
        return At(pipeline.position, status.WithContext("INSERT INTO " + pipeline.sink.name));
      }
    }
    CAIRN_RETURN_IF_ERROR(stream::CheckGraph(built_.graph));
    return std::move(built_);
  }

 private:
  /// A table that is read: where its rows are, and which columns they have.
  struct SharedSource {
    size_t stage = 0;
    int parent = -1;           ///< node that makes the rows; -1 = the stage's source
    std::vector<int> columns;  ///< of the table, ascending: all that anyone reads
    bool added = false;
  };

  /// Put "job.sql:1:14" in front.
  Status At(const stream::TextPosition& position, const Status& status) const {
    if (position.line == 0) return status;
    return status.WithContext(options_.sql_name + ":" + std::to_string(position.line) + ":" +
                              std::to_string(position.column));
  }

  Status InTable(const stream::TableDefinition& table, const Status& status) const {
    const bool named = status.message().starts_with("table ");
    return At(table.position, named ? status : status.WithContext("table " + table.name));
  }

  /// Tables that operators make of one another, at most so deep.
  static constexpr int kMostOperatorTables = 16;

  /// One source a table, over the columns that all its readers need together.
  Status AddSources() {
    for (const Pipeline& pipeline : plan_.pipelines) {
      CAIRN_RETURN_IF_ERROR(NeedColumns(pipeline.scan.table, pipeline.scan.columns, 0));
    }
    for (const Pipeline& pipeline : plan_.pipelines) {
      CAIRN_RETURN_IF_ERROR(AddTable(pipeline.scan.table));
    }
    return {};
  }

  /// Place of a table's column among those that are read, which are ascending.
  static int IndexOf(int column, const std::vector<int>& read) {
    return static_cast<int>(std::lower_bound(read.begin(), read.end(), column) - read.begin());
  }

  static std::vector<int> AllColumns(const stream::TableDefinition& table) {
    std::vector<int> all(table.columns.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  static void Merge(const std::vector<int>& columns, std::vector<int>* into) {
    std::vector<int> merged;
    std::set_union(into->begin(), into->end(), columns.begin(), columns.end(),
                   std::back_inserter(merged));
    *into = std::move(merged);
  }

  Status NeedColumns(const stream::TableDefinition& table, const std::vector<int>& columns,
                     int depth) {
    SharedSource& shared = sources_[table.name];
    if (!IsOperatorTable(table)) {
      Merge(columns, &shared.columns);
      const Result<std::optional<EventTimeOption>> event_time = ReadEventTime(table);
      if (!event_time.ok()) return InTable(table, event_time.status());
      if (event_time->has_value()) Merge({(*event_time)->column}, &shared.columns);
      return {};
    }
    shared.columns = AllColumns(table);
    Result<OperatorTable> made = ReadOperatorTable(table, plan_);
    if (made.ok() && depth == kMostOperatorTables) {
      made = Status::InvalidArgument("its input leads back to itself, or over more than " +
                                     std::to_string(kMostOperatorTables) + " operators");
    }
    if (!made.ok()) return InTable(table, made.status());
    return NeedColumns(*made->input, AllColumns(*made->input), depth + 1);
  }

  Status AddTable(const stream::TableDefinition& table) {
    SharedSource& shared = sources_[table.name];
    if (std::exchange(shared.added, true)) return {};
    if (IsOperatorTable(table)) return AddOperatorTable(table, &shared);
    Result<std::unique_ptr<stream::Source>> source =
        connectors::MakeSource(table, shared.columns, options_.files);
    if (!source.ok()) return InTable(table, source.status());
    StageSpec stage;
    stage.name = "source " + table.name;
    stage.source = *std::move(source);
    stage.source_name = table.name;
    std::string identity = stage.source->Identity();
    CAIRN_ASSIGN_OR_RETURN(const std::optional<EventTimeOption> event_time, ReadEventTime(table));
    if (event_time.has_value()) {
      stage.event_time =
          stream::EventTimeSpec{IndexOf(event_time->column, shared.columns), event_time->delay_ms};
      // Saved timers would mean another time; with another delay only the lateness of rows changes.
      auto definition = nlohmann::ordered_json::parse(identity);
      definition[stream::kWatermarkOption] =
          table.columns[static_cast<size_t>(event_time->column)].name;
      identity = definition.dump();
    }
    built_.pipeline.components.push_back({"source", table.name, std::move(identity), false});
    shared.stage = built_.graph.stages.size();
    built_.graph.stages.push_back(std::move(stage));
    return {};
  }

  /// An exchange by key, then the operator, which everyone who reads the table shares.
  Status AddOperatorTable(const stream::TableDefinition& table, SharedSource* shared) {
    CAIRN_ASSIGN_OR_RETURN(OperatorTable made, ReadOperatorTable(table, plan_));
    CAIRN_RETURN_IF_ERROR(AddTable(*made.input));
    const SharedSource& input = sources_.at(made.input->name);
    const std::shared_ptr<arrow::Schema> schema = stream::SchemaOf(*made.input, input.columns);
    if (static_cast<size_t>(schema->num_fields()) != made.input->columns.size()) {
      return Status::Internal("an operator table reads only some columns of its input");
    }
    const size_t target = built_.graph.stages.size();
    AddNode(input.stage,
            {input.parent, "", nullptr, nullptr, stream::ExchangeSpec{target, schema, made.keys}});
    StageSpec stage;
    stage.name = table.name + "/" + made.registered.name + "/0";
    built_.graph.stages.push_back(std::move(stage));
    const std::string uid = built_.graph.stages[target].name;
    std::unique_ptr<stream::OperatorFactory> factory = MakeCustomOperator(
        std::move(made.registered), schema, std::move(made.keys), stream::SchemaOf(table));
    built_.pipeline.components.push_back({"operator", uid, factory->Identity(), false});
    shared->stage = target;
    shared->parent = AddNode(target, {-1, uid, std::move(factory), nullptr, std::nullopt});
    return {};
  }

  Status AddPipeline(const Pipeline& pipeline) {
    const std::string& sink_name = pipeline.sink.name;
    if (!sinks_.insert(sink_name).second) {
      return Status::InvalidArgument(
          "the table is already the target of another INSERT; write one "
          "statement for it or give it a second table");
    }
    const SharedSource& shared = sources_.at(pipeline.scan.table.name);
    size_t stage = shared.stage;
    int parent = shared.parent;
    if (shared.columns != pipeline.scan.columns) {
      std::vector<int> indices;
      for (int column : pipeline.scan.columns) indices.push_back(IndexOf(column, shared.columns));
      parent = AddNode(stage, {parent, sink_name + "/columns",
                               MakeSelectColumns(std::move(indices), pipeline.scan.output), nullptr,
                               std::nullopt});
    }
    std::shared_ptr<arrow::Schema> schema = pipeline.scan.output;
    bool updating = false;
    for (size_t ordinal = 0; ordinal < pipeline.nodes.size(); ++ordinal) {
      const PlanNode& node = pipeline.nodes[ordinal];
      const std::string uid =
          sink_name + "/" + std::string(stream::PlanNodeName(node)) + "/" + std::to_string(ordinal);
      Result<std::unique_ptr<stream::OperatorFactory>> factory =
          operators::MakeOperator(node, schema, updating);
      if (!factory.ok()) return factory.status().WithContext(uid);
      if (const std::vector<int>* keys = KeyColumnsOf(node)) {
        const size_t target = built_.graph.stages.size();
        AddNode(stage, {parent, "", nullptr, nullptr, stream::ExchangeSpec{target, schema, *keys}});
        StageSpec next;
        next.name = uid;
        built_.graph.stages.push_back(std::move(next));
        stage = target;
        parent = -1;
      }
      schema = (*factory)->output_schema();
      updating = (*factory)->updating();
      built_.pipeline.components.push_back({"operator", uid, (*factory)->Identity(), false});
      parent = AddNode(stage, {parent, uid, *std::move(factory), nullptr, std::nullopt});
    }
    return AddSink(pipeline, stage, parent, updating);
  }

  Status AddSink(const Pipeline& pipeline, size_t stage, int parent, bool updating) {
    const std::string& name = pipeline.sink.name;
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<stream::Sink> sink,
                           connectors::MakeSink(pipeline.sink, updating, {}, options_.files));
    built_.pipeline.components.push_back({"sink", name, sink->Identity(), sink->exactly_once()});
    const int node = AddNode(stage, {parent, name, nullptr, std::move(sink), std::nullopt});
    built_.sinks.push_back({stage, static_cast<size_t>(node), &pipeline.sink, updating});
    return {};
  }

  int AddNode(size_t stage, NodeSpec node) {
    std::vector<NodeSpec>& nodes = built_.graph.stages[stage].nodes;
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }

  const stream::LogicalPlan& plan_;
  const GraphOptions& options_;
  BuiltJob built_;
  std::map<std::string, SharedSource> sources_;  ///< by table
  std::set<std::string> sinks_;
};

std::string DescribeNode(const JobGraph& graph, const NodeSpec& node) {
  if (node.op != nullptr) return node.uid;
  if (node.sink != nullptr) return "sink " + node.uid;
  return "exchange to " + graph.stages[node.exchange->target_stage].name;
}

}  // namespace

Result<BuiltJob> BuildGraph(const stream::LogicalPlan& plan, const GraphOptions& options) {
  return GraphBuilder(plan, options).Build();
}

std::string WriterNameOf(const std::string& deployment_id, const std::string& sink) {
  return base::ToHex16(base::OperatorIdOf(deployment_id + "/" + sink));
}

Status NameWriters(const std::string& deployment_id, uint64_t run, env::FileSystem* files,
                   BuiltJob* job) {
  for (const BuiltJob::SinkPlace& place : job->sinks) {
    CAIRN_ASSIGN_OR_RETURN(
        job->graph.stages[place.stage].nodes[place.node].sink,
        connectors::MakeSink(*place.table, place.updating,
                             {WriterNameOf(deployment_id, place.table->name), run}, files));
  }
  return {};
}

std::string DescribeGraph(const stream::JobGraph& graph) {
  std::string text;
  for (const StageSpec& stage : graph.stages) {
    text += stage.name;
    if (stage.event_time) {
      text += " (watermark " + stage.source->schema()->field(stage.event_time->column)->name() +
              " - " + base::FormatDurationMs(stage.event_time->delay_ms) + ")";
    }
    text += "\n";
    std::vector<size_t> depths;
    for (const NodeSpec& node : stage.nodes) {
      const size_t depth = node.parent < 0 ? 1 : depths[static_cast<size_t>(node.parent)] + 1;
      depths.push_back(depth);
      text += std::string(2 * depth, ' ') + DescribeNode(graph, node) + "\n";
    }
  }
  return text;
}

}  // namespace cairn::engine
