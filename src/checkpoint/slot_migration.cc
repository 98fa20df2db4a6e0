// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/slot_migration.h"

#include <fmt/format.h>

#include "cairn/element_row_key.h"

namespace cairn::checkpoint {
namespace {

constexpr std::string_view kRowCodec = "row";
constexpr size_t kExpiryStampBytes = 8;

std::string Declaration(const std::string& codec, uint32_t version,
                        const std::vector<base::ColumnSpec>& columns) {
  std::string text = fmt::format("{} version {}", codec, version);
  if (!columns.empty()) text += " " + format::DescribeColumns(columns);
  return text;
}

std::string ValueDeclaration(const format::SlotRecord& slot) {
  return Declaration(slot.value_codec, slot.version, slot.value_columns);
}

Status Refused(const format::SlotRecord& saved, const format::SlotRecord& wanted,
               std::string_view why) {
  return Status::InvalidArgument(fmt::format("slot {} was saved as {}, this job declares {}: {}",
                                             saved.name, ValueDeclaration(saved),
                                             ValueDeclaration(wanted), why));
}

Status CheckShape(const format::SlotRecord& saved, const format::SlotRecord& wanted) {
  if (saved.kind != wanted.kind) {
    return Status::InvalidArgument(
        fmt::format("slot {} was saved as {}, this job declares it as {}", saved.name, saved.kind,
                    wanted.kind));
  }
  if (saved.element_key_codec && wanted.element_key_codec &&
      saved.element_key_codec != wanted.element_key_codec) {
    return Status::InvalidArgument(
        fmt::format("slot {} was saved with map keys {}, this job declares {}. Keys do not migrate",
                    saved.name, *saved.element_key_codec, *wanted.element_key_codec));
  }
  if (saved.key_codec != wanted.key_codec || saved.key_columns != wanted.key_columns) {
    return Status::InvalidArgument(fmt::format(
        "slot {} was saved with keys {}, this job declares {}. Keys do not migrate: make a new "
        "state of the exported rows with `cairn state import`",
        saved.name, saved.key_codec + " " + format::DescribeColumns(saved.key_columns),
        wanted.key_codec + " " + format::DescribeColumns(wanted.key_columns)));
  }
  return {};
}

}  // namespace

Result<SlotMigration> SlotMigration::Plan(const format::SlotRecord& saved,
                                          const format::SlotRecord& wanted,
                                          const MigrationRegistry* migrations) {
  CAIRN_RETURN_IF_ERROR(CheckShape(saved, wanted));
  SlotMigration plan;
  if (saved.ttl_ms) plan.stamp_bytes_ = kExpiryStampBytes;
  const std::optional<SlotKind> kind = SlotKindOf(saved.kind);
  plan.element_rows_ = kind && HasElementRows(*kind);
  if (saved.value_codec != wanted.value_codec) {
    return Refused(saved, wanted, "another codec is another kind of value");
  }
  if (saved.version != wanted.version && migrations != nullptr) {
    auto path = migrations->FindPath(saved.value_codec, saved.version, wanted.version);
    if (path.ok()) {
      plan.steps_ = *std::move(path);
      return plan;
    }
  }
  const bool columns_differ = saved.value_columns != wanted.value_columns;
  if (saved.version == wanted.version && !columns_differ) return plan;
  const bool declared = saved.value_codec == kRowCodec && !saved.value_columns.empty() &&
                        !wanted.value_columns.empty();
  if (!declared || saved.version > wanted.version) {
    return Refused(
        saved, wanted,
        saved.version == wanted.version
            ? std::string("columns that the codec does not write cannot be followed; raise the "
                          "version and register a migration")
            : fmt::format("no migration of {} leads from version {} to version {}; register one",
                          saved.value_codec, saved.version, wanted.version));
  }
  if (!columns_differ) return plan;
  Result<format::RowEvolution> evolution =
      format::RowEvolution::Make(saved.value_columns, wanted.value_columns);
  if (!evolution.ok()) return Refused(saved, wanted, evolution.status().message());
  plan.evolution_ = *std::move(evolution);
  return plan;
}

std::string SlotMigration::Describe() const {
  if (empty()) return "as saved";
  if (evolution_) return "by its added columns";
  return fmt::format("along {} registered step{}", steps_.size(), steps_.size() == 1 ? "" : "s");
}

Status SlotMigration::Convert(std::string_view row_key, std::string_view value,
                              std::string* out) const {
  if (element_rows_) {
    const ElementRowKey key = ElementRowKey::Parse(row_key);
    if (key.user_key.data() == nullptr) {
      return Status::Corruption("the key of a list's or map's row has no such parts");
    }
    if (key.part == ElementRowKey::kHeader) {
      out->append(value);
      return {};
    }
  }
  if (value.size() < stamp_bytes_) {
    return Status::Corruption("a value is too short for the expiry stamp of its slot");
  }
  out->append(value.substr(0, stamp_bytes_));
  value.remove_prefix(stamp_bytes_);
  if (evolution_) return evolution_->Convert(value, out);
  std::string current(value);
  for (const MigrationStep* step : steps_) {
    CAIRN_ASSIGN_OR_RETURN(current, (*step)(current));
  }
  out->append(current);
  return {};
}

}  // namespace cairn::checkpoint
