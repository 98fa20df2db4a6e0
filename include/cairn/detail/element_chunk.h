// SPDX-License-Identifier: Apache-2.0
//
// ElementChunk: up to 64 elements of a collection, shared by the versions of the collection that
// views show. ElementRefs is what a collection holds of them: most collections are small, so the
// reference to an only chunk lies in the collection itself.
//
// Threads:  a chunk is changed by the writer while one collection refers to it; the last reference
//           may go on any thread.
// Invariants
//  1. A chunk with more than one reference is never changed: the writer puts a copy in its place.
//  2. An element that was removed stays, dead and without its value, until its removal is committed
//     and no view is as old (ElementContext::floor): deltas are made of its stamp.
//  3. min_deadline_ms is at most the deadline of every live element, and kNoTime when one waits for
//     the first time; max_stamp is at least every stamp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cairn/detail/domain_core.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace detail {

/// What a change of a collection needs to know of its surroundings.
struct ElementContext {
  DomainCore* core;
  LogAccount* account;  ///< bytes of all chunks of the slot
  uint32_t epoch;       ///< stamp of a change made now
  uint32_t floor;       ///< removals stamped at or below it may be forgotten
  bool remember;        ///< removals are wanted at all
};

template <class EK, class EV>
struct Element {
  EK key{};
  EV value{};
  int64_t deadline_ms = kDeadlineMax;
  uint32_t stamp = 0;
  bool live = false;
};

/// Thrown where the budget refuses memory: the change has not been made then.
struct ElementRefused {
  Status status;
};

template <class EK, class EV>
struct ElementChunk {
  using E = Element<EK, EV>;
  static constexpr uint32_t kCapacityMax = 64;

  std::atomic<uint32_t> references{1};
  uint32_t count = 0;
  uint32_t capacity = 0;
  uint32_t live = 0;
  uint32_t max_stamp = 0;
  uint32_t depth = 0;  ///< hash bits that all keys share; of hashed collections
  int64_t min_deadline_ms = kDeadlineMax;
  uint64_t charged_bytes = 0;
  DomainCore* core = nullptr;
  LogAccount* account = nullptr;
  alignas(16) uint8_t tags[kCapacityMax];  ///< of hashed collections, up to count

  static constexpr size_t Align() { return std::max<size_t>(alignof(E), 64); }
  static constexpr size_t HeadBytes() {
    return (sizeof(ElementChunk) + alignof(E) - 1) / alignof(E) * alignof(E);
  }
  E* elements() { return reinterpret_cast<E*>(reinterpret_cast<char*>(this) + HeadBytes()); }
  const E* elements() const { return const_cast<ElementChunk*>(this)->elements(); }

  static ElementChunk* Make(const ElementContext& in, uint32_t capacity) {
    const size_t bytes = HeadBytes() + capacity * sizeof(E);
    if (Status status = in.core->ChargeExternal(bytes, false); !status.ok()) {
      throw ElementRefused{std::move(status)};
    }
    void* memory = ::operator new(bytes, std::align_val_t(Align()), std::nothrow);
    if (memory == nullptr) {
      in.core->ReleaseExternal(bytes);
      throw std::bad_alloc();
    }
    auto* chunk = new (memory) ElementChunk;
    chunk->capacity = capacity;
    chunk->core = in.core;
    chunk->account = in.account;
    chunk->charged_bytes = bytes;
    in.account->bytes.fetch_add(bytes, std::memory_order_relaxed);
    std::memset(chunk->tags, 0xFF, sizeof(chunk->tags));
    return chunk;
  }

  /// Account for `bytes` more that elements own. Throws ElementRefused.
  void Charge(uint64_t bytes) {
    if (bytes == 0) return;
    if (Status status = core->ChargeExternal(bytes, false); !status.ok()) {
      throw ElementRefused{std::move(status)};
    }
    charged_bytes += bytes;
    account->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void ForceCharge(uint64_t bytes) {
    (void)core->ChargeExternal(bytes, true).ok();
    charged_bytes += bytes;
    account->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Release(uint64_t bytes) {
    core->ReleaseExternal(bytes);
    charged_bytes -= bytes;
    account->bytes.fetch_sub(bytes, std::memory_order_relaxed);
  }

  /// True when nobody else refers to the chunk: it may be changed.
  bool IsPrivate() const { return references.load(std::memory_order_acquire) == 1; }

  void Unref() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::destroy_n(elements(), count);
    core->ReleaseExternal(charged_bytes);
    account->bytes.fetch_sub(charged_bytes, std::memory_order_relaxed);
    this->~ElementChunk();
    ::operator delete(static_cast<void*>(this), std::align_val_t(Align()));
  }

  /// Put an element at the end; there is room.
  E* Append(E&& element) noexcept {
    E* at = new (elements() + count) E(std::move(element));
    ++count;
    Note(*at);
    return at;
  }

  /// Keep invariant 3 and the count after `element` was written.
  void Note(const E& element) {
    max_stamp = std::max(max_stamp, element.stamp);
    if (!element.live) return;
    ++live;
    NoteDeadline(element.deadline_ms);
  }
  void NoteDeadline(int64_t deadline_ms) {
    min_deadline_ms =
        std::min(min_deadline_ms, deadline_ms == kPendingDeadline ? kNoTime : deadline_ms);
  }
};

/// A collection's reference to a chunk.
template <class Chunk>
class ElementRef {
 public:
  ElementRef() = default;
  explicit ElementRef(Chunk* chunk) : chunk_(chunk) {}
  ElementRef(const ElementRef& other) noexcept : chunk_(other.chunk_) {
    if (chunk_ != nullptr) chunk_->references.fetch_add(1, std::memory_order_relaxed);
  }
  ElementRef(ElementRef&& other) noexcept : chunk_(std::exchange(other.chunk_, nullptr)) {}
  ElementRef& operator=(ElementRef other) noexcept {
    std::swap(chunk_, other.chunk_);
    return *this;
  }
  ~ElementRef() {
    if (chunk_ != nullptr) chunk_->Unref();
  }
  Chunk* operator->() const { return chunk_; }
  Chunk* get() const { return chunk_; }

 private:
  Chunk* chunk_ = nullptr;
};

/// References in order, the first without memory of its own while it is the only one.
template <class Chunk>
class ElementRefs {
 public:
  using Ref = ElementRef<Chunk>;

  bool empty() const { return size() == 0; }
  size_t size() const { return many_.empty() ? (one_.get() != nullptr ? 1 : 0) : many_.size(); }
  Ref* begin() { return many_.empty() ? &one_ : many_.data(); }
  const Ref* begin() const { return const_cast<ElementRefs*>(this)->begin(); }
  const Ref* end() const { return begin() + size(); }
  Ref& operator[](size_t at) { return begin()[at]; }
  const Ref& operator[](size_t at) const { return begin()[at]; }
  const Ref& front() const { return *begin(); }
  const Ref& back() const { return *(end() - 1); }
  size_t own_bytes() const { return many_.capacity() * sizeof(Ref); }

  /// Make room for one more: the next Insert does not throw.
  void Grow() {
    const size_t least = size() + 1;
    if (least > 1 && many_.capacity() < least) many_.reserve(least + least / 2);
  }
  /// Put `ref` at `at`, after Grow.
  void Insert(size_t at, Ref ref) noexcept {
    if (empty()) {
      one_ = std::move(ref);
      return;
    }
    if (many_.empty()) many_.push_back(std::move(one_));
    many_.insert(many_.begin() + static_cast<std::ptrdiff_t>(at), std::move(ref));
  }
  void Erase(size_t at) {
    if (many_.empty()) {
      one_ = Ref();
    } else {
      many_.erase(many_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  void Clear() {
    one_ = Ref();
    many_.clear();
  }

 private:
  Ref one_;                ///< null when many_ has any
  std::vector<Ref> many_;  ///< of one after chunks were erased, else of two and more
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
