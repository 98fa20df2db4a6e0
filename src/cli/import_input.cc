// SPDX-License-Identifier: Apache-2.0
#include "cli/import_input.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ids.h"
#include "cairn/element_row_key.h"
#include "cairn/hash.h"
#include "cli/slot_json.h"
#include "cli/snapshot_slots.h"
#include "cli/state_export.h"
#include "cli/state_source.h"
#include "cli/table_file.h"
#include "cli/typed_slot.h"
#include "format/canonical_stream.h"
#include "format/keys.h"

namespace cairn::cli {
namespace {

using checkpoint::DuplicateRule;
using SlotId = std::pair<OperatorId, std::string>;

std::string MetadataOf(const arrow::Schema& schema, std::string_view key) {
  if (schema.metadata() == nullptr) return "";
  const auto value = schema.metadata()->Get(std::string(key));
  return value.ok() ? *value : "";
}

Status TakeKeyGroupsOf(const arrow::Schema& schema, const std::string& file, ImportTarget* target) {
  const std::string text = MetadataOf(schema, kKeyGroupsMetadataKey);
  if (text.empty()) return {};
  uint32_t key_groups = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key_groups);
  if (error != std::errc() || end != text.data() + text.size() || key_groups == 0 ||
      key_groups > kMaxKeyGroups) {
    return Status::InvalidArgument(fmt::format("'{}' says '{}' key groups", file, text));
  }
  return target->TakeKeyGroups(key_groups, file);
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

Status TakeTypedTable(const TableReader& table, SlotDescriptor slot, ImportTarget* target) {
  CAIRN_ASSIGN_OR_RETURN(ImportTarget::Slot rows, target->SlotFor(std::move(slot)));
  CAIRN_ASSIGN_OR_RETURN(const auto wanted, TypedSchemaOf(rows.saved()));
  CAIRN_ASSIGN_OR_RETURN(
      TypedSlotEncoder encoder,
      TypedSlotEncoder::Make(rows.saved(), [&](std::string_view user_key, std::string_view value) {
        return rows.Add(user_key, value);
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
                       std::map<SlotId, ImportTarget::Slot>* slots) {
  const auto& op = static_cast<const arrow::UInt64Array&>(*batch.column(0));
  const auto& slot = static_cast<const arrow::StringArray&>(*batch.column(2));
  const auto& key = static_cast<const arrow::BinaryArray&>(*batch.column(3));
  const auto& value = static_cast<const arrow::BinaryArray&>(*batch.column(4));
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    const auto found = slots->find({OperatorId(op.Value(row)), std::string(slot.GetView(row))});
    if (found == slots->end()) {
      return Status::InvalidArgument(
          fmt::format("a row is of operator {} slot '{}', which its description does not name",
                      base::ToHex16(OperatorId(op.Value(row))), slot.GetView(row)));
    }
    CAIRN_RETURN_IF_ERROR(found->second.Add(key.GetView(row), value.GetView(row)));
  }
  return {};
}

Status CheckOpaqueColumns(const arrow::RecordBatch& batch, const arrow::FieldVector& wanted) {
  for (const auto& field : wanted) {
    const auto column = batch.GetColumnByName(field->name());
    if (!column->type()->Equals(field->type()) || column->null_count() > 0) {
      return Status::InvalidArgument(fmt::format("its column '{}' is not {} without nulls",
                                                 field->name(), field->type()->ToString()));
    }
  }
  return {};
}

Status TakeOpaqueTable(const TableReader& table, const std::string& slots_text,
                       ImportTarget* target) {
  const auto json = nlohmann::json::parse(slots_text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return Status::InvalidArgument("its description of slots is no JSON array");
  std::map<SlotId, ImportTarget::Slot> slots;
  for (const auto& text : json) {
    CAIRN_ASSIGN_OR_RETURN(SlotDescriptor slot, SlotFromJson(text));
    const SlotId id{slot.operator_id, slot.name};
    CAIRN_ASSIGN_OR_RETURN(ImportTarget::Slot rows, target->SlotFor(std::move(slot)));
    slots.emplace(id, std::move(rows));
  }
  const arrow::FieldVector wanted{
      arrow::field("op_id", arrow::uint64()), arrow::field("key_group", arrow::uint16()),
      arrow::field("slot", arrow::utf8()), arrow::field("user_key", arrow::binary()),
      arrow::field("value_bytes", arrow::binary())};
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, table.next());
    if (batch == nullptr) return {};
    CAIRN_ASSIGN_OR_RETURN(const auto ordered, InSlotOrder(batch, *arrow::schema(wanted)));
    CAIRN_RETURN_IF_ERROR(CheckOpaqueColumns(*batch, wanted));
    CAIRN_RETURN_IF_ERROR(TakeOpaqueBatch(*ordered, &slots));
  }
}

/// The one slot of the declared job that a table without a description holds.
Result<SlotDescriptor> ChosenSlot(const SlotChoice& choice, const JobDeclaration* declared) {
  if (declared == nullptr) {
    return Status::InvalidArgument(
        "it does not say which slot it holds. Name it with --like PLACE or --job JOB.sql, and "
        "--operator UID --slot NAME");
  }
  std::vector<const SlotDescriptor*> found;
  for (const SlotDescriptor& slot : declared->slots) {
    const bool of_operator = choice.op.empty() || choice.op == slot.operator_uid ||
                             choice.op == base::ToHex16(slot.operator_id);
    if (of_operator && (choice.slot.empty() || choice.slot == slot.name)) found.push_back(&slot);
  }
  if (found.size() == 1) return *found.front();
  return Status::InvalidArgument(fmt::format(
      "it does not say which slot it holds, and {} of {} would fit. Choose one with --operator "
      "and --slot",
      found.size(), declared->origin));
}

Status TakeTable(const std::string& file, const SlotChoice& choice, ImportTarget* target) {
  CAIRN_ASSIGN_OR_RETURN(const TableReader table, OpenTable(file));
  CAIRN_RETURN_IF_ERROR(TakeKeyGroupsOf(*table.schema, file, target));
  if (const std::string slot = MetadataOf(*table.schema, kSlotMetadataKey); !slot.empty()) {
    CAIRN_ASSIGN_OR_RETURN(SlotDescriptor descriptor, SlotFromText(slot));
    return TakeTypedTable(table, std::move(descriptor), target);
  }
  if (const std::string slots = MetadataOf(*table.schema, kSlotsMetadataKey); !slots.empty()) {
    return TakeOpaqueTable(table, slots, target);
  }
  CAIRN_ASSIGN_OR_RETURN(SlotDescriptor slot, ChosenSlot(choice, target->declared()));
  return TakeTypedTable(table, std::move(slot), target);
}

/// A file front to back.
class FileSource final : public format::ByteSource {
 public:
  explicit FileSource(const env::RandomAccessFile* file) : file_(file) {}
  uint64_t size() const override { return file_->size(); }
  Status Read(std::span<char> out) override {
    CAIRN_RETURN_IF_ERROR(file_->ReadExactly(at_, out));
    at_ += out.size();
    return {};
  }

 private:
  const env::RandomAccessFile* file_;
  uint64_t at_ = 0;
};

/// The rows of a canonical stream, sorted to their slots as these turn up.
class SnapshotRows {
 public:
  SnapshotRows(const std::vector<format::StateVersion>& versions, ImportTarget* target)
      : versions_(versions), target_(target) {}

  Status Take(const format::CanonicalBatch& batch) {
    for (size_t i = 0; i < batch.rows.rows; ++i) {
      const format::StoredKey key = layout_.Parse(batch.rows.key(i));
      const SnapshotKey split = SplitSnapshotKey(key);
      CAIRN_ASSIGN_OR_RETURN(ImportTarget::Slot * slot,
                             SlotOfRow(OperatorId(batch.operator_ids[i]), split));
      if (key.kind == format::StoredKeyKind::kKeyed) {
        const uint32_t group =
            KeyGroupOf(GroupKeyOfRow(slot->saved(), key.user_key), layout_.key_groups());
        if (group != key.group) {
          return Status::InvalidArgument(fmt::format(
              "a row of slot {} lies in key group {}, its key belongs to group {}. The snapshot "
              "was written with another partitioning",
              split.slot, key.group, group));
        }
      }
      CAIRN_RETURN_IF_ERROR(
          slot->Add(split.user_key, batch.rows.value(i), DuplicateRule::kLaterWins));
    }
    return {};
  }

 private:
  Result<ImportTarget::Slot*> SlotOfRow(OperatorId op, const SnapshotKey& key) {
    const SlotId id{op, std::string(key.slot)};
    const auto found = slots_.find(id);
    if (found == slots_.end()) {
      CAIRN_ASSIGN_OR_RETURN(ImportTarget::Slot slot,
                             target_->SlotFor(SnapshotSlot(op, id.second, key.kind, versions_)));
      return &slots_.emplace(id, std::move(slot)).first->second;
    }
    if (IsKeyed(found->second.saved().kind) == IsKeyed(key.kind)) return &found->second;
    return Status::InvalidArgument(fmt::format(
        "operator {} has slot '{}' as keyed and as operator state", base::ToHex16(op), key.slot));
  }

  const std::vector<format::StateVersion>& versions_;
  ImportTarget* target_;
  format::KeyLayout layout_;
  std::map<SlotId, ImportTarget::Slot> slots_;
};

/// A snapshot in the canonical stream format, a batch at a time.
Status TakeSnapshot(env::FileSystem* files, const std::string& path,
                    const std::string& materialisation_store, const env::RandomAccessFile& file,
                    ImportTarget* target, SnapshotParts* parts) {
  CAIRN_RETURN_IF_ERROR(CheckSnapshotSidecar(files, path));
  FileSource source(&file);
  Result<std::unique_ptr<format::CanonicalStreamReader>> reader =
      format::CanonicalStreamReader::Open(&source);
  if (!reader.ok()) {
    // A changelog has another schema. It erases rows of its own base, so it is replayed in memory.
    const Result<std::unique_ptr<StateSource>> changelog =
        OpenStateSource(files, path, materialisation_store);
    if (!changelog.ok()) return changelog.status();
    CAIRN_RETURN_IF_ERROR(target->TakeKeyGroups((*changelog)->key_groups(), path));
    return target->TakeSource(**changelog, false, DuplicateRule::kLaterWins);
  }
  CAIRN_RETURN_IF_ERROR(target->TakeKeyGroups(kDefaultKeyGroups, path));
  if ((*reader)->part()) parts->Add(path, *(*reader)->part());
  SnapshotRows rows((*reader)->state_versions(), target);
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, (*reader)->Next());
    if (!batch) return {};
    CAIRN_RETURN_IF_ERROR(rows.Take(*batch));
  }
}

Status TakePlace(env::FileSystem* files, const std::string& input, ImportTarget* target) {
  CAIRN_ASSIGN_OR_RETURN(const auto source, OpenStateSource(files, input));
  CAIRN_RETURN_IF_ERROR(target->TakeKeyGroups(source->key_groups(), input));
  return target->TakeSource(*source, false);
}

}  // namespace

Status TakeInput(env::FileSystem* files, const std::string& input, const SlotChoice& choice,
                 const std::string& materialisation_store, ImportTarget* target,
                 SnapshotParts* parts) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolveSource(files, input));
  if (!source.is_file) return TakePlace(files, input, target);
  CAIRN_ASSIGN_OR_RETURN(const auto opened, files->OpenForRead(source.path));
  char magic[6] = {};
  if (opened->size() >= sizeof(magic)) {
    CAIRN_RETURN_IF_ERROR(opened->ReadExactly(0, magic));
  }
  const std::string_view start(magic, sizeof(magic));
  if (start == "ARROW1" || start.starts_with("PAR1")) {
    return TakeTable(source.path, choice, target);
  }
  return TakeSnapshot(files, source.path, materialisation_store, *opened, target, parts);
}

}  // namespace cairn::cli
