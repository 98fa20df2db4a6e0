// SPDX-License-Identifier: Apache-2.0
//
// ValueState: one value for every key: a Table (cairn/table.h), with a TTL when its descriptor asks
// for one. ReducingState and AggregatingState fold into such a value.
//
// Threads:  as Table. With refresh_on_read, Find changes the state.
// Source:   docs/state/kinds.md, docs/state/ttl.md.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/detail/timed_table.h"
#include "cairn/ordered_codec.h"
#include "cairn/table.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {

template <class K, class V, class KeyCodec = Codec<K>, class ValueCodec = Codec<V>>
class ValueState final : public StateTable {
  using Plain = Table<K, V, KeyCodec, ValueCodec>;
  using Expiring = detail::TimedTable<K, V, KeyCodec, ValueCodec>;

 public:
  using KeyArg = typename Plain::KeyArg;

  /// Add an empty slot to `domain`, which outlives it. Its TTL is descriptor.ttl.
  ValueState(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
             KeyCodec key_codec = {}, ValueCodec value_codec = {}) {
    if (descriptor.ttl.enabled()) {
      expiring_ = std::make_unique<Expiring>(domain, std::move(descriptor), options,
                                             std::move(key_codec), std::move(value_codec));
    } else {
      plain_ = std::make_unique<Plain>(domain, std::move(descriptor), options, std::move(key_codec),
                                       std::move(value_codec));
    }
  }

  /// As the calls of Table. An expired value is a missing one.
  template <class Fn>
  Status Update(KeyArg key, Fn&& fn) {
    return UpdateHashed(key, FnvOf(key), fn);
  }
  template <class Fn>
  Status UpdateHashed(KeyArg key, uint64_t fnv, Fn&& fn) {
    if (expiring_ == nullptr) [[likely]] {
      return plain_->UpdateHashed(key, fnv, fn);
    }
    return expiring_->UpdateHashed(key, fnv, fn);
  }
  template <class KeyAt, class FnvAt, class Fn>
  Status UpdateBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) {
    if (expiring_ == nullptr) return plain_->UpdateBatch(count, key_at, fnv_at, fn);
    return expiring_->UpdateBatch(count, key_at, fnv_at, fn);
  }
  /// Write the value of `key`.
  Status Put(KeyArg key, V value) {
    return Update(key, [&](V& to, bool) noexcept(std::is_nothrow_move_assignable_v<V>) {
      to = std::move(value);
    });
  }
  bool Erase(KeyArg key) { return EraseHashed(key, FnvOf(key)); }
  bool EraseHashed(KeyArg key, uint64_t fnv) {
    if (expiring_ == nullptr) [[likely]] {
      return plain_->EraseHashed(key, fnv);
    }
    return expiring_->EraseHashed(key, fnv);
  }
  const V* Find(KeyArg key) { return FindHashed(key, FnvOf(key)); }
  const V* FindHashed(KeyArg key, uint64_t fnv) {
    if (expiring_ == nullptr) [[likely]] {
      return plain_->FindHashed(key, fnv);
    }
    return expiring_->FindHashed(key, fnv);
  }
  template <class KeyAt, class FnvAt, class Fn>
  void FindBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) {
    if (expiring_ == nullptr) return plain_->FindBatch(count, key_at, fnv_at, fn);
    for (size_t i = 0; i < count; ++i) fn(i, expiring_->FindHashed(key_at(i), fnv_at(i)));
  }
  template <class Fn>
  void ScanNow(KeyGroupRange range, Fn&& fn) const {
    if (expiring_ == nullptr) return plain_->ScanNow(range, fn);
    expiring_->ScanNow(range, fn);
  }
  template <class Fn>
  bool Get(const View& view, KeyArg key, Fn&& fn) const {
    if (expiring_ == nullptr) return plain_->Get(view, key, fn);
    return expiring_->Get(view, key, fn);
  }
  template <class Fn>
  void Scan(const View& view, KeyGroupRange range, Fn&& fn) const {
    if (expiring_ == nullptr) return plain_->Scan(view, range, fn);
    expiring_->Scan(view, range, fn);
  }

  /// Call fn(const K&, const V&) for the keys from `from` (inclusive) to `to` (exclusive) in order;
  /// nothing = without that bound. When it returns bool, false ends it. Needs an ordered key codec.
  ///
  /// Cost:     O(rows of the slot + matches log matches): keys lie hashed. Where ranges are read
  ///           often, let them be keys of a MapState, which keeps them in order.
  template <class Fn>
    requires OrderedCodec<KeyCodec>
  void ScanRange(const View& view, const std::optional<K>& from, const std::optional<K>& to,
                 Fn&& fn) const {
    Ordered found(from, to);
    Scan(view, key_groups(), [&](const K& key, const V& value) { found.Add(key, value); });
    found.Visit(fn);
  }
  template <class Fn>
    requires OrderedCodec<KeyCodec>
  void ScanRangeNow(const std::optional<K>& from, const std::optional<K>& to, Fn&& fn) const {
    Ordered found(from, to);
    ScanNow(key_groups(), [&](const K& key, const V& value) { found.Add(key, value); });
    found.Visit(fn);
  }
  /// The same for the byte-string keys that start with `prefix`.
  template <class Fn>
    requires OrderedCodec<KeyCodec> && std::is_same_v<K, Bytes>
  void ScanPrefix(const View& view, std::string_view prefix, Fn&& fn) const {
    ScanRange(view, Bytes(prefix), {}, [&](const K& key, const V& value) {
      if (!key.view().starts_with(prefix)) return false;
      fn(key, value);
      return true;
    });
  }

  TtlStatistics Statistics(const View& view, int64_t by_ms) const {
    if (expiring_ != nullptr) return expiring_->Statistics(view, by_ms);
    return {plain_->CountRows(view), 0, 0, plain_->MemoryBytes()};
  }
  /// Rows now, expired ones that are not swept yet among them. Threads: the writer's.
  uint64_t size() const { return expiring_ != nullptr ? expiring_->size() : plain_->size(); }

  const SlotDescriptor& descriptor() const override { return table().descriptor(); }
  KeyGroupRange key_groups() const override { return table().key_groups(); }
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override {
    return table().EncodeBase(view, range, sink);
  }
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override {
    return table().EncodeDelta(view, since, range, sink);
  }
  Status ExpectSaved(const SlotDescriptor& saved) override {
    stripped_.reset();
    if (expiring_ != nullptr) return expiring_->ExpectSaved(saved);
    if (saved.ttl.enabled()) stripped_ = detail::SavedTtl::Of(saved);
    return {};
  }
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override {
    if (!stripped_) {
      return table().Load(rows, group_prefix_bytes, key_prefix_bytes, counts);
    }
    return LoadStripped(rows, group_prefix_bytes, key_prefix_bytes, counts);
  }
  uint64_t CountRows(const View& view) const override { return table().CountRows(view); }
  uint64_t MemoryBytes() const override { return table().MemoryBytes(); }
  size_t Maintain(size_t budget) override {
    if (expiring_ != nullptr) return expiring_->Maintain(budget);
    return plain_->Maintain(budget);
  }

 private:
  /// Rows of a range, sorted by key.
  class Ordered {
   public:
    Ordered(const std::optional<K>& from, const std::optional<K>& to) : from_(from), to_(to) {}
    void Add(const K& key, const V& value) {
      if (from_ && codec_.Less(key, *from_)) return;
      if (to_ && !codec_.Less(key, *to_)) return;
      rows_.emplace_back(key, value);
    }
    template <class Fn>
    void Visit(Fn& fn) {
      std::sort(rows_.begin(), rows_.end(),
                [&](const auto& a, const auto& b) { return codec_.Less(a.first, b.first); });
      for (const auto& [key, value] : rows_) {
        if constexpr (std::is_same_v<decltype(fn(key, value)), bool>) {
          if (!fn(key, value)) return;
        } else {
          fn(key, value);
        }
      }
    }

   private:
    const std::optional<K>& from_;
    const std::optional<K>& to_;
    [[no_unique_address]] KeyCodec codec_;
    std::vector<std::pair<K, V>> rows_;
  };

  // Rows saved with a TTL into a slot without one.
  Status LoadStripped(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
                      LoadCounts* counts) {
    SavedRows stripped;
    for (size_t i = 0; i < rows.rows; ++i) {
      std::string_view value = rows.value(i);
      SavedRowKind kind = rows.kind(i);
      if (kind != SavedRowKind::kErase) {
        if (value.size() < 8) {
          return detail::RowErrorOf(descriptor(),
                                    Status::Corruption("no room for the deadline of a TTL slot"),
                                    "cannot decode", rows.key(i));
        }
        int64_t deadline_ms;
        std::memcpy(&deadline_ms, value.data(), 8);
        value.remove_prefix(8);
        if (stripped_->IsDead(deadline_ms)) {
          kind = SavedRowKind::kErase;
          value = {};
        }
      }
      const SavedRows::Slot to = stripped.Append(kind, rows.key(i).size(), value.size());
      std::memcpy(to.key, rows.key(i).data(), rows.key(i).size());
      if (!value.empty()) std::memcpy(to.value, value.data(), value.size());
    }
    return plain_->Load(stripped.Span(), group_prefix_bytes, key_prefix_bytes, counts);
  }

  uint64_t FnvOf(KeyArg key) const {
    return expiring_ == nullptr ? plain_->FnvOf(key) : expiring_->rows().FnvOf(key);
  }
  StateTable& table() const {
    if (expiring_ != nullptr) return *expiring_;
    return *plain_;
  }

  std::unique_ptr<Plain> plain_;        ///< without a TTL
  std::unique_ptr<Expiring> expiring_;  ///< with one
  std::optional<detail::SavedTtl>
      stripped_;  ///< rows that Load takes have deadlines, the slot none
};

}  // namespace v0
}  // namespace cairn
