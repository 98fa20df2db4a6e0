// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared_job.h"

#include <arrow/compute/initialize.h>
#include <arrow/status.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cairn/state_domain.h"
#include "engine/backend_factory.h"
#include "engine/check_places.h"
#include "format/utf8.h"
#include "sql/compile.h"
#include "sql/text.h"

namespace cairn::engine {
namespace {

constexpr uint32_t kMostSubtasks = 1024;

/// Sets options one after another. Of one kind of saying it (SET in the text, --set) an option may
/// be said once: what comes later would win unseen.
class OptionSetter {
 public:
  explicit OptionSetter(Options* options) : options_(options) {}

  /// Begin with the other kind, which wins.
  void NextKind() { values_.clear(); }

  Status Set(const std::string& name, const std::string& value) {
    CAIRN_RETURN_IF_ERROR(SetOption(name, value, options_));
    all_.insert(name);
    const auto [before, inserted] = values_.emplace(name, value);
    if (inserted || before->second == value) return {};
    return Status::InvalidArgument("option " + name + " is '" + value + "' here and '" +
                                   before->second + "' before; give it once");
  }

  bool HasSet(const std::string& name) const { return all_.contains(name); }

 private:
  Options* options_;
  std::map<std::string, std::string> values_;
  std::set<std::string> all_;
};

Status ApplyOptions(const stream::LogicalPlan& plan, const JobSpec& spec, Options* options) {
  const sql::SourceText text(spec.sql, spec.sql_name);
  OptionSetter setter(options);
  for (const stream::OptionSetting& set : plan.options) {
    if (Status status = setter.Set(set.name, set.value); !status.ok()) {
      return text.Error(text.PlaceOf(set.position), status.message());
    }
  }
  setter.NextKind();
  for (const auto& [name, value] : spec.settings) {
    CAIRN_RETURN_IF_ERROR(setter.Set(name, value).WithContext("--set"));
  }
  if (setter.HasSet("state.ttl_clock") && options->state_ttl_ms == 0) {
    return Status::InvalidArgument(
        "state.ttl_clock is set and state.ttl is not, so nothing would expire. Set state.ttl, such "
        "as 10m, or leave the clock out");
  }
  return {};
}

/// A job's name is part of the name of its default checkpoint place.
Status CheckJobName(const std::string& name) {
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F || c == '/';
  });
  if (printable && !name.empty() && name != "." && name != ".." && format::IsUtf8(name)) return {};
  return Status::InvalidArgument(
      "the job's name '" + name +
      "' cannot be part of a file's name: it may not be empty, '.' or "
      "'..', nor hold '/' or control characters. Choose one with --name");
}

/// Open once what the URI names, so that what it refuses is refused before the job begins. Those
/// with a directory are the checkpoint place, which opens later.
Status CheckBackend(const JobSpec& spec, const Backend& backend) {
  if (!backend.directory.empty()) return {};
  BackendSpec probe;
  probe.uri = spec.backend;
  probe.state.name = spec.name;
  return BackendRegistry().Build(probe).status().WithContext("--backend");
}

/// How long the state of SQL operators lives, and by which clock.
Result<TtlConfig> StateTtlOf(const Options& options, const stream::JobGraph& graph) {
  bool all = true;
  for (const stream::StageSpec& stage : graph.stages) {
    if (stage.source != nullptr) all = all && stage.event_time.has_value();
  }
  const TtlClock clock = options.state_ttl_clock.value_or(all ? TtlClock::kEvent : TtlClock::kWall);
  if (options.state_ttl_ms > 0 && clock == TtlClock::kEvent && !all) {
    return Status::InvalidArgument(
        "state.ttl_clock is event, but a table without a watermark is read: its state would never "
        "expire. Give every source a watermark (WITH (watermark = '…')), or choose wall");
  }
  return TtlConfig{.ttl_ms = options.state_ttl_ms, .clock = clock};
}

/// Open one subtask of an operator that will never run, and note its slots.
Status AddSlotsOf(const stream::NodeSpec& node, uint32_t key_groups, const TtlConfig& ttl,
                  std::vector<SlotDescriptor>* slots) {
  const auto domain = StateDomain::Create({.name = "describe"});
  stream::OperatorContext context;
  context.uid = node.uid;
  context.key_groups = key_groups;
  context.range = {0, key_groups};
  context.state_ttl = ttl;
  context.state = domain.get();
  const std::unique_ptr<stream::Operator> op = node.op->Create();
  CAIRN_RETURN_IF_ERROR(op->Open(context).WithContext("operator " + node.uid));
  for (const StateTable* table : op->tables()) slots->push_back(table->descriptor());
  return {};
}

}  // namespace

Result<std::unique_ptr<PreparedJob>> PrepareJob(const JobSpec& spec, env::FileSystem* files) {
  if (spec.parallelism < 1 || spec.parallelism > kMostSubtasks) {
    return Status::InvalidArgument("parallelism is " + std::to_string(spec.parallelism) +
                                   "; it may be 1 to " + std::to_string(kMostSubtasks));
  }
  if (const arrow::Status ready = arrow::compute::Initialize(); !ready.ok()) {
    return Status::Internal("Arrow's compute kernels: " + ready.ToString());
  }
  CAIRN_RETURN_IF_ERROR(CheckJobName(spec.name));
  auto job = std::make_unique<PreparedJob>();
  CAIRN_ASSIGN_OR_RETURN(job->backend, ParseBackendUri(spec.backend));
  CAIRN_RETURN_IF_ERROR(CheckBackend(spec, job->backend));
  CAIRN_ASSIGN_OR_RETURN(job->place, CheckpointPlaceOf(job->backend, spec.checkpoints, spec.name));
  CAIRN_ASSIGN_OR_RETURN(job->plan, sql::Compile(spec.sql, {spec.sql_name}));
  CAIRN_RETURN_IF_ERROR(CheckPlaces(job->plan, job->place, files));
  CAIRN_RETURN_IF_ERROR(ApplyOptions(job->plan, spec, &job->options));
  if (spec.parallelism > job->options.state_key_groups) {
    return Status::InvalidArgument(
        "parallelism is " + std::to_string(spec.parallelism) + " and there are only " +
        std::to_string(job->options.state_key_groups) +
        " key groups, so some subtasks would own none; run at most as many, or give a new job more "
        "with state.key_groups");
  }
  GraphOptions graph;
  graph.job = spec.name;
  graph.sql_name = spec.sql_name;
  graph.parallelism = spec.parallelism;
  graph.key_groups = job->options.state_key_groups;
  graph.files = files;
  CAIRN_ASSIGN_OR_RETURN(job->built, BuildGraph(job->plan, graph));
  CAIRN_ASSIGN_OR_RETURN(job->built.graph.state_ttl, StateTtlOf(job->options, job->built.graph));
  return job;
}

Result<std::vector<SlotDescriptor>> SlotsOf(const PreparedJob& job) {
  std::vector<SlotDescriptor> slots;
  for (const stream::StageSpec& stage : job.built.graph.stages) {
    for (const stream::NodeSpec& node : stage.nodes) {
      if (node.op == nullptr) continue;
      CAIRN_RETURN_IF_ERROR(
          AddSlotsOf(node, job.options.state_key_groups, job.built.graph.state_ttl, &slots));
    }
  }
  return slots;
}

}  // namespace cairn::engine
