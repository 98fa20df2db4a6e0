// SPDX-License-Identifier: Apache-2.0
//
// HashedElements: the elements of a map in no order. Extendible hashing with chunks as buckets: the
// top bits of a key's hash pick a chunk through a directory of numbers, 64 tags in the chunk are
// compared at once. A full chunk splits in two; nothing is ever rehashed as a whole.
//
// Threads:  as ElementSet.
#pragma once

#include <utility>

#include "cairn/detail/element_set.h"
#include "cairn/detail/segment.h"

namespace cairn {
inline namespace v0 {
namespace detail {

template <class EK, class EV, class KeyCodec, class ValueCodec>
class HashedElements : public ElementSet<EK, EV, KeyCodec, ValueCodec> {
  using Base = ElementSet<EK, EV, KeyCodec, ValueCodec>;
  using Base::chunks_;
  using Base::key_codec_;

 public:
  using typename Base::Chunk;
  using typename Base::E;
  static constexpr bool kSorted = false;

  template <class Key>
  const E* Find(const Key& key, const ElementHasher& hasher) const {
    const uint64_t hash = hasher.Hash(key_codec_, key);
    if (chunks_.empty()) return nullptr;
    const Chunk& chunk = *chunks_[ChunkOf(hash)].get();
    const uint32_t index = IndexOf(chunk, hash, key);
    return index != kNone && chunk.elements()[index].live ? chunk.elements() + index : nullptr;
  }

  void Put(const ElementContext& in, const ElementHasher& hasher, EK&& key, EV&& value,
           int64_t deadline_ms) {
    this->FetchSmall();
    const uint64_t hash = hasher.Hash(key_codec_, key);
    if (chunks_.empty()) chunks_.Insert(0, ElementRef<Chunk>(Chunk::Make(in, kFirstCapacity)));
    Chunk* chunk = this->Private(in, ChunkOf(hash));
    uint32_t index = IndexOf(*chunk, hash, key);
    if (index != kNone) {
      return this->Write(in, chunk, chunk->elements() + index, std::move(value), deadline_ms);
    }
    while (chunk->count == chunk->capacity) chunk = MakeRoom(in, hasher, hash);
    E element = this->NewElement(in, chunk, std::move(key), std::move(value), deadline_ms);
    this->AppendTo(chunk, std::move(element), TagOf(hash));
  }

  template <class Fn>
  bool Change(const ElementContext& in, const ElementHasher& hasher, const EK& key,
              int64_t deadline_ms, Fn&& fn) {
    const uint64_t hash = hasher.Hash(key_codec_, key);
    if (Find(key, hasher) == nullptr) return false;
    Chunk* chunk = this->Private(in, ChunkOf(hash));
    this->ChangeValue(in, chunk, chunk->elements() + IndexOf(*chunk, hash, key), deadline_ms, fn);
    return true;
  }

  bool Remove(const ElementContext& in, const ElementHasher& hasher, const EK& key) {
    const uint64_t hash = hasher.Hash(key_codec_, key);
    if (Find(key, hasher) == nullptr) return false;
    Chunk* chunk = this->Private(in, ChunkOf(hash));
    this->Kill(in, chunk, chunk->elements() + IndexOf(*chunk, hash, key));
    if (this->ShouldPrune()) Prune(in);
    return true;
  }

  void Clear(const ElementContext& in) {
    for (size_t at = 0; at < chunks_.size(); ++at) this->KillAll(in, at);
    Prune(in);
  }

  void Prune(const ElementContext& in) {
    if (this->count_ == 0) {
      bool forgotten = true;
      for (const auto& chunk : chunks_) forgotten &= this->IsForgotten(in, *chunk.get());
      if (forgotten) {
        chunks_.Clear();
        directory_.clear();
        depth_ = 0;
        this->removed_ = 0;
      }
    }
    for (size_t at = 0; at < chunks_.size(); ++at) {
      if (chunks_[at]->live * 2 < chunks_[at]->count) this->Rebuild(in, at, 1);
    }
    this->PrunedTo(this->removed_);
  }

  size_t own_bytes() const {
    return Base::own_bytes() + directory_.capacity() * sizeof(directory_[0]);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kFirstCapacity = 4;
  static constexpr uint32_t kDepthMax = 28;

  static uint8_t TagOf(uint64_t hash) { return static_cast<uint8_t>(hash); }
  // A small collection's only chunk is found without reading the directory.
  size_t ChunkOf(uint64_t hash) const {
    return depth_ == 0 ? 0 : directory_[DirectoryIndex(hash, 63 - depth_)];
  }

  // All tags at once: a branch for every bucket would be mispredicted, and the next operation could
  // not begin before the cache misses of this one are over.
  template <class Key>
  static uint32_t IndexOf(const Chunk& chunk, uint64_t hash, const Key& key) {
    static_assert(Chunk::kCapacityMax == 4 * kBucketSlots);
    const uint8_t tag = TagOf(hash);
    uint64_t match = 0;
    for (uint32_t bucket = 0; bucket < 4; ++bucket) {
      const uint32_t first = bucket * kBucketSlots;
      match |= uint64_t{TagBucket(chunk.tags + first).Match(tag)} << first;
    }
    if (chunk.count == 0) return kNone;
    match &= UINT64_MAX >> (Chunk::kCapacityMax - chunk.count);
    for (; match != 0; match &= match - 1) {
      const auto index = static_cast<uint32_t>(std::countr_zero(match));
      if (chunk.elements()[index].key == key) return index;
    }
    return kNone;
  }

  // Makes room in the full chunk of `hash`: without its removed elements, larger, or in two.
  Chunk* MakeRoom(const ElementContext& in, const ElementHasher& hasher, uint64_t hash) {
    const size_t at = ChunkOf(hash);
    Chunk* chunk = chunks_[at].get();
    if (chunk->live < chunk->count) chunk = this->Rebuild(in, at, chunk->capacity);
    if (chunk->count < chunk->capacity) return chunk;
    if (chunk->capacity < Chunk::kCapacityMax) {
      return this->Rebuild(in, at, std::min(chunk->capacity * 2, Chunk::kCapacityMax));
    }
    if (chunk->depth >= kDepthMax)
      throw ElementRefused{Status::ResourceExhausted(
          "more elements of one map share their hash than a chunk holds")};
    Split(in, hasher, hash);
    return chunks_[ChunkOf(hash)].get();
  }

  void Split(const ElementContext& in, const ElementHasher& hasher, uint64_t hash) {
    const size_t at = ChunkOf(hash);
    Chunk* old = chunks_[at].get();
    const uint32_t bit = 63 - old->depth;
    chunks_.Grow();
    if (old->depth == depth_) DoubleDirectory();
    ElementRef<Chunk> halves[2] = {ElementRef<Chunk>(Chunk::Make(in, Chunk::kCapacityMax)),
                                   ElementRef<Chunk>(Chunk::Make(in, Chunk::kCapacityMax))};
    uint64_t owned[2] = {0, 0};
    uint8_t side[Chunk::kCapacityMax];
    for (uint32_t i = 0; i < old->count; ++i) {
      const E& element = old->elements()[i];
      side[i] = hasher.Hash(key_codec_, element.key) >> bit & 1;
      owned[side[i]] += this->Owned(element.key, element.value);
    }
    halves[0]->Charge(owned[0]);
    halves[1]->Charge(owned[1]);
    for (uint32_t i = 0; i < old->count; ++i) {
      this->AppendTo(halves[side[i]].get(), std::move(old->elements()[i]), old->tags[i]);
    }
    halves[0]->depth = halves[1]->depth = old->depth + 1;
    const auto high = static_cast<uint32_t>(chunks_.size());
    const size_t aliases = size_t{1} << (depth_ - old->depth);
    const size_t first = DirectoryIndex(hash, 63 - depth_) & ~(aliases - 1);
    std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(first + aliases / 2), aliases / 2,
                high);
    chunks_[at] = std::move(halves[0]);
    chunks_.Insert(high, std::move(halves[1]));
  }

  void DoubleDirectory() {
    std::vector<uint32_t> doubled(size_t{2} << depth_);  // of depth 0 there is none: all is chunk 0
    for (size_t i = 0; i < directory_.size(); ++i) {
      doubled[2 * i] = doubled[2 * i + 1] = directory_[i];
    }
    directory_ = std::move(doubled);
    ++depth_;
  }

  std::vector<uint32_t> directory_;  ///< 2^depth numbers of chunks, empty of depth 0
  uint32_t depth_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
