// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table that turn rows into saved bytes and back.
#pragma once

#include <algorithm>
#include <exception>
#include <string>

#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

CAIRN_TABLE_TEMPLATE KeyGroupRange CAIRN_TABLE::key_groups() const {
  return {first_group_, first_group_ + group_count_};
}

CAIRN_TABLE_TEMPLATE uint64_t CAIRN_TABLE::CountRows(const View& view) const {
  const detail::TableCut* cut = CutOf(view);
  return cut == nullptr ? 0 : cut->live_rows;
}

CAIRN_TABLE_TEMPLATE uint64_t CAIRN_TABLE::MemoryBytes() const {
  return bytes_.load(std::memory_order_relaxed);
}

CAIRN_TABLE_TEMPLATE uint64_t CAIRN_TABLE::size() const { return cut_.live_rows; }

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::EncodeBase(const View& view, KeyGroupRange range,
                                                    SavedRowSink* sink) const {
  return EncodeRows(view, 0, false, range, sink);
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::EncodeDelta(const View& view, uint64_t since,
                                                     KeyGroupRange range,
                                                     SavedRowSink* sink) const {
  return EncodeRows(view, static_cast<uint32_t>(since), true, range, sink);
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::EncodeRows(const View& view, uint32_t since, bool delta,
                                                    KeyGroupRange range, SavedRowSink* sink) const {
  const detail::TableCut* cut = CutOf(view);
  if (cut == nullptr) return {};
  std::vector<RowCopy> rows;
  Status status;
  for (uint32_t group = 0; group < group_count_ && status.ok(); ++group) {
    if (!range.Contains(first_group_ + group)) continue;
    SavedRows* out = nullptr;
    VisitGroup(cut->root->entries()[group], static_cast<uint32_t>(view.epoch()), since, delta,
               &rows, [&](std::vector<RowCopy>& copies) {
                 if (out == nullptr) {
                   Result<SavedRows*> begun = sink->BeginGroup(first_group_ + group);
                   if (!begun.ok()) {
                     status = begun.status();
                     return false;
                   }
                   out = *begun;
                 }
                 SortRows(&copies);
                 status = EncodeSegment(copies, delta, sink, out);
                 return status.ok();
               });
  }
  return status;
}

// Rows come out of a segment nearly in order of their hashes: buckets ascend, and a row is at most
// a few buckets from home. Insertion then beats a general sort.
CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::SortRows(std::vector<RowCopy>* rows) const {
  for (RowCopy& row : *rows) row.hash = HashOfStored(row.key);
  const auto before = [&](const RowCopy& a, const RowCopy& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    return WithEncodedKey(a.key, [&](std::string_view a_bytes) {
      return WithEncodedKey(b.key, [&](std::string_view b_bytes) { return a_bytes < b_bytes; });
    });
  };
  for (size_t i = 1; i < rows->size(); ++i) {
    RowCopy* at = &(*rows)[i];
    if (!before(*at, at[-1])) continue;
    const RowCopy row = *at;
    do {
      *at = at[-1];
      --at;
    } while (at != rows->data() && before(row, at[-1]));
    *at = row;
  }
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::EncodeSegment(const std::vector<RowCopy>& rows, bool delta,
                                                       SavedRowSink* sink, SavedRows* out) const {
  const RowCopy* current = nullptr;
  try {
    for (const RowCopy& row : rows) {
      current = &row;
      const SavedRowKind kind = !delta     ? SavedRowKind::kMaterialised
                                : row.live ? SavedRowKind::kPut
                                           : SavedRowKind::kErase;
      const size_t value_bytes = row.live ? value_codec_.EncodedSize(ValueOf(row.cell)) : 0;
      const SavedRows::Slot to = out->Append(kind, key_codec_.EncodedSize(row.key), value_bytes);
      key_codec_.Encode(row.key, to.key);
      if (row.live) value_codec_.Encode(ValueOf(row.cell), to.value);
      if (out->bytes() >= kSavedRowsFlushBytes) {
        current = nullptr;
        CAIRN_RETURN_IF_ERROR(sink->Flush());
      }
    }
  } catch (const std::exception& error) {
    if (current == nullptr) return Status::Internal(error.what());
    const Status cause = Status::InvalidArgument(error.what());
    return WithEncodedKey(current->key, [&](std::string_view key_bytes) {
      return RowError(cause, "cannot encode", key_bytes);
    });
  }
  return {};
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::RowError(const Status& cause, std::string_view what,
                                                  std::string_view key_bytes) const {
  return detail::RowErrorOf(descriptor_, cause, what, key_bytes);
}

// --- load --------------------------------------------------------------------------------------

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::Load(const SavedRowSpan& rows, size_t group_prefix_bytes,
                                              size_t key_prefix_bytes, LoadCounts* counts) {
  const auto group_of = [&](size_t row) -> uint32_t {
    const std::string_view key = rows.key(row);
    if (key.size() < key_prefix_bytes || key_prefix_bytes < group_prefix_bytes) return UINT32_MAX;
    const auto first = static_cast<uint8_t>(key[0]);
    if (group_prefix_bytes == 1) return first;
    return uint32_t{first} << 8 | static_cast<uint8_t>(key[1]);
  };
  for (size_t first = 0; first < rows.rows;) {
    const uint32_t group = group_of(first);
    if (group == UINT32_MAX) {
      return RowError(Status::Corruption("shorter than its prefix"), "cannot decode",
                      rows.key(first));
    }
    size_t last = first + 1;
    while (last < rows.rows && group_of(last) == group) ++last;
    if (key_groups().Contains(group)) {
      CAIRN_RETURN_IF_ERROR(LoadGroup(group - first_group_, rows, first, last, key_prefix_bytes));
      counts->rows += last - first;
    } else {
      counts->skipped += last - first;
    }
    first = last;
  }
  return {};
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::LoadGroup(uint32_t group, const SavedRowSpan& rows,
                                                   size_t first, size_t last,
                                                   size_t key_prefix_bytes) {
  constexpr size_t kPresizeFrom = 32;
  if (entries_[group].entries == detail::NoSegment() && last - first >= kPresizeFrom) {
    // The rows may be the first part of the group: how far their hashes reach tells its size.
    const uint64_t reach = hasher_.Hash(rows.key(last - 1).substr(key_prefix_bytes));
    const double part = std::max(static_cast<double>(reach) / 18446744073709551616.0, 1.0 / 64);
    Presize(group, static_cast<uint64_t>(static_cast<double>(last - first) / part));
  }
  size_t row = first;
  try {
    for (; row < last; ++row) {
      CAIRN_RETURN_IF_ERROR(LoadRow(group, rows.key(row).substr(key_prefix_bytes), rows, row));
    }
  } catch (const std::exception& error) {
    return RowError(Status::Corruption(error.what()), "cannot decode",
                    rows.key(row).substr(key_prefix_bytes));
  }
  return {};
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::LoadRow(uint32_t group, std::string_view key_bytes,
                                                 const SavedRowSpan& rows, size_t row) {
  if (RelativeGroup(Fnv1a64(key_bytes)) != group) {
    return RowError(Status::Corruption("the key is saved under another key group than its own"),
                    "cannot load", key_bytes);
  }
  Result<K> key = key_codec_.Decode(key_bytes);
  if (!key.ok()) return RowError(key.status(), "cannot decode", key_bytes);
  const uint64_t hash = hasher_.Hash(key_bytes);
  if (rows.kind(row) == SavedRowKind::kErase) {
    EraseRow(group, hash, *key, false);
    return {};
  }
  Result<V> value = value_codec_.Decode(rows.value(row));
  if (!value.ok()) return RowError(value.status(), "cannot decode the value of", key_bytes);
  auto set = [&](V& to, bool) noexcept(std::is_nothrow_move_assignable_v<V>) {
    to = *std::move(value);
  };
  const Entry* entry = EntryOf(group, hash);
  uint32_t index = 0;
  if (!FindLive(*entry, hash, *key, &index)) return InsertRow(group, hash, *key, set);
  return ChangeSlot(entry, group, hash, SlotsOf(*entry) + index, set);
}

}  // namespace v0
}  // namespace cairn
