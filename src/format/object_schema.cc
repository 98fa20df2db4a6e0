// SPDX-License-Identifier: Apache-2.0
#include "format/object_schema.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "format/canonical_schema.h"

namespace cairn::format {
namespace {

constexpr char kFormatVersionKey[] = "cairn.format_version";
constexpr char kKeyGroupsKey[] = "cairn.key_groups";
constexpr char kKeyLayoutKey[] = "cairn.key_layout";
constexpr char kSlotHashKey[] = "cairn.slot_hash";
constexpr char kSlotHashSeedKey[] = "cairn.slot_hash_seed";
constexpr char kStateVersionsKey[] = "cairn.state_versions";

/// Parse a decimal number that fills `text`.
template <class T>
bool ParseDecimal(std::string_view text, T* value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && rest == end && !text.empty();
}

Status CheckVersionField(std::string_view field, const char* name) {
  if (field.find_first_of("|\n") == std::string_view::npos) return Status();
  return Status::InvalidArgument(
      fmt::format("{} '{}' of a state version holds '|' or a line feed", name, field));
}

Status BadMetadata(const char* key, std::string_view value) {
  return Status::Corruption(fmt::format("schema metadata {} is '{}'", key, value));
}

/// Read the layout from key_layout and key_groups, which must agree.
Result<KeyLayout> LayoutOf(const arrow::KeyValueMetadata& metadata) {
  CAIRN_ASSIGN_OR_RETURN(const std::string groups_text, [&]() -> Result<std::string> {
    auto found = metadata.Get(kKeyGroupsKey);
    if (!found.ok()) return BadMetadata(kKeyGroupsKey, "missing");
    return *found;
  }());
  uint32_t groups = 0;
  if (!ParseDecimal(groups_text, &groups)) return BadMetadata(kKeyGroupsKey, groups_text);
  auto layout = KeyLayout::ForKeyGroups(groups);
  if (!layout.ok()) return BadMetadata(kKeyGroupsKey, groups_text);
  const std::string id = metadata.Get(kKeyLayoutKey).ValueOr("missing");
  if (id == std::to_string(static_cast<int>(layout->id()))) return layout;
  if (id == "1" || id == "2") return BadMetadata(kKeyLayoutKey, id);
  return Status::UnsupportedFormat(
      fmt::format("key layout '{}' is not known: read this object with a newer Cairn", id));
}

Result<SlotHash> SlotHashOf(const arrow::KeyValueMetadata& metadata) {
  SlotHash hash;
  hash.function = metadata.Get(kSlotHashKey).ValueOr("missing");
  if (hash.function != kSlotHashXxh3) {
    return Status::UnsupportedFormat(fmt::format(
        "slot hash '{}' is not known: read this object with a newer Cairn", hash.function));
  }
  const std::string seed = metadata.Get(kSlotHashSeedKey).ValueOr("missing");
  base::OperatorId as_id;
  if (!base::ParseHex16(seed, &as_id)) return BadMetadata(kSlotHashSeedKey, seed);
  hash.seed = as_id.value;
  return hash;
}

}  // namespace

Result<std::string> PackStateVersions(std::vector<StateVersion> versions) {
  std::sort(versions.begin(), versions.end(), [](const StateVersion& a, const StateVersion& b) {
    return std::tie(a.operator_id, a.state_type, a.slot) <
           std::tie(b.operator_id, b.state_type, b.slot);
  });
  std::string text;
  for (const StateVersion& version : versions) {
    if (version.state_type.empty()) {
      return Status::InvalidArgument("a state version has an empty state type");
    }
    CAIRN_RETURN_IF_ERROR(CheckVersionField(version.state_type, "state type"));
    CAIRN_RETURN_IF_ERROR(CheckVersionField(version.slot, "slot"));
    if (!text.empty()) text.push_back('\n');
    text += fmt::format("{}|{}|{}", version.operator_id, version.state_type, version.version);
    if (!version.slot.empty()) text.append("|").append(version.slot);
  }
  return text;
}

Result<std::vector<StateVersion>> ParseStateVersions(std::string_view text) {
  std::vector<StateVersion> versions;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::vector<std::string_view> fields;
    for (size_t at = 0; at <= line.size();) {
      const size_t bar = std::min(line.find('|', at), line.size());
      fields.push_back(line.substr(at, bar - at));
      at = bar + 1;
    }
    StateVersion version;
    if (fields.size() < 3 || fields.size() > 4 || fields[1].empty() ||
        !ParseDecimal(fields[0], &version.operator_id) ||
        !ParseDecimal(fields[2], &version.version) || (fields.size() == 4 && fields[3].empty())) {
      return Status::Corruption(
          fmt::format("state version line '{}' is not op|type|version[|slot]", line));
    }
    version.state_type = fields[1];
    if (fields.size() == 4) version.slot = fields[3];
    versions.push_back(std::move(version));
  }
  return versions;
}

Result<std::shared_ptr<arrow::Schema>> ToArrowSchema(const ObjectSchema& schema) {
  CAIRN_ASSIGN_OR_RETURN(const std::string versions, PackStateVersions(schema.state_versions));
  auto metadata = std::make_shared<arrow::KeyValueMetadata>();
  metadata->Append(kFormatVersionKey, std::to_string(kObjectFormatVersion));
  metadata->Append(kKeyGroupsKey, std::to_string(schema.layout.key_groups()));
  metadata->Append(kKeyLayoutKey, std::to_string(static_cast<int>(schema.layout.id())));
  metadata->Append(kSlotHashKey, schema.slot_hash.function);
  metadata->Append(kSlotHashSeedKey, base::ToHex16(base::OperatorId(schema.slot_hash.seed)));
  if (!versions.empty()) metadata->Append(kStateVersionsKey, versions);
  return arrow::schema(CanonicalFields(schema.with_row_kind), std::move(metadata));
}

Result<ObjectSchema> FromArrowSchema(const arrow::Schema& schema) {
  const auto metadata = schema.metadata();
  if (metadata == nullptr || !metadata->Contains(kFormatVersionKey)) {
    return Status::Corruption("schema has no cairn.format_version: this is no state object");
  }
  const std::string version = *metadata->Get(kFormatVersionKey);
  if (version != std::to_string(kObjectFormatVersion)) {
    return Status::UnsupportedFormat(
        fmt::format("state object has format version '{}', this build reads {}; upgrade cairn",
                    version, kObjectFormatVersion));
  }
  ObjectSchema parsed;
  parsed.with_row_kind = schema.num_fields() == 4;
  if (!schema.Equals(arrow::Schema(CanonicalFields(parsed.with_row_kind)),
                     /*check_metadata=*/false)) {
    return Status::Corruption(fmt::format("state object has other columns: {}", schema.ToString()));
  }
  CAIRN_ASSIGN_OR_RETURN(parsed.layout, LayoutOf(*metadata));
  CAIRN_ASSIGN_OR_RETURN(parsed.slot_hash, SlotHashOf(*metadata));
  CAIRN_ASSIGN_OR_RETURN(parsed.state_versions,
                         ParseStateVersions(metadata->Get(kStateVersionsKey).ValueOr("")));
  return parsed;
}

}  // namespace cairn::format
