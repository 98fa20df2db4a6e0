// SPDX-License-Identifier: Apache-2.0
//
// Bodies of Table: ordered maps that are copied at capture.
#pragma once

#include "cairn/detail/domain_core.h"
#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

#define CAIRN_TABLE_ template <class K, class V, class KC, class VC>
#define CAIRN_TABLE_CLASS_ Table<K, V, KC, VC>

CAIRN_TABLE_ CAIRN_TABLE_CLASS_::Table(StateDomain* domain, SlotDescriptor descriptor,
                                       TableOptions options, KC key_codec, VC value_codec)
    : domain_(domain),
      descriptor_(std::move(descriptor)),
      options_(options),
      key_codec_(std::move(key_codec)),
      value_codec_(std::move(value_codec)) {
  if (options_.range.last == 0) options_.range = {0, options_.key_groups};
  now_.groups.resize(options_.range.size());
  index_ = domain->core()->copy.size();
  domain->core()->copy.push_back(
      [this]() -> std::shared_ptr<const void> { return std::make_shared<const Cut>(now_); });
}

CAIRN_TABLE_ CAIRN_TABLE_CLASS_::~Table() {
  domain_->core()->copy[index_] = [] { return std::shared_ptr<const void>(); };
}

CAIRN_TABLE_ std::string CAIRN_TABLE_CLASS_::Encoded(KeyArg key) const {
  if constexpr (std::is_same_v<K, Bytes>) {
    return std::string(key);
  } else {
    std::string bytes(key_codec_.EncodedSize(key), '\0');
    key_codec_.Encode(key, bytes.data());
    return bytes;
  }
}

CAIRN_TABLE_ Status CAIRN_TABLE_CLASS_::Find(const std::string& bytes, uint64_t fnv, Group** group,
                                             Order* order) {
  const uint32_t g = static_cast<uint32_t>(fnv % options_.key_groups);
  if (!options_.range.Contains(g)) {
    return Status::InvalidArgument("key group " + std::to_string(g) + " is not in this table");
  }
  *group = &now_.groups[g - options_.range.first];
  *order = {detail::SlotHashOf(bytes, options_.slot_hash_seed), bytes};
  return {};
}

CAIRN_TABLE_ template <class Fn>
Status CAIRN_TABLE_CLASS_::Update(KeyArg key, Fn&& fn) {
  return UpdateHashed(key, Fnv1a64(Encoded(key)), fn);
}

CAIRN_TABLE_ template <class Fn>
Status CAIRN_TABLE_CLASS_::UpdateHashed(KeyArg key, uint64_t fnv, Fn&& fn) {
  Group* group;
  Order order;
  CAIRN_RETURN_IF_ERROR(Find(Encoded(key), fnv, &group, &order));
  auto it = group->rows.find(order);
  const bool inserted = it == group->rows.end() || !it->second.live;
  V value = inserted ? V{} : it->second.value;
  fn(value, inserted);
  Row& row = group->rows[order];
  row = Row{std::move(value), domain_->current_epoch(), true};
  now_.live += inserted ? 1 : 0;
  return {};
}

CAIRN_TABLE_ template <class Fn>
Status CAIRN_TABLE_CLASS_::UpdateBatch(std::span<const KeyArg> keys,
                                       std::span<const uint64_t> fnv_hashes, Fn&& fn) {
  return UpdateBatch(
      keys.size(), [&](size_t i) { return keys[i]; }, [&](size_t i) { return fnv_hashes[i]; }, fn);
}

CAIRN_TABLE_ template <class KeyAt, class FnvAt, class Fn>
Status CAIRN_TABLE_CLASS_::UpdateBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) {
  for (size_t i = 0; i < count; ++i) {
    CAIRN_RETURN_IF_ERROR(UpdateHashed(key_at(i), fnv_at(i),
                                       [&](V& value, bool inserted) { fn(i, value, inserted); }));
  }
  return {};
}

CAIRN_TABLE_ bool CAIRN_TABLE_CLASS_::Erase(KeyArg key) {
  return EraseHashed(key, Fnv1a64(Encoded(key)));
}

CAIRN_TABLE_ bool CAIRN_TABLE_CLASS_::EraseHashed(KeyArg key, uint64_t fnv) {
  Group* group;
  Order order;
  if (!Find(Encoded(key), fnv, &group, &order).ok()) return false;
  auto it = group->rows.find(order);
  if (it == group->rows.end() || !it->second.live) return false;
  it->second = Row{V{}, domain_->current_epoch(), false};
  --now_.live;
  return true;
}

CAIRN_TABLE_ const V* CAIRN_TABLE_CLASS_::Find(KeyArg key) const {
  return FindHashed(key, Fnv1a64(Encoded(key)));
}

CAIRN_TABLE_ const V* CAIRN_TABLE_CLASS_::FindHashed(KeyArg key, uint64_t fnv) const {
  Group* group;
  Order order;
  if (!const_cast<Table*>(this)->Find(Encoded(key), fnv, &group, &order).ok()) return nullptr;
  auto it = group->rows.find(order);
  return it == group->rows.end() || !it->second.live ? nullptr : &it->second.value;
}

CAIRN_TABLE_ template <class KeyAt, class FnvAt, class Fn>
void CAIRN_TABLE_CLASS_::FindBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) const {
  for (size_t i = 0; i < count; ++i) fn(i, FindHashed(key_at(i), fnv_at(i)));
}

CAIRN_TABLE_ const typename CAIRN_TABLE_CLASS_::Cut* CAIRN_TABLE_CLASS_::At(
    const View& view) const {
  const auto& cuts = view.node()->cuts;
  return index_ < cuts.size() ? static_cast<const Cut*>(cuts[index_].get()) : nullptr;
}

CAIRN_TABLE_ template <class Fn>
bool CAIRN_TABLE_CLASS_::Get(const View& view, KeyArg key, Fn&& fn) const {
  const std::string bytes = Encoded(key);
  const uint32_t g = KeyGroupOf(bytes, options_.key_groups);
  const Cut* cut = At(view);
  if (cut == nullptr || !options_.range.Contains(g)) return false;
  const auto& rows = cut->groups[g - options_.range.first].rows;
  auto it = rows.find({detail::SlotHashOf(bytes, options_.slot_hash_seed), bytes});
  if (it == rows.end() || !it->second.live) return false;
  fn(it->second.value);
  return true;
}

CAIRN_TABLE_ template <class Fn>
void CAIRN_TABLE_CLASS_::Scan(const View& view, KeyGroupRange range, Fn&& fn) const {
  const Cut* cut = At(view);
  for (uint32_t g = options_.range.first; cut != nullptr && g < options_.range.last; ++g) {
    if (!range.Contains(g)) continue;
    for (const auto& [order, row] : cut->groups[g - options_.range.first].rows) {
      if (!row.live) continue;
      const K key = Decoded(order.second);
      if constexpr (std::is_same_v<decltype(fn(key, row.value)), bool>) {
        if (!fn(key, row.value)) return;
      } else {
        fn(key, row.value);
      }
    }
  }
}

CAIRN_TABLE_ template <class Fn>
void CAIRN_TABLE_CLASS_::Delta(const View& view, uint64_t since, Fn&& fn) const {
  const Cut* cut = At(view);
  if (cut == nullptr) return;
  for (const Group& group : cut->groups) {
    for (const auto& [order, row] : group.rows) {
      if (row.stamp <= since) continue;
      const K key = Decoded(order.second);
      fn(row.live ? SavedRowKind::kPut : SavedRowKind::kErase, key,
         row.live ? &row.value : static_cast<const V*>(nullptr));
    }
  }
}

CAIRN_TABLE_ KeyGroupRange CAIRN_TABLE_CLASS_::key_groups() const { return options_.range; }

CAIRN_TABLE_ Status CAIRN_TABLE_CLASS_::EncodeBase(const View& view, KeyGroupRange range,
                                                   SavedRowSink* sink) const {
  const Cut* cut = At(view);
  for (uint32_t g = options_.range.first; cut != nullptr && g < options_.range.last; ++g) {
    SavedRows* out = nullptr;
    if (!range.Contains(g)) continue;
    for (const auto& [order, row] : cut->groups[g - options_.range.first].rows) {
      if (!row.live) continue;
      if (out == nullptr) {
        CAIRN_ASSIGN_OR_RETURN(out, sink->BeginGroup(g));
      }
      auto slot = out->Append(SavedRowKind::kMaterialised, order.second.size(),
                              value_codec_.EncodedSize(row.value));
      std::memcpy(slot.key, order.second.data(), order.second.size());
      value_codec_.Encode(row.value, slot.value);
      if (out->bytes() >= kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
    }
  }
  return {};
}

CAIRN_TABLE_ Status CAIRN_TABLE_CLASS_::EncodeDelta(const View& view, uint64_t since,
                                                    KeyGroupRange range, SavedRowSink* sink) const {
  const Cut* cut = At(view);
  for (uint32_t g = options_.range.first; cut != nullptr && g < options_.range.last; ++g) {
    SavedRows* out = nullptr;
    if (!range.Contains(g)) continue;
    for (const auto& [order, row] : cut->groups[g - options_.range.first].rows) {
      if (row.stamp <= since) continue;
      if (out == nullptr) {
        CAIRN_ASSIGN_OR_RETURN(out, sink->BeginGroup(g));
      }
      auto slot =
          out->Append(row.live ? SavedRowKind::kPut : SavedRowKind::kErase, order.second.size(),
                      row.live ? value_codec_.EncodedSize(row.value) : 0);
      std::memcpy(slot.key, order.second.data(), order.second.size());
      if (row.live) value_codec_.Encode(row.value, slot.value);
      if (out->bytes() >= kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
    }
  }
  return {};
}

CAIRN_TABLE_ Status CAIRN_TABLE_CLASS_::Load(const SavedRowSpan& rows, size_t group_prefix_bytes,
                                             size_t key_prefix_bytes, LoadCounts* counts) {
  for (size_t i = 0; i < rows.rows; ++i) {
    const std::string_view stored = rows.key(i);
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(stored[at]); };
    const uint32_t g = group_prefix_bytes == 1 ? byte(0) : byte(0) * 256u + byte(1);
    if (!options_.range.Contains(g)) {
      ++counts->skipped;
      continue;
    }
    const std::string bytes(stored.substr(key_prefix_bytes));
    Row& row = now_.groups[g - options_.range.first]
                   .rows[{detail::SlotHashOf(bytes, options_.slot_hash_seed), bytes}];
    now_.live -= row.live ? 1 : 0;
    row = Row{V{}, domain_->current_epoch(), rows.kind(i) != SavedRowKind::kErase};
    if (row.live) {
      auto value = value_codec_.Decode(rows.value(i));
      if (!value.ok()) return value.status().WithContext(descriptor_.name);
      row.value = *std::move(value);
      ++now_.live;
    }
    ++counts->rows;
  }
  return {};
}

CAIRN_TABLE_ uint64_t CAIRN_TABLE_CLASS_::CountRows(const View& view) const {
  const Cut* cut = At(view);
  return cut == nullptr ? 0 : cut->live;
}

CAIRN_TABLE_ uint64_t CAIRN_TABLE_CLASS_::MemoryBytes() const {
  return now_.live * (sizeof(Row) + sizeof(Order));
}

CAIRN_TABLE_ uint64_t CAIRN_TABLE_CLASS_::size() const { return now_.live; }

}  // namespace v0
}  // namespace cairn
