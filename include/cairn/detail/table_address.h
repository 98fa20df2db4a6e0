// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table for rows that are found again by slot hash and group, without their key. All of
// it is the writer's.
#pragma once

#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

CAIRN_TABLE_TEMPLATE template <class Match>
const K* CAIRN_TABLE::FindAt(Address address, Match&& match) const {
  const Entry& entry = *EntryOf(address.group, address.hash);
  const uint8_t* tags = entry.head->tags();
  const Slot* slots = SlotsOf(entry);
  uint32_t bucket = detail::HomeBucket(address.hash, entry.local_depth, entry.buckets);
  for (;;) {
    const detail::TagBucket bucket_tags(tags + bucket * detail::kBucketSlots);
    for (uint32_t found = bucket_tags.Match(detail::LiveTag(address.hash)); found != 0;
         found &= found - 1) {
      const Slot& slot =
          slots[bucket * detail::kBucketSlots + static_cast<uint32_t>(std::countr_zero(found))];
      const K& key = slot.key;
      if (match(key, ValueOf(slot.cell)) && HashOfStored(key) == address.hash) return &key;
    }
    if (bucket_tags.Empty() != 0) return nullptr;
    if (++bucket == entry.buckets) bucket = 0;
  }
}

CAIRN_TABLE_TEMPLATE void CAIRN_TABLE::PrefetchAt(Address address) const {
  const Entry& entry = *EntryOf(address.group, address.hash);
  __builtin_prefetch(entry.head->tags() +
                     detail::HomeBucket(address.hash, entry.local_depth, entry.buckets) *
                         detail::kBucketSlots);
}

CAIRN_TABLE_TEMPLATE template <class Fn>
Status CAIRN_TABLE::UpdateAt(Address address, const K& key, Fn&& fn) {
  const Entry* entry = EntryOf(address.group, address.hash);
  uint32_t index = 0;
  if (!FindLive(*entry, address.hash, key, &index)) {
    return InsertRow(address.group, address.hash, key, fn);
  }
  return ChangeSlot(entry, address.group, address.hash, SlotsOf(*entry) + index, fn);
}

}  // namespace v0
}  // namespace cairn
