// SPDX-License-Identifier: Apache-2.0
#include "stream/job.h"

#include <exception>
#include <map>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "stream/chain.h"
#include "stream/task.h"

namespace cairn::stream {
namespace {

/// Cut a graph into tasks.
class JobBuilder {
 public:
  JobBuilder(const JobGraph& graph, const JobOptions& options, bool checkpoints,
             TaskListener* listener, decltype(JobControl::log) log)
      : graph_(graph),
        options_(options),
        checkpoints_(checkpoints),
        listener_(listener),
        log_(std::move(log)) {
    CountInputs();
  }

  Status Build(const std::shared_ptr<const checkpoint::Cut>& cut) {
    CAIRN_RETURN_IF_ERROR(CheckGraph(graph_));
    for (size_t stage = 0; stage < graph_.stages.size(); ++stage) AddTasks(stage);
    for (size_t stage = 0; stage < graph_.stages.size(); ++stage) {
      if (!IsDirect(stage)) CAIRN_RETURN_IF_ERROR(AssembleStage(stage, cut));
    }
    return {};
  }

  const std::vector<std::unique_ptr<Task>>& tasks() const { return tasks_; }

 private:
  void CountInputs() {
    inputs_.assign(graph_.stages.size(), 0);
    for (const StageSpec& stage : graph_.stages) {
      for (const NodeSpec& node : stage.nodes) {
        if (node.exchange.has_value()) ++inputs_[node.exchange->target_stage];
      }
    }
    next_channel_.assign(graph_.stages.size(), 0);
    first_task_.assign(graph_.stages.size(), 0);
  }

  /// With one subtask and one exchange leading to it, a stage runs in its sender's thread.
  bool IsDirect(size_t stage) const {
    return graph_.parallelism == 1 && graph_.stages[stage].source == nullptr && inputs_[stage] == 1;
  }

  void AddTasks(size_t stage_index) {
    if (IsDirect(stage_index)) return;
    const StageSpec& stage = graph_.stages[stage_index];
    first_task_[stage_index] = tasks_.size();
    for (uint32_t subtask = 0; subtask < graph_.parallelism; ++subtask) {
      TaskOptions task;
      task.index = tasks_.size();
      task.name = stage.name + " subtask " + std::to_string(subtask);
      task.subtask = subtask;
      task.source_name = stage.source_name;
      task.event_time = stage.event_time;
      task.clock = options_.coordinator.clock;
      task.context.subtask = subtask;
      task.context.parallelism = graph_.parallelism;
      task.context.key_groups = graph_.key_groups;
      task.context.range = KeyGroupsOfSubtask(subtask, graph_.parallelism, graph_.key_groups);
      task.context.slot_hash_seed = graph_.slot_hash_seed;
      task.context.state_ttl = graph_.state_ttl;
      task.channels = inputs_[stage_index] * graph_.parallelism;
      task.limits = options_.channels;
      task.async_snapshots = options_.coordinator.async_snapshots;
      task.checkpoints = checkpoints_;
      task.budget = options_.budget;
      tasks_.push_back(std::make_unique<Task>(std::move(task), listener_));
    }
  }

  Status AssembleStage(size_t stage_index, const std::shared_ptr<const checkpoint::Cut>& cut) {
    const StageSpec& stage = graph_.stages[stage_index];
    std::vector<std::unique_ptr<SourceReader>> readers(graph_.parallelism);
    if (stage.source != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(readers, MakeReaders(stage, cut.get()));
    }
    for (uint32_t subtask = 0; subtask < graph_.parallelism; ++subtask) {
      Task* task = tasks_[first_task_[stage_index] + subtask].get();
      Chain::Plan plan;
      plan.graph = &graph_;
      plan.stage = stage_index;
      plan.subtask = subtask;
      plan.direct = [this](size_t stage) { return IsDirect(stage); };
      plan.connect = [this](const ExchangeSpec& exchange) { return Connect(exchange); };
      plan.metrics = &task->metrics();
      CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Chain> chain, Chain::Make(plan));
      task->Assemble(std::move(chain), std::move(readers[subtask]), cut);
    }
    return {};
  }

  /// Take the next unused channel of every subtask of the target.
  std::vector<OutputChannel> Connect(const ExchangeSpec& exchange) {
    const size_t channel = next_channel_[exchange.target_stage]++;
    std::vector<OutputChannel> channels;
    for (uint32_t subtask = 0; subtask < graph_.parallelism; ++subtask) {
      Task* target = tasks_[first_task_[exchange.target_stage] + subtask].get();
      channels.push_back({&target->mailbox(), channel});
    }
    return channels;
  }

  Result<std::vector<std::unique_ptr<SourceReader>>> MakeReaders(const StageSpec& stage,
                                                                 const checkpoint::Cut* cut) {
    std::vector<SplitProgress> saved;
    if (cut != nullptr) {
      for (const checkpoint::SourceOffsets& offsets : cut->sources()) {
        if (offsets.source != stage.source_name) continue;
        for (const checkpoint::SplitOffset& split : offsets.splits) {
          saved.push_back({split.split, split.position, split.ended});
        }
      }
    }
    Result<std::vector<SplitProgress>> splits = stage.source->Discover(saved);
    if (!splits.ok()) return splits.status().WithContext("source " + stage.source_name);
    if (cut != nullptr && log_) {
      log_(LogLevel::kInfo, "source " + stage.source_name + ": " + DescribeSplits(saved, *splits));
    }
    std::vector<std::vector<SplitProgress>> shares = ShareOut(*std::move(splits));
    std::vector<std::unique_ptr<SourceReader>> readers;
    for (std::vector<SplitProgress>& share : shares) {
      Result<std::unique_ptr<SourceReader>> reader = stage.source->CreateReader(std::move(share));
      if (!reader.ok()) return reader.status().WithContext("source " + stage.source_name);
      readers.push_back(*std::move(reader));
    }
    return readers;
  }

  /// Deal the splits round robin; those with something to read first, so that each subtask gets its
  /// share of the work.
  std::vector<std::vector<SplitProgress>> ShareOut(std::vector<SplitProgress> splits) const {
    std::vector<std::vector<SplitProgress>> shares(graph_.parallelism);
    size_t dealt = 0;
    for (const bool ended : {false, true}) {
      for (SplitProgress& split : splits) {
        if (split.ended == ended) shares[dealt++ % graph_.parallelism].push_back(std::move(split));
      }
    }
    return shares;
  }

  const JobGraph& graph_;
  const JobOptions& options_;
  const bool checkpoints_;
  TaskListener* const listener_;
  const decltype(JobControl::log) log_;
  std::vector<size_t> inputs_;  ///< exchanges that lead to each stage
  std::vector<size_t> first_task_;
  std::vector<size_t> next_channel_;
  std::vector<std::unique_ptr<Task>> tasks_;
};

std::vector<NamedSink> SinksOf(const JobGraph& graph) {
  std::vector<NamedSink> sinks;
  for (const StageSpec& stage : graph.stages) {
    for (const NodeSpec& node : stage.nodes) {
      if (node.sink != nullptr) sinks.push_back({node.uid, node.sink});
    }
  }
  return sinks;
}

/// Publish what the cut decided and remove what no cut knows of.
Status RecoverSinks(const std::vector<NamedSink>& sinks, const checkpoint::Cut* cut) {
  for (const NamedSink& sink : sinks) {
    std::vector<std::string> committed;
    if (cut != nullptr) {
      for (const checkpoint::PreparedSink& prepared : cut->sinks()) {
        if (prepared.sink != sink.uid) continue;
        for (const auto& piece : prepared.pieces) committed.push_back(piece.descriptor);
      }
    }
    const base::CheckpointId id = cut != nullptr ? cut->id() : base::CheckpointId();
    CAIRN_RETURN_IF_ERROR(sink.sink->Recover(id, committed).WithContext("sink " + sink.uid));
  }
  return {};
}

/// Joins the tasks' threads on every way out; those that still run are told to leave first.
class TaskThreads {
 public:
  explicit TaskThreads(const std::vector<Task*>& tasks) : tasks_(tasks) {
    threads_.reserve(tasks.size());
  }
  ~TaskThreads() {
    if (!threads_.empty()) {
      for (Task* task : tasks_) task->mailbox().Cancel();
    }
    Join();
  }
  void Start() {
    for (Task* task : tasks_) threads_.emplace_back([task] { task->Run(); });
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  const std::vector<Task*>& tasks_;
  std::vector<std::thread> threads_;
};

Result<JobOutcome> RunGraphUnguarded(const JobGraph& graph, const JobOptions& options,
                                     checkpoint::CheckpointStore* store,
                                     const std::shared_ptr<const checkpoint::Cut>& cut,
                                     JobControl control) {
  std::vector<NamedSink> sinks = SinksOf(graph);
  // What another deployment prepared is not in these sinks' name.
  CAIRN_RETURN_IF_ERROR(RecoverSinks(sinks, options.coordinator.foreign_cut ? nullptr : cut.get()));
  std::optional<JobBuilder> builder;  // outlives the coordinator, whose persist thread uses tasks
  const auto log = control.log;
  Coordinator coordinator(options.coordinator, store, std::move(sinks), std::move(control));
  builder.emplace(graph, options, store != nullptr, &coordinator, log);
  CAIRN_RETURN_IF_ERROR(builder->Build(cut));
  std::vector<Task*> tasks;
  for (const auto& task : builder->tasks()) tasks.push_back(task.get());
  coordinator.SetTasks(tasks);
  if (options.on_coordinator) options.on_coordinator(&coordinator);
  TaskThreads threads(tasks);
  threads.Start();
  Result<JobOutcome> outcome = coordinator.Run(cut.get());
  threads.Join();
  return outcome;
}

}  // namespace

Result<JobOutcome> RunGraph(const JobGraph& graph, const JobOptions& options,
                            checkpoint::CheckpointStore* store,
                            std::shared_ptr<const checkpoint::Cut> cut, JobControl control) {
  try {
    return RunGraphUnguarded(graph, options, store, cut, std::move(control));
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("out of memory while running the job");
  } catch (const std::system_error& error) {
    return Status::ResourceExhausted(std::string("cannot start the job's threads: ") +
                                     error.what());
  } catch (const std::exception& error) {
    return Status::Internal(std::string("running the job: ") + error.what());
  }
}

}  // namespace cairn::stream
