// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table that change its structure: private copies, growth and splits. All of it is the
// writer's.
//
// Nothing an open view can reach is changed here: a new version takes its place in the newest root
// and the old one is retired, unchanged. A rebuilt segment starts with empty chains of pre-images,
// since whoever needs the old ones reads the old segment.
#pragma once

#include <algorithm>
#include <bit>
#include <new>

#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

CAIRN_TABLE_TEMPLATE CAIRN_TABLE::Table(StateDomain* domain, SlotDescriptor descriptor,
                                        TableOptions options, KeyCodec key_codec,
                                        ValueCodec value_codec)
    : core_(domain->core()),
      key_groups_(options.key_groups),
      key_groups_pow2_(std::has_single_bit(options.key_groups)),
      hasher_(options.slot_hash_seed),
      log_account_(core_->AddLogAccount()),
      log_chunk_rows_(
          std::min<uint32_t>(options.log_chunk_rows, 1u << detail::DomainCore::kChunkShift)),
      log_percent_max_(options.log_percent_max),
      value_bytes_max_(options.value_bytes_max),
      descriptor_(std::move(descriptor)),
      key_codec_(std::move(key_codec)),
      value_codec_(std::move(value_codec)) {
  if (options.range.size() == 0 && options.range.last == 0) options.range = {0, key_groups_};
  first_group_ = options.range.first;
  group_count_ = options.range.size();
  // A chunk of large cells holds fewer of them, so that it stays a pooled block.
  constexpr size_t kRecordsFit =
      (detail::BlockPool::kMaxPooledBytes - sizeof(detail::LogChunk)) / sizeof(Record);
  log_chunk_rows_ = std::clamp<uint32_t>(log_chunk_rows_, 1, kRecordsFit);
  max_buckets_ = std::clamp<uint32_t>(
      static_cast<uint32_t>(options.segment_bytes_max / (detail::kBucketSlots * sizeof(Slot))), 1,
      1024);
  for (uint32_t buckets = max_buckets_; buckets > 0; buckets = buckets * 2 / 3) {
    bucket_classes_.insert(bucket_classes_.begin(), buckets);
  }
  scratch_hashes_.resize(size_t{max_buckets_} * detail::kBucketSlots);
  if constexpr (!kInlineValue) box_kind_ = core_->AddDestroyer(&detail::DestroyBox<V>);
  const size_t root_bytes = sizeof(detail::Root) + group_count_ * sizeof(detail::RootEntry);
  auto* root = new (AllocateCounted(root_bytes, true))
      detail::Root{core_->epoch, group_count_, detail::BlockPool::ClassOf(root_bytes)};
  entries_ = root->entries();
  std::fill_n(entries_, group_count_, detail::RootEntryOf(detail::NoSegment(), 0));
  cut_.root = root;
  cut_.epoch = core_->epoch;
  index_ = core_->AddTable(&cut_);
}

// Open views keep what they see: it is retired like everything else.
CAIRN_TABLE_TEMPLATE CAIRN_TABLE::~Table() {
  core_->RemoveTable(index_);
  for (uint32_t group = 0; group < group_count_; ++group) {
    const detail::RootEntry& root = entries_[group];
    if (root.entries == detail::NoSegment()) continue;
    const uint64_t size = uint64_t{1} << root.depth;
    for (uint64_t i = 0; i < size;) {
      const Entry& entry = root.entries[i];
      i += uint64_t{1} << (root.depth - entry.local_depth);
      const uint8_t* tags = entry.head->tags();
      const Slot* slots = SlotsOf(entry);
      if (slots == nullptr) continue;
      for (uint32_t s = 0; s < entry.buckets * detail::kBucketSlots; ++s) {
        if (!detail::IsLive(tags[s]) && !detail::IsTombstone(tags[s])) continue;
        if constexpr (!kInlineValue) {
          if (detail::IsLive(tags[s])) RetireBox(slots[s].cell, slots[s].stamp);
        }
        DropKey(slots[s].key);
      }
      RetireSegment(entry.head);
    }
    auto* directory = reinterpret_cast<detail::Directory*>(const_cast<Entry*>(root.entries)) - 1;
    RetireBlock(directory, directory->block_class, directory->epoch);
  }
  auto* root = const_cast<detail::Root*>(cut_.root);
  RetireBlock(root, root->block_class, root->epoch);
  if (log_chunk_ != nullptr) {
    core_->Retire(log_chunk_, log_chunk_->block_class, detail::kLogChunk, 0);
  }
}

// --- memory ------------------------------------------------------------------------------------

// Null only when `force` is off and the budget refuses.
CAIRN_TABLE_TEMPLATE void* CAIRN_TABLE::AllocateCounted(size_t bytes, bool force) {
  void* block = core_->pool.Allocate(bytes, force);
  if (block == nullptr) {
    if (force) throw std::bad_alloc();
    return nullptr;
  }
  CountBytes(static_cast<int64_t>(
      detail::BlockPool::BlockBytes(block, detail::BlockPool::ClassOf(bytes))));
  return block;
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::RetireBlock(void* block, detail::BlockClass block_class,
                                                   uint32_t birth) {
  CountBytes(-static_cast<int64_t>(detail::BlockPool::BlockBytes(block, block_class)));
  core_->Retire(block, block_class, detail::kBlock, birth);
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::RetireSegment(Head* head) {
  CountBytes(-static_cast<int64_t>(detail::BlockPool::BlockBytes(head, head->head_class) +
                                   detail::BlockPool::BlockBytes(head->slots, head->slots_class)));
  core_->Retire(head, head->head_class, detail::kSegment, head->epoch);
}

// Gives a long key memory of the table's; false when the budget refuses it.
CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::OwnKey([[maybe_unused]] K* key,
                                              [[maybe_unused]] bool force) {
  if constexpr (kBytesKey) {
    if (key->is_inline()) return true;
    const size_t bytes = sizeof(detail::OwnedKey) + key->size();
    void* block = AllocateCounted(bytes, force);
    if (block == nullptr) return false;
    auto* owned = new (block) detail::OwnedKey{core_->epoch, detail::BlockPool::ClassOf(bytes)};
    char* to = reinterpret_cast<char*>(owned + 1);
    std::memcpy(to, key->data(), key->size());
    *key = Bytes(std::string_view(to, key->size()));
  }
  return true;
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::DropKey([[maybe_unused]] const K& key) {
  if constexpr (kBytesKey) {
    if (key.is_inline()) return;
    detail::OwnedKey* owned = detail::OwnedKey::Of(key);
    RetireBlock(owned, owned->block_class, owned->birth);
  }
}

// A new box: V{} or a copy. Null when the budget refuses it; a throwing copy leaves nothing behind.
CAIRN_TABLE_TEMPLATE typename CAIRN_TABLE::Box* CAIRN_TABLE::NewBox(const V* from) {
  void* block = AllocateCounted(sizeof(Box), false);
  if (block == nullptr) return nullptr;
  try {
    if (from == nullptr) return new (block) Box{};
    return new (block) Box{{}, *from};
  } catch (...) {
    CountBytes(-static_cast<int64_t>(detail::BlockPool::BlockBytes(block, kBoxClass)));
    core_->pool.Free(block, kBoxClass);
    throw;
  }
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::FreeBox(Box* box) {
  RetireBox(box, core_->epoch);  // born after every open view: freed at once
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::RetireBox(Box* box, uint32_t birth) {
  CountBytes(
      -static_cast<int64_t>(detail::BlockPool::BlockBytes(box, kBoxClass) + box->external_bytes));
  core_->Retire(static_cast<detail::BoxHeader*>(box), kBoxClass, box_kind_, birth);
}

// Charges what the value in `box` owns now, which may be too much. With `force` it is charged over
// budget and limit too.
CAIRN_TABLE_TEMPLATE Status CAIRN_TABLE::MeasureBox(Box* box, bool force) {
  const uint64_t now = value_codec_.MemoryBytes(box->value);
  const uint64_t before = box->external_bytes;
  if (now > value_bytes_max_ && !force) [[unlikely]] {
    return Status::InvalidArgument("the value takes " + std::to_string(now) + " bytes, at most " +
                                   std::to_string(value_bytes_max_) + " are allowed");
  }
  if (now > before) {
    CAIRN_RETURN_IF_ERROR(core_->ChargeExternal(now - before, force));
  } else if (now < before) {
    core_->ReleaseExternal(before - now);
  }
  box->external_bytes = now;
  if (now != before) CountBytes(static_cast<int64_t>(now) - static_cast<int64_t>(before));
  return {};
}

// --- private copies ----------------------------------------------------------------------------

CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::PrivateRoot(bool force) {
  const detail::Root* old = cut_.root;
  if (old->epoch > core_->newest.load(std::memory_order_acquire)) return true;
  const size_t bytes = sizeof(detail::Root) + group_count_ * sizeof(detail::RootEntry);
  void* block = AllocateCounted(bytes, force);
  if (block == nullptr) return false;
  auto* root = new (block) detail::Root{core_->epoch, group_count_, old->block_class};
  std::copy_n(old->entries(), group_count_, root->entries());
  cut_.root = root;
  entries_ = root->entries();
  RetireBlock(const_cast<detail::Root*>(old), old->block_class, old->epoch);
  return true;
}

CAIRN_TABLE_TEMPLATE detail::Directory* CAIRN_TABLE::NewDirectory(uint32_t depth, bool force) {
  const size_t bytes = sizeof(detail::Directory) + (sizeof(Entry) << depth);
  void* block = AllocateCounted(bytes, force);
  if (block == nullptr) return nullptr;
  return new (block) detail::Directory{core_->epoch, depth, detail::BlockPool::ClassOf(bytes)};
}

// The group's directory, in a version that no open view reaches; null when refused.
CAIRN_TABLE_TEMPLATE detail::Directory* CAIRN_TABLE::PrivateDirectory(uint32_t group, bool force) {
  if (!PrivateRoot(force)) return nullptr;
  const detail::RootEntry& root = entries_[group];
  const bool no_rows = root.entries == detail::NoSegment();
  auto* old = reinterpret_cast<detail::Directory*>(const_cast<Entry*>(root.entries)) - 1;
  if (!no_rows && old->epoch > core_->newest.load(std::memory_order_acquire)) return old;
  detail::Directory* copy = NewDirectory(root.depth, force);
  if (copy == nullptr) return nullptr;
  std::copy_n(root.entries, size_t{1} << root.depth, copy->entries());
  PutDirectory(group, copy);
  if (!no_rows) RetireBlock(old, old->block_class, old->epoch);
  return copy;
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::PutDirectory(uint32_t group, detail::Directory* directory) {
  entries_[group] = detail::RootEntryOf(directory->entries(), directory->depth);
  ++structure_version_;
}

CAIRN_TABLE_TEMPLATE detail::Directory* CAIRN_TABLE::DoubleDirectory(uint32_t group) {
  auto* old = reinterpret_cast<detail::Directory*>(const_cast<Entry*>(entries_[group].entries)) - 1;
  detail::Directory* doubled = NewDirectory(old->depth + 1, false);
  if (doubled == nullptr) return nullptr;
  for (size_t i = 0; i < size_t{1} << old->depth; ++i) {
    doubled->entries()[2 * i] = doubled->entries()[2 * i + 1] = old->entries()[i];
  }
  PutDirectory(group, doubled);
  RetireBlock(old, old->block_class, old->epoch);
  return doubled;
}

CAIRN_TABLE_TEMPLATE detail::SegmentHead* CAIRN_TABLE::NewSegment(uint32_t buckets, bool force) {
  const size_t slots = size_t{buckets} * detail::kBucketSlots;
  const size_t head_bytes = sizeof(Head) + slots;
  void* head_block = AllocateCounted(head_bytes, force);
  if (head_block == nullptr) return nullptr;
  void* slots_block = AllocateCounted(slots * sizeof(Slot), force);
  if (slots_block == nullptr) {
    const auto head_class = detail::BlockPool::ClassOf(head_bytes);
    RetireBlock(head_block, head_class, core_->epoch);
    return nullptr;
  }
  Head* head = new (head_block) Head;
  head->epoch = core_->epoch;
  head->limit = buckets * 14;
  head->buckets = static_cast<uint16_t>(buckets);
  head->head_class = detail::BlockPool::ClassOf(head_bytes);
  head->slots_class = detail::BlockPool::ClassOf(slots * sizeof(Slot));
  head->slots = slots_block;
  std::memset(head->tags(), detail::kTagEmpty, slots);
  return head;
}

// Puts a copy of the hash's segment in its place. Slot indexes stay. Null when refused.
CAIRN_TABLE_TEMPLATE const detail::DirectoryEntry* CAIRN_TABLE::MakePrivate(uint32_t group,
                                                                            uint64_t hash,
                                                                            bool force) {
  detail::Directory* directory = PrivateDirectory(group, force);
  if (directory == nullptr) return nullptr;
  const uint64_t index = detail::DirectoryIndex(hash, entries_[group].shift);
  const Entry old = directory->entries()[index];
  Head* head = NewSegment(old.buckets, force);
  if (head == nullptr) return nullptr;
  const size_t slots = size_t{old.buckets} * detail::kBucketSlots;
  std::memcpy(head->tags(), old.head->tags(), slots);
  std::memcpy(head->slots, old.slots, slots * sizeof(Slot));
  head->used = old.head->used;
  head->max_stamp.store(old.head->max_stamp.load(std::memory_order_relaxed),
                        std::memory_order_relaxed);
  PutSegment(directory, index, head, old.local_depth);
  RetireSegment(old.head);
  return &directory->entries()[index];
}

// Points every alias of `index` at local depth `local_depth` to `head`.
CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::PutSegment(detail::Directory* directory, uint64_t index,
                                                  Head* head, uint32_t local_depth) {
  const uint64_t aliases = uint64_t{1} << (directory->depth - local_depth);
  const uint64_t first = index & ~(aliases - 1);
  std::fill_n(
      directory->entries() + first, aliases,
      Entry{head, head->slots, head->epoch, head->buckets, static_cast<uint8_t>(local_depth)});
  ++structure_version_;
}

// --- growth ------------------------------------------------------------------------------------

// Buckets of a segment that is to hold `rows` and a quarter more; max_buckets_ at most.
CAIRN_TABLE_TEMPLATE uint32_t CAIRN_TABLE::BucketsFor(uint64_t rows) const {
  for (uint32_t buckets : bucket_classes_) {
    if (buckets * 14 > rows + rows / 4) return buckets;
  }
  return max_buckets_;
}

// Rebuilds the full segment of `hash`: larger, of the same size without its dead rows, or in two.
// False when memory was refused; nothing has changed then but private copies.
CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::Grow(uint32_t group, uint64_t hash) {
  detail::Directory* directory = PrivateDirectory(group, false);
  if (directory == nullptr) return false;
  const uint64_t index = detail::DirectoryIndex(hash, entries_[group].shift);
  const Entry old = directory->entries()[index];
  const uint32_t floor = core_->TombstoneFloor();
  const uint8_t* tags = old.head->tags();
  const Slot* slots = SlotsOf(old);
  const uint32_t slot_count = old.slots == nullptr ? 0 : old.buckets * detail::kBucketSlots;
  if (slot_count > scratch_hashes_.size()) scratch_hashes_.resize(slot_count);
  uint32_t kept = 0;
  uint32_t kept_low = 0;  // in the lower half of the segment's hashes
  for (uint32_t i = 0; i < slot_count; ++i) {
    if (!IsKept(tags[i], slots[i].stamp, floor)) continue;
    scratch_hashes_[i] = HashOfStored(slots[i].key);
    kept_low += (scratch_hashes_[i] << old.local_depth) >> 63 == 0 ? 1 : 0;
    ++kept;
  }
  const bool deepest = old.local_depth >= kDepthMax;
  const bool fits = deepest || kept + kept / 4 < max_buckets_ * 14;
  Head* low = nullptr;
  Head* high = nullptr;
  if (fits) {
    low = high = NewSegment(deepest ? (kept + kept / 4) / 14 + 1 : BucketsFor(kept), false);
    if (low == nullptr) return false;
  } else {
    if (old.local_depth == directory->depth) {
      directory = DoubleDirectory(group);
      if (directory == nullptr) return false;
    }
    low = NewSegment(BucketsFor(kept_low), false);
    high = low == nullptr ? nullptr : NewSegment(BucketsFor(kept - kept_low), false);
    if (high == nullptr) {
      if (low != nullptr) RetireSegment(low);
      return false;
    }
  }
  const uint32_t local_depth = old.local_depth + (fits ? 0 : 1);
  for (uint32_t i = 0; i < slot_count; ++i) {
    if (IsKept(tags[i], slots[i].stamp, floor)) {
      const uint64_t h = scratch_hashes_[i];
      CopyInto((h << old.local_depth) >> 63 == 0 ? low : high, local_depth, slots[i], h, tags[i]);
    } else if (detail::IsTombstone(tags[i])) {
      DropKey(slots[i].key);
    }
  }
  const uint64_t at = detail::DirectoryIndex(hash, entries_[group].shift);
  if (fits) {
    PutSegment(directory, at, low, local_depth);
  } else {
    const uint64_t aliases = uint64_t{1} << (directory->depth - local_depth);
    const uint64_t first = at & ~(2 * aliases - 1);
    PutSegment(directory, first, low, local_depth);
    PutSegment(directory, first + aliases, high, local_depth);
  }
  if (slot_count > 0) RetireSegment(old.head);
  return true;
}

CAIRN_TABLE_TEMPLATE inline void CAIRN_TABLE::CopyInto(Head* head, uint32_t local_depth,
                                                       const Slot& slot, uint64_t hash,
                                                       uint8_t tag) {
  uint32_t bucket = detail::HomeBucket(hash, local_depth, head->buckets);
  for (;;) {
    uint8_t* tags = head->tags() + bucket * detail::kBucketSlots;
    const uint32_t empty = detail::TagBucket(tags).Empty();
    if (empty != 0) {
      const auto i = static_cast<uint32_t>(std::countr_zero(empty));
      tags[i] = tag;
      Slot& to = static_cast<Slot*>(head->slots)[bucket * detail::kBucketSlots + i];
      std::memcpy(static_cast<void*>(&to), &slot, sizeof(Slot));
      to.undo = 0;
      ++head->used;
      if (head->max_stamp.load(std::memory_order_relaxed) < to.stamp) {
        head->max_stamp.store(to.stamp, std::memory_order_relaxed);
      }
      return;
    }
    if (++bucket == head->buckets) bucket = 0;
  }
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::Shrink(size_t segments) {
  for (; segments > 0; --segments) {
    if (shrink_group_ == 0 && shrink_index_ == 0) {
      if (!has_erased_) return;
      has_erased_ = false;
    }
    const detail::RootEntry& root = entries_[shrink_group_];
    if (root.entries != detail::NoSegment()) {
      shrink_index_ += ShrinkSegment(shrink_group_, shrink_index_);
      if (shrink_index_ < uint64_t{1} << entries_[shrink_group_].depth) continue;
      DropEmptyDirectory(shrink_group_);
    }
    shrink_index_ = 0;
    if (++shrink_group_ == group_count_) shrink_group_ = 0;
  }
}

// Puts a segment of half the size or less in the place of one whose rows fit there, none in the
// place of an empty one. Returns how many directory entries from `index` on it looked at.
CAIRN_TABLE_TEMPLATE uint64_t CAIRN_TABLE::ShrinkSegment(uint32_t group, uint64_t index) {
  const uint32_t depth = entries_[group].depth;
  const Entry old = entries_[group].entries[index];
  const uint64_t aliases = uint64_t{1} << (depth - old.local_depth);
  const uint64_t step = aliases - (index & (aliases - 1));
  if (old.slots == nullptr) return step;
  const uint32_t floor = core_->TombstoneFloor();
  const uint8_t* tags = old.head->tags();
  const Slot* slots = SlotsOf(old);
  const uint32_t slot_count = old.buckets * detail::kBucketSlots;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < slot_count; ++i) {
    if (!IsKept(tags[i], slots[i].stamp, floor)) continue;
    ++kept;
    has_erased_ |= detail::IsTombstone(tags[i]);  // may go in a later pass
  }
  const uint32_t buckets = kept == 0 ? 0 : BucketsFor(kept);
  if (buckets * 2 > old.buckets) return step;
  detail::Directory* directory = PrivateDirectory(group, false);
  Head* head = buckets == 0 || directory == nullptr ? nullptr : NewSegment(buckets, false);
  if (directory == nullptr || (buckets != 0 && head == nullptr)) return step;
  for (uint32_t i = 0; i < slot_count; ++i) {
    if (IsKept(tags[i], slots[i].stamp, floor)) {
      CopyInto(head, old.local_depth, slots[i], HashOfStored(slots[i].key), tags[i]);
    } else if (detail::IsTombstone(tags[i])) {
      DropKey(slots[i].key);
    }
  }
  if (head != nullptr) {
    PutSegment(directory, index, head, old.local_depth);
  } else {
    Entry none = *detail::NoSegment();
    none.local_depth = old.local_depth;
    std::fill_n(directory->entries() + (index & ~(aliases - 1)), aliases, none);
    ++structure_version_;
  }
  RetireSegment(old.head);
  return step;
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::DropEmptyDirectory(uint32_t group) {
  const detail::RootEntry root = entries_[group];
  for (uint64_t i = 0; i < uint64_t{1} << root.depth; ++i) {
    if (root.entries[i].slots != nullptr) return;
  }
  if (!PrivateRoot(false)) return;
  entries_[group] = detail::RootEntryOf(detail::NoSegment(), 0);
  ++structure_version_;
  auto* directory = reinterpret_cast<detail::Directory*>(const_cast<Entry*>(root.entries)) - 1;
  RetireBlock(directory, directory->block_class, directory->epoch);
}

// Gives an empty group the segments that `rows` rows will need.
CAIRN_TABLE_TEMPLATE bool CAIRN_TABLE::Presize(uint32_t group, uint64_t rows) {
  // A segment is filled to 5/7 of its limit, which leaves room for chance.
  const uint64_t segments = (rows + max_buckets_ * 10 - 1) / (max_buckets_ * 10);
  const auto depth = static_cast<uint32_t>(std::bit_width(std::max<uint64_t>(segments, 1) - 1));
  if (depth > kDepthMax || !PrivateRoot(false)) return false;
  detail::Directory* directory = NewDirectory(depth, false);
  if (directory == nullptr) return false;
  const uint64_t size = uint64_t{1} << depth;
  const uint32_t buckets = BucketsFor((rows + size - 1) / size);
  for (uint64_t i = 0; i < size; ++i) {
    Head* head = NewSegment(buckets, false);
    if (head == nullptr) {
      for (uint64_t made = 0; made < i; ++made) RetireSegment(directory->entries()[made].head);
      RetireBlock(directory, directory->block_class, directory->epoch);
      return false;
    }
    PutSegment(directory, i, head, depth);
  }
  PutDirectory(group, directory);
  return true;
}

}  // namespace v0
}  // namespace cairn
