// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table that change rows. All of it is the writer's.
//
// A change of a row whose stamp is the current epoch is a plain store. Otherwise, by the newest
// open view n:
//   stamp > n                  no open view shows the value: stamp it, no pre-image
//   segment made after n       readers of open views are in an older version: the same
//   else, under the busy bit   append the pre-image to the log, chain it from the slot, stamp it
//   a reader is inside, or the log has spent its share of memory: copy the segment and change that
// The writer never waits for a reader.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

// --- keys and probes ---------------------------------------------------------------------------

CAIRN_TABLE_TEMPLATE inline K CAIRN_TABLE::ToKey(KeyArg key) {
  if constexpr (kBytesKey) {
    return Bytes(key);
  } else {
    return key;
  }
}

// Calls use(std::string_view) with the encoded bytes of `key`.
CAIRN_TABLE_TEMPLATE template <class Use>
auto CAIRN_TABLE::WithEncodedKey(const K& key, Use&& use) const {
  if constexpr (kBytesKey) {
    return use(key.view());
  } else {
    char buffer[64];
    const size_t size = key_codec_.EncodedSize(key);
    if (size <= sizeof(buffer)) {
      key_codec_.Encode(key, buffer);
      return use(std::string_view(buffer, size));
    }
    std::string bytes(size, '\0');
    key_codec_.Encode(key, bytes.data());
    return use(std::string_view(bytes));
  }
}

CAIRN_TABLE_TEMPLATE inline uint64_t CAIRN_TABLE::FnvOf(KeyArg key) const {
  if constexpr (kBytesKey) {
    return Fnv1a64(detail::GroupKeyOf<KeyCodec>(key));
  } else if constexpr (detail::HasRawBytes<KeyCodec>()) {
    return detail::FnvOfObject(key);
  } else {
    return WithEncodedKey(key, [](std::string_view bytes) { return Fnv1a64(bytes); });
  }
}

CAIRN_TABLE_TEMPLATE inline uint64_t CAIRN_TABLE::HashOf(KeyArg key) const {
  if constexpr (kBytesKey) {
    return hasher_.Hash(key);
  } else {
    return HashOfStored(key);
  }
}

CAIRN_TABLE_TEMPLATE inline uint64_t CAIRN_TABLE::HashOfStored(const K& key) const {
  if constexpr (kBytesKey) {
    return hasher_.Hash(key.view());
  } else if constexpr (detail::HasRawBytes<KeyCodec>()) {
    return hasher_.HashObject(key);
  } else {
    return WithEncodedKey(key, [&](std::string_view bytes) { return hasher_.Hash(bytes); });
  }
}

// Group of the key, counted from first_group_; at least group_count_ when it is not this table's.
CAIRN_TABLE_TEMPLATE inline uint32_t CAIRN_TABLE::RelativeGroup(uint64_t fnv) const {
  const uint64_t group = key_groups_pow2_ ? fnv & (key_groups_ - 1) : fnv % key_groups_;
  return static_cast<uint32_t>(group) - first_group_;
}

CAIRN_TABLE_TEMPLATE inline const detail::DirectoryEntry* CAIRN_TABLE::EntryOf(
    uint32_t group, uint64_t hash) const {
  const detail::RootEntry& root = entries_[group];
  return root.entries + detail::DirectoryIndex(hash, root.shift);
}

CAIRN_TABLE_TEMPLATE inline bool CAIRN_TABLE::FindLive(const Entry& entry, uint64_t hash,
                                                       const K& key, uint32_t* found) {
  const uint8_t* tags = entry.head->tags();
  const Slot* slots = SlotsOf(entry);
  uint32_t bucket = detail::HomeBucket(hash, entry.local_depth, entry.buckets);
  for (;;) {
    const detail::TagBucket bucket_tags(tags + bucket * detail::kBucketSlots);
    for (uint32_t match = bucket_tags.Match(detail::LiveTag(hash)); match != 0;
         match &= match - 1) {
      const uint32_t index =
          bucket * detail::kBucketSlots + static_cast<uint32_t>(std::countr_zero(match));
      if (slots[index].key == key) [[likely]] {
        *found = index;
        return true;
      }
    }
    if (bucket_tags.Empty() != 0) return false;
    if (++bucket == entry.buckets) bucket = 0;
  }
}

CAIRN_TABLE_TEMPLATE typename CAIRN_TABLE::Place CAIRN_TABLE::FindPlace(const Entry& entry,
                                                                        uint64_t hash,
                                                                        const K& key) {
  const uint8_t* tags = entry.head->tags();
  const Slot* slots = SlotsOf(entry);
  uint32_t bucket = detail::HomeBucket(hash, entry.local_depth, entry.buckets);
  Place free{kNotFound};
  for (;;) {
    const uint32_t first = bucket * detail::kBucketSlots;
    const detail::TagBucket bucket_tags(tags + first);
    for (uint32_t match = bucket_tags.Match(detail::TombstoneTag(hash)); match != 0;
         match &= match - 1) {
      const uint32_t index = first + static_cast<uint32_t>(std::countr_zero(match));
      if (slots[index].key == key) return {index, true, false};
    }
    const uint32_t empty = bucket_tags.Empty();
    if (free.index == kNotFound) {
      const uint32_t usable = empty | bucket_tags.Match(detail::kTagDeleted);
      if (usable != 0) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(usable));
        free = {first + bit, false, (empty >> bit & 1) != 0};
      }
    }
    if (empty != 0) return free;
    if (++bucket == entry.buckets) bucket = 0;
  }
}

CAIRN_TABLE_TEMPLATE inline const V& CAIRN_TABLE::ValueOf(const Cell& cell) {
  if constexpr (kInlineValue) {
    return cell;
  } else {
    return cell->value;
  }
}

CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::WrongGroup(uint64_t fnv) const {
  return Status::InvalidArgument("slot " + descriptor_.name + " of operator " +
                                 descriptor_.operator_uid + ": a key of key group " +
                                 std::to_string(fnv % key_groups_) +
                                 " came to the subtask of groups " + std::to_string(first_group_) +
                                 " to " + std::to_string(first_group_ + group_count_ - 1));
}

// --- updates -----------------------------------------------------------------------------------

CAIRN_TABLE_TEMPLATE template <class Fn>
inline Status CAIRN_TABLE::Update(KeyArg key, Fn&& fn) {
  return UpdateHashed(key, FnvOf(key), fn);
}

CAIRN_TABLE_TEMPLATE template <class Fn>
inline Status CAIRN_TABLE::UpdateHashed(KeyArg key, uint64_t fnv, Fn&& fn) {
  const uint32_t group = RelativeGroup(fnv);
  if (group >= group_count_) [[unlikely]] {
    return WrongGroup(fnv);
  }
  const uint64_t hash = HashOf(key);
  const K probe = ToKey(key);
  const Entry* entry = EntryOf(group, hash);
  uint32_t index = 0;
  if (!FindLive(*entry, hash, probe, &index)) [[unlikely]] {
    return InsertRow(group, hash, probe, fn);
  }
  return ChangeSlot(entry, group, hash, SlotsOf(*entry) + index, fn);
}

CAIRN_TABLE_TEMPLATE template <class Fn>
inline Status CAIRN_TABLE::UpdateBatch(std::span<const KeyArg> keys,
                                       std::span<const uint64_t> fnv_hashes, Fn&& fn) {
  return UpdateBatch(
      keys.size(), [&](size_t i) { return keys[i]; }, [&](size_t i) { return fnv_hashes[i]; }, fn);
}

// Three passes over a block of keys: fetch the tags, match them and fetch the slots, change.
CAIRN_TABLE_TEMPLATE template <class KeyAt, class FnvAt, class Fn>
Status CAIRN_TABLE::UpdateBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) {
  constexpr size_t kBlock = 32;
  struct Ahead {
    uint64_t hash;
    const Entry* entry;
    uint32_t group;
    uint32_t index;
  };
  Ahead ahead[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t rows = std::min(kBlock, count - begin);
    size_t usable = rows;
    for (size_t j = 0; j < rows; ++j) {
      const uint64_t fnv = fnv_at(begin + j);
      Ahead& row = ahead[j];
      row.group = RelativeGroup(fnv);
      if (row.group >= group_count_) [[unlikely]] {
        usable = j;
        break;
      }
      row.hash = HashOf(key_at(begin + j));
      row.entry = EntryOf(row.group, row.hash);
      const uint32_t bucket =
          detail::HomeBucket(row.hash, row.entry->local_depth, row.entry->buckets);
      row.index = bucket * detail::kBucketSlots;
      __builtin_prefetch(row.entry->head->tags() + row.index);
    }
    for (size_t j = 0; j < usable; ++j) {
      Ahead& row = ahead[j];
      const detail::TagBucket tags(row.entry->head->tags() + row.index);
      const uint32_t match = tags.Match(detail::LiveTag(row.hash));
      row.index += match != 0 ? static_cast<uint32_t>(std::countr_zero(match)) : 0;
      __builtin_prefetch(SlotsOf(*row.entry) + row.index, 1);
      if (match == 0) row.index = kNotFound;
    }
    const uint64_t version = structure_version_;
    for (size_t j = 0; j < usable; ++j) {
      const Ahead& row = ahead[j];
      const K key = ToKey(key_at(begin + j));
      auto row_fn = [&fn, i = begin + j](V& value, bool inserted) noexcept(
                        std::is_nothrow_invocable_v<Fn&, size_t, V&, bool>) {
        fn(i, value, inserted);
      };
      const Entry* entry = row.entry;
      uint32_t index = row.index;
      if (structure_version_ != version || index == kNotFound ||
          !(SlotsOf(*entry)[index].key == key)) [[unlikely]] {
        entry = EntryOf(row.group, row.hash);
        if (!FindLive(*entry, row.hash, key, &index)) {
          CAIRN_RETURN_IF_ERROR(InsertRow(row.group, row.hash, key, row_fn));
          continue;
        }
      }
      CAIRN_RETURN_IF_ERROR(
          ChangeSlot(entry, row.group, row.hash, SlotsOf(*entry) + index, row_fn));
    }
    if (usable != rows) return WrongGroup(fnv_at(begin + usable));
  }
  return {};
}

CAIRN_TABLE_TEMPLATE template <class Fn>
inline Status CAIRN_TABLE::ChangeSlot(const Entry* entry, uint32_t group, uint64_t hash, Slot* slot,
                                      Fn& fn) {
  if constexpr (!kInlineValue) {
    return ChangeBox(entry, group, hash, slot, fn);
  } else if constexpr (std::is_nothrow_invocable_v<Fn&, V&, bool>) {
    if (slot->stamp != cut_.epoch) [[unlikely]] {
      slot = Touch(entry, group, hash, slot);
      if (slot == nullptr) return core_->Refusal();
    }
    fn(slot->cell, false);
    return {};
  } else {
    V value = slot->cell;
    fn(value, false);
    if (slot->stamp != cut_.epoch) [[unlikely]] {
      slot = Touch(entry, group, hash, slot);
      if (slot == nullptr) return core_->Refusal();
    }
    slot->cell = value;
    return {};
  }
}

CAIRN_TABLE_TEMPLATE template <class Fn>
Status CAIRN_TABLE::ChangeBox(const Entry* entry, uint32_t group, uint64_t hash, Slot* slot,
                              Fn& fn) {
  if constexpr (!kInlineValue) {
    const uint32_t old_stamp = slot->stamp;
    if constexpr (std::is_nothrow_invocable_v<Fn&, V&, bool>) {
      // Values that come near the limit take the way that can refuse them.
      if (old_stamp > core_->newest.load(std::memory_order_acquire) &&
          slot->cell->external_bytes <= value_bytes_max_ / 2) {
        // No view shows this box. Touch cannot fail then: it only stamps.
        if (old_stamp != cut_.epoch) slot = Touch(entry, group, hash, slot);
        fn(slot->cell->value, false);
        return MeasureBox(slot->cell, true);
      }
    }
    struct Guard {
      Table* table;
      Box* box;
      ~Guard() {
        if (box != nullptr) table->FreeBox(box);
      }
    } fresh{this, NewBox(&slot->cell->value)};
    if (fresh.box == nullptr) return core_->Refusal();
    fn(fresh.box->value, false);
    if (Status status = MeasureBox(fresh.box, false); !status.ok()) {
      return KeyError(status, "cannot write", slot->key);
    }
    slot = Touch(entry, group, hash, slot);
    if (slot == nullptr) return core_->Refusal();
    Box* old = std::exchange(slot->cell, std::exchange(fresh.box, nullptr));
    RetireBox(old, old_stamp);
    return {};
  }
}

CAIRN_TABLE_TEMPLATE template <class Fn>
[[gnu::noinline]] Status CAIRN_TABLE::InsertRow(uint32_t group, uint64_t hash, const K& key,
                                                Fn& fn) {
  if constexpr (kBytesKey) {
    if (key.size() > kKeyBytesMax) [[unlikely]] {
      return KeyError(
          Status::InvalidArgument("a key has at most " + std::to_string(kKeyBytesMax) + " bytes"),
          "cannot write", key);
    }
  }
  Place place;
  CAIRN_RETURN_IF_ERROR(MakeRoom(group, hash, key, &place));
  if constexpr (kInlineValue) {
    V value{};
    fn(value, true);
    if (!CommitInsert(group, hash, key, place, value)) return core_->Refusal();
  } else {
    struct Guard {
      Table* table;
      Box* box;
      ~Guard() {
        if (box != nullptr) table->FreeBox(box);
      }
    } fresh{this, NewBox(nullptr)};
    if (fresh.box == nullptr) return core_->Refusal();
    fn(fresh.box->value, true);
    if (Status status = MeasureBox(fresh.box, false); !status.ok()) {
      return KeyError(status, "cannot write", key);
    }
    if (!CommitInsert(group, hash, key, place, fresh.box)) return core_->Refusal();
    fresh.box = nullptr;
  }
  return {};
}

// Finds where an absent key goes, growing the segment when it is full.
CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::MakeRoom(uint32_t group, uint64_t hash, const K& key,
                                                  Place* place) {
  for (;;) {
    const Entry* entry = EntryOf(group, hash);
    *place = FindPlace(*entry, hash, key);
    if (!place->empty || entry->head->used < entry->head->limit) return {};
    if (!Grow(group, hash)) return core_->Refusal();
  }
}

// Makes the row at `place`; false when memory for it was refused, and nothing has changed.
CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::CommitInsert(uint32_t group, uint64_t hash, const K& key,
                                                    Place place, const Cell& cell) {
  K owned = key;
  if (!place.tombstone && !OwnKey(&owned, false)) return false;
  const uint32_t newest = core_->newest.load(std::memory_order_acquire);
  const Entry* entry = EntryOf(group, hash);
  if (entry->epoch <= newest) {
    const bool record = place.tombstone && SlotsOf(*entry)[place.index].stamp <= newest;
    if ((!record || ReserveRecord()) && detail::SegmentBusy::Take(entry->head)) {
      FillSlot(*entry, hash, owned, place, cell, record);
      detail::SegmentBusy::Drop(entry->head);
      return true;
    }
    entry = MakePrivate(group, hash, false);
    if (entry == nullptr) {
      if (!place.tombstone) DropKey(owned);
      return false;
    }
  }
  FillSlot(*entry, hash, owned, place, cell, false);
  return true;
}

// Puts a row whose key has no slot, tombstones among them, without a look for it. False when that
// takes more: the segment is full or shared with a view, or memory for the key was refused.
CAIRN_TABLE_TEMPLATE inline bool CAIRN_TABLE::FillNew(uint32_t group, uint64_t hash, const K& key,
                                                      const Cell& cell) {
  const Entry& entry = *EntryOf(group, hash);
  Head* head = entry.head;
  if (head->used >= head->limit) return false;
  if (entry.epoch <= core_->newest.load(std::memory_order_acquire)) return false;
  K owned = key;
  if (!OwnKey(&owned, false)) return false;
  uint32_t bucket = detail::HomeBucket(hash, entry.local_depth, entry.buckets);
  for (;;) {
    const uint32_t first = bucket * detail::kBucketSlots;
    const uint32_t empty = detail::TagBucket(head->tags() + first).Empty();
    if (empty != 0) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(empty));
      FillSlot(entry, hash, owned, {first + bit, false, true}, cell, false);
      return true;
    }
    if (++bucket == entry.buckets) bucket = 0;
  }
}

CAIRN_TABLE_TEMPLATE inline void CAIRN_TABLE::FillSlot(const Entry& entry, uint64_t hash,
                                                       const K& key, Place place, const Cell& cell,
                                                       bool record) {
  Slot* slot = SlotsOf(entry) + place.index;
  if (record) AppendRecord(slot, false);
  if (!place.tombstone) {
    slot->key = key;
    slot->undo = 0;
    if (place.empty) ++entry.head->used;
  }
  slot->cell = cell;
  Stamp(entry.head, slot);
  entry.head->tags()[place.index] = detail::LiveTag(hash);
  ++cut_.live_rows;
}

// Makes `slot` ready to be changed in this epoch. Returns where it is then, null when refused.
CAIRN_TABLE_TEMPLATE
[[gnu::noinline]] typename CAIRN_TABLE::Slot* CAIRN_TABLE::Touch(const Entry* entry, uint32_t group,
                                                                 uint64_t hash, Slot* slot) {
  const uint32_t newest = core_->newest.load(std::memory_order_acquire);
  if (entry->epoch <= newest && slot->stamp <= newest) {
    const bool dead = IsDeadInViews(*slot);
    if ((dead || ReserveRecord()) && detail::SegmentBusy::Take(entry->head)) {
      if (dead) {
        slot->undo = 0;
      } else {
        AppendRecord(slot, true);
      }
      Stamp(entry->head, slot);
      detail::SegmentBusy::Drop(entry->head);
      return slot;
    }
    const auto index = slot - SlotsOf(*entry);
    entry = MakePrivate(group, hash, false);
    if (entry == nullptr) return nullptr;
    slot = SlotsOf(*entry) + index;
  }
  Stamp(entry->head, slot);
  return slot;
}

// True for a row with a deadline that every open view sees and takes for dead. None of them needs a
// pre-image of it, nor an older one, whose box or chunk may be gone by now: its chain is cut.
CAIRN_TABLE_TEMPLATE inline bool CAIRN_TABLE::IsDeadInViews(const Slot& slot) const {
  if constexpr (detail::HasDeadline<V>) {
    return slot.stamp <= core_->OldestViewEpoch() &&
           detail::TtlNowOf(core_->OldestViewTimes(), descriptor_.ttl)
               .IsDead(ValueOf(slot.cell).deadline_ms);
  } else {
    return false;
  }
}

CAIRN_TABLE_TEMPLATE inline void CAIRN_TABLE::Stamp(Head* head, Slot* slot) {
  const uint32_t epoch = cut_.epoch;
  detail::StoreStamp(slot->stamp, epoch);
  if (head->max_stamp.load(std::memory_order_relaxed) != epoch) {
    head->max_stamp.store(epoch, std::memory_order_relaxed);
  }
}

CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::StartLogChunk() {
  if (log_chunk_ != nullptr) {
    core_->Retire(log_chunk_, log_chunk_->block_class, detail::kLogChunk, 0);
    log_chunk_ = nullptr;
  }
  const uint64_t chunk_bytes = sizeof(detail::LogChunk) + log_chunk_rows_ * sizeof(Record);
  const uint64_t kept = log_account_->bytes.load(std::memory_order_relaxed);
  if (kept + chunk_bytes > MemoryBytes() / 100 * log_percent_max_) return false;
  log_chunk_ = core_->NewChunk(sizeof(Record), log_chunk_rows_, log_account_);
  if (log_chunk_ == nullptr) return false;
  log_next_ = reinterpret_cast<Record*>(log_chunk_ + 1);
  log_number_ = log_chunk_->number << detail::DomainCore::kChunkShift;
  log_left_ = log_chunk_rows_;
  return true;
}

CAIRN_TABLE_TEMPLATE inline void CAIRN_TABLE::AppendRecord(Slot* slot, bool existed) {
  *log_next_++ = {slot->stamp, slot->undo | (existed ? Record::kExisted : 0), slot->cell};
  slot->undo = log_number_++;
  --log_left_;
}

// --- erases and finds --------------------------------------------------------------------------

CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::Erase(KeyArg key) { return EraseHashed(key, FnvOf(key)); }

CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::EraseHashed(KeyArg key, uint64_t fnv) {
  const uint32_t group = RelativeGroup(fnv);
  if (group >= group_count_) return false;
  return EraseRow(group, HashOf(key), ToKey(key), core_->track_deltas);
}

CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::EraseRow(uint32_t group, uint64_t hash, const K& key,
                                                bool tombstone) {
  const Entry* entry = EntryOf(group, hash);
  uint32_t index = 0;
  if (!FindLive(*entry, hash, key, &index)) return false;
  const Slot& slot = SlotsOf(*entry)[index];
  const Cell old_cell = slot.cell;
  const uint32_t old_stamp = slot.stamp;
  const uint32_t newest = core_->newest.load(std::memory_order_acquire);
  if (entry->epoch <= newest) {
    const bool dead = old_stamp <= newest && IsDeadInViews(slot);
    const bool record = old_stamp <= newest && !dead;
    if ((!record || ReserveRecord()) && detail::SegmentBusy::Take(entry->head)) {
      if (dead) SlotsOf(*entry)[index].undo = 0;
      EraseSlot(*entry, hash, index, true, record);
      detail::SegmentBusy::Drop(entry->head);
    } else {
      entry = MakePrivate(group, hash, true);
      EraseSlot(*entry, hash, index, tombstone, false);
    }
  } else {
    EraseSlot(*entry, hash, index, tombstone, false);
  }
  if constexpr (!kInlineValue) RetireBox(old_cell, old_stamp);
  return true;
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::EraseSlot(const Entry& entry, uint64_t hash, uint32_t index,
                                                 bool tombstone, bool record) {
  Slot* slot = SlotsOf(entry) + index;
  uint8_t* tags = entry.head->tags();
  --cut_.live_rows;
  has_erased_ = true;
  if (record) AppendRecord(slot, true);
  if (tombstone) {
    tags[index] = detail::TombstoneTag(hash);
    Stamp(entry.head, slot);
    return;
  }
  // A bucket that still has an empty slot has never been passed by a probe.
  const bool passed =
      detail::TagBucket(tags + index / detail::kBucketSlots * detail::kBucketSlots).Empty() == 0;
  tags[index] = passed ? detail::kTagDeleted : detail::kTagEmpty;
  if (!passed) --entry.head->used;
  DropKey(slot->key);
}

CAIRN_TABLE_TEMPLATE const V* CAIRN_TABLE::Find(KeyArg key) const {
  return FindHashed(key, FnvOf(key));
}

CAIRN_TABLE_TEMPLATE const V* CAIRN_TABLE::FindHashed(KeyArg key, uint64_t fnv) const {
  const uint32_t group = RelativeGroup(fnv);
  if (group >= group_count_) return nullptr;
  const uint64_t hash = HashOf(key);
  const Entry* entry = EntryOf(group, hash);
  uint32_t index = 0;
  if (!FindLive(*entry, hash, ToKey(key), &index)) return nullptr;
  return &ValueOf(SlotsOf(*entry)[index].cell);
}

CAIRN_TABLE_TEMPLATE template <class KeyAt, class FnvAt, class Fn>
void CAIRN_TABLE::FindBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) const {
  constexpr size_t kBlock = 32;
  struct Ahead {
    uint64_t hash;
    const Entry* entry;
  };
  Ahead ahead[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t rows = std::min(kBlock, count - begin);
    for (size_t j = 0; j < rows; ++j) {
      const uint32_t group = RelativeGroup(fnv_at(begin + j));
      const uint64_t hash = HashOf(key_at(begin + j));
      const Entry* entry = group < group_count_ ? EntryOf(group, hash) : detail::NoSegment();
      ahead[j] = {hash, entry};
      __builtin_prefetch(entry->head->tags() +
                         detail::HomeBucket(hash, entry->local_depth, entry->buckets) *
                             detail::kBucketSlots);
    }
    for (size_t j = 0; j < rows; ++j) {
      const Entry& entry = *ahead[j].entry;
      const uint32_t first = detail::HomeBucket(ahead[j].hash, entry.local_depth, entry.buckets) *
                             detail::kBucketSlots;
      const detail::TagBucket tags(entry.head->tags() + first);
      const uint32_t match = tags.Match(detail::LiveTag(ahead[j].hash));
      if (match != 0) {
        __builtin_prefetch(SlotsOf(entry) + first + static_cast<uint32_t>(std::countr_zero(match)));
      }
    }
    for (size_t j = 0; j < rows; ++j) {
      const Entry& entry = *ahead[j].entry;
      uint32_t index = 0;
      const bool found = FindLive(entry, ahead[j].hash, ToKey(key_at(begin + j)), &index);
      fn(begin + j, found ? &ValueOf(SlotsOf(entry)[index].cell) : nullptr);
    }
  }
}

}  // namespace v0
}  // namespace cairn
