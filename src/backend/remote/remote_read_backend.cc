// SPDX-License-Identifier: Apache-2.0
//
// The hot tier over the remote one.
//
// Writes between two captures are a delta, which a capture freezes by moving it: no row is copied
// on the task's thread, and Persist reads what no writer touches any more. Marking rows dirty in
// one map instead makes a capture cost the dirty set and lets a writer race with it.
//
// A commit holds all frozen deltas that its base lacks, so one that failed, or was never made,
// needs no care: its delta is still frozen when the next is committed.
#include "backend/remote/remote_read_backend.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "backend/remote/layered_pool.h"
#include "backend/remote/remote_lookup.h"
#include "backend/write_rules.h"

namespace cairn::backend {
namespace {

constexpr size_t kRowsALock = 256;
constexpr uint64_t kHotFloorBytes = uint64_t{64} << 20;

MemoryBudget* BudgetOf(const RemoteReadOptions& options) {
  return options.backend.budget != nullptr ? options.backend.budget : MemoryBudget::Default();
}

uint64_t HotBytesOf(const RemoteReadOptions& options) {
  if (options.hot_max_bytes) return *options.hot_max_bytes;
  const uint64_t limit = BudgetOf(options)->limit();
  return limit == 0 ? 0 : std::max(kHotFloorBytes, limit / 4);
}

}  // namespace

class RemoteReadBackend::Captured final : public CapturedState {
 public:
  Captured(RemoteReadBackend* owner, uint64_t checkpoint_id)
      : backend(owner), id(checkpoint_id), expiry(owner->layout_) {}
  ~Captured() override {
    {
      std::lock_guard lock(backend->mutex_);
      backend->Unpin(base);
    }
    backend->RunPurges();
  }
  uint64_t checkpoint_id() const override { return id; }
  Result<BackendSnapshot> Persist() override {
    if (persisted) return *persisted;
    return backend->Persist(this);
  }

  RemoteReadBackend* const backend;
  const uint64_t id;
  // Of the moment of the capture; the base is pinned.
  uint64_t base = 0;
  uint64_t base_epoch = 0;
  uint64_t epoch = 0;
  uint64_t generation = 0;
  std::vector<StateStamp> stamps;
  ExpiryRule expiry;  // its clock stands
  std::vector<std::shared_ptr<const FrozenDelta>> deltas;
  std::optional<BackendSnapshot> persisted;
};

class RemoteReadBackend::Stamps final : public StateStamps {
 public:
  explicit Stamps(RemoteReadBackend* backend) : backend_(backend) {}
  Status Set(std::vector<StateStamp> stamps) override {
    for (const StateStamp& stamp : stamps) {
      for (const std::string& text : {stamp.state_type, stamp.slot}) {
        if (text.find_first_of("|\n") == std::string::npos) continue;
        return Status::InvalidArgument(
            "the type or slot of a schema stamp may not hold '|' or a "
            "line feed: '" +
            text + "'");
      }
    }
    std::lock_guard lock(backend_->mutex_);
    backend_->current_stamps_ = std::move(stamps);
    return {};
  }
  std::vector<StateStamp> restored() const override {
    std::lock_guard lock(backend_->mutex_);
    return backend_->restored_stamps_;
  }

 private:
  RemoteReadBackend* const backend_;
};

class RemoteReadBackend::Place final : public SnapshotPlace {
 public:
  explicit Place(RemoteReadBackend* backend) : backend_(backend) {}
  Result<std::vector<uint64_t>> List() override { return backend_->pool_->List(); }
  Status Purge(uint64_t checkpoint_id) override {
    {
      std::lock_guard lock(backend_->mutex_);
      CAIRN_RETURN_IF_ERROR(backend_->CheckOpen());
      backend_->purge_wanted_.insert(checkpoint_id);
    }
    backend_->RunPurges();
    return {};
  }

 private:
  RemoteReadBackend* const backend_;
};

/// Erases dead rows, a stretch of the key space a call.
class RemoteReadBackend::Sweeper final : public ExpirySweep {
 public:
  explicit Sweeper(RemoteReadBackend* backend) : backend_(backend) {}
  void Declare(OperatorId op, std::string_view slot) override {
    std::lock_guard lock(backend_->mutex_);
    backend_->expiry_.Declare(op, slot);
  }
  void Advance(int64_t now_ms) override {
    std::lock_guard lock(backend_->mutex_);
    backend_->expiry_.set_now_ms(now_ms);
  }
  Result<uint64_t> Sweep(uint64_t rows_max) override;

 private:
  RemoteReadBackend* const backend_;
  StateKey next_;  // where the next call begins
};

Result<uint64_t> RemoteReadBackend::Sweeper::Sweep(uint64_t rows_max) {
  ExpiryRule expiry(backend_->layout_);
  {
    std::lock_guard lock(backend_->mutex_);
    CAIRN_RETURN_IF_ERROR(backend_->CheckOpen());
    expiry = backend_->expiry_;
  }
  if (expiry.empty()) return uint64_t{0};
  std::vector<StateKey> dead;
  uint64_t looked_at = 0;
  Status status;
  StateKey next;  // the start again, when the end is reached
  CAIRN_RETURN_IF_ERROR(backend_->ScanRows(
      {next_, std::nullopt}, [&](OperatorId op, std::string_view key, std::string_view value) {
        if (looked_at++ == rows_max) {
          next = StateKey(op, std::string(key));
          return false;
        }
        const Result<bool> is_dead = expiry.IsDead({op, key}, value);
        if (!is_dead.ok()) {
          status = is_dead.status();
          return false;
        }
        if (*is_dead) dead.emplace_back(op, std::string(key));
        return true;
      }));
  CAIRN_RETURN_IF_ERROR(status);
  next_ = std::move(next);
  uint64_t removed = 0;
  for (const StateKey& key : dead) {
    std::lock_guard lock(backend_->mutex_);
    CAIRN_RETURN_IF_ERROR(backend_->CheckOpen());
    PoolValue written;  // since the scan, by another thread
    if (backend_->FindHot(key, &written)) {
      if (written == nullptr) continue;
      CAIRN_ASSIGN_OR_RETURN(const bool still_dead, expiry.IsDead(key, *written));
      if (!still_dead) continue;
    }
    CAIRN_RETURN_IF_ERROR(backend_->WriteHot(key, nullptr));
    ++removed;
  }
  return removed;
}

RemoteReadBackend::Opened RemoteReadBackend::Make(Tiers tiers, RemoteReadOptions options) {
  CAIRN_ASSIGN_OR_RETURN(tiers.layout, format::KeyLayout::ForKeyGroups(options.backend.key_groups));
  if (tiers.loader != nullptr) {
    // Written rows go to checkpoints of the process, as over disagg-local://.
    const std::shared_ptr<LayeredPoolStore> store = LayeredPoolStore::Default();
    tiers.pool = std::make_shared<LayeredPool>(store, store->MakeLocation("loader"), tiers.layout,
                                               OwnedGroups(options.backend));
    options.durable = false;
  }
  std::unique_ptr<IoThreadPool> own_io;
  if (options.io == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(own_io, IoThreadPool::Create(options.io_threads));
  }
  std::unique_ptr<RemoteReadBackend> backend(
      new RemoteReadBackend(std::move(tiers), std::move(options)));
  if (own_io != nullptr) backend->io_ = own_io.get();
  backend->own_io_ = std::move(own_io);
  return backend;
}

RemoteReadBackend::Opened RemoteReadBackend::OverPool(std::shared_ptr<RemotePool> pool,
                                                      RemoteReadOptions options) {
  return Make({std::move(pool), nullptr, {}}, std::move(options));
}

RemoteReadBackend::Opened RemoteReadBackend::OverLoader(std::shared_ptr<RemoteLoader> loader,
                                                        RemoteReadOptions options) {
  return Make({nullptr, std::move(loader), {}}, std::move(options));
}

RemoteReadBackend::RemoteReadBackend(Tiers tiers, RemoteReadOptions options)
    : options_(std::move(options)),
      layout_(tiers.layout),
      pool_(std::move(tiers.pool)),
      loader_(std::move(tiers.loader)),
      clock_(options_.clock != nullptr ? options_.clock : env::SystemClock()),
      io_(options_.io),
      reader_owner_(BudgetOf(options_)->AddOwner(options_.backend.name + " remote readers")),
      reads_(std::make_unique<Reads>(this)),
      stamps_(std::make_unique<Stamps>(this)),
      place_(std::make_unique<Place>(this)),
      sweeper_(std::make_unique<Sweeper>(this)),
      hot_(BudgetOf(options_)->AddOwner(options_.backend.name + " hot tier"), HotBytesOf(options_)),
      expiry_(layout_) {}

RemoteReadBackend::~RemoteReadBackend() { (void)Close(); }

AsyncReads* RemoteReadBackend::async_reads() { return reads_.get(); }
StateStamps* RemoteReadBackend::stamps() { return stamps_.get(); }
SnapshotPlace* RemoteReadBackend::snapshot_place() { return place_.get(); }
ExpirySweep* RemoteReadBackend::expiry() { return sweeper_.get(); }

Status RemoteReadBackend::CheckOpen() const {
  if (!closed_) return {};
  return Status::InvalidArgument("the backend " + options_.uri + " is closed");
}

bool RemoteReadBackend::FindHot(StateKeyRef key, PoolValue* value) {
  if (!hot_.Find(key, value)) return false;
  ++hot_hits_;
  return true;
}

Status RemoteReadBackend::WriteHot(StateKeyRef key, PoolValue value) {
  CAIRN_RETURN_IF_ERROR(hot_.Write(key, std::move(value)));
  if (loading_.empty()) return {};
  const auto loading = loading_.find(key);
  if (loading != loading_.end()) ++loading->second.version;
  return {};
}

void RemoteReadBackend::Unpin(uint64_t id) {
  const auto at = pins_.find(id);
  if (at != pins_.end() && --at->second == 0) pins_.erase(at);
}

Status RemoteReadBackend::ApplyEntry(const WriteEntry& entry, std::unique_lock<std::mutex>* lock) {
  const StateKeyRef key(entry.operator_id, entry.key);
  if (entry.kind == WriteKind::kErase) {
    // A row from before the prefix existed is the same row.
    const std::optional<std::string> legacy = LegacyKeyOf(layout_, entry.key);
    if (legacy) CAIRN_RETURN_IF_ERROR(WriteHot({entry.operator_id, *legacy}, nullptr));
    return WriteHot(key, nullptr);
  }
  if (entry.kind == WriteKind::kPut) {
    return WriteHot(key, std::make_shared<const std::string>(entry.value));
  }
  PoolValue before;
  if (FindHot(key, &before)) {
    CAIRN_RETURN_IF_ERROR(expiry_.Hide(key, &before));
  } else {
    lock->unlock();
    Result<StateValue> loaded = Get(entry.operator_id, entry.key);
    lock->lock();
    if (!loaded.ok()) return std::move(loaded).status();
    if (*loaded) before = std::make_shared<const std::string>(*std::move(*loaded));
  }
  const size_t bytes = before != nullptr ? before->size() : 0;
  CAIRN_RETURN_IF_ERROR(CheckMerged(options_.backend, layout_, entry, bytes));
  std::string merged = before != nullptr ? *before : std::string();
  merged.append(entry.value);
  return WriteHot(key, std::make_shared<const std::string>(std::move(merged)));
}

Status RemoteReadBackend::Apply(const WriteBatch& batch, size_t* applied) {
  size_t done = 0;
  const auto apply_all = [&]() -> Status {
    CAIRN_RETURN_IF_ERROR(CheckBatch(options_.backend, layout_, batch));
    std::unique_lock lock(mutex_);
    CAIRN_RETURN_IF_ERROR(CheckOpen());
    for (; done < batch.size(); ++done) {
      const WriteEntry entry = batch[done];
      Status status = ApplyEntry(entry, &lock);
      if (status.ok()) continue;
      if (status.code() == StatusCode::kInvalidArgument) return status;
      return status.WithContext(DescribeKey(layout_, entry.operator_id, entry.key));
    }
    return {};
  };
  Status status;
  try {
    status = apply_all();
  } catch (...) {
    status = StatusOfException(std::current_exception(), "a write");
  }
  if (applied != nullptr) *applied = done;
  return status;
}

Result<StateValue> RemoteReadBackend::Get(OperatorId op, std::string_view key) {
  {
    PoolValue value;
    std::lock_guard lock(mutex_);
    CAIRN_RETURN_IF_ERROR(CheckOpen());
    if (FindHot({op, key}, &value) && value != nullptr) {
      CAIRN_RETURN_IF_ERROR(expiry_.Hide({op, key}, &value));
      return value == nullptr ? StateValue() : StateValue(*value);
    }
  }
  const std::string_view keys[] = {key};
  std::vector<StateValue> values;
  CAIRN_RETURN_IF_ERROR(GetMany(op, keys, &values));
  return std::move(values.front());
}

Status RemoteReadBackend::GetMany(OperatorId op, std::span<const std::string_view> keys,
                                  std::vector<StateValue>* values) {
  values->clear();
  std::vector<StateKey> owned;
  owned.reserve(keys.size());
  for (const std::string_view key : keys) owned.emplace_back(op, std::string(key));
  Lookup lookup(this, std::move(owned));
  for (;;) {
    CAIRN_RETURN_IF_ERROR(lookup.Begin());
    if (lookup.done()) break;
    CAIRN_RETURN_IF_ERROR(lookup.End(lookup.MakeLoad()()));
  }
  *values = lookup.TakeValues();
  return {};
}

Result<std::unique_ptr<CapturedState>> RemoteReadBackend::Capture(uint64_t checkpoint_id) {
  if (checkpoint_id == 0) return Status::InvalidArgument("checkpoint ids start at 1");
  std::unique_ptr<Captured> captured;  // before the lock, which its end takes
  std::lock_guard lock(mutex_);
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  captured = std::make_unique<Captured>(this, checkpoint_id);
  captured->base = committed_id_;
  Pin(captured->base);
  hot_.Freeze(epoch_);
  captured->epoch = epoch_++;
  captured->generation = generation_;
  captured->base_epoch = committed_epoch_;
  captured->stamps = current_stamps_;
  captured->expiry = expiry_;
  captured->deltas.assign(hot_.frozen().begin(), hot_.frozen().end());
  return std::unique_ptr<CapturedState>(std::move(captured));
}

Status RemoteReadBackend::CommitCaptured(const Captured& captured, uint64_t base,
                                         uint64_t base_epoch, std::vector<StateStamp> stamps,
                                         DeltaRows* rows) {
  PoolCommit commit;
  commit.id = captured.id;
  commit.base = base;
  commit.stamps = std::move(stamps);
  for (auto delta = captured.deltas.rbegin(); delta != captured.deltas.rend(); ++delta) {
    if ((*delta)->epoch <= base_epoch) continue;
    for (const auto& [key, value] : (*delta)->rows) rows->try_emplace(key, value);
  }
  for (auto& [key, value] : *rows) {
    CAIRN_RETURN_IF_ERROR(captured.expiry.Hide(key, &value));
    if (value != nullptr) {
      commit.changed.push_back({key, value});
    } else if (loader_ != nullptr) {
      commit.changed.push_back({key, ErasedOverLoader()});
    } else {
      commit.deleted.push_back(key);
    }
  }
  return pool_->Commit(std::move(commit));
}

Result<BackendSnapshot> RemoteReadBackend::Persist(Captured* captured) {
  std::unique_lock one_at_a_time(persist_mutex_);
  uint64_t base = captured->base;
  uint64_t base_epoch = captured->base_epoch;
  {
    std::lock_guard lock(mutex_);
    CAIRN_RETURN_IF_ERROR(CheckOpen());
    if (captured->generation != generation_) {
      return Status::Cancelled("the state was restored since the capture of checkpoint " +
                               std::to_string(captured->id));
    }
    if (purge_wanted_.contains(captured->id)) {
      return Status::Cancelled("checkpoint " + std::to_string(captured->id) +
                               " was given up before it was saved");
    }
    // A commit made since the capture, but of an older one, leaves less to write.
    if (committed_epoch_ > base_epoch && committed_epoch_ < captured->epoch) {
      base = committed_id_;
      base_epoch = committed_epoch_;
    }
  }
  DeltaRows rows;
  Status committed;
  try {
    committed = CommitCaptured(*captured, base, base_epoch, captured->stamps, &rows);
  } catch (...) {
    committed = StatusOfException(std::current_exception(), "the remote pool");
  }
  if (!committed.ok()) {
    return committed.WithContext("checkpoint " + std::to_string(captured->id) +
                                 " was not saved; its changes are in the next");
  }
  BackendSnapshot snapshot;
  snapshot.checkpoint_id = captured->id;
  snapshot.form = SnapshotForm::kStored;
  snapshot.location = pool_->location();
  captured->persisted = snapshot;
  bool newest = false;
  {
    std::lock_guard lock(mutex_);
    newest = captured->epoch > committed_epoch_;
    if (newest) {
      committed_id_ = captured->id;
      committed_epoch_ = captured->epoch;
      hot_.Thaw(captured->epoch);
    }
    last_snapshot_bytes_ = 0;
    for (const auto& [key, value] : rows) {
      last_snapshot_bytes_ += key.key.size() + (value != nullptr ? value->size() : 0);
    }
  }
  if (newest) CacheCommitted(rows, captured->generation);
  one_at_a_time.unlock();
  RunPurges();
  return snapshot;
}

void RemoteReadBackend::CacheCommitted(const DeltaRows& rows, uint64_t generation) {
  // No later commit can end meanwhile: a row that is newer still lies in a delta, which Cache sees.
  auto row = rows.begin();
  while (row != rows.end()) {
    std::lock_guard lock(mutex_);
    if (generation != generation_ || closed_) return;
    for (size_t i = 0; i < kRowsALock && row != rows.end(); ++i, ++row) {
      hot_.Cache(row->first, row->second);
    }
  }
}

void RemoteReadBackend::RunPurges() {
  for (;;) {
    // Whoever holds the lock runs the purges when it lets go.
    std::unique_lock one_at_a_time(persist_mutex_, std::try_to_lock);
    if (!one_at_a_time) return;
    uint64_t next = 0;
    {
      std::lock_guard lock(mutex_);
      const int64_t now = clock_->MonotonicNanos() / 1'000'000;
      for (Reader& reader : readers_) {
        if (reader.expired || now - reader.since_ms <= options_.reader_age_max_ms) continue;
        reader.expired = true;
        Unpin(reader.checkpoint);
      }
      for (const uint64_t id : purge_wanted_) {
        if (id == committed_id_ || pins_.contains(id)) continue;
        next = id;
        break;
      }
      if (next == 0) return;
    }
    Status purged;
    try {
      purged = pool_->Purge(next);
    } catch (...) {
      purged = StatusOfException(std::current_exception(), "the remote pool");
    }
    if (!purged.ok()) return;  // still wanted; tried again after the next commit
    std::lock_guard lock(mutex_);
    purge_wanted_.erase(next);
  }
}

Result<RestoreCounts> RemoteReadBackend::Restore(std::span<const RestorePart> parts) {
  std::vector<const RestorePart*> order;
  uint64_t id = 0;
  for (const RestorePart& part : parts) {
    if (part.snapshot.form != SnapshotForm::kStored || part.snapshot.checkpoint_id == 0) {
      return Status::InvalidArgument(
          "a remote backend restores the checkpoints of remote backends; bring other snapshots in "
          "with `cairn state import`");
    }
    order.push_back(&part);
    id = std::max(id, part.snapshot.checkpoint_id);
  }
  const uint32_t own = options_.backend.subtask;
  std::sort(order.begin(), order.end(), [&](const RestorePart* a, const RestorePart* b) {
    return std::pair(a->subtask != own, a->subtask) < std::pair(b->subtask != own, b->subtask);
  });
  std::vector<PoolPart> sources;
  for (const RestorePart* part : order) {
    const std::string& location = part->snapshot.location;
    sources.push_back(
        {location.empty() ? pool_->location() : location, part->snapshot.checkpoint_id});
  }
  std::lock_guard one_at_a_time(persist_mutex_);
  {
    std::lock_guard lock(mutex_);
    CAIRN_RETURN_IF_ERROR(CheckOpen());
  }
  PoolRestored restored;
  if (!sources.empty()) {
    try {
      CAIRN_ASSIGN_OR_RETURN(restored,
                             pool_->PrepareRestore(id, sources, OwnedGroups(options_.backend)));
    } catch (...) {
      return StatusOfException(std::current_exception(), "the remote pool");
    }
  }
  std::lock_guard lock(mutex_);
  ++generation_;
  hot_.Clear();
  committed_id_ = id;
  committed_epoch_ = epoch_++;
  restored_stamps_ = restored.stamps;
  current_stamps_ = std::move(restored.stamps);
  purge_wanted_.erase(id);
  return RestoreCounts{restored.rows, restored.skipped};
}

BackendDescription RemoteReadBackend::Describe() const {
  BackendDescription description;
  description.uri = options_.uri;
  description.durable = options_.durable;
  description.any_thread = true;
  description.incremental = true;
  uint64_t committed = 0;
  {
    std::lock_guard lock(mutex_);
    const HotTierCounts counts = hot_.counts();
    committed = committed_id_;
    description.rows = counts.dirty_rows;
    description.memory_bytes = counts.resident_bytes + reader_owner_->bytes();
    description.view_bytes = reader_owner_->bytes();
    description.last_checkpoint_id = committed_id_;
    description.last_snapshot_bytes = last_snapshot_bytes_;
  }
  if (const Result<uint64_t> rows = pool_->CountRows(committed); rows.ok()) {
    description.rows += *rows;  // an estimate: a dirty row may be durable too
  }
  return description;
}

RemoteReadStats RemoteReadBackend::stats() const {
  RemoteReadStats stats;
  stats.hot_hits = hot_hits_.load();
  stats.cold_keys = cold_keys_.load();
  stats.cold_reads = cold_reads_.load();
  std::lock_guard lock(mutex_);
  stats.hot = hot_.counts();
  stats.open_readers = readers_.size();
  const int64_t now = clock_->MonotonicNanos() / 1'000'000;
  for (const Reader& reader : readers_) {
    stats.oldest_reader_ms = std::max(stats.oldest_reader_ms, now - reader.since_ms);
  }
  stats.reader_bytes = reader_owner_->bytes();
  stats.purges_waiting = purge_wanted_.size();
  return stats;
}

Status RemoteReadBackend::Close() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return {};
    hot_.Clear();
  }
  if (own_io_ != nullptr) own_io_->Shutdown();
  return {};
}

}  // namespace cairn::backend
