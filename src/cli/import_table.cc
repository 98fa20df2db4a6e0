// SPDX-License-Identifier: Apache-2.0
#include "cli/import_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cairn/detail/slot_hash.h"
#include "cairn/hash.h"
#include "cli/value_text.h"

namespace cairn::cli {

KeyGroupRange ImportTable::key_groups() const {
  if (slot_.kind == SlotKind::kOperatorValue) return {0, 1};
  return {0, job_key_groups_};
}

void ImportTable::Add(std::string_view user_key, std::string_view value) {
  const uint32_t group =
      slot_.kind == SlotKind::kOperatorValue ? 0 : KeyGroupOf(user_key, job_key_groups_);
  rows_.push_back({group, 0, bytes_.size(), user_key.size(), value.size()});
  bytes_.append(user_key).append(value);
}

Status ImportTable::Seal(uint64_t slot_hash_seed) {
  const detail::SlotHasher hasher(slot_hash_seed);
  for (Row& row : rows_) row.hash = hasher.Hash(Key(row));
  std::sort(rows_.begin(), rows_.end(), [this](const Row& a, const Row& b) {
    return std::tuple(a.group, a.hash, Key(a)) < std::tuple(b.group, b.hash, Key(b));
  });
  for (size_t i = 1; i < rows_.size(); ++i) {
    if (Key(rows_[i - 1]) != Key(rows_[i])) continue;
    return Status::InvalidArgument(
        fmt::format("operator {} slot {} has key {} twice. Leave one of the rows out",
                    slot_.operator_uid, slot_.name, PrintableBytes(Key(rows_[i]))));
  }
  return {};
}

Status ImportTable::EncodeBase(const View&, KeyGroupRange range, SavedRowSink* sink) const {
  auto row = std::lower_bound(rows_.begin(), rows_.end(), range.first,
                              [](const Row& a, uint32_t group) { return a.group < group; });
  while (row != rows_.end() && row->group < range.last) {
    const uint32_t group = row->group;
    CAIRN_ASSIGN_OR_RETURN(SavedRows * out, sink->BeginGroup(group));
    for (; row != rows_.end() && row->group == group; ++row) {
      const auto at = out->Append(SavedRowKind::kMaterialised, row->key_bytes, row->value_bytes);
      Key(*row).copy(at.key, row->key_bytes);
      Value(*row).copy(at.value, row->value_bytes);
      if (out->bytes() >= kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
    }
  }
  return {};
}

Status ImportTable::EncodeDelta(const View&, uint64_t, KeyGroupRange, SavedRowSink*) const {
  return Status::Internal("an import is no delta");
}

Status ImportTable::Load(const SavedRowSpan&, size_t, size_t, LoadCounts*) {
  return Status::Internal("an import is not restored");
}

uint64_t ImportTable::CountRows(const View&) const { return rows_.size(); }

uint64_t ImportTable::MemoryBytes() const {
  return bytes_.capacity() + rows_.capacity() * sizeof(Row);
}

}  // namespace cairn::cli
