// SPDX-License-Identifier: Apache-2.0
//
// SortedElements: the elements of a list (by index) or of a map whose key codec is ordered, in
// chunks that ascend. Appending touches the last chunk only; a look-up halves twice.
//
// Threads:  as ElementSet.
#pragma once

#include <optional>
#include <utility>

#include "cairn/detail/element_set.h"

namespace cairn {
inline namespace v0 {
namespace detail {

/// Shape:    KeyCodec has bool Less(const EK&, const EK&), a total order that agrees with its
/// bytes.
template <class EK, class EV, class KeyCodec, class ValueCodec>
class SortedElements : public ElementSet<EK, EV, KeyCodec, ValueCodec> {
  using Base = ElementSet<EK, EV, KeyCodec, ValueCodec>;
  using Base::chunks_;
  using Base::key_codec_;

 public:
  using typename Base::Chunk;
  using typename Base::E;
  static constexpr bool kSorted = true;

  /// The live element of `key`; null when there is none.
  const E* Find(const EK& key, const ElementHasher&) const {
    size_t at = 0;
    uint32_t index = 0;
    return Locate(key, &at, &index) && chunks_[at]->elements()[index].live
               ? &chunks_[at]->elements()[index]
               : nullptr;
  }

  /// Write `key`, made when it is missing.
  void Put(const ElementContext& in, const ElementHasher&, EK&& key, EV&& value,
           int64_t deadline_ms) {
    this->FetchSmall();
    size_t at = 0;
    uint32_t index = 0;
    if (!chunks_.empty() && IsPast(*chunks_.back().get(), key)) {
      at = chunks_.size() - 1;
    } else if (Locate(key, &at, &index)) {
      // A removed element in front may be forgotten when the chunk is copied.
      Chunk* chunk = this->Private(in, at);
      index = LowerBound(*chunk, key);
      if (index < chunk->count && !key_codec_.Less(key, chunk->elements()[index].key)) {
        return this->Write(in, chunk, chunk->elements() + index, std::move(value), deadline_ms);
      }
    }
    Insert(in, at, std::move(key), std::move(value), deadline_ms);
  }

  /// Call fn(EV&) on the live element of `key` without moving it; false when there is none.
  template <class Fn>
  bool Change(const ElementContext& in, const ElementHasher&, const EK& key, int64_t deadline_ms,
              Fn&& fn) {
    size_t at = 0;
    uint32_t index = 0;
    if (!Locate(key, &at, &index) || !chunks_[at]->elements()[index].live) return false;
    Chunk* chunk = this->Private(in, at);
    this->ChangeValue(in, chunk, chunk->elements() + LowerBound(*chunk, key), deadline_ms, fn);
    return true;
  }

  /// Remove `key`; false when it was not there.
  bool Remove(const ElementContext& in, const ElementHasher&, const EK& key) {
    size_t at = 0;
    uint32_t index = 0;
    if (!Locate(key, &at, &index) || !chunks_[at]->elements()[index].live) return false;
    Chunk* chunk = this->Private(in, at);
    this->Kill(in, chunk, chunk->elements() + LowerBound(*chunk, key));
    DropEnds(in);
    if (this->ShouldPrune()) Prune(in);
    return true;
  }

  /// Remove every element.
  void Clear(const ElementContext& in) {
    for (size_t at = 0; at < chunks_.size(); ++at) this->KillAll(in, at);
    Prune(in);
  }

  /// Forget removed elements that nobody needs any more, and chunks without elements.
  void Prune(const ElementContext& in) {
    for (size_t at = chunks_.size(); at-- > 0;) {
      Chunk* chunk = chunks_[at].get();
      if (chunk->live == chunk->count) continue;
      if (this->IsForgotten(in, *chunk)) {
        this->removed_ -= chunk->count;
        chunks_.Erase(at);
      } else if (chunk->live * 2 < chunk->count) {
        this->Rebuild(in, at, 1);
      }
    }
    this->PrunedTo(this->removed_);
  }

  /// Call fn(const E&) for the live elements from `from` (inclusive) to `to` (exclusive) in order,
  /// false ends it; nothing = without that bound.
  template <class Fn>
  void ForRange(const std::optional<EK>& from, const std::optional<EK>& to, Fn&& fn) const {
    size_t at = from ? ChunkOf(*from) : 0;
    for (; at < chunks_.size(); ++at) {
      const Chunk& chunk = *chunks_[at].get();
      for (uint32_t i = from ? LowerBound(chunk, *from) : 0; i < chunk.count; ++i) {
        const E& element = chunk.elements()[i];
        if (to && !key_codec_.Less(element.key, *to)) return;
        if (element.live && !fn(element)) return;
      }
    }
  }

  /// The first live element, null when there is none. Cost: O(chunks without live elements).
  const E* First() const {
    const E* first = nullptr;
    ForRange({}, {}, [&](const E& element) {
      first = &element;
      return false;
    });
    return first;
  }

 private:
  // The chunk whose range `key` falls in: the last that begins at it or before.
  size_t ChunkOf(const EK& key) const {
    size_t low = 0;
    size_t high = chunks_.size();
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (key_codec_.Less(key, chunks_[middle]->elements()[0].key) ? high : low) = middle;
    }
    return low;
  }

  // A list is appended to: its next key is found without a search.
  bool IsPast(const Chunk& chunk, const EK& key) const {
    return chunk.count > 0 && key_codec_.Less(chunk.elements()[chunk.count - 1].key, key);
  }

  uint32_t LowerBound(const Chunk& chunk, const EK& key) const {
    if (IsPast(chunk, key)) return chunk.count;
    uint32_t low = 0;
    uint32_t high = chunk.count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (key_codec_.Less(chunk.elements()[middle].key, key)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  bool Locate(const EK& key, size_t* at, uint32_t* index) const {
    if (chunks_.empty()) return false;
    *at = ChunkOf(key);
    const Chunk& chunk = *chunks_[*at].get();
    *index = LowerBound(chunk, key);
    return *index < chunk.count && !key_codec_.Less(key, chunk.elements()[*index].key);
  }

  // Inserts into chunk `at`, whose range `key` falls in.
  void Insert(const ElementContext& in, size_t at, EK&& key, EV&& value, int64_t deadline_ms) {
    Chunk* chunk = chunks_.empty() ? nullptr : ChunkWithRoom(in, key, &at);
    if (chunk == nullptr) return AppendChunk(in, std::move(key), std::move(value), deadline_ms);
    struct Guard {
      SortedElements* set;
      size_t at;
      // Every chunk has an element; one that was left without may meet a refusal.
      ~Guard() {
        if (set->chunks_[at]->count > 0) return;
        set->chunks_.Erase(at);
      }
    } guard{this, at};
    const uint32_t index = LowerBound(*chunk, key);
    E element = this->NewElement(in, chunk, std::move(key), std::move(value), deadline_ms);
    chunk->Append(std::move(element));
    E* elements = chunk->elements();
    std::rotate(elements + index, elements + chunk->count - 1, elements + chunk->count);
  }

  void AppendChunk(const ElementContext& in, EK&& key, EV&& value, int64_t deadline_ms) {
    DropEnds(in);
    const uint32_t capacity = chunks_.empty() ? kFirstCapacity : Chunk::kCapacityMax;
    chunks_.Grow();
    ElementRef<Chunk> fresh(Chunk::Make(in, capacity));
    E element = this->NewElement(in, fresh.get(), std::move(key), std::move(value), deadline_ms);
    fresh->Append(std::move(element));
    chunks_.Insert(chunks_.size(), std::move(fresh));
  }

  // A private chunk with room for `key`, null when that is a new one at the end.
  Chunk* ChunkWithRoom(const ElementContext& in, const EK& key, size_t* at) {
    Chunk* chunk = this->Private(in, *at);
    if (chunk->count < chunk->capacity) return chunk;
    if (chunk->live < chunk->count) chunk = this->Rebuild(in, *at, chunk->capacity);
    if (chunk->count < chunk->capacity) return chunk;
    if (chunk->capacity < Chunk::kCapacityMax) {
      return this->Rebuild(in, *at, std::min(chunk->capacity * 2, Chunk::kCapacityMax));
    }
    const bool at_end = *at + 1 == chunks_.size() && IsPast(*chunk, key);
    if (at_end) return nullptr;
    Split(in, *at);
    if (!key_codec_.Less(key, chunks_[*at + 1]->elements()[0].key)) ++*at;
    return chunks_[*at].get();
  }

  void Split(const ElementContext& in, size_t at) {
    chunks_.Grow();
    Chunk* old = chunks_[at].get();
    ElementRef<Chunk> low(Chunk::Make(in, Chunk::kCapacityMax));
    ElementRef<Chunk> high(Chunk::Make(in, Chunk::kCapacityMax));
    const uint32_t half = old->count / 2;
    uint64_t owned[2] = {0, 0};
    for (uint32_t i = 0; i < old->count; ++i) {
      const E& element = old->elements()[i];
      owned[i < half ? 0 : 1] += this->Owned(element.key, element.value);
    }
    low->Charge(owned[0]);
    high->Charge(owned[1]);
    for (uint32_t i = 0; i < old->count; ++i) {
      (i < half ? low : high)->Append(std::move(old->elements()[i]));
    }
    chunks_[at] = std::move(low);
    chunks_.Insert(at + 1, std::move(high));
  }

  // A queue loses its first chunks, one a removal.
  void DropEnds(const ElementContext& in) {
    if (chunks_.empty() || !this->IsForgotten(in, *chunks_.front().get())) return;
    this->removed_ -= chunks_.front()->count;
    chunks_.Erase(0);
  }

  static constexpr uint32_t kFirstCapacity = 4;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
