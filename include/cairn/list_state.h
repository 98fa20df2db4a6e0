// SPDX-License-Identifier: Apache-2.0
//
// ListState: a list for every key, in the order of appending, duplicates and all.
//
// An element's index is the number of elements appended before it: indexes only grow, and a
// restored list goes on counting where it was. A list without elements is absent. With a TTL every
// element dies by its own deadline.
//
// Threads:  calls with a View are any thread's while the view is open; the others are the writer's.
// Source:   docs/state/kinds.md.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "cairn/detail/collection_table.h"
#include "cairn/detail/sorted_elements.h"
#include "cairn/ordered_codec.h"

namespace cairn {
inline namespace v0 {

template <class K, class V, class KeyCodec = Codec<K>, class ValueCodec = Codec<V>>
class ListState final : public detail::CollectionTable<
                            K, detail::SortedElements<uint64_t, V, OrderedUint64Codec, ValueCodec>,
                            KeyCodec, OrderedUint64Codec, ValueCodec> {
  using Elements = detail::SortedElements<uint64_t, V, OrderedUint64Codec, ValueCodec>;
  using Base = detail::CollectionTable<K, Elements, KeyCodec, OrderedUint64Codec, ValueCodec>;
  using typename Base::E;
  using typename Base::Stored;

 public:
  using typename Base::KeyArg;

  /// Add an empty slot to `domain`, which outlives it. descriptor.kind is set to kKeyedList.
  ListState(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
            KeyCodec key_codec = {})
      : Base(domain, OfKind(std::move(descriptor)), options, std::move(key_codec)) {}

  /// Put `value` at the end.
  ///
  /// Errors:   kResourceExhausted over the memory budget · kInvalidArgument when the value is over
  ///           value_bytes_max, the list would pass collection_bytes_max, or the key is of another
  ///           subtask. Nothing has changed then.
  /// Cost:     O(1); under a view that shows the list, once a view, a copy of its chunk list and of
  ///           one chunk.
  Status Append(KeyArg key, V value) {
    const detail::TtlNow now = this->Now();
    return this->Change(key, this->rows_.FnvOf(key), now,
                        [&](Stored& stored, const detail::ElementContext& in) {
                          PutLast(key, stored, in, this->NewDeadline(now), std::move(value));
                        });
  }

  /// Put `values` in the place of what the list holds; their indexes go on.
  ///
  /// Errors:   as Append; the list is then as before, or a beginning of the new one.
  Status Replace(KeyArg key, std::vector<V> values) {
    if (values.empty()) return this->Clear(key);
    const detail::TtlNow now = this->Now();
    return this->Change(key, this->rows_.FnvOf(key), now,
                        [&](Stored& stored, const detail::ElementContext& in) {
                          for (const V& value : values) this->CheckSize(key, {}, value);
                          stored.elements.Clear(in);
                          for (V& value : values) {
                            PutLast(key, stored, in, this->NewDeadline(now), std::move(value));
                          }
                        });
  }

  /// Write the element at `index`; false when there is none.
  Result<bool> Set(KeyArg key, uint64_t index, V value) {
    const detail::TtlNow now = this->Now();
    const uint64_t fnv = this->rows_.FnvOf(key);
    const E* old = this->FindAlive(key, fnv, now, index);
    if (old == nullptr) return false;
    const int64_t deadline =
        this->config_.refresh_on_write ? this->NewDeadline(now) : old->deadline_ms;
    CAIRN_RETURN_IF_ERROR(
        this->Change(key, fnv, now, [&](Stored& stored, const detail::ElementContext& in) {
          this->CheckSize(key, stored, value);
          stored.elements.Put(in, this->hasher_, uint64_t{index}, std::move(value), deadline);
        }));
    return true;
  }

  /// Remove the element at `index`; false when there is none.
  Result<bool> RemoveAt(KeyArg key, uint64_t index) {
    const detail::TtlNow now = this->Now();
    const uint64_t fnv = this->rows_.FnvOf(key);
    if (this->FindAlive(key, fnv, now, index) == nullptr) return false;
    CAIRN_RETURN_IF_ERROR(
        this->Change(key, fnv, now, [&](Stored& stored, const detail::ElementContext& in) {
          stored.elements.Remove(in, this->hasher_, index);
        }));
    return true;
  }

  /// Remove and return the oldest element; nothing when the list is absent.
  Result<std::optional<V>> PopFront(KeyArg key) {
    std::optional<V> front;
    uint64_t index = 0;
    this->ForEach(key, [&](uint64_t i, const V& value) {
      index = i;
      front = value;
      return false;
    });
    if (front) CAIRN_RETURN_IF_ERROR(RemoveAt(key, index).status());
    return front;
  }

 private:
  static SlotDescriptor OfKind(SlotDescriptor descriptor) {
    descriptor.kind = SlotKind::kKeyedList;
    return descriptor;
  }

  void PutLast(KeyArg key, Stored& stored, const detail::ElementContext& in, int64_t deadline,
               V&& value) {
    this->CheckSize(key, stored, value);
    stored.elements.Put(in, this->hasher_, uint64_t{stored.next_index}, std::move(value), deadline);
    ++stored.next_index;
  }
};

}  // namespace v0
}  // namespace cairn
