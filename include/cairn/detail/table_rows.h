// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table that turn rows into saved bytes and back.
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>
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
  RowOrder order;
  Status status;
  for (uint32_t group = 0; group < group_count_ && status.ok(); ++group) {
    if (!range.Contains(first_group_ + group)) continue;
    SavedRows* out = nullptr;
    VisitGroup(cut->root->entries()[group], static_cast<uint32_t>(view.epoch()), since, delta,
               &rows, [&](const std::vector<RowCopy>& copies, uint32_t local_depth) {
                 if (out == nullptr) {
                   Result<SavedRows*> begun = sink->BeginGroup(first_group_ + group);
                   if (!begun.ok()) {
                     status = begun.status();
                     return false;
                   }
                   out = *begun;
                 }
                 SortRows(copies, local_depth, &order);
                 status = EncodeSegment(order.sorted, delta, sink, out);
                 return status.ok();
               });
  }
  return status;
}

CAIRN_TABLE_TEMPLATE template <class Visit>
Status CAIRN_TABLE::ScanSaved(const View& view, uint64_t since, bool delta, KeyGroupRange range,
                              Visit&& visit) const {
  const detail::TableCut* cut = CutOf(view);
  if (cut == nullptr) return {};
  std::vector<RowCopy> rows;
  RowOrder order;
  Status status;
  for (uint32_t group = 0; group < group_count_ && status.ok(); ++group) {
    if (!range.Contains(first_group_ + group)) continue;
    VisitGroup(cut->root->entries()[group], static_cast<uint32_t>(view.epoch()),
               delta ? static_cast<uint32_t>(since) : 0, delta, &rows,
               [&](const std::vector<RowCopy>& copies, uint32_t local_depth) {
                 SortRows(copies, local_depth, &order);
                 for (const SortedRow& sorted : order.sorted) {
                   const RowCopy& row = *sorted.row;
                   const V* value = row.live ? &ValueOf(row.cell) : nullptr;
                   status = visit(first_group_ + group, row.key, value);
                   if (!status.ok()) return false;
                 }
                 return true;
               });
  }
  return status;
}

// The hashes of a segment spread evenly over its part of their range, so a counting sort over twice
// as many bins as rows leaves few rows out of order, and insertion puts these right.
CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::SortRows(const std::vector<RowCopy>& rows,
                                                uint32_t local_depth, RowOrder* order) const {
  const auto bins = static_cast<uint32_t>(rows.size() * 2);
  order->hashes.resize(rows.size());
  order->begins.assign(bins + 1, 0);
  order->sorted.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t hash = HashOfStored(rows[i].key);
    order->hashes[i] = hash;
    ++order->begins[detail::HomeBucket(hash, local_depth, bins) + 1];
  }
  for (uint32_t bin = 1; bin <= bins; ++bin) order->begins[bin] += order->begins[bin - 1];
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t hash = order->hashes[i];
    order->sorted[order->begins[detail::HomeBucket(hash, local_depth, bins)]++] = {hash, &rows[i]};
  }
  const auto before = [&](const SortedRow& a, const SortedRow& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    return WithEncodedKey(a.row->key, [&](std::string_view a_bytes) {
      return WithEncodedKey(b.row->key,
                            [&](std::string_view b_bytes) { return a_bytes < b_bytes; });
    });
  };
  SortedRow* const first = order->sorted.data();
  for (size_t i = 1; i < rows.size(); ++i) {
    SortedRow* at = first + i;
    if (!before(*at, at[-1])) [[likely]] {
      continue;
    }
    const SortedRow row = *at;
    do {
      *at = at[-1];
      --at;
    } while (at != first && before(row, at[-1]));
    *at = row;
  }
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::EncodeSegment(const std::vector<SortedRow>& rows,
                                                       bool delta, SavedRowSink* sink,
                                                       SavedRows* out) const {
  const RowCopy* current = nullptr;
  const auto value_bytes = [&](const RowCopy& row) {
    const size_t bytes = row.live ? value_codec_.EncodedSize(ValueOf(row.cell)) : 0;
    if (bytes > kSavedValueBytesMax) throw std::length_error(detail::SavedValueTooLarge(bytes));
    return bytes;
  };
  try {
    for (size_t first = 0; first < rows.size();) {
      // As many rows as fill the part, or all.
      size_t last = first;
      size_t keys = 0;
      size_t values = 0;
      const size_t before = out->bytes();
      do {
        current = rows[last].row;
        keys += key_codec_.EncodedSize(current->key);
        values += value_bytes(*current);
        ++last;
      } while (last < rows.size() && before + (last - first) * out->bytes_beside() + keys + values <
                                         kSavedRowsFlushBytes);
      SavedRows::Run run(out, last - first, keys, values);
      for (; first < last; ++first) {
        current = rows[first].row;
        const SavedRowKind kind = !delta          ? SavedRowKind::kMaterialised
                                  : current->live ? SavedRowKind::kPut
                                                  : SavedRowKind::kErase;
        const SavedRows::Slot to =
            run.Append(kind, key_codec_.EncodedSize(current->key), value_bytes(*current));
        key_codec_.Encode(current->key, to.key);
        if (current->live) value_codec_.Encode(ValueOf(current->cell), to.value);
      }
      run.Finish();
      current = nullptr;
      if (out->bytes() >= kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
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
  struct Loading {
    detail::BlockPool* pool;
    explicit Loading(detail::BlockPool* of) : pool(of) { pool->set_loading(true); }
    ~Loading() { pool->set_loading(false); }
  } loading(&core_->pool);
  return LoadGroups(rows, group_prefix_bytes, key_prefix_bytes, counts,
                    [&](uint32_t group, size_t first, size_t last) {
                      return LoadGroup(group, rows, first, last, key_prefix_bytes);
                    });
}

// Calls for_group(relative group, first, last) for the runs of rows of key_groups(), and counts.
CAIRN_TABLE_TEMPLATE template <class ForGroup>
Status CAIRN_TABLE::LoadGroups(const SavedRowSpan& rows, size_t group_prefix_bytes,
                               size_t key_prefix_bytes, LoadCounts* counts, ForGroup&& for_group) {
  for (size_t first = 0; first < rows.rows;) {
    const std::string_view key = rows.key(first);
    if (key.size() < key_prefix_bytes || key_prefix_bytes < group_prefix_bytes) {
      return RowError(Status::Corruption("shorter than its prefix"), "cannot decode", key);
    }
    uint32_t group = static_cast<uint8_t>(key[0]);
    if (group_prefix_bytes > 1) group = group << 8 | static_cast<uint8_t>(key[1]);
    const size_t last = first + rows.PrefixRun(first, group_prefix_bytes);
    if (key_groups().Contains(group)) {
      CAIRN_RETURN_IF_ERROR(for_group(group - first_group_, first, last));
      counts->rows += last - first;
    } else {
      counts->skipped += last - first;
    }
    first = last;
  }
  return {};
}

CAIRN_TABLE_TEMPLATE template <class Loader>
Status CAIRN_TABLE::LoadWith(const SavedRowSpan& rows, size_t group_prefix_bytes,
                             size_t key_prefix_bytes, LoadCounts* counts, Loader&& loader) {
  const auto load_row = [&](uint32_t group, size_t row) -> Status {
    const std::string_view key = rows.key(row);
    if (key.size() < key_prefix_bytes) {
      return RowError(Status::Corruption("shorter than its prefix"), "cannot decode", key);
    }
    const std::string_view row_key = key.substr(key_prefix_bytes);
    const std::string_view user_key = loader.UserKey(row_key);
    if (user_key.data() == nullptr) {
      return RowError(Status::Corruption("its parts do not add up"), "cannot decode", row_key);
    }
    const uint64_t fnv = Fnv1a64(user_key);
    if (RelativeGroup(fnv) != group) {
      return RowError(Status::Corruption("the key is saved under another key group than its own"),
                      "cannot load", user_key);
    }
    return loader.LoadRow(fnv, user_key, row_key, rows, row);
  };
  return LoadGroups(rows, group_prefix_bytes, key_prefix_bytes, counts,
                    [&](uint32_t group, size_t first, size_t last) -> Status {
                      size_t row = first;
                      try {
                        for (; row < last; ++row) CAIRN_RETURN_IF_ERROR(load_row(group, row));
                      } catch (const std::exception& error) {
                        return RowError(Status::Corruption(error.what()), "cannot decode",
                                        rows.key(row));
                      }
                      return {};
                    });
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::LoadGroup(uint32_t group, const SavedRowSpan& rows,
                                                   size_t first, size_t last,
                                                   size_t key_prefix_bytes) {
  constexpr size_t kPresizeFrom = 32;
  if (entries_[group].entries == detail::NoSegment() && last - first >= kPresizeFrom &&
      rows.key(last - 1).size() >= key_prefix_bytes) {
    // The rows may be the first part of the group: how far their hashes reach tells its size.
    const uint64_t reach = hasher_.Hash(rows.key(last - 1).substr(key_prefix_bytes));
    const double part = std::max(static_cast<double>(reach) / 18446744073709551616.0, 1.0 / 64);
    Presize(group, static_cast<uint64_t>(static_cast<double>(last - first) / part));
  }
  std::optional<uint64_t> highest = HighestHash(group);
  // A short loop of its own: the hashes of several rows then overlap in the processor.
  constexpr size_t kBlock = 64;
  uint64_t hashes[kBlock];
  size_t row = first;
  try {
    while (row < last) {
      const size_t begin = row;
      const size_t end = std::min(last, begin + kBlock);
      CAIRN_RETURN_IF_ERROR(HashSavedKeys(group, rows, begin, end, key_prefix_bytes, hashes));
      for (; row < end; ++row) {
        CAIRN_RETURN_IF_ERROR(LoadRow(group, rows.key(row).substr(key_prefix_bytes),
                                      hashes[row - begin], rows, row, &highest));
      }
    }
  } catch (const std::exception& error) {
    return RowError(Status::Corruption(error.what()), "cannot decode",
                    rows.key(row).substr(key_prefix_bytes));
  }
  return {};
}

// Slot hashes of the user keys of rows `first` to `last`, each of which has to be of `group`.
CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::HashSavedKeys(uint32_t group, const SavedRowSpan& rows,
                                                       size_t first, size_t last,
                                                       size_t key_prefix_bytes,
                                                       uint64_t* hashes) const {
  for (size_t row = first; row < last; ++row) {
    std::string_view key = rows.key(row);
    if (key.size() < key_prefix_bytes) [[unlikely]] {
      return RowError(Status::Corruption("shorter than its prefix"), "cannot decode", key);
    }
    key.remove_prefix(key_prefix_bytes);
    uint64_t fnv = 0;
    if (detail::HasRawBytes<KeyCodec>() && key.size() == sizeof(K)) {
      K raw;
      std::memcpy(&raw, key.data(), sizeof(K));
      fnv = detail::FnvOfObject(raw);
      hashes[row - first] = hasher_.HashObject(raw);
    } else {
      fnv = Fnv1a64(detail::GroupKeyOf<KeyCodec>(key));
      hashes[row - first] = hasher_.Hash(key);
    }
    if (RelativeGroup(fnv) != group) [[unlikely]] {
      return RowError(Status::Corruption("the key is saved under another key group than its own"),
                      "cannot load", key);
    }
  }
  return {};
}

// Highest slot hash of a group's rows; nothing when it has none.
CAIRN_TABLE_TEMPLATE std::optional<uint64_t> CAIRN_TABLE::HighestHash(uint32_t group) const {
  const detail::RootEntry& root = entries_[group];
  std::optional<uint64_t> highest;
  for (uint64_t i = uint64_t{1} << root.depth; i > 0 && !highest; --i) {
    const Entry& entry = root.entries[i - 1];
    if (entry.head->used == 0) continue;
    const uint8_t* tags = entry.head->tags();
    for (uint32_t s = 0; s < entry.buckets * detail::kBucketSlots; ++s) {
      if (!detail::IsLive(tags[s]) && !detail::IsTombstone(tags[s])) continue;
      highest = std::max(highest.value_or(0), HashOfStored(SlotsOf(entry)[s].key));
    }
  }
  return highest;
}

// Rows come by ascending hash. One above all before it is a new key and needs no search; any other,
// as in a delta, is looked up.
CAIRN_TABLE_TEMPLATE inline Status CAIRN_TABLE::LoadRow(uint32_t group, std::string_view key_bytes,
                                                        uint64_t hash, const SavedRowSpan& rows,
                                                        size_t row,
                                                        std::optional<uint64_t>* highest) {
  Result<K> key = key_codec_.Decode(key_bytes);
  if (!key.ok()) return RowError(key.status(), "cannot decode", key_bytes);
  const SavedRowKind kind = rows.kind(row);
  if (kind == SavedRowKind::kErase) {
    EraseRow(group, hash, *key, false);
    return {};
  }
  Result<V> value = value_codec_.Decode(rows.value(row));
  if (!value.ok()) return RowError(value.status(), "cannot decode the value of", key_bytes);
  auto set = [&](V& to, bool) noexcept(std::is_nothrow_move_assignable_v<V>) {
    to = *std::move(value);
  };
  if (!highest->has_value() || hash > **highest) [[likely]] {
    *highest = hash;
    if constexpr (kInlineValue) {
      if (FillNew(group, hash, *key, *value)) [[likely]] {
        return {};
      }
    }
    return InsertRow(group, hash, *key, set);
  }
  const Entry* entry = EntryOf(group, hash);
  uint32_t index = 0;
  if (!FindLive(*entry, hash, *key, &index)) return InsertRow(group, hash, *key, set);
  if (kind == SavedRowKind::kMaterialised) {
    return RowError(Status::Corruption("the key is saved twice"), "cannot load", key_bytes);
  }
  return ChangeSlot(entry, group, hash, SlotsOf(*entry) + index, set);
}

}  // namespace v0
}  // namespace cairn
