// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_store.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "engine/options.h"
#include "store/core.h"

namespace cairn {
inline namespace v0 {
namespace {

/// Hundreds of pieces of garbage that are freed between two looks at the clock.
constexpr size_t kPollSteps = 1;
/// Rows that are swept between two looks at the clock: some microseconds.
constexpr size_t kSweepSteps = 64;

/// True for as long as it lives, whichever way its scope is left.
class RaisedFlag {
 public:
  explicit RaisedFlag(bool* flag) : flag_(flag) { *flag_ = true; }
  ~RaisedFlag() { *flag_ = false; }
  RaisedFlag(const RaisedFlag&) = delete;
  RaisedFlag& operator=(const RaisedFlag&) = delete;

 private:
  bool* const flag_;
};

}  // namespace

Status StateStoreOptions::Set(std::string_view name, std::string_view value) {
  if (name == "view.staleness") {
    CAIRN_ASSIGN_OR_RETURN(const int64_t staleness_ms, base::ParseDurationMs(value));
    view.staleness = std::chrono::milliseconds(staleness_ms);
    return {};
  }
  engine::Options all;
  CAIRN_RETURN_IF_ERROR(engine::SetOption(name, value, &all));
  if (name == "checkpoint.interval") {
    checkpoint.interval = std::chrono::milliseconds(all.checkpoint_interval_ms);
  } else if (name == "checkpoint.timeout") {
    checkpoint.timeout = std::chrono::milliseconds(all.checkpoint_timeout_ms);
  } else if (name == "checkpoint.retained") {
    checkpoint.retained = all.checkpoint_retained;
  } else if (name == "checkpoint.rebase_chunks") {
    checkpoint.rebase_chunks = all.checkpoint_rebase_chunks;
  } else if (name == "checkpoint.max_concurrent_uploads") {
    checkpoint.max_concurrent_uploads = all.checkpoint_max_concurrent_uploads;
  } else if (name == "state.key_groups") {
    state.key_groups = all.state_key_groups;
  } else if (name == "state.memory_budget") {
    state.memory_budget = all.state_memory_budget;
  } else if (name == "fs.fsync") {
    fs.fsync = all.fs_fsync;
  } else {
    return Status::InvalidArgument("option " + std::string(name) +
                                   " is of jobs; a store does not have it");
  }
  return {};
}

// --- CheckpointHandle ---------------------------------------------------------------------------

uint64_t CheckpointHandle::id() const { return attempt_->id.value; }
bool CheckpointHandle::done() const { return core_->IsDone(*attempt_); }
Status CheckpointHandle::result() const { return core_->ResultOf(*attempt_); }
Status CheckpointHandle::Wait() { return core_->Wait(attempt_.get()); }
void CheckpointHandle::OnDone(std::function<void(const Status&)> fn) {
  core_->OnDone(attempt_.get(), std::move(fn));
}

// --- Partition ----------------------------------------------------------------------------------

Partition::Partition(std::shared_ptr<store::Core> core, uint32_t index)
    : core_(std::move(core)), state_(std::make_unique<store::PartitionState>()) {
  const StateStoreOptions& options = core_->options();
  state_->index = index;
  state_->range = KeyGroupsOfSubtask(index, options.partitions, options.state.key_groups);
  state_->owner = std::this_thread::get_id();
  state_->domain = StateDomain::Create({options.name + " partition " + std::to_string(index),
                                        core_->budget(), !core_->place().empty()});
  state_->published_ns = core_->NowNanos();
}

Partition::~Partition() = default;

uint32_t Partition::index() const { return state_->index; }
KeyGroupRange Partition::key_groups() const { return state_->range; }
uint64_t Partition::MemoryBytes() const { return state_->domain->MemoryBytes(); }

Status Partition::CheckThread() const {
  if (state_->owner == std::this_thread::get_id()) return {};
  return Status::InvalidArgument("partition " + std::to_string(state_->index) +
                                 " belongs to the thread that opened it; call it there");
}

RuntimeContext* Partition::Operator(std::string_view uid) {
  const auto found = state_->operators.find(uid);
  if (found != state_->operators.end()) return found->second.get();
  OperatorPlace place;
  place.uid = uid;
  place.subtask = state_->index;
  place.parallelism = core_->options().partitions;
  place.key_groups = core_->options().state.key_groups;
  place.range = state_->range;
  place.slot_hash_seed = core_->slot_hash_seed();
  place.domain = state_->domain.get();
  auto context = std::make_unique<RuntimeContext>(std::move(place));
  if (state_->sealed) context->Seal();
  RuntimeContext* const made = context.get();
  state_->operators.emplace(std::string(uid), std::move(context));
  return made;
}

Result<Recovered> Partition::Recover() {
  CAIRN_RETURN_IF_ERROR(CheckThread());
  if (state_->sealed) {
    return Status::InvalidArgument("partition " + std::to_string(state_->index) +
                                   " has been recovered; open the store anew to do it again");
  }
  std::vector<StateTable*> tables;
  for (const auto& [uid, context] : state_->operators) {
    context->Seal();
    for (StateTable* table : context->tables()) tables.push_back(table);
  }
  state_->sealed = true;
  Recovered recovered;
  CAIRN_RETURN_IF_ERROR(core_->ReadOffsets(state_->index, &recovered));
  checkpoint::LoadReceipt receipt;
  std::optional<uint64_t> epoch;
  if (const checkpoint::Cut* cut = core_->cut(); cut != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(receipt, cut->LoadSubtask(tables));
    recovered.rows = receipt.rows;
    // What was loaded is in the cut: the next checkpoint saves what changes from here on.
    epoch = state_->domain->Capture().epoch();
    state_->domain->SetCommitted(*epoch);
    state_->applied_epoch = *epoch;
  }
  CAIRN_RETURN_IF_ERROR(core_->NoteRecovered(state_->index, {tables.begin(), tables.end()}, epoch,
                                             std::move(receipt)));
  state_->recovered = true;
  state_->domain->AdvanceWallTime(core_->UnixMillis());
  return recovered;
}

Result<CheckpointHandle> Partition::Checkpoint(std::string_view offsets) {
  CAIRN_RETURN_IF_ERROR(CheckThread());
  if (!state_->recovered) {
    return Status::InvalidArgument("partition " + std::to_string(state_->index) +
                                   ": no checkpoint before Recover has succeeded");
  }
  if (offsets.size() > StateStore::kOffsetBytesMax) {
    return Status::InvalidArgument(
        "offsets of " + std::to_string(offsets.size()) + " bytes; at most " +
        std::to_string(StateStore::kOffsetBytesMax) + " are saved: keep the rest in keyed state");
  }
  ApplyCommitted();
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<store::Attempt> attempt,
                           core_->Join(state_->index, state_->domain.get(), offsets));
    if (attempt != nullptr) return CheckpointHandle(core_, std::move(attempt));
    // The checkpoint has begun, so what this partition has to run before it joins is settled.
    CAIRN_RETURN_IF_ERROR(RunBroadcasts().status());
  }
}

Result<size_t> Partition::RunBroadcasts() {
  CAIRN_RETURN_IF_ERROR(CheckThread());
  if (!state_->recovered || state_->broadcasting) {
    return Status::InvalidArgument("partition " + std::to_string(state_->index) +
                                   (state_->broadcasting
                                        ? ": a function that was broadcast runs no other"
                                        : ": no broadcast before Recover has succeeded"));
  }
  const RaisedFlag broadcasting(&state_->broadcasting);
  size_t count = 0;
  while (const auto fn = core_->NextBroadcast(state_->index)) {
    CAIRN_RETURN_IF_ERROR((*fn)(this));
    core_->NoteBroadcast(state_->index);
    ++count;
  }
  return count;
}

bool Partition::CheckpointDue() const { return state_->recovered && core_->IsDue(state_->index); }

Status Partition::AdvanceTime(TimeDomain domain, int64_t time_ms) {
  CAIRN_RETURN_IF_ERROR(CheckThread());
  if (!state_->recovered) {
    return Status::InvalidArgument("partition " + std::to_string(state_->index) +
                                   ": no timer fires before Recover has succeeded");
  }
  for (const auto& [uid, context] : state_->operators) {
    CAIRN_RETURN_IF_ERROR(context->AdvanceTime(domain, time_ms));
  }
  return {};
}

Status Partition::AdvanceWatermark(int64_t time_ms) {
  if (CheckThread().ok() && state_->recovered) state_->domain->AdvanceEventTime(time_ms);
  return AdvanceTime(TimeDomain::kEvent, time_ms);
}

Status Partition::AdvanceClock(int64_t unix_ms) {
  return AdvanceTime(TimeDomain::kProcessing, unix_ms);
}

std::optional<int64_t> Partition::NextTimer(TimeDomain domain) const {
  std::optional<int64_t> first;
  for (const auto& [uid, context] : state_->operators) {
    const std::optional<int64_t> next = context->NextTimer(domain);
    if (next.has_value()) first = std::min(first.value_or(*next), *next);
  }
  return first;
}

void Partition::ApplyCommitted() {
  const std::optional<uint64_t> committed = core_->committed_epoch(state_->index);
  if (!committed.has_value() || *committed <= state_->applied_epoch) return;
  state_->domain->SetCommitted(*committed);
  state_->applied_epoch = *committed;
}

void Partition::Publish() {
  const int64_t now_ns = core_->NowNanos();
  std::lock_guard lock(state_->view_mutex);
  if (!state_->view_wanted) return;
  const int64_t staleness_ns = std::chrono::nanoseconds(core_->options().view.staleness).count();
  if (state_->published && now_ns - state_->published_ns < staleness_ns) return;
  state_->published = state_->domain->Capture();
  state_->published_ns = now_ns;
  state_->view_wanted = false;
}

void Partition::Maintain(std::chrono::nanoseconds budget) {
  if (!CheckThread().ok()) return;
  ApplyCommitted();
  Publish();
  // Not before the saved state is there, which knows what the clocks showed.
  if (state_->recovered) state_->domain->AdvanceWallTime(core_->UnixMillis());
  const int64_t end_ns = core_->NowNanos() + budget.count();
  bool more = true;
  while (more && core_->NowNanos() < end_ns) {
    const uint64_t before = state_->domain->ViewBytes();
    state_->domain->Poll(kPollSteps);
    more = Sweep() || state_->domain->ViewBytes() != before;
  }
}

bool Partition::Sweep() {
  size_t steps = 0;
  for (const auto& [uid, context] : state_->operators) {
    for (StateTable* table : context->tables()) steps += table->Maintain(kSweepSteps);
  }
  return steps > 0;
}

View Partition::Capture() { return state_->domain->Capture(); }

View Partition::LatestView() {
  std::lock_guard lock(state_->view_mutex);
  state_->view_wanted = true;
  return state_->published;
}

// --- StateStore ---------------------------------------------------------------------------------

StateStore::StateStore(std::shared_ptr<store::Core> core)
    : core_(std::move(core)), partitions_(core_->options().partitions) {}

StateStore::~StateStore() { core_->Close(); }

Result<std::unique_ptr<StateStore>> StateStore::Open(std::string_view uri, Options options) {
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<store::Core> core,
                         store::Core::Open(uri, std::move(options), {}));
  return FromCore(std::move(core));
}

Result<std::unique_ptr<SavepointWriter>> StateStore::Seed(const std::string& directory,
                                                          const Options& options,
                                                          std::string_view offsets) {
  return store::SeedStore({}, directory, options, offsets);
}

std::unique_ptr<StateStore> StateStore::FromCore(std::shared_ptr<store::Core> core) {
  return std::unique_ptr<StateStore>(new StateStore(std::move(core)));
}

Result<Partition*> StateStore::OpenPartition(uint32_t index) {
  CAIRN_RETURN_IF_ERROR(core_->ClaimPartition(index));
  // Each element is touched by the one thread that claimed it.
  partitions_[index].reset(new Partition(core_, index));
  return partitions_[index].get();
}

void StateStore::Broadcast(BroadcastFn fn) { core_->Broadcast(std::move(fn)); }

uint32_t StateStore::partitions() const { return core_->options().partitions; }

uint32_t StateStore::PartitionOfBytes(std::string_view key_bytes) const {
  const uint32_t key_groups = core_->options().state.key_groups;
  return OwnerOfKeyGroup(KeyGroupOf(key_bytes, key_groups), partitions(), key_groups);
}

bool StateStore::Poll() { return core_->Poll(); }
StateStoreStats StateStore::stats() const { return core_->stats(); }
const std::string& StateStore::place() const { return core_->place(); }
std::vector<std::string> StateStore::notes() const { return core_->notes(); }

}  // namespace v0
}  // namespace cairn
