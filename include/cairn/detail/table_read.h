// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table that read through a view, beside the writer.
//
// A reader walks the view's own root and directories, which never change, pins one segment at a
// time and copies what it needs. Under the pin it neither allocates nor compares strings.
//
// A slot as view v sees it: with stamp <= v, as it stands; else the first pre-image of its chain
// with stamp <= v; without one the key did not exist.
#pragma once

#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

// The table's root in `view`; null when it had none then.
CAIRN_TABLE_TEMPLATE const detail::TableCut* CAIRN_TABLE::CutOf(const View& view) const {
  const detail::ViewNode* node = view.node();
  if (node == nullptr || node->core != core_) detail::FailForeignView();
  if (index_ >= node->cuts.size() || node->cuts[index_].root == nullptr) return nullptr;
  return &node->cuts[index_];
}

// Copies what the view of `epoch` sees of the slot into `row`; false when it has never seen the
// key. `live` is false for an erased key. Called under the segment's pin.
CAIRN_TABLE_TEMPLATE inline bool CAIRN_TABLE::Resolve(const Slot& slot, bool live, uint32_t epoch,
                                                      RowCopy* row) const {
  const uint32_t stamp = detail::LoadStamp(slot.stamp);
  if (stamp <= epoch) [[likely]] {
    row->stamp = stamp;
    row->live = live;
    if (live) row->cell = slot.cell;
    row->key = slot.key;
    return true;
  }
  for (uint32_t number = slot.undo; number != 0;) {
    const auto* record = reinterpret_cast<const Record*>(core_->Record(number, sizeof(Record)));
    if (record->stamp <= epoch) {
      row->stamp = record->stamp;
      row->live = (record->next & Record::kExisted) != 0;
      if (row->live) row->cell = record->cell;
      row->key = slot.key;
      return true;
    }
    number = record->next & ~Record::kExisted;
  }
  return false;
}

CAIRN_TABLE_TEMPLATE template <class Fn>
bool CAIRN_TABLE::Get(const View& view, KeyArg key, Fn&& fn) const {
  const detail::TableCut* cut = CutOf(view);
  const uint32_t group = RelativeGroup(FnvOf(key));
  if (cut == nullptr || group >= group_count_) return false;
  const auto epoch = static_cast<uint32_t>(view.epoch());
  const uint64_t hash = HashOf(key);
  const K probe = ToKey(key);
  const detail::RootEntry& root = cut->root->entries()[group];
  const Entry& entry = root.entries[detail::DirectoryIndex(hash, root.shift)];
  if (entry.slots == nullptr) return false;
  const uint8_t* tags = entry.head->tags();
  RowCopy row{};
  // One candidate at a time: long keys are compared after the pin is gone.
  for (uint32_t candidate = 0;; ++candidate) {
    uint32_t seen = 0;
    bool found = false;
    {
      detail::SegmentPin pin(entry.head);
      uint32_t bucket = detail::HomeBucket(hash, entry.local_depth, entry.buckets);
      for (;;) {
        const uint32_t first = bucket * detail::kBucketSlots;
        const detail::TagBucket bucket_tags(tags + first);
        uint32_t match = bucket_tags.Match(detail::LiveTag(hash)) |
                         bucket_tags.Match(detail::TombstoneTag(hash));
        for (; match != 0; match &= match - 1) {
          const uint32_t index = first + static_cast<uint32_t>(std::countr_zero(match));
          const Slot& slot = SlotsOf(entry)[index];
          if (!MayEqual(slot.key, probe) || seen++ != candidate) continue;
          if (!Resolve(slot, detail::IsLive(tags[index]), epoch, &row)) {
            row.key = slot.key;
            row.live = false;
          }
          found = true;
          break;
        }
        if (found || bucket_tags.Empty() != 0) break;
        if (++bucket == entry.buckets) bucket = 0;
      }
    }
    if (!found) return false;
    if (!(row.key == probe)) continue;
    if (!row.live) return false;
    fn(ValueOf(row.cell));
    return true;
  }
}

// Appends the rows of a segment as the view of `epoch` sees them, with stamps above `since`; erased
// ones too when `erased`. `rows` has the capacity.
CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::CopyRows(const Entry& entry, uint32_t epoch, uint32_t since,
                                                bool erased, std::vector<RowCopy>* rows) const {
  const uint8_t* tags = entry.head->tags();
  const Slot* slots = SlotsOf(entry);
  detail::SegmentPin pin(entry.head);
  for (uint32_t bucket = 0; bucket < entry.buckets; ++bucket) {
    const uint32_t first = bucket * detail::kBucketSlots;
    const detail::TagBucket bucket_tags(tags + first);
    // Tombstones count too: an older view may see the row that was erased.
    uint32_t match = ~(bucket_tags.Empty() | bucket_tags.Match(detail::kTagDeleted)) & 0xFFFF;
    for (; match != 0; match &= match - 1) {
      const uint32_t index = first + static_cast<uint32_t>(std::countr_zero(match));
      RowCopy& row = rows->emplace_back();
      if (!Resolve(slots[index], detail::IsLive(tags[index]), epoch, &row) || row.stamp <= since ||
          (!row.live && !erased)) {
        rows->pop_back();
      }
    }
  }
}

// Calls visit(rows, local depth) for every segment of the group; rows is `rows`, reused. False ends
// it early.
CAIRN_TABLE_TEMPLATE template <class Visit>
bool CAIRN_TABLE::VisitGroup(const detail::RootEntry& group, uint32_t epoch, uint32_t since,
                             bool erased, std::vector<RowCopy>* rows, Visit&& visit) const {
  const uint64_t size = uint64_t{1} << group.depth;
  for (uint64_t i = 0; i < size;) {
    const Entry& entry = group.entries[i];
    i += uint64_t{1} << (group.depth - entry.local_depth);
    if (entry.slots == nullptr) continue;
    if (entry.head->max_stamp.load(std::memory_order_relaxed) <= since) continue;
    rows->clear();
    rows->reserve(size_t{entry.buckets} * detail::kBucketSlots);
    CopyRows(entry, epoch, since, erased, rows);
    if (!rows->empty() && !visit(*rows, entry.local_depth)) return false;
  }
  return true;
}

CAIRN_TABLE_TEMPLATE template <class Fn>
void CAIRN_TABLE::Scan(const View& view, KeyGroupRange range, Fn&& fn) const {
  const detail::TableCut* cut = CutOf(view);
  if (cut == nullptr) return;
  std::vector<RowCopy> rows;
  for (uint32_t group = 0; group < group_count_; ++group) {
    if (!range.Contains(first_group_ + group)) continue;
    const bool more =
        VisitGroup(cut->root->entries()[group], static_cast<uint32_t>(view.epoch()), 0, false,
                   &rows, [&](const std::vector<RowCopy>& copies, uint32_t) {
                     for (const RowCopy& row : copies) {
                       const K& key = row.key;
                       const V& value = ValueOf(row.cell);
                       if constexpr (std::is_same_v<decltype(fn(key, value)), bool>) {
                         if (!fn(key, value)) return false;
                       } else {
                         fn(key, value);
                       }
                     }
                     return true;
                   });
    if (!more) return;
  }
}

CAIRN_TABLE_TEMPLATE template <class Fn>
void CAIRN_TABLE::ScanNow(KeyGroupRange range, Fn&& fn) const {
  for (uint32_t group = 0; group < group_count_; ++group) {
    if (!range.Contains(first_group_ + group)) continue;
    const detail::RootEntry& root = entries_[group];
    for (uint64_t i = 0; i < uint64_t{1} << root.depth;) {
      const Entry& entry = root.entries[i];
      i += uint64_t{1} << (root.depth - entry.local_depth);
      if (entry.slots == nullptr) continue;
      const uint8_t* tags = entry.head->tags();
      for (uint32_t s = 0; s < entry.buckets * detail::kBucketSlots; ++s) {
        if (!detail::IsLive(tags[s])) continue;
        const Slot& slot = SlotsOf(entry)[s];
        fn(slot.key, ValueOf(slot.cell));
      }
    }
  }
}

CAIRN_TABLE_TEMPLATE template <class Fn>
void CAIRN_TABLE::Delta(const View& view, uint64_t since, Fn&& fn) const {
  const detail::TableCut* cut = CutOf(view);
  if (cut == nullptr) return;
  std::vector<RowCopy> rows;
  for (uint32_t group = 0; group < group_count_; ++group) {
    VisitGroup(cut->root->entries()[group], static_cast<uint32_t>(view.epoch()),
               static_cast<uint32_t>(since), true, &rows,
               [&](const std::vector<RowCopy>& copies, uint32_t) {
                 for (const RowCopy& row : copies) {
                   const K& key = row.key;
                   const V* value = row.live ? &ValueOf(row.cell) : nullptr;
                   fn(row.live ? SavedRowKind::kPut : SavedRowKind::kErase, key, value);
                 }
                 return true;
               });
  }
}

}  // namespace v0
}  // namespace cairn
