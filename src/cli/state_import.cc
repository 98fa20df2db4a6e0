// SPDX-License-Identifier: Apache-2.0
#include "cli/state_import.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "base/units.h"
#include "cairn/state_domain.h"
#include "checkpoint/executor.h"
#include "checkpoint/layout.h"
#include "checkpoint/pipeline.h"
#include "checkpoint/store.h"
#include "cli/import_table.h"
#include "cli/slot_json.h"
#include "cli/state_export.h"
#include "cli/state_source.h"
#include "cli/table_file.h"
#include "cli/typed_slot.h"
#include "engine/backend_uri.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kPipelineBytesMax = uint64_t{16} << 20;

using SlotId = std::pair<OperatorId, std::string>;

/// The slots read so far.
class ImportedState {
 public:
  void set_like(const StateSource* like) { like_ = like; }
  const StateSource* like() const { return like_; }

  /// Take the number of key groups that a file says; all must say the same.
  Status TakeKeyGroups(uint32_t key_groups, const std::string& file) {
    if (like_ != nullptr && key_groups != like_->key_groups()) {
      return Status::InvalidArgument(fmt::format("'{}' is of a job with {} key groups, {} has {}",
                                                 file, key_groups, like_->Name(),
                                                 like_->key_groups()));
    }
    if (key_groups_ && *key_groups_ != key_groups) {
      return Status::InvalidArgument(
          fmt::format("'{}' is of a job with {} key groups, the files before it of {}", file,
                      key_groups, *key_groups_));
    }
    key_groups_ = key_groups;
    return {};
  }
  uint32_t key_groups() const {
    if (like_ != nullptr) return like_->key_groups();
    return key_groups_.value_or(kDefaultKeyGroups);
  }

  /// The table of a slot, made when it is new. Its description is that of the like place, where it
  /// has the slot.
  Result<ImportTable*> TableOf(SlotDescriptor slot) {
    if (like_ != nullptr) {
      const Result<std::vector<size_t>> found =
          like_->Find(base::ToHex16(slot.operator_id), slot.name);
      if (found.ok()) {
        const SlotDescriptor& there = like_->slots()[found->front()];
        if (slot.kind != there.kind) {
          return Status::InvalidArgument(
              fmt::format("slot {} is of another kind in {}", slot.name, like_->Name()));
        }
        slot = there;
      }
    }
    // A snapshot knows operators by their ids alone: an id in hex then stands for the uid.
    if (slot.operator_uid.empty()) slot.operator_uid = base::ToHex16(slot.operator_id);
    if (slot.name.empty()) {
      return Status::InvalidArgument(fmt::format(
          "operator {} has rows that belong to no named slot, which a place cannot hold",
          slot.operator_uid));
    }
    auto& table = tables_[{slot.operator_id, slot.name}];
    if (table == nullptr) table = std::make_unique<ImportTable>(std::move(slot), key_groups());
    return table.get();
  }

  bool Has(const SlotDescriptor& slot) const {
    return tables_.count({slot.operator_id, slot.name}) > 0;
  }
  const std::map<SlotId, std::unique_ptr<ImportTable>>& tables() const { return tables_; }

 private:
  const StateSource* like_ = nullptr;
  std::optional<uint32_t> key_groups_;
  std::map<SlotId, std::unique_ptr<ImportTable>> tables_;
};

/// Copy all rows of a source whose slots are not there yet.
Status TakeSource(const StateSource& source, ImportedState* state) {
  std::vector<ImportTable*> tables;
  for (const SlotDescriptor& slot : source.slots()) {
    if (&source == state->like() && state->Has(slot)) {
      tables.push_back(nullptr);
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(ImportTable * table, state->TableOf(slot));
    tables.push_back(table);
  }
  return source.ScanAll([&](const StateRow& row) -> Status {
    ImportTable* table = tables[row.slot];
    if (table == nullptr) return {};
    if (row.keyed && KeyGroupOf(row.user_key, source.key_groups()) != row.group) {
      return Status::InvalidArgument(fmt::format(
          "{}: a row of slot {} lies in key group {}, its key belongs to group {}. The snapshot "
          "was written with another partitioning",
          source.Name(), table->descriptor().name, row.group,
          KeyGroupOf(row.user_key, source.key_groups())));
    }
    table->Add(row.user_key, row.value);
    return {};
  });
}

std::string MetadataOf(const arrow::Schema& schema, std::string_view key) {
  if (schema.metadata() == nullptr) return "";
  const auto value = schema.metadata()->Get(std::string(key));
  return value.ok() ? *value : "";
}

Status TakeKeyGroupsOf(const arrow::Schema& schema, const std::string& file, ImportedState* state) {
  const std::string text = MetadataOf(schema, kKeyGroupsMetadataKey);
  if (text.empty()) return {};
  uint32_t key_groups = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key_groups);
  if (error != std::errc() || end != text.data() + text.size() || key_groups == 0 ||
      key_groups > kMaxKeyGroups) {
    return Status::InvalidArgument(fmt::format("'{}' says '{}' key groups", file, text));
  }
  return state->TakeKeyGroups(key_groups, file);
}

/// The columns of a typed table in the slot's order: other programs may have moved them.
Result<std::shared_ptr<arrow::RecordBatch>> InSlotOrder(
    const std::shared_ptr<arrow::RecordBatch>& batch, const arrow::Schema& wanted) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& field : wanted.fields()) {
    auto column = batch->GetColumnByName(field->name());
    if (column == nullptr) {
      return Status::InvalidArgument(
          fmt::format("it has no column '{}' ({})", field->name(), field->type()->ToString()));
    }
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(arrow::schema(wanted.fields()), batch->num_rows(),
                                  std::move(columns));
}

Status TakeTypedTable(const TableReader& table, SlotDescriptor slot, ImportedState* state) {
  CAIRN_ASSIGN_OR_RETURN(ImportTable * rows, state->TableOf(std::move(slot)));
  CAIRN_ASSIGN_OR_RETURN(const auto wanted, TypedSchemaOf(rows->descriptor()));
  CAIRN_ASSIGN_OR_RETURN(
      TypedSlotEncoder encoder,
      TypedSlotEncoder::Make(rows->descriptor(),
                             [rows](std::string_view user_key, std::string_view value) -> Status {
                               rows->Add(user_key, value);
                               return {};
                             }));
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, table.next());
    if (batch == nullptr) return encoder.Finish();
    CAIRN_ASSIGN_OR_RETURN(const auto ordered, InSlotOrder(batch, *wanted));
    CAIRN_RETURN_IF_ERROR(encoder.Append(*ordered));
  }
}

/// One batch of op_id, key_group, slot, user_key, value_bytes.
Status TakeOpaqueBatch(const arrow::RecordBatch& batch,
                       const std::map<SlotId, ImportTable*>& tables) {
  const auto& op = static_cast<const arrow::UInt64Array&>(*batch.column(0));
  const auto& slot = static_cast<const arrow::StringArray&>(*batch.column(2));
  const auto& key = static_cast<const arrow::BinaryArray&>(*batch.column(3));
  const auto& value = static_cast<const arrow::BinaryArray&>(*batch.column(4));
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    const auto table = tables.find({OperatorId(op.Value(row)), std::string(slot.GetView(row))});
    if (table == tables.end()) {
      return Status::InvalidArgument(
          fmt::format("a row is of operator {} slot '{}', which its description does not name",
                      base::ToHex16(OperatorId(op.Value(row))), slot.GetView(row)));
    }
    table->second->Add(key.GetView(row), value.GetView(row));
  }
  return {};
}

Status TakeOpaqueTable(const TableReader& table, const std::string& slots_text,
                       ImportedState* state) {
  const auto json = nlohmann::json::parse(slots_text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return Status::InvalidArgument("its description of slots is no JSON array");
  std::map<SlotId, ImportTable*> tables;
  for (const auto& text : json) {
    CAIRN_ASSIGN_OR_RETURN(SlotDescriptor slot, SlotFromJson(text));
    const SlotId id{slot.operator_id, slot.name};
    CAIRN_ASSIGN_OR_RETURN(tables[id], state->TableOf(std::move(slot)));
  }
  const arrow::FieldVector wanted{
      arrow::field("op_id", arrow::uint64()), arrow::field("key_group", arrow::uint16()),
      arrow::field("slot", arrow::utf8()), arrow::field("user_key", arrow::binary()),
      arrow::field("value_bytes", arrow::binary())};
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, table.next());
    if (batch == nullptr) return {};
    CAIRN_ASSIGN_OR_RETURN(const auto ordered, InSlotOrder(batch, *arrow::schema(wanted)));
    for (int i = 0; i < ordered->num_columns(); ++i) {
      if (!batch->GetColumnByName(wanted[static_cast<size_t>(i)]->name())
               ->type()
               ->Equals(wanted[static_cast<size_t>(i)]->type()) ||
          ordered->column(i)->null_count() > 0) {
        return Status::InvalidArgument(fmt::format(
            "its column '{}' is not {} without nulls", wanted[static_cast<size_t>(i)]->name(),
            wanted[static_cast<size_t>(i)]->type()->ToString()));
      }
    }
    CAIRN_RETURN_IF_ERROR(TakeOpaqueBatch(*ordered, tables));
  }
}

Status TakeTable(const std::string& file, const ImportOptions& options, ImportedState* state) {
  CAIRN_ASSIGN_OR_RETURN(const TableReader table, OpenTable(file));
  CAIRN_RETURN_IF_ERROR(TakeKeyGroupsOf(*table.schema, file, state));
  if (const std::string slot = MetadataOf(*table.schema, kSlotMetadataKey); !slot.empty()) {
    CAIRN_ASSIGN_OR_RETURN(SlotDescriptor descriptor, SlotFromText(slot));
    return TakeTypedTable(table, std::move(descriptor), state);
  }
  if (const std::string slots = MetadataOf(*table.schema, kSlotsMetadataKey); !slots.empty()) {
    return TakeOpaqueTable(table, slots, state);
  }
  if (state->like() == nullptr) {
    return Status::InvalidArgument(
        "it does not say which slot it holds. Name it with --like PLACE --operator UID --slot "
        "NAME");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto found, state->like()->Find(options.op, options.slot));
  if (found.size() != 1) {
    return Status::InvalidArgument(fmt::format(
        "it does not say which slot it holds, and {} of {} would fit. Choose one with --operator "
        "and --slot",
        found.size(), state->like()->Name()));
  }
  return TakeTypedTable(table, state->like()->slots()[found.front()], state);
}

Status TakeFile(env::FileSystem* files, const std::string& file, const ImportOptions& options,
                ImportedState* state) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolveSource(files, file));
  if (!source.is_file) {
    return Status::InvalidArgument(
        "it is a directory. Give files, or copy a place with its directory");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto opened, files->OpenForRead(file));
  char magic[6] = {};
  if (opened->size() >= sizeof(magic)) {
    CAIRN_RETURN_IF_ERROR(opened->ReadExactly(0, magic));
  }
  const std::string_view start(magic, sizeof(magic));
  if (start == "ARROW1" || start.starts_with("PAR1")) return TakeTable(file, options, state);
  CAIRN_ASSIGN_OR_RETURN(const auto snapshot, OpenStateSource(files, file));
  CAIRN_RETURN_IF_ERROR(state->TakeKeyGroups(snapshot->key_groups(), file));
  return TakeSource(*snapshot, state);
}

/// The pipeline of a place, from its own words, proven by the identity in the manifest.
Result<checkpoint::Pipeline> PipelineOf(env::FileSystem* files, const checkpoint::CutReader& cut) {
  const std::string path = env::JoinPath(cut.directory(), checkpoint::kPipelineKey);
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         env::ReadWholeFile(files, path, kPipelineBytesMax));
  checkpoint::Pipeline pipeline;
  pipeline.job = cut.place().identity->pipeline_name;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    for (const auto& [name, definition] : json.items()) {
      const size_t space = name.find(' ');
      if (space == std::string::npos) continue;
      checkpoint::PipelineComponent component;
      component.kind = name.substr(0, space);
      component.name = name.substr(space + 1);
      component.definition = definition.dump();
      // Not on record. True only makes going back behind this cut harder, never wrong.
      component.exactly_once = component.kind == "sink";
      pipeline.components.push_back(std::move(component));
    }
  }
  const auto identity = checkpoint::IdentityOf(pipeline, cut.manifest().key_groups);
  if (!identity.ok() || *identity != cut.manifest().pipeline_identity) {
    return Status::Corruption(fmt::format(
        "'{}' does not describe the pipeline of checkpoint {}, so the import could not be resumed. "
        "Run the job on that place once more, which writes it anew",
        path, cut.manifest().checkpoint_id.value));
  }
  return pipeline;
}

/// What a cut saves beside its state.
Status TakeProgress(const checkpoint::CutReader& cut, checkpoint::CapturedCut* captured) {
  CAIRN_ASSIGN_OR_RETURN(const auto loaded, cut.AsCut());
  captured->sources = loaded->sources();
  captured->sinks = loaded->sinks();
  return {};
}

Result<base::CheckpointId> CommitImport(checkpoint::CheckpointStore* store,
                                        const checkpoint::CapturedCut& captured) {
  CAIRN_RETURN_IF_ERROR(store->Recover().status());
  // Rows that a sink prepared belong to a checkpoint of the other place; none may be newer than the
  // cut that lists them.
  base::CheckpointId newest(1);
  for (const auto& sink : captured.sinks) {
    for (const auto& piece : sink.pieces) newest = std::max(newest, piece.checkpoint);
  }
  base::CheckpointId id;
  while (id < newest) {
    CAIRN_ASSIGN_OR_RETURN(id, store->NextId());
  }
  checkpoint::InlineExecutor executor;
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::PersistedCut persisted,
                         store->Persist(id, captured, &executor));
  CAIRN_RETURN_IF_ERROR(store->Commit(persisted));
  return id;
}

Status RefuseUsedPlace(env::FileSystem* files, const std::string& directory) {
  const Result<checkpoint::Place> place = checkpoint::OpenPlace(files, directory);
  if (place.ok() && !place->Cuts().empty()) {
    return Status::InvalidArgument(
        fmt::format("'{}' already holds checkpoint {}. Import into a new place", directory,
                    place->Cuts().front().id.value));
  }
  return place.ok() || place.status().code() == StatusCode::kNotFound ? Status() : place.status();
}

}  // namespace

Result<ExitCode> ImportState(env::FileSystem* files, const ImportOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const std::string directory, engine::ParsePlaceUri(options.place));
  CAIRN_RETURN_IF_ERROR(RefuseUsedPlace(files, directory));

  ImportedState state;
  checkpoint::StoreOptions store_options;
  store_options.pipeline.job = "import";
  checkpoint::CapturedCut captured;
  std::unique_ptr<StateSource> like;
  if (!options.like.empty()) {
    CAIRN_ASSIGN_OR_RETURN(like, OpenStateSource(files, options.like));
    if (like->cut() == nullptr) {
      return Status::InvalidArgument("--like must name a checkpoint place, not a snapshot file");
    }
    CAIRN_ASSIGN_OR_RETURN(store_options.pipeline, PipelineOf(files, *like->cut()));
    CAIRN_RETURN_IF_ERROR(TakeProgress(*like->cut(), &captured));
    state.set_like(like.get());
  }
  for (const std::string& file : options.files) {
    CAIRN_RETURN_IF_ERROR(TakeFile(files, file, options, &state).WithContext("'" + file + "'"));
  }
  if (like != nullptr) CAIRN_RETURN_IF_ERROR(TakeSource(*like, &state));

  store_options.key_groups = state.key_groups();
  store_options.fresh = true;
  // Sorted once without the place, so that a key that is there twice makes no place.
  for (const auto& [id, table] : state.tables()) CAIRN_RETURN_IF_ERROR(table->Seal(0));
  CAIRN_ASSIGN_OR_RETURN(const auto store,
                         checkpoint::OpenLocalStore(files, directory, store_options));
  const auto domain = StateDomain::Create({.name = "import"});
  checkpoint::CapturedSubtask subtask;
  uint64_t rows = 0;
  for (const auto& [id, table] : state.tables()) {
    CAIRN_RETURN_IF_ERROR(table->Seal(store->slot_hash_seed()));
    subtask.tables.push_back(table.get());
    rows += table->rows();
  }
  if (!subtask.tables.empty()) subtask.view = domain->Capture();
  captured.subtasks.push_back(std::move(subtask));
  CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId id, CommitImport(store.get(), captured));
  fmt::print(stderr, "cairn: imported {} rows of {} slots into {} as checkpoint {}\n",
             base::FormatCount(rows), state.tables().size(), directory, id.value);
  return ExitCode::kDone;
}

}  // namespace cairn::cli
