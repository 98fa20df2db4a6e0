// SPDX-License-Identifier: Apache-2.0
#include "engine/run_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "base/units.h"
#include "cairn/memory_budget.h"
#include "checkpoint/inspect.h"
#include "checkpoint/pipeline.h"
#include "checkpoint/saved_pipeline.h"
#include "checkpoint/store.h"
#include "engine/foreign_cut.h"
#include "engine/graph_builder.h"
#include "engine/prepared_job.h"
#include "engine/restore_dry_run.h"
#include "engine/saved_sinks.h"
#include "env/clock.h"
#include "env/object_place.h"
#include "stream/job.h"

namespace cairn::engine {
namespace {

/// A changelog materialises when its log has passed this and half the base.
constexpr uint64_t kChangelogRebaseBytesMin = 64 << 10;

/// The deployment of a place, which a start that failed may have made; else a name of none.
std::string DeploymentOf(const Result<checkpoint::Place>& place) {
  return place.ok() && place->identity ? place->identity->deployment_id : std::string();
}

Status CheckConsent(const JobSpec& spec, const Origin& origin) {
  if (!origin.place.empty() || spec.consent.empty()) return {};
  return Status::InvalidArgument(
      "--allow-non-restored, --rename and --accept-changes say how a changed job begins with a "
      "checkpoint of another place; give that place with --from, and an empty one with "
      "--checkpoints");
}

/// Runs one prepared job: holds what must outlive its threads.
class Runner {
 public:
  Runner(const JobSpec& spec, const JobControl& control, env::FileSystem* files, PreparedJob* job)
      : spec_(spec), control_(control), files_(files), job_(job) {}

  Result<JobResult> Run() {
    CAIRN_ASSIGN_OR_RETURN(steps_, stream::StepFile::FromEnvironment());
    CAIRN_ASSIGN_OR_RETURN(const Origin origin, ParseOrigin(spec_.from));
    CAIRN_RETURN_IF_ERROR(CheckConsent(spec_, origin));
    JobResult result;
    result.place = job_->place;
    if (!job_->backend.parameters.empty()) {
      Say(LogLevel::kWarning, job_->backend.parameters + " of " + spec_.backend +
                                  ": of byte backends only, without effect here. The tables of "
                                  "this job stay in memory whole");
    }
    std::string deployment_id;
    uint64_t run = 0;
    if (job_->place.empty()) {
      if (!spec_.from.empty()) {
        return Status::InvalidArgument("--from needs a checkpoint place, not --checkpoints none");
      }
      Say(LogLevel::kInfo, "no checkpoints: exactly-once sinks publish when the input has ended");
      deployment_id = env::NewUuid(env::SystemClock(), env::SystemRandom());
    } else {
      // Before the place is made: what is refused leaves nothing behind.
      if (!origin.place.empty()) {
        const Result<checkpoint::Place> target = checkpoint::OpenPlace(files_, job_->place);
        CAIRN_RETURN_IF_ERROR(CheckTarget(origin, target));
        CAIRN_ASSIGN_OR_RETURN(foreign_, ForeignCut::Open(files_, origin, *job_, spec_.consent));
        CAIRN_ASSIGN_OR_RETURN(const SavedSinks sinks, SavedSinksFor(DeploymentOf(target)));
        CAIRN_RETURN_IF_ERROR(sinks.Check(*foreign_->cut()));
      }
      CAIRN_RETURN_IF_ERROR(OpenStore());
      CAIRN_RETURN_IF_ERROR(ChooseCut(origin));
      deployment_id = store_->deployment_id();
      run = store_->first_id().value;
      job_->built.graph.slot_hash_seed = store_->slot_hash_seed();
      if (cut_ != nullptr) result.resumed_from = cut_->id();
    }
    CAIRN_RETURN_IF_ERROR(NameWriters(deployment_id, run, files_, &job_->built));
    if (foreign_ != nullptr) CAIRN_RETURN_IF_ERROR(RecoverSavedSinks());
    MemoryBudget::Default()->set_limit(job_->options.state_memory_budget);
    Result<JobOutcome> outcome =
        stream::RunGraph(job_->built.graph, GraphRunOptions(), store_.get(), cut_, control_);
    steps_.Set(checkpoint::Step::kBetween);
    if (!outcome.ok()) return outcome.status();
    result.outcome = *std::move(outcome);
    return result;
  }

 private:
  Status OpenStore() {
    checkpoint::StoreOptions options;
    options.pipeline = job_->built.pipeline;
    options.key_groups = job_->options.state_key_groups;
    options.retained = job_->options.checkpoint_retained;
    options.rebase_chunks = job_->options.checkpoint_rebase_chunks;
    options.max_concurrent_uploads = job_->options.checkpoint_max_concurrent_uploads;
    if (foreign_ != nullptr) {
      options.origin = foreign_->place() + "@" + std::to_string(foreign_->cut()->id().value);
    }
    if (job_->backend.changelog) options.rebase_bytes_min = kChangelogRebaseBytesMin;
    options.fsync = job_->options.fs_fsync;
    options.fresh = spec_.fresh;
    // Later calls are made by other threads, where the coordinator says what became of them.
    options.on_retry = [this, opener = std::this_thread::get_id()](const std::string& text) {
      if (std::this_thread::get_id() == opener) Say(LogLevel::kWarning, "waiting: " + text);
    };
    options.observer = [this](checkpoint::Step step) { steps_.Set(step); };
    CAIRN_ASSIGN_OR_RETURN(store_, checkpoint::OpenStoreAt(files_, job_->place, options));
    for (const std::string& note : store_->notes()) Say(LogLevel::kWarning, note);
    if (!options.fsync && !env::IsBucket(job_->place)) {
      Say(LogLevel::kWarning, "fs.fsync is false: a power cut may damage these checkpoints");
    }
    return {};
  }

  /// Beginning with another place's cut needs a place without one.
  Status CheckTarget(const Origin& origin, const Result<checkpoint::Place>& target) const {
    if (files_->CanonicalPath(origin.place) == files_->CanonicalPath(job_->place)) {
      return Status::InvalidArgument("--from " + spec_.from +
                                     " is the job's own place; run without it to resume, or name "
                                     "one of its checkpoints by its id alone");
    }
    if (!target.ok() || target->Cuts().empty()) return {};
    return Status::InvalidArgument("--from " + spec_.from + ": the place " + job_->place +
                                   " already holds checkpoint " +
                                   std::to_string(target->Cuts().front().id.value) +
                                   "; run without --from to resume it, or choose an empty place");
  }

  Status ChooseCut(const Origin& origin) {
    if (foreign_ != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(cut_, store_->Recover());
      if (cut_ != nullptr) {
        return Status::Fenced("another process made checkpoint " +
                              std::to_string(cut_->id().value) + " in " + job_->place +
                              " meanwhile");
      }
      cut_ = foreign_->cut();  // the first checkpoint of the place is whole
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
      Say(LogLevel::kInfo,
          "this job goes on from there in its own place; once it is restored, the "
          "one of " +
              origin.place + " is refused by their sinks");
    }
    return {};
  }

  Status RecoverSavedSinks() {
    CAIRN_ASSIGN_OR_RETURN(saved_sinks_, SavedSinksFor(store_->deployment_id()));
    return saved_sinks_->Recover(*cut_);
  }

  Result<SavedSinks> SavedSinksFor(const std::string& successor) const {
    return SavedSinks::Make(foreign_->saved(), foreign_->plan().given_up_sinks,
                            foreign_->deployment_id(), successor, files_);
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
  }

  stream::JobOptions GraphRunOptions() {
    const Options& options = job_->options;
    stream::JobOptions run;
    run.coordinator.interval_ms = options.checkpoint_interval_ms;
    run.coordinator.timeout_ms = options.checkpoint_timeout_ms;
    run.coordinator.async_snapshots = options.state_async_snapshots;
    run.coordinator.foreign_cut = foreign_ != nullptr;
    // Not before: a start that fails must leave the saved job free to go on.
    if (saved_sinks_) run.coordinator.before_start = [this] { return saved_sinks_->TakeOver(); };
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
  std::optional<SavedSinks> saved_sinks_;
  std::shared_ptr<const checkpoint::Cut> cut_;
};

env::FileSystem* FilesOf(const JobSpec& spec) {
  return spec.files != nullptr ? spec.files : env::PosixFileSystem();
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

namespace {

/// "state: 128 key groups over 2 subtasks; a key is forgotten 10.0 s after its last row, by event
/// time", and where and when checkpoints are taken.
std::string DescribeState(const PreparedJob& job, uint32_t parallelism) {
  const Options& options = job.options;
  std::string text =
      fmt::format("state: {} key groups over {} subtask{}; ", options.state_key_groups, parallelism,
                  parallelism == 1 ? "" : "s");
  const TtlConfig& ttl = job.built.graph.state_ttl;
  if (!ttl.enabled()) {
    text += "a key is kept for ever";
  } else {
    text += fmt::format("a key is forgotten {} after its last row, by {}",
                        base::FormatDurationMs(ttl.ttl_ms),
                        ttl.clock == TtlClock::kEvent  ? "event time: the watermark"
                        : ttl.clock == TtlClock::kWall ? "the wall clock"
                                                       : "the time that the job runs");
  }
  text += "\ncheckpoints: ";
  if (job.place.empty()) return text + "none\n";
  return text + fmt::format("{}, every {} at least, {} retained\n", job.place,
                            base::FormatDurationMs(options.checkpoint_interval_ms),
                            options.checkpoint_retained);
}

}  // namespace

Result<std::string> ExplainJob(const JobSpec& spec) {
  return Guarded<std::string>([&]() -> Result<std::string> {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job, PrepareJob(spec, FilesOf(spec)));
    return DescribeGraph(job->built.graph) + DescribeState(*job, spec.parallelism);
  });
}

Result<JobShape> DescribeJob(const JobSpec& spec) {
  return Guarded<JobShape>([&]() -> Result<JobShape> {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job, PrepareJob(spec, FilesOf(spec)));
    JobShape shape;
    shape.pipeline = job->built.pipeline;
    shape.key_groups = job->options.state_key_groups;
    CAIRN_ASSIGN_OR_RETURN(shape.slots, SlotsOf(*job));
    return shape;
  });
}

namespace {

/// The cut that a restore would begin with; null = there is none.
///
/// Errors:   kInvalidArgument: what is there may not be begun with.
Result<std::unique_ptr<checkpoint::CutReader>> OpenPlanned(env::FileSystem* files,
                                                           const Origin& origin,
                                                           const std::string& place) {
  Result<checkpoint::Place> opened = checkpoint::OpenPlace(files, place);
  const bool own = origin.place.empty();
  if (own && !origin.id && opened.status().code() == StatusCode::kNotFound) return nullptr;
  CAIRN_RETURN_IF_ERROR(opened.status());
  if (own && !origin.id && opened->Cuts().empty()) return nullptr;
  Origin wanted = origin;
  wanted.place = place;
  CAIRN_ASSIGN_OR_RETURN(const format::CutReference chosen, ChooseCut(*opened, wanted));
  return checkpoint::CutReader::Open(files, place, chosen.id);
}

Status AddLostOrigin(env::FileSystem* files, const std::string& place, RestorePlan* plan) {
  if (!checkpoint::OpenPlace(files, place).ok()) return {};  // it is not made yet
  CAIRN_ASSIGN_OR_RETURN(const auto objects, env::OpenObjects(files, place));
  const Status lost = checkpoint::RefuseLostOrigin(objects.get());
  if (lost.ok()) return {};
  if (lost.code() != StatusCode::kInvalidArgument) return lost;
  plan->items.push_back({"job", "", "", "", Fate::kKept, "", std::string(lost.message())});
  return {};
}

/// Beginning with another place's cut needs a place without one.
Status AddTarget(const std::string& place, const Result<checkpoint::Place>& target,
                 RestorePlan* plan) {
  if (target.status().code() == StatusCode::kNotFound) return {};
  CAIRN_RETURN_IF_ERROR(target.status());
  if (target->Cuts().empty()) return {};
  plan->items.push_back(
      {"job", "", "", "", Fate::kKept,
       fmt::format("its place {} holds checkpoint {}", place, target->Cuts().front().id.value),
       "name an empty place with --checkpoints"});
  return {};
}

}  // namespace

Result<PlannedRestore> PlanJobRestore(const JobSpec& spec) {
  return Guarded<PlannedRestore>([&]() -> Result<PlannedRestore> {
    env::FileSystem* files = FilesOf(spec);
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job, PrepareJob(spec, files));
    CAIRN_ASSIGN_OR_RETURN(const Origin origin, ParseOrigin(spec.from));
    if (job->place.empty()) {
      return Status::InvalidArgument("--checkpoints none leaves no place to restore into");
    }
    CAIRN_RETURN_IF_ERROR(CheckConsent(spec, origin));
    PlannedRestore planned;
    planned.target = job->place;
    planned.place = origin.place.empty() ? job->place : origin.place;
    planned.parallelism = spec.parallelism;
    Result<std::unique_ptr<checkpoint::CutReader>> opened =
        OpenPlanned(files, origin, planned.place);
    if (opened.status().code() == StatusCode::kInvalidArgument) {
      planned.plan.items.push_back(
          {"job", "", "", "", Fate::kKept, "", std::string(opened.status().message())});
      return planned;
    }
    CAIRN_RETURN_IF_ERROR(opened.status());
    const std::unique_ptr<checkpoint::CutReader> cut = *std::move(opened);
    if (cut == nullptr) {
      CAIRN_RETURN_IF_ERROR(AddLostOrigin(files, job->place, &planned.plan));
      return planned;
    }
    planned.checkpoint = cut->manifest().checkpoint_id;
    planned.saved_parallelism = cut->manifest().parallelism;
    CAIRN_ASSIGN_OR_RETURN(const checkpoint::Pipeline saved,
                           checkpoint::PipelineOfCut(files, *cut));
    CAIRN_ASSIGN_OR_RETURN(const std::vector<SlotDescriptor> slots, SlotsOf(*job));
    CAIRN_ASSIGN_OR_RETURN(planned.plan,
                           PlanRestore(saved, cut->manifest(), job->built.pipeline, slots,
                                       job->options.state_key_groups, spec.consent));
    const Result<checkpoint::Place> target = checkpoint::OpenPlace(files, job->place);
    CAIRN_ASSIGN_OR_RETURN(
        const SavedSinks saved_sinks,
        SavedSinks::Make(saved, planned.plan.given_up_sinks, cut->place().identity->deployment_id,
                         DeploymentOf(target), files));
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const checkpoint::Cut> loaded, cut->AsCut());
    TryRestore(*loaded, saved_sinks, *job, &planned.plan);
    if (!origin.place.empty()) {
      CAIRN_RETURN_IF_ERROR(AddTarget(job->place, target, &planned.plan));
      return planned;
    }
    // A place goes on with the job that it belongs to, whatever its state would allow.
    CAIRN_ASSIGN_OR_RETURN(
        const format::PipelineIdentity identity,
        checkpoint::IdentityOf(job->built.pipeline, job->options.state_key_groups));
    if (cut->manifest().pipeline_identity != identity) {
      planned.plan.items.push_back(
          {"job", "", "", "", Fate::kRedefined, "the place is of another version of it",
           fmt::format("begin a new place: --from {} --checkpoints NEW", planned.place)});
    }
    return planned;
  });
}

}  // namespace cairn::engine
