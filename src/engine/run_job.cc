// SPDX-License-Identifier: Apache-2.0
#include "engine/run_job.h"

#include <arrow/compute/initialize.h>
#include <arrow/status.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "base/units.h"
#include "cairn/memory_budget.h"
#include "cairn/state_domain.h"
#include "checkpoint/inspect.h"
#include "checkpoint/lease.h"
#include "checkpoint/loaded_cut.h"
#include "checkpoint/pipeline.h"
#include "checkpoint/store.h"
#include "engine/backend_factory.h"
#include "engine/backend_uri.h"
#include "engine/check_places.h"
#include "engine/graph_builder.h"
#include "env/clock.h"
#include "env/object_place.h"
#include "format/utf8.h"
#include "sql/compile.h"
#include "stream/job.h"

namespace cairn::engine {
namespace {

constexpr uint32_t kMostSubtasks = 1024;
/// A changelog materialises when its log has passed this and half the base.
constexpr uint64_t kChangelogRebaseBytesMin = 64 << 10;

/// Everything about a job that can be checked without its checkpoint place.
struct PreparedJob {
  stream::LogicalPlan plan;
  Options options;
  std::string place;  ///< empty = none
  Backend backend;
  BuiltJob built;
};

/// What --from says.
struct Origin {
  std::optional<base::CheckpointId> id;
  std::string place;  ///< empty = the job's own
};

std::optional<base::CheckpointId> ParseId(std::string_view text) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return base::CheckpointId(id);
}

Result<Origin> ParseOrigin(std::string_view from) {
  Origin origin;
  if (from.empty()) return origin;
  origin.id = ParseId(from);
  if (origin.id.has_value()) return origin;
  std::string_view place = from;
  if (const size_t at = from.rfind('@'); at != std::string_view::npos) {
    origin.id = ParseId(from.substr(at + 1));
    if (origin.id.has_value()) place = from.substr(0, at);
  }
  CAIRN_ASSIGN_OR_RETURN(origin.place, ParsePlaceUri(place));
  return origin;
}

Status ApplyOptions(const stream::LogicalPlan& plan, const JobSpec& spec, Options* options) {
  for (const stream::OptionSetting& set : plan.options) {
    if (Status status = SetOption(set.name, set.value, options); !status.ok()) {
      return status.WithContext("line " + std::to_string(set.position.line) + ": SET");
    }
  }
  for (const auto& [name, value] : spec.settings) {
    CAIRN_RETURN_IF_ERROR(SetOption(name, value, options).WithContext("--set"));
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

/// Read a cut of another place, which is not changed. It stays locked, where it has a lock that
/// this process may take, so that its job cannot go on beside the one that goes on from it.
class ForeignCut {
 public:
  static Result<std::unique_ptr<ForeignCut>> Open(env::FileSystem* files, const Origin& origin,
                                                  const checkpoint::Pipeline& pipeline,
                                                  uint32_t key_groups) {
    std::unique_ptr<ForeignCut> foreign(new ForeignCut());
    CAIRN_ASSIGN_OR_RETURN(foreign->objects_, env::OpenObjects(files, origin.place));
    CAIRN_RETURN_IF_ERROR(foreign->TakeLock(files, origin));
    CAIRN_ASSIGN_OR_RETURN(const checkpoint::Place place,
                           checkpoint::OpenPlace(files, origin.place));
    CAIRN_ASSIGN_OR_RETURN(const format::CutReference reference, Choose(place, origin));
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const format::CheckpointManifest> manifest,
                           checkpoint::ReadManifest(foreign->objects_.get(), place, reference));
    CAIRN_ASSIGN_OR_RETURN(const format::PipelineIdentity identity,
                           checkpoint::IdentityOf(pipeline, key_groups));
    if (manifest->pipeline_identity != identity) {
      return Status::InvalidArgument("checkpoint " + std::to_string(reference.id.value) +
                                     " is of pipeline \"" + place.identity->pipeline_name +
                                     "\", or of another version of this one; run that job on it");
    }
    CAIRN_ASSIGN_OR_RETURN(foreign->cut_,
                           checkpoint::LoadedCut::Open(foreign->objects_.get(), manifest));
    foreign->deployment_id_ = place.identity->deployment_id;
    return foreign;
  }

  std::shared_ptr<const checkpoint::Cut> cut() const { return cut_; }
  const std::string& deployment_id() const { return deployment_id_; }

 private:
  ForeignCut() = default;

  Status TakeLock(env::FileSystem* files, const Origin& origin) {
    Result<std::unique_ptr<env::FileLock>> lock = LockOf(files, origin.place);
    if (lock.ok()) {
      lock_ = *std::move(lock);
      return {};
    }
    if (lock.status().code() == StatusCode::kFenced) {
      return lock.status().WithContext("the job of " + origin.place +
                                       " runs; stop it before another goes on from its checkpoint");
    }
    return {};  // where nothing may be written, no job runs
  }

  Result<std::unique_ptr<env::FileLock>> LockOf(env::FileSystem* files, const std::string& place) {
    if (env::IsBucket(place)) return checkpoint::AcquireLease(objects_.get());
    const std::string path = env::JoinPath(place, "LOCK");
    CAIRN_RETURN_IF_ERROR(files->Stat(path).status());  // none: a copy, on which no job ever ran
    return files->Lock(path);
  }

  static Result<format::CutReference> Choose(const checkpoint::Place& place, const Origin& origin) {
    const std::vector<format::CutReference> cuts = place.Cuts();  // newest first
    std::string ids;
    for (const format::CutReference& cut : cuts) {
      if (!origin.id.has_value() || cut.id == *origin.id) return cut;
      if (cut.exactly_once_output) {
        return Status::InvalidArgument("checkpoint " + std::to_string(cut.id.value) + " of " +
                                       origin.place +
                                       " has published rows of an exactly-once sink; beginning at "
                                       "an older one would publish them again");
      }
      ids += (ids.empty() ? "" : ", ") + std::to_string(cut.id.value);
    }
    return Status::NotFound(origin.place + " holds " +
                            (ids.empty() ? "no checkpoint" : "only the checkpoints " + ids));
  }

  std::unique_ptr<env::ObjectStore> objects_;
  std::unique_ptr<env::FileLock> lock_;  // of objects_, where they are in a bucket
  std::shared_ptr<const checkpoint::Cut> cut_;
  std::string deployment_id_;
};

/// Runs one prepared job: holds what must outlive its threads.
class Runner {
 public:
  Runner(const JobSpec& spec, const JobControl& control, env::FileSystem* files, PreparedJob* job)
      : spec_(spec), control_(control), files_(files), job_(job) {}

  Result<JobResult> Run() {
    CAIRN_ASSIGN_OR_RETURN(steps_, stream::StepFile::FromEnvironment());
    CAIRN_ASSIGN_OR_RETURN(const Origin origin, ParseOrigin(spec_.from));
    JobResult result;
    result.place = job_->place;
    if (!job_->backend.parameters.empty()) {
      Say(LogLevel::kWarning, job_->backend.parameters + " of " + spec_.backend +
                                  ": of byte backends only, without effect here. The tables of "
                                  "this job stay in memory whole");
    }
    std::string deployment_id;
    if (job_->place.empty()) {
      if (!spec_.from.empty()) {
        return Status::InvalidArgument("--from needs a checkpoint place, not --checkpoints none");
      }
      Say(LogLevel::kInfo, "no checkpoints: exactly-once sinks publish when the input has ended");
      deployment_id = RandomId();
    } else {
      CAIRN_RETURN_IF_ERROR(OpenStore());
      CAIRN_RETURN_IF_ERROR(ChooseCut(origin));
      deployment_id = store_->deployment_id();
      job_->built.graph.slot_hash_seed = store_->slot_hash_seed();
      if (cut_ != nullptr) result.resumed_from = cut_->id();
    }
    CAIRN_RETURN_IF_ERROR(NameWriters(
        deployment_id, foreign_ != nullptr ? foreign_->deployment_id() : "", files_, &job_->built));
    MemoryBudget::Default()->set_limit(job_->options.state_memory_budget);
    Result<JobOutcome> outcome =
        stream::RunGraph(job_->built.graph, GraphRunOptions(), store_.get(), cut_, control_);
    steps_.Set(checkpoint::Step::kBetween);
    if (!outcome.ok()) return outcome.status();
    result.outcome = *std::move(outcome);
    return result;
  }

 private:
  static std::string RandomId() {
    env::Random* random = env::SystemRandom();
    return base::MakeUuidV7(static_cast<uint64_t>(env::SystemClock()->UnixMillis()), random->Next(),
                            random->Next());
  }

  Status OpenStore() {
    checkpoint::StoreOptions options;
    options.pipeline = job_->built.pipeline;
    options.key_groups = job_->options.state_key_groups;
    options.retained = job_->options.checkpoint_retained;
    options.rebase_chunks = job_->options.checkpoint_rebase_chunks;
    if (job_->backend.changelog) options.rebase_bytes_min = kChangelogRebaseBytesMin;
    options.fsync = job_->options.fs_fsync;
    options.fresh = spec_.fresh;
    options.observer = [this](checkpoint::Step step) { steps_.Set(step); };
    CAIRN_ASSIGN_OR_RETURN(store_, checkpoint::OpenStoreAt(files_, job_->place, options));
    for (const std::string& note : store_->notes()) Say(LogLevel::kWarning, note);
    if (!options.fsync && !env::IsBucket(job_->place)) {
      Say(LogLevel::kWarning, "fs.fsync is false: a power cut may damage these checkpoints");
    }
    return {};
  }

  Status ChooseCut(const Origin& origin) {
    if (!origin.place.empty()) {
      if (store_->latest_commit().value != 0) {
        return Status::InvalidArgument(
            "--from " + spec_.from + ": the place " + job_->place + " already holds checkpoint " +
            std::to_string(store_->latest_commit().value) +
            "; run without --from to resume it, or choose an empty place");
      }
      CAIRN_ASSIGN_OR_RETURN(cut_, store_->Recover());  // nothing: the first checkpoint is whole
      CAIRN_ASSIGN_OR_RETURN(foreign_, ForeignCut::Open(files_, origin, job_->built.pipeline,
                                                        job_->options.state_key_groups));
      cut_ = foreign_->cut();
    } else if (origin.id.has_value()) {
      CAIRN_ASSIGN_OR_RETURN(cut_, store_->RecoverAt(*origin.id));
    } else {
      CAIRN_ASSIGN_OR_RETURN(cut_, store_->Recover());
    }
    if (cut_ == nullptr) {
      Say(LogLevel::kInfo, "no checkpoint at " + job_->place + ": beginning from the start");
      return {};
    }
    DescribeCut(origin.place.empty() ? job_->place : origin.place);
    if (!origin.place.empty()) {
      Say(LogLevel::kInfo, "this job goes on from there in its own place; the one of " +
                               origin.place + " is refused by their sinks from now on");
    }
    return {};
  }

  void DescribeCut(const std::string& place) const {
    const int64_t age_ms =
        std::max<int64_t>(0, env::SystemClock()->UnixMillis() - cut_->timestamp_ms());
    std::string line = "resuming from checkpoint " + std::to_string(cut_->id().value) + " of " +
                       place + ", taken " + base::FormatDurationMs(age_ms) + " ago";
    if (cut_->parallelism() != spec_.parallelism) {
      line += ", rescaled from " + std::to_string(cut_->parallelism()) + " to " +
              std::to_string(spec_.parallelism) + " subtasks";
    }
    Say(LogLevel::kInfo, line);
    for (const checkpoint::SourceOffsets& source : cut_->sources()) {
      const auto ended =
          std::count_if(source.splits.begin(), source.splits.end(),
                        [](const checkpoint::SplitOffset& split) { return split.ended; });
      const auto begun = std::count_if(source.splits.begin(), source.splits.end(),
                                       [](const checkpoint::SplitOffset& split) {
                                         return !split.ended && !split.position.empty();
                                       });
      Say(LogLevel::kInfo, "source " + source.source + ": " + std::to_string(ended) + " of " +
                               std::to_string(source.splits.size()) + " splits are done, " +
                               std::to_string(begun) + " under way");
    }
  }

  stream::JobOptions GraphRunOptions() {
    const Options& options = job_->options;
    stream::JobOptions run;
    run.coordinator.interval_ms = options.checkpoint_interval_ms;
    run.coordinator.timeout_ms = options.checkpoint_timeout_ms;
    run.coordinator.async_snapshots = options.state_async_snapshots;
    run.coordinator.foreign_cut = foreign_ != nullptr;
    run.coordinator.steps = &steps_;
    run.coordinator.persist_threads = std::max<size_t>(
        1, std::min<size_t>(spec_.parallelism, std::thread::hardware_concurrency()));
    return run;
  }

  void Say(LogLevel level, const std::string& text) const {
    if (control_.log) control_.log(level, text);
  }

  const JobSpec& spec_;
  const JobControl& control_;
  env::FileSystem* const files_;
  PreparedJob* const job_;
  stream::StepFile steps_;
  std::unique_ptr<checkpoint::CheckpointStore> store_;
  std::unique_ptr<ForeignCut> foreign_;
  std::shared_ptr<const checkpoint::Cut> cut_;
};

env::FileSystem* FilesOf(const JobSpec& spec) {
  return spec.files != nullptr ? spec.files : env::PosixFileSystem();
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

/// Call `body`, and turn what a library below threw into a status.
template <class T, class Body>
Result<T> Guarded(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("out of memory");
  } catch (const std::exception& error) {
    return Status::Internal(error.what());
  }
}

}  // namespace

Result<JobResult> RunJob(const JobSpec& spec, const JobControl& control) {
  return Guarded<JobResult>([&]() -> Result<JobResult> {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job, PrepareJob(spec, FilesOf(spec)));
    return Runner(spec, control, FilesOf(spec), job.get()).Run();
  });
}

Result<std::string> ExplainJob(const JobSpec& spec) {
  return Guarded<std::string>([&]() -> Result<std::string> {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job, PrepareJob(spec, FilesOf(spec)));
    return DescribeGraph(job->built.graph);
  });
}

Result<JobShape> DescribeJob(const JobSpec& spec) {
  return Guarded<JobShape>([&]() -> Result<JobShape> {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job, PrepareJob(spec, FilesOf(spec)));
    JobShape shape;
    shape.pipeline = job->built.pipeline;
    shape.key_groups = job->options.state_key_groups;
    for (const stream::StageSpec& stage : job->built.graph.stages) {
      for (const stream::NodeSpec& node : stage.nodes) {
        if (node.op == nullptr) continue;
        CAIRN_RETURN_IF_ERROR(
            AddSlotsOf(node, shape.key_groups, job->built.graph.state_ttl, &shape.slots));
      }
    }
    return shape;
  });
}

}  // namespace cairn::engine
