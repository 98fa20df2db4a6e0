// SPDX-License-Identifier: Apache-2.0
//
// BlockPool: memory of a domain's tables in size classes over slabs whose pages are kept.
//
// The writer takes and gives back single blocks without a lock. Other threads, which release views,
// give back whole chains: the writer takes one chain of up to kChainBlocks at a time, so returning
// any amount of memory costs it a bounded step.
//
// The first slabs have ordinary 4 KiB pages, first touched as blocks are used. From the size of a
// 2 MiB page on slabs are such pages, touched beforehand by a thread of the process: a 2 MiB page
// costs whoever touches it first milliseconds, which is not to be the writer. A load, which takes
// much at once and has nobody waiting for one row, does not wait for that thread and touches them
// itself: 192 MiB take it 22 ms, in 4 KiB pages 130.
//
// Threads:  Allocate and Free belong to the writer; FreeChains to any thread.
// Invariants
//  1. A free block's first word links it to the next of its list; its second links chains.
//  2. Slabs are charged to the budget's owner when they are taken and never given back before the
//     pool dies; large blocks are charged one by one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cairn/memory_budget.h"
#include "cairn/status.h"

#if defined(__SANITIZE_ADDRESS__)
#define CAIRN_ASAN_ 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_ASAN_ 1
#endif
#endif
#ifdef CAIRN_ASAN_
#include <sanitizer/asan_interface.h>
#endif

namespace cairn {
inline namespace v0 {
namespace detail {

/// Mark freed pool memory, so that AddressSanitizer sees a use after free inside a slab.
inline void MarkFree([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) {
#ifdef CAIRN_ASAN_
  ASAN_POISON_MEMORY_REGION(block, bytes);
#endif
}
inline void MarkUsed([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) {
#ifdef CAIRN_ASAN_
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
#endif
}

/// Size class of a block: multiples of 16 up to 64 bytes, of 64 up to kMaxPooledBytes, then kLarge.
using BlockClass = uint16_t;

class BlockPool {
 public:
  static constexpr size_t kMaxPooledBytes = 20 * 1024;
  static constexpr BlockClass kClasses = 4 + kMaxPooledBytes / 64;
  static constexpr BlockClass kLarge = kClasses;
  static constexpr uint32_t kChainBlocks = 256;

  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Charge what is taken from now on to `owner`.
  void set_owner(MemoryBudget::Owner* owner) { owner_ = owner; }

  static constexpr BlockClass ClassOf(size_t bytes) {
    if (bytes <= 64) return static_cast<BlockClass>(bytes == 0 ? 0 : (bytes - 1) / 16);
    if (bytes <= kMaxPooledBytes) return static_cast<BlockClass>(3 + (bytes - 1) / 64);
    return kLarge;
  }
  static constexpr size_t ClassBytes(BlockClass block_class) {
    return block_class < 4 ? 16 * (size_t{block_class} + 1) : 64 * (size_t{block_class} - 2);
  }
  /// Bytes that a block of any class takes.
  static size_t BlockBytes(const void* block, BlockClass block_class);

  /// Take a block of at least `bytes`, aligned to 64 when it is larger than 64, else to 16.
  ///
  /// Shape:    force = go over the budget; null otherwise means refused, and last_refusal() why.
  void* Allocate(size_t bytes, bool force = false) {
    const BlockClass block_class = ClassOf(bytes);
    if (block_class < kClasses && free_[block_class] != nullptr) {
      return Pop(block_class);
    }
    return AllocateSlow(bytes, block_class, force);
  }

  void Free(void* block, BlockClass block_class) {
    if (block_class == kLarge) return FreeLarge(block);
    Link(block, free_[block_class]);
    free_[block_class] = block;
    MarkFree(static_cast<char*>(block) + 16, ClassBytes(block_class) - 16);
  }

  /// Blocks on their way back from another thread.
  ///
  /// Threads:  one; returns what it holds when destroyed.
  class FreeChains {
   public:
    explicit FreeChains(BlockPool* pool) : pool_(pool) {}
    ~FreeChains() { Return(); }
    FreeChains(const FreeChains&) = delete;
    FreeChains& operator=(const FreeChains&) = delete;
    void Add(void* block, BlockClass block_class);

   private:
    struct Chain {
      void* head = nullptr;
      uint32_t blocks = 0;
      BlockClass block_class = 0;
    };
    void Return();
    void ReturnChain(Chain* chain);
    BlockPool* const pool_;
    static constexpr size_t kOpenChains = 16;
    Chain chains_[kOpenChains];  ///< by class, direct mapped
  };

  /// From now on a slab that is not ready may be touched here, or no longer.
  void set_loading(bool loading) { loading_ = loading; }

  const Status& last_refusal() const { return last_refusal_; }
  /// Bytes taken from the operating system. Threads: any.
  uint64_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Slab {
    void* memory;
    size_t bytes;
  };
  /// What is left of a slab. Small blocks have slabs of their own: the tags of many segments, which
  /// every probe reads, then share few pages.
  struct Arena {
    char* at = nullptr;
    char* end = nullptr;
    size_t next_slab_bytes = 32 * 1024;
  };
  static constexpr size_t kSmallBytes = 2048;

  static void Link(void* block, void* next) { *static_cast<void**>(block) = next; }
  static void* Next(void* block) { return *static_cast<void**>(block); }
  static void*& NextChain(void* block) { return static_cast<void**>(block)[1]; }

  void* Pop(BlockClass block_class) {
    void* block = free_[block_class];
    free_[block_class] = Next(block);
    MarkUsed(block, ClassBytes(block_class));
    return block;
  }
  void* AllocateSlow(size_t bytes, BlockClass block_class, bool force);
  bool TakeReturned(BlockClass block_class);
  static void* TakeFromSlab(Arena* arena, size_t bytes);
  bool AddSlab(Arena* arena, bool force);
  void* SplitLarger(BlockClass block_class);
  void* AllocateLarge(size_t bytes, bool force);
  void FreeLarge(void* block);
  void GiveRest(Arena* arena);

  MemoryBudget::Owner* owner_ = nullptr;
  void* free_[kClasses] = {};
  Arena arenas_[2];  ///< of small blocks and of the others
  std::vector<Slab> slabs_;
  bool loading_ = false;
  Status last_refusal_;
  std::atomic<uint64_t> held_bytes_{0};

  std::mutex returned_mutex_;
  std::atomic<void*> returned_[kClasses] = {};  ///< lists of chains; changed under the mutex
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
