// SPDX-License-Identifier: Apache-2.0
#include "backend/changelog/changelog_backend.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "backend/snapshot_stream.h"
#include "format/changelog_stream.h"

namespace cairn::backend {
namespace {

using format::ChangelogRowKind;

constexpr char kMaterialisations[] = "materializations";

std::string LastPart(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string DirectoryPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(path.substr(0, slash));
}

}  // namespace

/// The changes since a base, in batches.
struct ChangelogBackend::Log {
  struct Part {
    base::SavedRows rows;
    std::vector<uint64_t> operators;
  };
  std::vector<std::unique_ptr<Part>> parts;
  uint64_t bytes = 0;

  void Add(OperatorId op, const EncodedRow& row) {
    if (parts.empty() || parts.back()->rows.bytes() >= base::kSavedRowsFlushBytes) {
      parts.push_back(std::make_unique<Part>());
    }
    Part& part = *parts.back();
    const size_t before = part.rows.bytes();
    const base::SavedRows::Slot to = part.rows.Append(row.kind, row.key.size(), row.value.size());
    if (!row.key.empty()) std::memcpy(to.key, row.key.data(), row.key.size());
    if (!row.value.empty()) std::memcpy(to.value, row.value.data(), row.value.size());
    part.operators.push_back(op.value);
    bytes += part.rows.bytes() - before + sizeof(uint64_t);
  }
};

class ChangelogBackend::Captured final : public CapturedState {
 public:
  Captured(ChangelogBackend* backend, std::shared_ptr<const TableCut> cut, uint64_t checkpoint_id)
      : backend_(backend),
        cut_(std::move(cut)),
        checkpoint_id_(checkpoint_id),
        incarnation_(backend->tables_->incarnation()) {}

  uint64_t checkpoint_id() const override { return checkpoint_id_; }
  Result<BackendSnapshot> Persist() override {
    return backend_->Persist(*cut_, checkpoint_id_, incarnation_);
  }

 private:
  ChangelogBackend* const backend_;
  const std::shared_ptr<const TableCut> cut_;
  const uint64_t checkpoint_id_;
  const uint64_t incarnation_;
};

ChangelogBackend::~ChangelogBackend() = default;

Result<std::unique_ptr<ChangelogBackend>> ChangelogBackend::Open(ChangelogOptions options) {
  std::unique_ptr<ChangelogBackend> backend(new ChangelogBackend(std::move(options)));
  TableBackendOptions tables = backend->options_.tables;
  if (tables.files != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(backend->snapshots_,
                           SnapshotFiles::Open(tables.files, tables.directory,
                                               {"changelog", ".snap", tables.fsync, true}));
  }
  backend->store_ = backend->options_.store;
  if (backend->store_ == nullptr && tables.files != nullptr &&
      !backend->options_.inline_materialisations) {
    CAIRN_ASSIGN_OR_RETURN(
        backend->store_,
        FileMaterialisationStore::Open(
            tables.files, env::JoinPath(tables.directory, kMaterialisations), tables.fsync));
  }
  MemoryBudget* budget =
      tables.state.budget != nullptr ? tables.state.budget : MemoryBudget::Default();
  backend->memory_ = budget->AddOwner(tables.state.name + " materialisation");
  tables.files = nullptr;
  tables.track_deltas = true;
  CAIRN_ASSIGN_OR_RETURN(backend->tables_, TableBackend::Open(std::move(tables)));
  return backend;
}

// --- captures ----------------------------------------------------------------------------------

Result<std::unique_ptr<CapturedState>> ChangelogBackend::Capture(uint64_t checkpoint_id) {
  CAIRN_RETURN_IF_ERROR(tables_->CheckOpen());
  {
    // Only the tables' writer may raise the epoch that their tombstones wait for.
    std::lock_guard lock(committed_mutex_);
    if (committed_ && committed_->incarnation == tables_->incarnation()) {
      tables_->SetCommitted(committed_->epochs);
    }
    committed_.reset();
  }
  return std::unique_ptr<CapturedState>(
      std::make_unique<Captured>(this, tables_->CutTables(), checkpoint_id));
}

Result<BackendSnapshot> ChangelogBackend::Persist(const TableCut& cut, uint64_t checkpoint_id,
                                                  uint64_t incarnation) {
  std::lock_guard lock(mutex_);
  if (tables_->incarnation() != incarnation) {
    return Status::Cancelled("the backend was restored since checkpoint " +
                             std::to_string(checkpoint_id) + " was captured");
  }
  const bool asked = materialise_next_.exchange(false, std::memory_order_acq_rel);
  Log log;
  CAIRN_ASSIGN_OR_RETURN(const bool fits, CollectLog(cut, incarnation, &log));
  if (fits && !asked) return WriteSnapshot(*base_, log, checkpoint_id);
  Result<BackendSnapshot> snapshot = [&]() -> Result<BackendSnapshot> {
    CAIRN_ASSIGN_OR_RETURN(Base base, Materialise(cut, checkpoint_id, incarnation));
    Result<BackendSnapshot> written = WriteSnapshot(base, Log(), checkpoint_id);
    if (!written.ok()) {
      // Left behind it would be collected with the next purge.
      if (store_ != nullptr) (void)store_->Remove(base.handle).ok();
      return written;
    }
    CAIRN_RETURN_IF_ERROR(TakeBase(std::move(base)));
    return written;
  }();
  if (!snapshot.ok() && asked) MaterializeNow();
  return snapshot;
}

// Collects the changes since the base; false when a new base is due instead.
Result<bool> ChangelogBackend::CollectLog(const TableCut& cut, uint64_t incarnation,
                                          Log* log) const {
  if (!base_ || base_->incarnation != incarnation) return false;
  // A cut that is older than the base was persisted late: it stands for itself.
  const std::vector<uint64_t> epochs = cut.epochs();
  for (size_t i = 0; i < epochs.size(); ++i) {
    if (epochs[i] < base_->epochs[i]) return false;
  }
  const uint64_t most = std::max(options_.rebase_bytes_min, base_->size / 2);
  CAIRN_RETURN_IF_ERROR(cut.VisitDelta(base_->epochs, [&](OperatorId op, const EncodedRow& row) {
    log->Add(op, row);
    return log->bytes <= most;
  }));
  return log->bytes <= most;
}

Result<ChangelogBackend::Base> ChangelogBackend::Materialise(const TableCut& cut,
                                                             uint64_t checkpoint_id,
                                                             uint64_t incarnation) {
  Base base;
  base.epochs = cut.epochs();
  base.incarnation = incarnation;
  if (store_ != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(MaterialisationStore::Kept kept,
                           store_->Put(checkpoint_id, [&](format::ByteSink* sink) {
                             return tables_->WriteCanonical(cut, sink);
                           }));
    base.handle = std::move(kept.handle);
    base.size = kept.bytes;
  } else {
    StringSink sink;
    CAIRN_RETURN_IF_ERROR(tables_->WriteCanonical(cut, &sink));
    base.size = sink.bytes().size();
    base.bytes = std::make_shared<const std::string>(std::move(sink.bytes()));
  }
  materialisations_.fetch_add(1);
  return base;
}

// Makes `base` the one that later logs stand on, unless it is older than the one there is.
Status ChangelogBackend::TakeBase(Base base) {
  if (base_ && base_->incarnation == base.incarnation && base.epochs < base_->epochs) return {};
  if (base.bytes != nullptr) {
    const uint64_t before = memory_->bytes();
    // It is in memory already; refusing it would free nothing before the snapshot is done.
    memory_->Force(base.size);
    memory_->Release(before);
  }
  base_ = base;
  std::lock_guard lock(committed_mutex_);
  base.bytes.reset();
  committed_ = std::move(base);
  return {};
}

Status ChangelogBackend::WriteFrame(const Base& base, const Log& log,
                                    format::ByteSink* sink) const {
  const bool outside = store_ != nullptr;
  CAIRN_ASSIGN_OR_RETURN(
      const std::unique_ptr<format::ChangelogStreamWriter> writer,
      format::ChangelogStreamWriter::Open(
          sink,
          outside ? ChangelogRowKind::kMaterialisedHandle : ChangelogRowKind::kMaterialisedInline,
          outside ? std::string_view(base.handle) : std::string_view(*base.bytes)));
  for (const auto& part : log.parts) {
    CAIRN_RETURN_IF_ERROR(writer->Append(part->operators, part->rows.Span()));
  }
  return writer->Finish();
}

Result<BackendSnapshot> ChangelogBackend::WriteSnapshot(const Base& base, const Log& log,
                                                        uint64_t checkpoint_id) {
  BackendSnapshot snapshot;
  snapshot.checkpoint_id = checkpoint_id;
  snapshot.form = SnapshotForm::kChangelog;
  uint64_t bytes = 0;
  if (snapshots_ == nullptr) {
    StringSink sink;
    CAIRN_RETURN_IF_ERROR(WriteFrame(base, log, &sink));
    bytes = sink.bytes().size();
    snapshot.bytes = std::move(sink.bytes());
  } else {
    CAIRN_ASSIGN_OR_RETURN(bytes, snapshots_->Write(checkpoint_id, [&](format::ByteSink* sink) {
      return WriteFrame(base, log, sink);
    }));
    snapshot.form = SnapshotForm::kStored;
    snapshot.location = snapshots_->PathOf(checkpoint_id);
    handles_[checkpoint_id] = base.handle;
  }
  tables_->NotePersisted(checkpoint_id, bytes);
  return snapshot;
}

// --- restore -----------------------------------------------------------------------------------

Result<RestorePart> ChangelogBackend::ReadPart(const RestorePart& part) const {
  RestorePart read = part;
  BackendSnapshot& snapshot = read.snapshot;
  if (snapshot.form != SnapshotForm::kStored) return read;
  if (snapshots_ == nullptr) {
    return Status::InvalidArgument("changelog:// keeps no snapshots; checkpoint " +
                                   std::to_string(snapshot.checkpoint_id) +
                                   " must be given as bytes");
  }
  CAIRN_ASSIGN_OR_RETURN(
      snapshot.bytes,
      snapshots_->Read(snapshot.location.empty() ? snapshots_->PathOf(snapshot.checkpoint_id)
                                                 : snapshot.location));
  snapshot.form = SnapshotForm::kChangelog;
  return read;
}

bool ChangelogBackend::IsOwnPlace(const RestorePart& part) const {
  return part.snapshot.location.empty() || snapshots_ == nullptr ||
         DirectoryPart(part.snapshot.location) == snapshots_->directory();
}

// A materialisation lies beside the snapshot that names it, in this place or in another's.
Result<std::string> ChangelogBackend::ReadOutside(const RestorePart& part,
                                                  const std::string& handle) const {
  if (IsOwnPlace(part)) return store_->Get(handle);
  const std::string theirs =
      env::JoinPath(DirectoryPart(part.snapshot.location), kMaterialisations);
  return snapshots_->Read(env::JoinPath(theirs, handle));
}

// The bytes of a part's materialisation; what is known of it goes to `base`.
Result<std::string> ChangelogBackend::FetchBase(const RestorePart& part,
                                                const format::ChangelogStream& log,
                                                Base* base) const {
  const bool outside = log.materialisation == ChangelogRowKind::kMaterialisedHandle;
  if (outside && store_ == nullptr) {
    return Status::InvalidArgument(
        "its materialisation is kept outside, this backend keeps them inside; open it with the "
        "materialisation store it was written with");
  }
  if (!outside && store_ != nullptr) {
    return Status::InvalidArgument(
        "its materialisation is inside, this backend keeps them in a store; open it without one");
  }
  std::string bytes(log.materialisation_value);
  if (outside) {
    base->handle = LastPart(log.materialisation_value);
    bytes.clear();
    if (!base->handle.empty()) {
      CAIRN_ASSIGN_OR_RETURN(bytes, ReadOutside(part, base->handle));
    }
  } else {
    base->bytes = std::make_shared<const std::string>(bytes);
  }
  base->size = bytes.size();
  return bytes;
}

Result<RestoreCounts> ChangelogBackend::Restore(std::span<const RestorePart> parts) {
  CAIRN_RETURN_IF_ERROR(tables_->CheckOpen());
  std::lock_guard lock(mutex_);
  std::vector<RestorePart> read;
  for (const RestorePart& part : parts) {
    CAIRN_ASSIGN_OR_RETURN(RestorePart with_bytes, ReadPart(part));
    read.push_back(std::move(with_bytes));
  }
  Base base;
  TableBackend::RestoreHooks hooks;
  hooks.fetch_base = [&](const RestorePart& part, const format::ChangelogStream& log) {
    return FetchBase(part, log, &base);
  };
  hooks.base_loaded = [&](const std::vector<SetCut>& cut) {
    base.epochs.clear();
    for (const SetCut& set : cut) base.epochs.push_back(set.view.epoch());
  };
  CAIRN_ASSIGN_OR_RETURN(const RestoreCounts counts, tables_->RestoreBytes(read, hooks));
  base_.reset();
  memory_->Release(memory_->bytes());
  base.incarnation = tables_->incarnation();
  // Only this subtask's own materialisation, all of it, is one that its later logs can stand on.
  const BackendOptions& own = tables_->options();
  if (read.size() == 1 && read[0].snapshot.form == SnapshotForm::kChangelog && base.size > 0 &&
      IsOwnPlace(read[0]) && read[0].subtask == own.subtask &&
      read[0].parallelism == own.parallelism) {
    tables_->SetCommitted(base.epochs);
    CAIRN_RETURN_IF_ERROR(TakeBase(std::move(base)));
  }
  return counts;
}

// --- the place ---------------------------------------------------------------------------------

// The handle in a snapshot file; empty when its materialisation is inside.
Result<std::string> ChangelogBackend::HandleIn(uint64_t checkpoint_id) {
  const auto known = handles_.find(checkpoint_id);
  if (known != handles_.end()) return known->second;
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes,
                         snapshots_->Read(snapshots_->PathOf(checkpoint_id)));
  CAIRN_ASSIGN_OR_RETURN(const format::ChangelogStream log, format::ReadChangelogStream(bytes));
  std::string handle;
  if (log.materialisation == ChangelogRowKind::kMaterialisedHandle) {
    handle = LastPart(log.materialisation_value);
  }
  handles_[checkpoint_id] = handle;
  return handle;
}

Status ChangelogBackend::Purge(uint64_t checkpoint_id) {
  std::lock_guard lock(mutex_);
  CAIRN_RETURN_IF_ERROR(snapshots_->Purge(checkpoint_id));
  handles_.erase(checkpoint_id);
  return CollectMaterialisations();
}

// Removes the materialisations that no snapshot names. One that cannot be read may name any.
Status ChangelogBackend::CollectMaterialisations() {
  if (store_ == nullptr) return {};
  std::set<std::string> named;
  if (base_) named.insert(base_->handle);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, snapshots_->ListAll());
  for (const uint64_t id : ids) {
    Result<std::string> handle = HandleIn(id);
    if (!handle.ok()) {
      return handle.status().WithContext("no materialisation was removed");
    }
    named.insert(*std::move(handle));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> all, store_->List());
  for (const std::string& handle : all) {
    if (!named.contains(handle)) CAIRN_RETURN_IF_ERROR(store_->Remove(handle));
  }
  return {};
}

BackendDescription ChangelogBackend::Describe() const {
  BackendDescription description = tables_->Describe();
  description.durable = snapshots_ != nullptr;
  description.incremental = true;
  description.memory_bytes += memory_->bytes();
  return description;
}

Status ChangelogBackend::Close() {
  std::lock_guard lock(mutex_);
  base_.reset();
  memory_->Release(memory_->bytes());
  return tables_->Close();
}

Result<std::string> CanonicaliseChangelog(std::string_view bytes,
                                          const FetchMaterialisation& fetch) {
  CAIRN_ASSIGN_OR_RETURN(const format::ChangelogStream log, format::ReadChangelogStream(bytes));
  std::string kept(log.materialisation_value);
  if (log.materialisation == ChangelogRowKind::kMaterialisedHandle) {
    if (!fetch) {
      return Status::InvalidArgument("its materialisation '" + kept +
                                     "' is kept outside; name the materialisation store");
    }
    if (!kept.empty()) {
      CAIRN_ASSIGN_OR_RETURN(kept, fetch(kept));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const format::CanonicalStream base, format::ReadCanonicalStream(kept));
  std::map<std::pair<uint64_t, std::string_view>, std::string_view> rows;
  const RowTaker take = [&](base::SavedRowKind kind, OperatorId op, std::string_view key,
                            std::string_view value) {
    if (kind == base::SavedRowKind::kErase) {
      rows.erase({op.value, key});
    } else {
      rows[{op.value, key}] = value;
    }
    return Status();
  };
  CAIRN_RETURN_IF_ERROR(ForEachRow(base.batches, take));
  CAIRN_RETURN_IF_ERROR(ForEachRow(log.batches, take));
  StringSink sink;
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotWriter> writer,
                         SnapshotWriter::Open(&sink, ToStamps(base.state_versions)));
  for (const auto& [at, value] : rows) {
    CAIRN_RETURN_IF_ERROR(writer->Add(OperatorId(at.first), at.second, value));
  }
  CAIRN_RETURN_IF_ERROR(writer->Finish());
  return std::move(sink.bytes());
}

}  // namespace cairn::backend
