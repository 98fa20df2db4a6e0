// SPDX-License-Identifier: Apache-2.0
//
// MapState: a map for every key. With an ordered codec (cairn/ordered_codec.h) for the map keys the
// elements lie in order and ranges of them are read; with any other they are hashed.
//
// A map without elements is absent. With a TTL every element dies by its own deadline.
//
// Threads:  calls with a View are any thread's while the view is open; the others are the writer's.
// Source:   docs/state/kinds.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cairn/detail/collection_table.h"
#include "cairn/detail/hashed_elements.h"
#include "cairn/detail/sorted_elements.h"
#include "cairn/ordered_codec.h"
#include "cairn/slot_codec.h"

namespace cairn {
inline namespace v0 {
namespace detail {

template <class MK, class V, class MapKeyCodec, class ValueCodec>
using MapElements =
    std::conditional_t<OrderedCodec<MapKeyCodec>, SortedElements<MK, V, MapKeyCodec, ValueCodec>,
                       HashedElements<MK, V, MapKeyCodec, ValueCodec>>;

/// "int64", "ordered_int64", "string"; "bytes" for a codec that has no name.
template <class MK, class MapKeyCodec>
std::string MapKeyCodecName() {
  if constexpr (requires { MapKeyCodec::kName; }) {
    return std::string(MapKeyCodec::kName);
  } else if constexpr (HasCodec<MK> || std::is_trivially_copyable_v<MK>) {
    const std::string plain =
        std::is_same_v<MK, uint64_t> ? "uint64" : SlotEncodingOf<MK>("").codec;
    if constexpr (std::is_base_of_v<SlotCodec<MK>, MapKeyCodec>) return plain;
    if constexpr (requires { typename MapKeyCodec::Word; }) return "ordered_" + plain;
  }
  return "bytes";
}

}  // namespace detail

/// Shape:    MK: with ==, moved without throwing; it owns its bytes (std::string, not Bytes).
template <class K, class MK, class V, class KeyCodec = Codec<K>, class MapKeyCodec = Codec<MK>,
          class ValueCodec = Codec<V>>
class MapState final
    : public detail::CollectionTable<K, detail::MapElements<MK, V, MapKeyCodec, ValueCodec>,
                                     KeyCodec, MapKeyCodec, ValueCodec> {
  using Base = detail::CollectionTable<K, detail::MapElements<MK, V, MapKeyCodec, ValueCodec>,
                                       KeyCodec, MapKeyCodec, ValueCodec>;
  using Elements = detail::MapElements<MK, V, MapKeyCodec, ValueCodec>;
  using typename Base::E;
  using typename Base::Stored;
  static_assert(!std::is_same_v<MK, Bytes>, "a map key owns its bytes: use std::string");

 public:
  using typename Base::KeyArg;

  /// Add an empty slot to `domain`, which outlives it. descriptor.kind is set to kKeyedMap, and
  /// element_key_codec, when it is empty, to the name of MapKeyCodec.
  MapState(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
           KeyCodec key_codec = {})
      : Base(domain, OfKind(std::move(descriptor)), options, std::move(key_codec)) {}

  /// Write the element of `map_key`, made when it is missing.
  ///
  /// Errors:   as ListState::Append.
  /// Cost:     O(1), with an ordered codec O(log elements); under a view as ListState::Append.
  Status Put(KeyArg key, MK map_key, V value) {
    const detail::TtlNow now = this->Now();
    const uint64_t fnv = this->rows_.FnvOf(key);
    int64_t deadline = this->NewDeadline(now);
    if (this->config_.enabled() && !this->config_.refresh_on_write) [[unlikely]] {
      const E* old = this->FindAlive(key, fnv, now, map_key);
      if (old != nullptr) deadline = old->deadline_ms;
    }
    return this->Change(key, fnv, now, [&](Stored& stored, const detail::ElementContext& in) {
      this->CheckSize(key, stored, value);
      stored.elements.Put(in, this->hasher_, std::move(map_key), std::move(value), deadline);
    });
  }

  /// Read, change and write the element of `map_key`: fn(V& value, bool inserted). An fn that
  /// throws changes nothing; declared noexcept it works in place.
  ///
  /// Errors:   as Put.
  template <class Fn>
  Status Update(KeyArg key, MK map_key, Fn&& fn) {
    const detail::TtlNow now = this->Now();
    const uint64_t fnv = this->rows_.FnvOf(key);
    const E* old = this->FindAlive(key, fnv, now, map_key);
    const int64_t deadline = old != nullptr && !this->config_.refresh_on_write
                                 ? old->deadline_ms
                                 : this->NewDeadline(now);
    if constexpr (std::is_nothrow_invocable_v<Fn&, V&, bool>) {
      if (old != nullptr) {
        return this->Change(key, fnv, now, [&](Stored& stored, const detail::ElementContext& in) {
          auto change = [&](V& value) { fn(value, false); };
          stored.elements.Change(in, this->hasher_, map_key, deadline, change);
        });
      }
    }
    V value = old != nullptr ? old->value : V{};
    fn(value, old == nullptr);
    return this->Change(key, fnv, now, [&](Stored& stored, const detail::ElementContext& in) {
      this->CheckSize(key, stored, value);
      stored.elements.Put(in, this->hasher_, std::move(map_key), std::move(value), deadline);
    });
  }

  /// The value of `map_key`, or null. Valid until the next change of the slot.
  const V* Find(KeyArg key, const MK& map_key) {
    const detail::TtlNow now = this->Now();
    const uint64_t fnv = this->rows_.FnvOf(key);
    const E* found = this->FindAlive(key, fnv, now, map_key);
    if (found == nullptr || !this->config_.refresh_on_read) return found ? &found->value : nullptr;
    const int64_t deadline = this->NewDeadline(now);
    if (deadline != found->deadline_ms) {
      // Refused memory leaves the old deadline, which is not worth failing a read for.
      (void)this
          ->Change(key, fnv, now,
                   [&](Stored& stored, const detail::ElementContext& in) {
                     auto nothing = [](V&) {};
                     stored.elements.Change(in, this->hasher_, map_key, deadline, nothing);
                   })
          .ok();
      found = this->FindAlive(key, fnv, now, map_key);
    }
    return &found->value;
  }
  bool Contains(KeyArg key, const MK& map_key) const {
    return this->FindAlive(key, this->rows_.FnvOf(key), this->Now(), map_key) != nullptr;
  }

  /// Call fn(const V&) with the element that `view` shows; false when it shows none.
  template <class Fn>
  bool Get(const View& view, KeyArg key, const MK& map_key, Fn&& fn) const {
    const detail::TtlNow now = this->NowOf(view);
    bool found = false;
    this->rows_.Get(view, key, [&](const Stored& stored) {
      const E* element = stored.elements.Find(map_key, this->hasher_);
      found = element != nullptr && !now.IsDead(element->deadline_ms);
      if (found) fn(element->value);
    });
    return found;
  }

  /// Remove the element of `map_key`; false when there is none.
  Result<bool> Remove(KeyArg key, const MK& map_key) {
    const detail::TtlNow now = this->Now();
    const uint64_t fnv = this->rows_.FnvOf(key);
    if (this->FindAlive(key, fnv, now, map_key) == nullptr) return false;
    CAIRN_RETURN_IF_ERROR(
        this->Change(key, fnv, now, [&](Stored& stored, const detail::ElementContext& in) {
          stored.elements.Remove(in, this->hasher_, map_key);
        }));
    return true;
  }

  /// ForEach of the elements from `from` (inclusive) to `to` (exclusive) in order; nothing =
  /// without that bound. Needs an ordered codec. Cost: O(log elements + elements visited).
  template <class Fn>
    requires OrderedCodec<MapKeyCodec>
  void ForRange(KeyArg key, const std::optional<MK>& from, const std::optional<MK>& to,
                Fn&& fn) const {
    const Stored* stored = this->FindStored(key, this->rows_.FnvOf(key));
    if (stored != nullptr) VisitRange(*stored, this->Now(), from, to, fn);
  }
  template <class Fn>
    requires OrderedCodec<MapKeyCodec>
  void ForRange(const View& view, KeyArg key, const std::optional<MK>& from,
                const std::optional<MK>& to, Fn&& fn) const {
    this->rows_.Get(view, key, [&](const Stored& stored) {
      VisitRange(stored, this->NowOf(view), from, to, fn);
    });
  }

  /// ForEach of the elements whose text key starts with `prefix`, in order.
  template <class Fn>
    requires OrderedCodec<MapKeyCodec> && std::is_same_v<MK, std::string>
  void ForPrefix(KeyArg key, std::string_view prefix, Fn&& fn) const {
    const Stored* stored = this->FindStored(key, this->rows_.FnvOf(key));
    if (stored != nullptr) VisitPrefix(*stored, this->Now(), prefix, fn);
  }
  template <class Fn>
    requires OrderedCodec<MapKeyCodec> && std::is_same_v<MK, std::string>
  void ForPrefix(const View& view, KeyArg key, std::string_view prefix, Fn&& fn) const {
    this->rows_.Get(view, key, [&](const Stored& stored) {
      VisitPrefix(stored, this->NowOf(view), prefix, fn);
    });
  }

 private:
  static SlotDescriptor OfKind(SlotDescriptor descriptor) {
    descriptor.kind = SlotKind::kKeyedMap;
    if (descriptor.element_key_codec.empty()) {
      descriptor.element_key_codec = detail::MapKeyCodecName<MK, MapKeyCodec>();
    }
    return descriptor;
  }

  template <class Fn>
  static void VisitRange(const Stored& stored, const detail::TtlNow& now,
                         const std::optional<MK>& from, const std::optional<MK>& to, Fn& fn) {
    stored.elements.ForRange(
        from, to, [&](const E& element) { return Elements::GiveAlive(element, now, fn); });
  }

  template <class Fn>
  static void VisitPrefix(const Stored& stored, const detail::TtlNow& now, std::string_view prefix,
                          Fn& fn) {
    stored.elements.ForRange(std::string(prefix), {}, [&](const E& element) {
      return element.key.starts_with(prefix) && Elements::GiveAlive(element, now, fn);
    });
  }
};

}  // namespace v0
}  // namespace cairn
