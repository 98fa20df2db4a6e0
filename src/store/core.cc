// SPDX-License-Identifier: Apache-2.0
#include "store/core.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/units.h"
#include "checkpoint/savepoint.h"
#include "engine/backend_uri.h"
#include "store/offset_text.h"

namespace cairn::store {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr uint32_t kMostPartitions = 1024;
/// The one source of a store's pipeline; its splits are the partitions.
constexpr std::string_view kOffsetsSource = "offsets";

std::string Named(uint32_t partition) { return "partition " + std::to_string(partition); }

Status CheckOptions(const StateStoreOptions& options) {
  const auto bad = [](std::string what) { return Status::InvalidArgument(std::move(what)); };
  if (options.partitions < 1 || options.partitions > kMostPartitions) {
    return bad("partitions is " + std::to_string(options.partitions) + "; it may be 1 to " +
               std::to_string(kMostPartitions));
  }
  if (options.state.key_groups < 1 || options.state.key_groups > kMaxKeyGroups) {
    return bad("state.key_groups is " + std::to_string(options.state.key_groups) +
               "; it may be 1 to " + std::to_string(kMaxKeyGroups));
  }
  if (options.partitions > options.state.key_groups) {
    return bad("there are " + std::to_string(options.partitions) + " partitions and only " +
               std::to_string(options.state.key_groups) + " key groups to divide among them");
  }
  if (options.checkpoint.retained < 1 || options.checkpoint.retained > 16) {
    return bad("checkpoint.retained is " + std::to_string(options.checkpoint.retained) +
               "; it may be 1 to 16");
  }
  if (options.checkpoint.interval.count() < 100 || options.checkpoint.timeout.count() < 100) {
    return bad("checkpoint.interval and checkpoint.timeout must be 100 ms at least");
  }
  if (options.name.empty()) return bad("a store needs a name: StateStore::Options::name");
  return {};
}

/// What a place must say of the store it belongs to.
checkpoint::Pipeline PipelineOf(const StateStoreOptions& options) {
  checkpoint::Pipeline pipeline;
  pipeline.job = options.name;
  pipeline.components.push_back({"source", std::string(kOffsetsSource), "{}", false});
  return pipeline;
}

}  // namespace

Result<std::unique_ptr<SavepointWriter>> SeedStore(const Environment& environment,
                                                   const std::string& directory,
                                                   const StateStoreOptions& options,
                                                   std::string_view offsets) {
  CAIRN_RETURN_IF_ERROR(CheckOptions(options));
  checkpoint::CutBuilderOptions build;
  build.files = environment.files != nullptr ? environment.files : env::PosixFileSystem();
  build.clock = environment.clock;
  build.random = environment.random;
  build.place = directory;
  build.key_groups = options.state.key_groups;
  build.pipeline = PipelineOf(options);
  checkpoint::SourceOffsets source;
  source.source = kOffsetsSource;
  source.splits.push_back({PartitionText(0), OffsetsText(offsets), false});
  build.sources.push_back(std::move(source));
  return checkpoint::CreateSavepointFor(std::move(build));
}

Core::Core(StateStoreOptions options, Environment environment)
    : options_(std::move(options)),
      files_(environment.files != nullptr ? environment.files : env::PosixFileSystem()),
      clock_(environment.clock != nullptr ? environment.clock : env::SystemClock()),
      members_(options_.partitions) {
  if (options_.state.memory_budget != 0) {
    own_budget_ = std::make_unique<MemoryBudget>(options_.state.memory_budget);
  }
  budget_ = own_budget_ != nullptr ? own_budget_.get() : MemoryBudget::Default();
  last_start_ns_ = clock_->MonotonicNanos();
}

Result<std::shared_ptr<Core>> Core::Open(std::string_view uri, StateStoreOptions options,
                                         Environment environment) {
  CAIRN_RETURN_IF_ERROR(CheckOptions(options));
  CAIRN_ASSIGN_OR_RETURN(const engine::Backend backend, engine::ParseBackendUri(uri));
  if (backend.scheme != "memory" && backend.scheme != "file") {
    return Status::InvalidArgument("a StateStore keeps its state in memory:// or file://DIR, not " +
                                   backend.scheme + "://");
  }
  std::shared_ptr<Core> core(new Core(std::move(options), environment));
  const std::string& checkpoints = core->options_.checkpoints;
  if (!checkpoints.empty() && checkpoints != "none") {
    CAIRN_ASSIGN_OR_RETURN(core->place_, engine::ParsePlaceUri(checkpoints));
  } else if (checkpoints.empty()) {
    core->place_ = backend.directory;
  }
  if (!core->place_.empty()) CAIRN_RETURN_IF_ERROR(core->OpenPlace(environment));
  return core;
}

Status Core::OpenPlace(const Environment& environment) {
  checkpoint::StoreOptions options;
  options.pipeline = PipelineOf(options_);
  options.key_groups = options_.state.key_groups;
  options.retained = options_.checkpoint.retained;
  options.rebase_chunks = options_.checkpoint.rebase_chunks;
  options.max_concurrent_uploads = options_.checkpoint.max_concurrent_uploads;
  options.fsync = options_.fs.fsync;
  options.fresh = options_.fresh;
  options.observer = environment.observer;
  options.clock = environment.clock;
  options.random = environment.random;
  CAIRN_ASSIGN_OR_RETURN(store_, checkpoint::OpenStoreAt(files_, place_, options));
  if (options_.recover_at != 0) {
    CAIRN_ASSIGN_OR_RETURN(cut_, store_->RecoverAt(base::CheckpointId(options_.recover_at)));
  } else {
    CAIRN_ASSIGN_OR_RETURN(cut_, store_->Recover());
  }
  stats_.last_checkpoint = cut_ == nullptr ? 0 : cut_->id().value;
  return {};
}

std::vector<std::string> Core::notes() const {
  return store_ == nullptr ? std::vector<std::string>() : store_->notes();
}

// --- opening and recovery -----------------------------------------------------------------------

Status Core::ClaimPartition(uint32_t index) {
  std::lock_guard lock(mutex_);
  if (index >= members_.size()) {
    return Status::InvalidArgument("there is no " + Named(index) + ": the store has " +
                                   std::to_string(members_.size()));
  }
  if (members_[index].opened) {
    return Status::AlreadyExists(Named(index) + " is open: one thread owns it for good");
  }
  members_[index].opened = true;
  members_[index].owner = std::this_thread::get_id();
  return {};
}

Status Core::ReadOffsets(uint32_t index, Recovered* recovered) const {
  if (cut_ == nullptr) return {};
  recovered->checkpoint = cut_->id().value;
  recovered->all_offsets.resize(cut_->parallelism());
  for (const checkpoint::SourceOffsets& source : cut_->sources()) {
    if (source.source != kOffsetsSource) continue;
    for (const checkpoint::SplitOffset& split : source.splits) {
      const Result<uint32_t> partition = ParsePartition(split.split, cut_->parallelism());
      Result<std::string> offsets = ParseOffsets(split.position);
      if (!partition.ok() || !offsets.ok()) {
        return Status::Corruption("checkpoint " + std::to_string(cut_->id().value) +
                                  ": the offsets of \"" + split.split + "\" are not a store's");
      }
      recovered->all_offsets[*partition] = *std::move(offsets);
    }
  }
  if (cut_->parallelism() == options_.partitions) {
    recovered->offsets = recovered->all_offsets[index];
  }
  return {};
}

Status Core::NoteRecovered(uint32_t index, std::vector<const StateTable*> tables,
                           std::optional<uint64_t> epoch, checkpoint::LoadReceipt receipt) {
  std::lock_guard lock(mutex_);
  Member& member = members_[index];
  member.tables = std::move(tables);
  member.committed_epoch = epoch;
  member.receipt = std::move(receipt);
  if (++recovered_count_ < members_.size() || cut_ == nullptr) return fatal_;
  std::vector<checkpoint::LoadReceipt> receipts;
  for (Member& each : members_) receipts.push_back(std::move(each.receipt));
  if (fatal_.ok()) fatal_ = cut_->CheckReceipts(receipts);
  return fatal_;
}

std::optional<uint64_t> Core::committed_epoch(uint32_t index) const {
  std::lock_guard lock(mutex_);
  return members_[index].committed_epoch;
}

// --- broadcasts ---------------------------------------------------------------------------------

void Core::Broadcast(BroadcastFn fn) {
  auto shared = std::make_shared<const BroadcastFn>(std::move(fn));
  std::lock_guard lock(mutex_);
  broadcasts_.push_back(std::move(shared));
}

std::shared_ptr<const BroadcastFn> Core::NextBroadcast(uint32_t index) const {
  std::lock_guard lock(mutex_);
  const bool is_awaited = attempt_ != nullptr && attempt_->phase == Attempt::Phase::kGathering &&
                          !attempt_->joined[index].has_value();
  const uint64_t end = is_awaited ? attempt_->broadcasts : broadcasts_gone_ + broadcasts_.size();
  const uint64_t next = members_[index].broadcasts_run;
  return next < end ? broadcasts_[next - broadcasts_gone_] : nullptr;
}

void Core::NoteBroadcast(uint32_t index) {
  std::shared_ptr<const BroadcastFn> gone;  // what it captured is destroyed without the lock
  std::lock_guard lock(mutex_);
  ++members_[index].broadcasts_run;
  const bool all_have = std::all_of(members_.begin(), members_.end(), [this](const Member& each) {
    return each.broadcasts_run > broadcasts_gone_;
  });
  if (!all_have) return;
  gone = std::move(broadcasts_.front());
  broadcasts_.pop_front();
  ++broadcasts_gone_;
}

// --- joining ------------------------------------------------------------------------------------

Status Core::WhyNotJoin(uint32_t index) const {
  if (closed_) return Status::Cancelled("the store is closed");
  if (store_ == nullptr) {
    return Status::InvalidArgument(
        "this store has no place for checkpoints: open file://DIR, or give Options::checkpoints");
  }
  CAIRN_RETURN_IF_ERROR(fatal_);
  if (attempt_ == nullptr) return {};
  const std::string id = "checkpoint " + std::to_string(attempt_->id.value);
  if (attempt_->phase != Attempt::Phase::kGathering) {
    return Status::Unavailable(id + " is still being persisted; try again when it is done");
  }
  if (attempt_->joined[index].has_value()) {
    return Status::Unavailable(Named(index) + " is in " + id +
                               " already, which waits for other partitions; try again later");
  }
  return {};
}

Result<std::shared_ptr<Attempt>> Core::Join(uint32_t index, StateDomain* domain,
                                            std::string_view offsets) {
  GiveUpLate();
  std::shared_ptr<Attempt> attempt;
  {
    std::lock_guard lock(mutex_);
    if (Status refused = WhyNotJoin(index); !refused.ok()) {
      ++stats_.skipped;
      return refused;
    }
    if (attempt_ == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id, store_->NextId());
      attempt_ = std::make_shared<Attempt>();
      attempt_->id = id;
      attempt_->started_ns = last_start_ns_ = clock_->MonotonicNanos();
      attempt_->joined.resize(members_.size());
      attempt_->missing = members_.size();
      attempt_->broadcasts = broadcasts_gone_ + broadcasts_.size();
    }
    if (members_[index].broadcasts_run < attempt_->broadcasts) {
      return std::shared_ptr<Attempt>(nullptr);
    }
    attempt = attempt_;
    Joined joined;
    if (!members_[index].tables.empty()) joined.view = domain->Capture();
    joined.offsets = offsets;
    attempt->joined[index] = std::move(joined);
    if (--attempt->missing == 0) attempt->phase = Attempt::Phase::kReady;
  }
  changed_.notify_all();
  Post(attempt);
  return attempt;
}

bool Core::IsDue(uint32_t index) const {
  std::lock_guard lock(mutex_);
  if (!WhyNotJoin(index).ok()) return false;
  // The others have begun: a checkpoint waits for this partition.
  if (attempt_ != nullptr) return true;
  return clock_->MonotonicNanos() - last_start_ns_ >=
         options_.checkpoint.interval.count() * kNanosPerMilli;
}

// --- the end of an attempt ----------------------------------------------------------------------

bool Core::GiveUpLate() {
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    if (attempt_ == nullptr || attempt_->phase != Attempt::Phase::kGathering ||
        clock_->MonotonicNanos() - attempt_->started_ns <
            options_.checkpoint.timeout.count() * kNanosPerMilli) {
      return false;
    }
    std::string missing;
    for (uint32_t i = 0; i < attempt_->joined.size(); ++i) {
      if (!attempt_->joined[i].has_value()) missing += (missing.empty() ? "" : ", ") + Named(i);
    }
    ended = FinishLocked(
        attempt_, Status::Unavailable("checkpoint " + std::to_string(attempt_->id.value) + ": " +
                                      missing + " did not join it within " +
                                      base::FormatDurationMs(options_.checkpoint.timeout.count())));
  }
  Announce(ended);
  return true;
}

Core::Ended Core::FinishLocked(std::shared_ptr<Attempt> attempt, Status status) {
  attempt->status = std::move(status);
  attempt->phase = Attempt::Phase::kDone;
  attempt->joined.clear();  // releases the views
  if (attempt->status.ok()) {
    ++stats_.committed;
    stats_.last_checkpoint = attempt->id.value;
  } else {
    ++stats_.failed;
  }
  if (attempt_ == attempt) attempt_.reset();
  auto callbacks = std::exchange(attempt->callbacks, {});
  return {std::move(attempt), std::move(callbacks)};
}

void Core::Announce(const Ended& ended) {
  changed_.notify_all();
  for (const auto& callback : ended.callbacks) callback(ended.attempt->status);
}

bool Core::IsDone(const Attempt& attempt) const {
  std::lock_guard lock(mutex_);
  return attempt.phase == Attempt::Phase::kDone;
}

Status Core::ResultOf(const Attempt& attempt) const {
  std::lock_guard lock(mutex_);
  if (attempt.phase == Attempt::Phase::kDone) return attempt.status;
  return Status::Unavailable("checkpoint " + std::to_string(attempt.id.value) +
                             " is still on its way");
}

void Core::OnDone(Attempt* attempt, std::function<void(const Status&)> fn) {
  {
    std::lock_guard lock(mutex_);
    if (attempt->phase != Attempt::Phase::kDone) {
      attempt->callbacks.push_back(std::move(fn));
      return;
    }
  }
  fn(attempt->status);
}

StateStoreStats Core::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

// --- persisting ---------------------------------------------------------------------------------

void Core::Post(const std::shared_ptr<Attempt>& attempt) {
  if (!options_.executor) return;
  {
    std::lock_guard lock(mutex_);
    if (attempt->phase != Attempt::Phase::kReady) return;
  }
  Status refused;
  try {
    options_.executor([core = shared_from_this()] { core->PersistReady(); });
    return;
  } catch (const std::exception& thrown) {
    refused = Status::Unavailable(std::string("the executor threw: ") + thrown.what());
  } catch (...) {
    refused = Status::Unavailable("the executor threw");
  }
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    if (attempt->phase != Attempt::Phase::kReady) return;
    ended = FinishLocked(attempt, std::move(refused));
  }
  Announce(ended);
}

checkpoint::CapturedCut Core::CutOfLocked(const Attempt& attempt) const {
  checkpoint::CapturedCut cut;
  cut.parallelism = static_cast<uint32_t>(members_.size());
  checkpoint::SourceOffsets source;
  source.source = kOffsetsSource;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    const Joined& joined = *attempt.joined[i];
    source.splits.push_back({PartitionText(i), OffsetsText(joined.offsets), false});
    if (!joined.view) continue;
    checkpoint::CapturedSubtask subtask;
    subtask.subtask = i;
    subtask.tables.assign(members_[i].tables.begin(), members_[i].tables.end());
    subtask.view = joined.view;
    subtask.committed_epoch = members_[i].committed_epoch;
    cut.subtasks.push_back(std::move(subtask));
  }
  cut.sources.push_back(std::move(source));
  return cut;
}

Status Core::PersistCut(base::CheckpointId id, int64_t started_ns,
                        const checkpoint::CapturedCut& captured,
                        checkpoint::PersistedCut* persisted) {
  try {
    CAIRN_ASSIGN_OR_RETURN(*persisted, store_->Persist(id, captured, &inline_executor_));
    const int64_t took_ms = (clock_->MonotonicNanos() - started_ns) / kNanosPerMilli;
    if (took_ms < options_.checkpoint.timeout.count()) return store_->Commit(*persisted);
    const Status late =
        Status::Unavailable("checkpoint " + std::to_string(id.value) + " took " +
                            base::FormatDurationMs(took_ms) + ", longer than checkpoint.timeout");
    const Status abandoned = store_->Abandon(*persisted);
    return abandoned.ok() ? late : late.WithContext(abandoned.ToString());
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("out of memory while persisting");
  } catch (const std::exception& thrown) {
    return Status::Internal(std::string("persisting: ") + thrown.what());
  }
}

bool Core::PersistReady() {
  std::shared_ptr<Attempt> attempt;
  checkpoint::CapturedCut captured;
  {
    std::lock_guard lock(mutex_);
    if (closed_ || attempt_ == nullptr || attempt_->phase != Attempt::Phase::kReady) return false;
    attempt = attempt_;
    captured = CutOfLocked(*attempt);
    attempt->phase = Attempt::Phase::kPersisting;
  }
  checkpoint::PersistedCut persisted;
  const Status status = PersistCut(attempt->id, attempt->started_ns, captured, &persisted);
  std::string warning;
  if (status.ok()) {
    // Retirement that fails leaves work for the next one and harms nothing.
    const Result<checkpoint::RetireReport> retired = store_->Retire();
    if (!retired.ok()) warning = "old checkpoints were not removed: " + retired.status().ToString();
  }
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    if (status.ok()) {
      for (const checkpoint::CapturedSubtask& subtask : captured.subtasks) {
        members_[subtask.subtask].committed_epoch = subtask.view.epoch();
      }
      stats_.bytes_written += persisted.bytes_new;
      stats_.last_warning = std::move(warning);
    }
    captured = {};  // releases the views before anyone learns of the end
    ended = FinishLocked(std::move(attempt), status);
  }
  Announce(ended);
  return true;
}

bool Core::Poll() {
  const bool gave_up = GiveUpLate();
  return (!options_.executor && PersistReady()) || gave_up;
}

Status Core::Wait(Attempt* attempt) {
  const auto self = std::this_thread::get_id();
  for (;;) {
    Poll();
    std::unique_lock lock(mutex_);
    if (attempt->phase == Attempt::Phase::kDone) return attempt->status;
    if (attempt->phase == Attempt::Phase::kReady && !options_.executor) continue;
    if (attempt->phase == Attempt::Phase::kGathering) {
      for (uint32_t i = 0; i < members_.size(); ++i) {
        if (!attempt->joined[i].has_value() && members_[i].opened && members_[i].owner == self) {
          return Status::InvalidArgument(Named(i) +
                                         " of this thread has not joined the checkpoint; call its "
                                         "Checkpoint before waiting");
        }
      }
    }
    // Short enough to notice a time-out that nobody announces.
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
}

void Core::Close() {
  Ended ended;
  std::deque<std::shared_ptr<const BroadcastFn>> never_run;
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    changed_.wait(lock, [this] {
      return attempt_ == nullptr || attempt_->phase != Attempt::Phase::kPersisting;
    });
    if (attempt_ != nullptr) {
      ended =
          FinishLocked(attempt_, Status::Cancelled("the store was closed before it was persisted"));
    }
    never_run.swap(broadcasts_);
    cut_.reset();
    store_.reset();  // gives the place back though handles may live on
  }
  Announce(ended);
}

}  // namespace cairn::store
