// SPDX-License-Identifier: Apache-2.0
//
// ElementSet: what ordered and hashed collections share: their chunks, how those are copied before
// a change, and how removed and expired elements go.
//
// A copy of a set shares all chunks. A throw (ElementRefused, bad_alloc, a copy of an element)
// leaves the set as it was in content.
//
// Threads:  changes are the writer's; const calls may be made by readers of a version they hold.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "cairn/detail/element_chunk.h"
#include "cairn/detail/slot_hash.h"
#include "cairn/detail/table_types.h"

namespace cairn {
inline namespace v0 {
namespace detail {

/// Hashes the keys of elements by their encoded bytes, seeded as slots are.
class ElementHasher {
 public:
  explicit ElementHasher(uint64_t seed) : hasher_(seed) {}
  template <class KeyCodec, class EK>
  uint64_t Hash(const KeyCodec& codec, const EK& key) const {
    if constexpr (HasRawBytes<KeyCodec>()) {
      return hasher_.HashObject(key);
    } else if constexpr (std::is_convertible_v<const EK&, std::string_view>) {
      return hasher_.Hash(key);
    } else {
      char buffer[64];
      const size_t size = codec.EncodedSize(key);
      if (size <= sizeof(buffer)) {
        codec.Encode(key, buffer);
        return hasher_.Hash({buffer, size});
      }
      std::string bytes(size, '\0');
      codec.Encode(key, bytes.data());
      return hasher_.Hash(bytes);
    }
  }

 private:
  SlotHasher hasher_;
};

template <class EK, class EV, class KeyCodec, class ValueCodec>
class ElementSet {
 public:
  using Chunk = ElementChunk<EK, EV>;
  using E = Element<EK, EV>;
  using Key = EK;
  using Value = EV;
  static_assert(std::is_nothrow_move_constructible_v<EK> && std::is_nothrow_move_assignable_v<EK> &&
                    std::is_nothrow_move_constructible_v<EV> &&
                    std::is_nothrow_move_assignable_v<EV>,
                "elements are moved where nothing may fail");

  /// Elements that were not removed; expired ones are among them until they are swept.
  uint64_t count() const { return count_; }
  /// Removed elements that deltas still need.
  uint64_t removed() const { return removed_; }
  /// Bytes of the elements, with what their values own.
  uint64_t bytes() const { return bytes_; }
  /// Bytes of the set itself.
  size_t own_bytes() const { return chunks_.own_bytes(); }

  /// Elements alive at `now`.
  uint64_t CountAlive(const TtlNow& now) const {
    uint64_t alive = count_;
    for (const auto& chunk : chunks_) {
      if (chunk->live == 0 || !now.IsDead(chunk->min_deadline_ms)) continue;
      for (uint32_t i = 0; i < chunk->count; ++i) {
        const E& element = chunk->elements()[i];
        alive -= element.live && now.IsDead(element.deadline_ms) ? 1 : 0;
      }
    }
    return alive;
  }

  /// No later than the least deadline of a live element, exactly it when that is past at `now`.
  int64_t LeastDeadline(const TtlNow& now) const {
    int64_t least = kDeadlineMax;
    for (const auto& chunk : chunks_) {
      if (chunk->live == 0) continue;
      if (!now.IsDead(chunk->min_deadline_ms)) {
        least = std::min(least, chunk->min_deadline_ms);
        continue;
      }
      for (uint32_t i = 0; i < chunk->count; ++i) {
        const E& element = chunk->elements()[i];
        if (element.live) least = std::min(least, now.Resolve(element.deadline_ms));
      }
    }
    return least;
  }

  /// Remove the elements that are dead at `now`; returns no later than the least deadline of those
  /// left, exactly it where chunks were looked into. Cost: O(chunks + elements of those due).
  int64_t RemoveExpired(const ElementContext& in, const TtlNow& now) {
    int64_t least = kDeadlineMax;
    for (size_t at = 0; at < chunks_.size(); ++at) {
      if (chunks_[at]->live == 0) continue;
      const int64_t bound = chunks_[at]->min_deadline_ms;
      const int64_t left = now.IsDead(bound) ? KillExpired(in, now, at) : bound;
      least = std::min(least, left);
    }
    return least;
  }

  /// Call fn(const E&) for every element changed after `since`, removed ones too, chunk by chunk;
  /// false ends it.
  template <class Fn>
  void ForEach(uint32_t since, Fn&& fn) const {
    for (const auto& chunk : chunks_) {
      if (chunk->max_stamp <= since) continue;
      for (uint32_t i = 0; i < chunk->count; ++i) {
        if (chunk->elements()[i].stamp > since && !fn(chunk->elements()[i])) return;
      }
    }
  }

  /// Call fn(const EK&, const EV&) for every element alive at `now`, chunk by chunk. When it
  /// returns bool, false ends it.
  template <class Fn>
  void ForAlive(const TtlNow& now, Fn&& fn) const {
    ForEach(0, [&](const E& element) { return GiveAlive(element, now, fn); });
  }
  /// The same for one element; true = go on.
  template <class Fn>
  static bool GiveAlive(const E& element, const TtlNow& now, Fn& fn) {
    if (!element.live || now.IsDead(element.deadline_ms)) return true;
    if constexpr (std::is_same_v<decltype(fn(element.key, element.value)), bool>) {
      return fn(element.key, element.value);
    } else {
      fn(element.key, element.value);
      return true;
    }
  }

 protected:
  /// Fetch the elements of a small collection while the head of its chunk, which says where they
  /// end, is still on its way.
  void FetchSmall() const {
    constexpr uint64_t kLines = 6;
    if (chunks_.size() != 1) return;
    const char* first = reinterpret_cast<const char*>(chunks_.front()->elements());
    const uint64_t lines = std::min<uint64_t>(kLines, (count_ * sizeof(E) + 63) / 64 + 1);
    for (uint64_t line = 0; line < lines; ++line) __builtin_prefetch(first + 64 * line, 1);
  }

  /// Chunk `at`, safe to change.
  Chunk* Private(const ElementContext& in, size_t at) {
    Chunk* chunk = chunks_[at].get();
    return chunk->IsPrivate() ? chunk : Rebuild(in, at, chunk->capacity);
  }

  /// Put a copy of chunk `at` in its place, of `capacity` at least as far as it is needed, without
  /// the removed elements that are no longer wanted. Elements keep their order.
  Chunk* Rebuild(const ElementContext& in, size_t at, uint32_t capacity) {
    Chunk* old = chunks_[at].get();
    const bool moves = old->IsPrivate();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < old->count; ++i) kept += IsKept(in, old->elements()[i]) ? 1 : 0;
    ElementRef<Chunk> copy(Chunk::Make(in, std::max({capacity, kept, 1u})));
    uint64_t owned = 0;
    uint64_t shrunk = 0;  // the copy of a value may own less than the original
    for (uint32_t i = 0; i < old->count; ++i) {
      const E& element = old->elements()[i];
      if (!IsKept(in, element)) continue;
      const E& kept_one = moves ? element : AppendTo(copy.get(), E(element), old->tags[i]);
      owned += Owned(kept_one.key, kept_one.value);
      shrunk += value_codec_.MemoryBytes(element.value) - value_codec_.MemoryBytes(kept_one.value);
    }
    copy->Charge(owned);
    if (moves) {
      for (uint32_t i = 0; i < old->count; ++i) {
        if (!IsKept(in, old->elements()[i])) continue;
        AppendTo(copy.get(), std::move(old->elements()[i]), old->tags[i]);
      }
    }
    bytes_ -= shrunk;
    removed_ -= old->count - kept;
    copy->depth = old->depth;
    chunks_[at] = std::move(copy);
    return chunks_[at].get();
  }

  static E& AppendTo(Chunk* chunk, E&& element, uint8_t tag) {
    chunk->tags[chunk->count] = tag;
    return *chunk->Append(std::move(element));
  }

  /// Write `value` into `element` of the private `chunk`. Does not throw after it changed anything.
  void Write(const ElementContext& in, Chunk* chunk, E* element, EV&& value, int64_t deadline_ms) {
    const uint64_t before = element->live ? value_codec_.MemoryBytes(element->value) : 0;
    const uint64_t after = value_codec_.MemoryBytes(value);
    if (after > before) chunk->Charge(after - before);
    if (after < before) chunk->Release(before - after);
    bytes_ += after - before;
    Replace(&element->value, std::move(value));
    Revive(in, chunk, element, deadline_ms);
  }

  // Not by assignment, after which a string may own what it owned before.
  static void Replace(EV* at, EV&& value) noexcept {
    std::destroy_at(at);
    std::construct_at(at, std::move(value));
  }

  /// Call fn(EV&), which may not throw, on the live `element` of the private `chunk`.
  template <class Fn>
  void ChangeValue(const ElementContext& in, Chunk* chunk, E* element, int64_t deadline_ms,
                   Fn& fn) {
    const uint64_t before = value_codec_.MemoryBytes(element->value);
    fn(element->value);
    const uint64_t after = value_codec_.MemoryBytes(element->value);
    if (after > before) chunk->ForceCharge(after - before);
    if (after < before) chunk->Release(before - after);
    bytes_ += after - before;
    Revive(in, chunk, element, deadline_ms);
  }

  /// Remove every element of chunk `at`; those of a shared chunk whose removal nobody needs go with
  /// the reference.
  void KillAll(const ElementContext& in, size_t at) {
    if (chunks_[at]->live == 0) return;
    Chunk* chunk = Private(in, at);
    for (uint32_t i = 0; i < chunk->count; ++i) {
      if (chunk->elements()[i].live) Kill(in, chunk, chunk->elements() + i);
    }
    chunk->min_deadline_ms = kDeadlineMax;
  }

  bool IsForgotten(const ElementContext& in, const Chunk& chunk) const {
    return chunk.live == 0 && !(in.remember && chunk.max_stamp > in.floor);
  }

  void Revive(const ElementContext& in, Chunk* chunk, E* element, int64_t deadline_ms) {
    if (!element->live) {
      element->live = true;
      ++chunk->live;
      ++count_;
      --removed_;
      bytes_ += sizeof(E);
    }
    element->deadline_ms = deadline_ms;
    element->stamp = in.epoch;
    chunk->max_stamp = in.epoch;
    chunk->NoteDeadline(deadline_ms);
  }

  /// Take `element` of the private `chunk` out of the collection.
  void Kill(const ElementContext& in, Chunk* chunk, E* element) {
    const uint64_t owned = value_codec_.MemoryBytes(element->value);
    Replace(&element->value, EV{});
    element->live = false;
    element->stamp = in.epoch;
    chunk->max_stamp = in.epoch;
    chunk->Release(owned);
    bytes_ -= owned + sizeof(E);
    --chunk->live;
    --count_;
    ++removed_;
  }

  /// The new element of `key` for a chunk with room, its memory charged.
  E NewElement(const ElementContext& in, Chunk* chunk, EK&& key, EV&& value, int64_t deadline_ms) {
    chunk->Charge(Owned(key, value));
    bytes_ += sizeof(E) + value_codec_.MemoryBytes(value);
    ++count_;
    return E{std::move(key), std::move(value), deadline_ms, in.epoch, true};
  }

  uint64_t Owned(const EK& key, const EV& value) const {
    return key_codec_.MemoryBytes(key) + value_codec_.MemoryBytes(value);
  }

  static bool IsKept(const ElementContext& in, const E& element) {
    return element.live || (in.remember && element.stamp > in.floor);
  }

  /// Kill the expired elements of chunk `at` and return the least deadline of those left.
  int64_t KillExpired(const ElementContext& in, const TtlNow& now, size_t at) {
    Chunk* chunk = chunks_[at].get();
    bool any = false;
    for (uint32_t i = 0; i < chunk->count && !any; ++i) {
      any = chunk->elements()[i].live && now.IsDead(chunk->elements()[i].deadline_ms);
    }
    if (any) chunk = Private(in, at);
    int64_t least = kDeadlineMax;
    for (uint32_t i = 0; i < chunk->count; ++i) {
      E& element = chunk->elements()[i];
      if (!element.live) continue;
      const int64_t deadline = now.Resolve(element.deadline_ms);
      if (any && now.IsDead(deadline)) {
        Kill(in, chunk, &element);
      } else {
        least = std::min(least, deadline);
      }
    }
    return least;
  }

  /// True when so many removed elements lie about that looking through all chunks pays.
  bool ShouldPrune() const { return removed_ > prune_at_; }
  void PrunedTo(uint64_t left) { prune_at_ = std::max<uint64_t>(left * 2, 64 + count_ / 2); }

  ElementRefs<Chunk> chunks_;
  uint64_t count_ = 0;
  uint64_t removed_ = 0;
  uint64_t bytes_ = 0;
  uint64_t prune_at_ = 64;
  [[no_unique_address]] KeyCodec key_codec_;
  [[no_unique_address]] ValueCodec value_codec_;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
