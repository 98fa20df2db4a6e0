// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/cut_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cairn/state_domain.h"
#include "checkpoint/executor.h"
#include "checkpoint/place.h"
#include "checkpoint/store.h"
#include "env/object_place.h"
#include "format/keys.h"

namespace cairn::checkpoint {
namespace {

/// One slot of a merge, in the form in which the store takes tables. The store encodes slots in the
/// order of the merge, so all slots share it and none looks ahead.
class SortedTable final : public StateTable {
 public:
  SortedTable(const RowSorter& sorter, size_t slot, uint64_t rows, uint32_t key_groups,
              RowMerge* merge)
      : descriptor_(sorter.slots()[slot]),
        slot_(slot),
        rows_(rows),
        bytes_(sorter.bytes(slot)),
        key_groups_(key_groups),
        merge_(merge) {}

  const SlotDescriptor& descriptor() const override { return descriptor_; }
  KeyGroupRange key_groups() const override {
    return {0, IsKeyed(descriptor_.kind) ? key_groups_ : 1};
  }
  Status EncodeBase(const View&, KeyGroupRange range, SavedRowSink* sink) const override {
    SavedRows* out = nullptr;
    uint32_t group = 0;
    for (const SortedRow* row = merge_->row();
         row != nullptr && row->slot == slot_ && range.Contains(row->group); row = merge_->row()) {
      if (out == nullptr || group != row->group) {
        group = row->group;
        CAIRN_ASSIGN_OR_RETURN(out, sink->BeginGroup(group));
      }
      const auto at =
          out->Append(SavedRowKind::kMaterialised, row->user_key.size(), row->value.size());
      row->user_key.copy(at.key, row->user_key.size());
      row->value.copy(at.value, row->value.size());
      if (out->bytes() >= kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
      CAIRN_RETURN_IF_ERROR(merge_->Next());
    }
    return {};
  }
  Status EncodeDelta(const View&, uint64_t, KeyGroupRange, SavedRowSink*) const override {
    return Status::Internal("the first cut of a place is no delta");
  }
  Status Load(const SavedRowSpan&, size_t, size_t, LoadCounts*) override {
    return Status::Internal("sorted rows are not restored");
  }
  uint64_t CountRows(const View&) const override { return rows_; }
  uint64_t MemoryBytes() const override { return bytes_; }

 private:
  SlotDescriptor descriptor_;
  size_t slot_;
  uint64_t rows_;
  uint64_t bytes_;
  uint32_t key_groups_;
  RowMerge* merge_;
};

/// An id that is not older than what the deployment's sinks may have published.
Result<base::CheckpointId> TakeId(CheckpointStore* store, base::CheckpointId origin,
                                  const std::vector<PreparedSink>& sinks) {
  base::CheckpointId newest = std::max(origin, base::CheckpointId(1));
  for (const PreparedSink& sink : sinks) {
    for (const PreparedPiece& piece : sink.pieces) newest = std::max(newest, piece.checkpoint);
  }
  base::CheckpointId id;
  while (id < newest) {
    CAIRN_ASSIGN_OR_RETURN(id, store->NextId());
  }
  return id;
}

/// What there is of a place that holds no checkpoint.
Result<Place> UnusedPlace(env::FileSystem* files, const std::string& directory) {
  CAIRN_ASSIGN_OR_RETURN(const auto objects, env::OpenObjects(files, directory));
  CAIRN_ASSIGN_OR_RETURN(Place place, ReadPlace(objects.get()));
  if (place.Cuts().empty()) return place;
  return Status::InvalidArgument(
      fmt::format("'{}' already holds checkpoint {}. Import into a new place", directory,
                  place.Cuts().front().id.value));
}

}  // namespace

Status GoOnFrom(const CutReader& cut, CutBuilderOptions* options) {
  CAIRN_ASSIGN_OR_RETURN(const auto loaded, cut.AsCut());
  options->sources = loaded->sources();
  options->sinks = loaded->sinks();
  if (cut.place().identity) options->deployment_id = cut.place().identity->deployment_id;
  options->origin = loaded->id();
  return {};
}

Status RefuseUsedPlace(env::FileSystem* files, const std::string& directory) {
  return UnusedPlace(files, directory).status();
}

Result<std::unique_ptr<CutBuilder>> CutBuilder::Open(CutBuilderOptions options) {
  if (options.random == nullptr) options.random = env::SystemRandom();
  std::unique_ptr<CutBuilder> builder(new CutBuilder(std::move(options)));
  CAIRN_RETURN_IF_ERROR(builder->ReadSeed());
  RowSorter::Options sorter;
  sorter.files = builder->options_.files;
  sorter.scratch =
      fmt::format("{}.scratch-{:016x}", builder->options_.place, builder->options_.random->Next());
  sorter.memory_bytes = builder->options_.memory_bytes;
  sorter.key_groups = builder->options_.key_groups;
  sorter.slot_hash_seed = builder->seed_;
  builder->sorter_ = std::make_unique<RowSorter>(std::move(sorter));
  return builder;
}

/// The slot-hash seed decides the order of rows, so it is fixed before the place is there. A place
/// whose making was cut short has one already.
Status CutBuilder::ReadSeed() {
  seed_ = options_.random->Next();
  CAIRN_ASSIGN_OR_RETURN(const Place place, UnusedPlace(options_.files, options_.place));
  if (place.identity) seed_ = place.identity->slot_hash.seed;
  return {};
}

Result<size_t> CutBuilder::AddSlot(SlotDescriptor slot) {
  CAIRN_RETURN_IF_ERROR(format::ValidateSlotName(slot.name));
  if (FindSlot(slot.operator_id, slot.name)) {
    return Status::InvalidArgument(
        fmt::format("operator {} slot {} was added already", slot.operator_uid, slot.name));
  }
  return sorter_->AddSlot(std::move(slot));
}

std::optional<size_t> CutBuilder::FindSlot(OperatorId op, std::string_view name) const {
  for (size_t i = 0; i < slots().size(); ++i) {
    if (slots()[i].operator_id == op && slots()[i].name == name) return i;
  }
  return std::nullopt;
}

Status CutBuilder::Add(size_t slot, std::string_view user_key, std::string_view value,
                       DuplicateRule rule) {
  return sorter_->Add(slot, user_key, value, rule);
}

/// A pass over all rows: finds keys that come twice before anything is written.
Result<std::vector<uint64_t>> CutBuilder::CountRows() {
  std::vector<uint64_t> rows(slots().size());
  CAIRN_ASSIGN_OR_RETURN(const auto merge, sorter_->Merge());
  while (merge->row() != nullptr) {
    ++rows[merge->row()->slot];
    CAIRN_RETURN_IF_ERROR(merge->Next());
  }
  return rows;
}

Result<base::CheckpointId> CutBuilder::Write(const std::vector<uint64_t>& rows) {
  StoreOptions store_options;
  store_options.pipeline = options_.pipeline;
  store_options.key_groups = options_.key_groups;
  store_options.slot_hash_seed = seed_;
  store_options.deployment_id = options_.deployment_id;
  store_options.fresh = true;
  store_options.clock = options_.clock;
  store_options.random = options_.random;
  CAIRN_ASSIGN_OR_RETURN(const auto store,
                         OpenStoreAt(options_.files, options_.place, store_options));
  CAIRN_RETURN_IF_ERROR(store->Recover().status());
  const std::string& deployment_id = options_.deployment_id;
  if (store->slot_hash_seed() != seed_ ||
      (!deployment_id.empty() && store->deployment_id() != deployment_id)) {
    return Status::InvalidArgument(
        fmt::format("'{}' was begun by another job; choose a new place", options_.place));
  }
  CAIRN_ASSIGN_OR_RETURN(const auto merge, sorter_->Merge());
  std::vector<std::unique_ptr<SortedTable>> tables;
  const auto domain = StateDomain::Create({.name = "import"});
  CapturedCut captured;
  captured.sources = options_.sources;
  captured.sinks = options_.sinks;
  CapturedSubtask subtask;
  for (size_t i = 0; i < slots().size(); ++i) {
    tables.push_back(
        std::make_unique<SortedTable>(*sorter_, i, rows[i], options_.key_groups, merge.get()));
    subtask.tables.push_back(tables.back().get());
  }
  if (!subtask.tables.empty()) subtask.view = domain->Capture();
  captured.subtasks.push_back(std::move(subtask));
  CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id,
                         TakeId(store.get(), options_.origin, captured.sinks));
  InlineExecutor executor;
  CAIRN_ASSIGN_OR_RETURN(const PersistedCut persisted, store->Persist(id, captured, &executor));
  if (merge->row() != nullptr ||
      persisted.rows_new != std::accumulate(rows.begin(), rows.end(), uint64_t{0})) {
    CAIRN_RETURN_IF_ERROR(store->Abandon(persisted));
    return Status::Internal("the cut was not written in the order of its rows");
  }
  CAIRN_RETURN_IF_ERROR(store->Commit(persisted));
  return id;
}

Result<BuiltCut> CutBuilder::Commit() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> rows, CountRows());
  BuiltCut built;
  CAIRN_ASSIGN_OR_RETURN(built.id, Write(rows));
  built.rows = std::accumulate(rows.begin(), rows.end(), uint64_t{0});
  return built;
}

}  // namespace cairn::checkpoint
