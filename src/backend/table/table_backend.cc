// SPDX-License-Identifier: Apache-2.0
#include "backend/table/table_backend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backend/snapshot_stream.h"
#include "backend/write_rules.h"

namespace cairn::backend {
namespace {

using format::StoredKey;
using format::StoredKeyKind;

/// A row's columns have 32-bit offsets, and a part is cut after the row that fills it.
constexpr uint64_t kValueBytesMax = (uint64_t{1} << 31) - (uint64_t{64} << 20);

/// Between batches some garbage of released views is returned, little at a time.
constexpr uint64_t kAppliesAPoll = 16;
constexpr size_t kPollSteps = 1;
/// All garbage there is, before a write is refused.
constexpr size_t kPollAll = 1 << 20;

}  // namespace

/// A capture of the tables: written where and when it is persisted.
class TableBackend::Captured final : public CapturedState {
 public:
  Captured(TableBackend* backend, std::shared_ptr<const TableCut> cut, uint64_t checkpoint_id)
      : backend_(backend),
        cut_(std::move(cut)),
        checkpoint_id_(checkpoint_id),
        incarnation_(backend->incarnation()) {}

  uint64_t checkpoint_id() const override { return checkpoint_id_; }

  Result<BackendSnapshot> Persist() override {
    if (backend_->incarnation() != incarnation_) {
      return Status::Cancelled("the backend was restored since checkpoint " +
                               std::to_string(checkpoint_id_) + " was captured");
    }
    return backend_->PersistCut(*cut_, checkpoint_id_);
  }

 private:
  TableBackend* const backend_;
  const std::shared_ptr<const TableCut> cut_;
  const uint64_t checkpoint_id_;
  const uint64_t incarnation_;
};

TableBackend::TableBackend(TableBackendOptions options, const format::KeyLayout& layout)
    : options_(std::move(options)),
      layout_(layout),
      owned_(OwnedGroups(options_.state)),
      now_ms_(std::numeric_limits<int64_t>::min()) {
  options_.state.value_bytes_max = std::min(options_.state.value_bytes_max, kValueBytesMax);
  for (size_t i = 0; i < std::max<size_t>(1, options_.shards); ++i) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->tables = NewSet(i);
  }
}

TableBackend::~TableBackend() = default;

Result<std::unique_ptr<TableBackend>> TableBackend::Open(TableBackendOptions options) {
  CAIRN_ASSIGN_OR_RETURN(const format::KeyLayout layout,
                         format::KeyLayout::ForKeyGroups(options.state.key_groups));
  if (options.state.parallelism == 0 || options.state.subtask >= options.state.parallelism) {
    return Status::InvalidArgument("subtask " + std::to_string(options.state.subtask) + " of " +
                                   std::to_string(options.state.parallelism) + " does not exist");
  }
  std::unique_ptr<SnapshotFiles> snapshots;
  if (options.files != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(snapshots,
                           SnapshotFiles::Open(options.files, options.directory,
                                               {"checkpoint", ".snap", options.fsync, true}));
  }
  std::unique_ptr<TableBackend> backend(new TableBackend(std::move(options), layout));
  backend->snapshots_ = std::move(snapshots);
  return backend;
}

Status TableBackend::CheckOpen() const {
  if (open_.load(std::memory_order_acquire)) return {};
  return Status::InvalidArgument("the backend " + options_.uri + " is closed");
}

std::shared_ptr<TableSet> TableBackend::NewSet(size_t shard) const {
  const std::string name = shards_.size() <= 1 && options_.shards <= 1
                               ? options_.state.name
                               : options_.state.name + " shard " + std::to_string(shard);
  return std::make_shared<TableSet>(options_.state, layout_, &catalog_, name,
                                    options_.track_deltas);
}

std::unique_lock<std::mutex> TableBackend::Lock(const Shard& shard) const {
  return shards_.size() == 1 ? std::unique_lock<std::mutex>()
                             : std::unique_lock<std::mutex>(shard.mutex);
}

std::vector<std::unique_lock<std::mutex>> TableBackend::LockAll() const {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& shard : shards_) locks.push_back(Lock(*shard));
  return locks;
}

Status TableBackend::DeclareSlot(const SlotDescriptor& descriptor, SlotMaker maker) {
  CAIRN_RETURN_IF_ERROR(format::ValidateSlotName(descriptor.name));
  const auto locks = LockAll();
  SlotDeclaration& declared = catalog_[{descriptor.operator_id, descriptor.name}];
  declared.descriptor = descriptor;
  declared.maker = std::move(maker);
  return {};
}

// --- writes ------------------------------------------------------------------------------------

Status TableBackend::Apply(const WriteBatch& batch, size_t* applied) {
  if (applied != nullptr) *applied = 0;
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  CAIRN_RETURN_IF_ERROR(CheckBatch(options_.state, layout_, batch));
  std::unique_lock<std::mutex> lock;
  Shard* held = nullptr;
  for (size_t i = 0; i < batch.size(); ++i) {
    const WriteEntry entry = batch[i];
    const StoredKey key = layout_.Parse(entry.key);
    Shard* shard = shards_[ShardOf(key)].get();
    if (shard != held) {
      if (lock.owns_lock()) lock.unlock();
      lock = Lock(*shard);
      held = shard;
    }
    CAIRN_RETURN_IF_ERROR(ApplyEntry(entry, key, shard->tables.get()));
    if (applied != nullptr) *applied = i + 1;
  }
  if (held != nullptr && ++held->applies % kAppliesAPoll == 0) {
    held->tables->domain()->Poll(kPollSteps);
  }
  return {};
}

Status TableBackend::ApplyEntry(const WriteEntry& entry, const StoredKey& key, TableSet* set) {
  const int64_t now_ms = now_ms_.load(std::memory_order_relaxed);
  uint64_t rows = 0;
  Status status = set->Apply(entry, key, now_ms, &rows);
  if (status.code() == StatusCode::kResourceExhausted) {
    // What released views left behind may be enough.
    set->domain()->Poll(kPollAll);
    status = set->Apply(entry, key, now_ms, &rows);
  }
  rows_.fetch_add(rows, std::memory_order_relaxed);
  if (status.code() != StatusCode::kResourceExhausted) return status;
  return status.WithContext(DescribeKey(layout_, entry.operator_id, entry.key));
}

// --- reads -------------------------------------------------------------------------------------

Result<std::optional<std::string>> TableBackend::Get(OperatorId op, std::string_view key) {
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  const StoredKey parsed = layout_.Parse(key);
  const Shard& shard = *shards_[ShardOf(parsed)];
  std::optional<std::string> value;
  const auto lock = Lock(shard);
  CAIRN_RETURN_IF_ERROR(
      shard.tables->Get(op, parsed, now_ms_.load(std::memory_order_relaxed), &value));
  return value;
}

Status TableBackend::GetMany(OperatorId op, std::span<const std::string_view> keys,
                             std::vector<std::optional<std::string>>* values) {
  values->clear();
  for (const std::string_view key : keys) {
    Result<std::optional<std::string>> value = Get(op, key);
    if (!value.ok()) {
      values->clear();
      return value.status();
    }
    values->push_back(*std::move(value));
  }
  return {};
}

std::vector<SetCut> TableBackend::CutLocked() const {
  std::vector<SetCut> sets;
  for (const auto& shard : shards_) {
    SetCut cut{shard->tables, shard->tables->tables(), shard->tables->domain()->Capture()};
    sets.push_back(std::move(cut));
  }
  return sets;
}

std::shared_ptr<const TableCut> TableBackend::CutTables() {
  const auto locks = LockAll();
  return std::make_shared<TableCut>(CutLocked(), layout_, owned_,
                                    now_ms_.load(std::memory_order_relaxed));
}

Status TableBackend::Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) {
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  std::shared_ptr<const TableCut> cut;
  TableCut::OperatorRows operator_rows;
  {
    const auto locks = LockAll();
    cut = std::make_shared<TableCut>(CutLocked(), layout_, owned_,
                                     now_ms_.load(std::memory_order_relaxed));
    operator_rows = shards_[0]->tables->VisibleOperatorRows(op);
  }
  return cut->VisitRange(op, range, operator_rows, [&](OperatorId, const EncodedRow& row) {
    return visit(row.key, row.value);
  });
}

// --- captures ----------------------------------------------------------------------------------

Result<std::unique_ptr<CapturedState>> TableBackend::Capture(uint64_t checkpoint_id) {
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  return std::unique_ptr<CapturedState>(
      std::make_unique<Captured>(this, CutTables(), checkpoint_id));
}

Status TableBackend::WriteCanonical(const TableCut& cut, format::ByteSink* sink) const {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotWriter> writer,
                         SnapshotWriter::Open(sink, current_stamps()));
  Status status;
  CAIRN_RETURN_IF_ERROR(cut.VisitBase([&](OperatorId op, const EncodedRow& row) {
    status = writer->Add(op, row.key, row.value);
    return status.ok();
  }));
  CAIRN_RETURN_IF_ERROR(status);
  return writer->Finish();
}

Result<BackendSnapshot> TableBackend::PersistCut(const TableCut& cut, uint64_t checkpoint_id) {
  BackendSnapshot snapshot;
  snapshot.checkpoint_id = checkpoint_id;
  uint64_t bytes = 0;
  if (snapshots_ == nullptr) {
    StringSink sink;
    CAIRN_RETURN_IF_ERROR(WriteCanonical(cut, &sink));
    bytes = sink.bytes().size();
    snapshot.bytes = std::move(sink.bytes());
  } else {
    CAIRN_ASSIGN_OR_RETURN(bytes, snapshots_->Write(checkpoint_id, [&](format::ByteSink* sink) {
      return WriteCanonical(cut, sink);
    }));
    snapshot.form = SnapshotForm::kStored;
    snapshot.location = snapshots_->PathOf(checkpoint_id);
  }
  NotePersisted(checkpoint_id, bytes);
  return snapshot;
}

void TableBackend::NotePersisted(uint64_t checkpoint_id, uint64_t bytes) {
  std::lock_guard lock(figures_mutex_);
  last_checkpoint_id_ = checkpoint_id;
  last_snapshot_bytes_ = bytes;
}

void TableBackend::SetCommitted(const std::vector<uint64_t>& epochs) {
  const auto locks = LockAll();
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i]->tables->domain()->SetCommitted(epochs[i]);
  }
}

// --- restore -----------------------------------------------------------------------------------

/// Fills new table sets; the backend's own stay until all went well.
struct TableBackend::Loader {
  const TableBackend* backend;
  std::vector<std::shared_ptr<TableSet>> sets;
  RestoreCounts counts;
  uint64_t rows = 0;
  std::vector<StateStamp> stamps;

  Status Take(const RestorePart& part, base::SavedRowKind kind, OperatorId op, std::string_view key,
              std::string_view value) {
    const format::KeyLayout& layout = backend->layout_;
    const StoredKey parsed = layout.Parse(key);
    if (parsed.kind == StoredKeyKind::kKeyed) {
      if (KeyGroupOf(parsed.user_key, layout.key_groups()) != parsed.group) {
        return Status::Corruption(DescribeKey(layout, op, key) +
                                  ": saved under another key group than its own");
      }
      if (!backend->owned_.Contains(parsed.group)) {
        ++counts.skipped;
        return {};
      }
    }
    ++counts.rows;
    TableSet* set = sets[backend->ShardOf(parsed)].get();
    const BackendOptions& own = backend->options_.state;
    const bool peers = part.subtask != own.subtask || part.parallelism != own.parallelism;
    if (parsed.kind == StoredKeyKind::kOperatorState && peers) {
      rows += kind == base::SavedRowKind::kErase ? -1 : 1;
      return set->LoadPeerRow(op, part.subtask, part.parallelism, kind, parsed.user_key, value);
    }
    WriteEntry entry{WriteKind::kPut, op, key, value};
    if (kind == base::SavedRowKind::kErase) entry.kind = WriteKind::kErase;
    return set->Apply(entry, parsed, std::numeric_limits<int64_t>::min(), &rows);
  }

  Status Load(const RestorePart& part, std::string_view bytes, const RestoreHooks& hooks) {
    const RowTaker take = [&](base::SavedRowKind kind, OperatorId op, std::string_view key,
                              std::string_view value) { return Take(part, kind, op, key, value); };
    if (part.snapshot.form == SnapshotForm::kChangelog) {
      CAIRN_ASSIGN_OR_RETURN(const format::ChangelogStream log, format::ReadChangelogStream(bytes));
      std::string fetched;
      std::string_view base = log.materialisation_value;
      if (hooks.fetch_base) {
        CAIRN_ASSIGN_OR_RETURN(fetched, hooks.fetch_base(part, log));
        base = fetched;
      } else if (log.materialisation == format::ChangelogRowKind::kMaterialisedHandle) {
        return Status::InvalidArgument(
            "its materialisation is kept outside; restore it with the changelog backend that "
            "wrote it");
      }
      CAIRN_RETURN_IF_ERROR(LoadCanonical(base, take));
      if (hooks.base_loaded) hooks.base_loaded(Cut());
      return ForEachRow(log.batches, take);
    }
    return LoadCanonical(bytes, take);
  }

  Status LoadCanonical(std::string_view bytes, const RowTaker& take) {
    CAIRN_ASSIGN_OR_RETURN(const format::CanonicalStream stream,
                           format::ReadCanonicalStream(bytes));
    if (stamps.empty()) stamps = ToStamps(stream.state_versions);
    return ForEachRow(stream.batches, take);
  }

  std::vector<SetCut> Cut() const {
    std::vector<SetCut> cut;
    for (const auto& set : sets) cut.push_back({set, set->tables(), set->domain()->Capture()});
    return cut;
  }
};

Result<std::string> TableBackend::BytesOf(const RestorePart& part) const {
  const BackendSnapshot& snapshot = part.snapshot;
  if (snapshot.form != SnapshotForm::kStored) return snapshot.bytes;
  if (snapshots_ == nullptr) {
    return Status::InvalidArgument(options_.uri + " keeps no snapshots; checkpoint " +
                                   std::to_string(snapshot.checkpoint_id) +
                                   " must be given as bytes");
  }
  return snapshots_->Read(snapshot.location.empty() ? snapshots_->PathOf(snapshot.checkpoint_id)
                                                    : snapshot.location);
}

Result<RestoreCounts> TableBackend::Restore(std::span<const RestorePart> parts) {
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  std::vector<RestorePart> read;
  for (const RestorePart& part : parts) {
    RestorePart& with_bytes = read.emplace_back(part);
    CAIRN_ASSIGN_OR_RETURN(with_bytes.snapshot.bytes, BytesOf(part));
    if (part.snapshot.form == SnapshotForm::kStored) {
      with_bytes.snapshot.form = SnapshotForm::kCanonical;
    }
  }
  return RestoreBytes(read, {});
}

Result<RestoreCounts> TableBackend::RestoreBytes(std::span<const RestorePart> parts,
                                                 const RestoreHooks& hooks) {
  Loader loader{this, {}, {}, 0, {}};
  for (size_t i = 0; i < shards_.size(); ++i) loader.sets.push_back(NewSet(i));
  uint64_t id = 0;
  for (const RestorePart& part : parts) {
    const Status status = loader.Load(part, part.snapshot.bytes, hooks);
    if (!status.ok()) {
      return status.WithContext("restoring checkpoint " +
                                std::to_string(part.snapshot.checkpoint_id) + " of subtask " +
                                std::to_string(part.subtask));
    }
    id = std::max(id, part.snapshot.checkpoint_id);
  }
  {
    const auto locks = LockAll();
    for (size_t i = 0; i < shards_.size(); ++i) shards_[i]->tables = loader.sets[i];
    rows_.store(loader.rows, std::memory_order_relaxed);
    incarnation_.fetch_add(1, std::memory_order_acq_rel);
  }
  std::lock_guard lock(figures_mutex_);
  last_checkpoint_id_ = id;
  restored_stamps_ = std::move(loader.stamps);
  // They stay in later snapshots until others are set.
  if (stamps_.empty()) stamps_ = restored_stamps_;
  return loader.counts;
}

// --- the rest ----------------------------------------------------------------------------------

BackendDescription TableBackend::Describe() const {
  BackendDescription description;
  description.uri = options_.uri;
  description.durable = snapshots_ != nullptr;
  description.any_thread = shards_.size() > 1;
  description.rows = rows_.load(std::memory_order_relaxed);
  for (const auto& shard : shards_) {
    const auto lock = Lock(*shard);
    description.memory_bytes += shard->tables->domain()->MemoryBytes();
    description.view_bytes += shard->tables->domain()->ViewBytes();
  }
  std::lock_guard lock(figures_mutex_);
  description.last_checkpoint_id = last_checkpoint_id_;
  description.last_snapshot_bytes = last_snapshot_bytes_;
  return description;
}

Status TableBackend::Close() {
  if (!open_.exchange(false)) return {};
  const auto locks = LockAll();
  for (size_t i = 0; i < shards_.size(); ++i) shards_[i]->tables = NewSet(i);
  incarnation_.fetch_add(1, std::memory_order_acq_rel);
  rows_.store(0);
  return {};
}

std::vector<StateStamp> TableBackend::current_stamps() const {
  std::lock_guard lock(figures_mutex_);
  return stamps_;
}

Status TableBackend::Set(std::vector<StateStamp> stamps) {
  CAIRN_RETURN_IF_ERROR(format::PackStateVersions(ToStateVersions(stamps)).status());
  std::lock_guard lock(figures_mutex_);
  stamps_ = std::move(stamps);
  return {};
}

std::vector<StateStamp> TableBackend::restored() const {
  std::lock_guard lock(figures_mutex_);
  return restored_stamps_;
}

Result<std::vector<uint64_t>> TableBackend::List() { return snapshots_->ListValid(); }

Status TableBackend::Purge(uint64_t checkpoint_id) { return snapshots_->Purge(checkpoint_id); }

void TableBackend::Declare(OperatorId op, std::string_view slot) {
  const auto locks = LockAll();
  catalog_[{op, std::string(slot)}].expiring = true;
  for (const auto& shard : shards_) shard->tables->ForgetList();
}

void TableBackend::Advance(int64_t now_ms) { now_ms_.store(now_ms, std::memory_order_relaxed); }

Result<uint64_t> TableBackend::Sweep(uint64_t rows_max) {
  CAIRN_RETURN_IF_ERROR(CheckOpen());
  const int64_t now_ms = now_ms_.load(std::memory_order_relaxed);
  std::vector<std::pair<OperatorId, std::string>> slots;
  {
    const auto locks = LockAll();
    for (const auto& [slot, declared] : catalog_) {
      if (declared.expiring) slots.push_back(slot);
    }
  }
  const size_t steps = slots.size() * owned_.size();
  uint64_t removed = 0;
  uint64_t looked_at = 0;
  for (size_t step = 0; step < steps && looked_at < rows_max; ++step) {
    sweep_next_ = sweep_next_ % steps;
    const auto& [op, name] = slots[sweep_next_ / owned_.size()];
    const uint32_t group = owned_.first + static_cast<uint32_t>(sweep_next_ % owned_.size());
    ++sweep_next_;
    Shard& shard = *shards_[group % shards_.size()];
    const auto lock = Lock(shard);
    for (const OperatorTables& tables : *shard.tables->tables()) {
      if (tables.id != op) continue;
      for (const SlotRef& slot : tables.slots) {
        if (slot.name != name) continue;
        CAIRN_ASSIGN_OR_RETURN(const uint64_t swept,
                               shard.tables->SweepGroup(slot, op, group, now_ms, &looked_at));
        removed += swept;
      }
    }
    shard.tables->domain()->Poll(kPollSteps);
  }
  rows_.fetch_sub(removed, std::memory_order_relaxed);
  return removed;
}

}  // namespace cairn::backend
