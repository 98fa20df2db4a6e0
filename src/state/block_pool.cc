// SPDX-License-Identifier: Apache-2.0
#include "cairn/detail/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "state/huge_slabs.h"

namespace cairn {
inline namespace v0 {
namespace detail {
namespace {

constexpr size_t kPageBytes = 4096;
// A large block starts with its size, in a line of its own so that the block stays aligned.
constexpr size_t kLargeHeaderBytes = 64;

size_t LargeBytes(const void* block) {
  return *reinterpret_cast<const size_t*>(static_cast<const char*>(block) - kLargeHeaderBytes);
}

}  // namespace

BlockPool::~BlockPool() {
  for (const Slab& slab : slabs_) {
    MarkUsed(slab.memory, slab.bytes);
    munmap(slab.memory, slab.bytes);
  }
}

size_t BlockPool::BlockBytes(const void* block, BlockClass block_class) {
  return block_class == kLarge ? LargeBytes(block) : ClassBytes(block_class);
}

void* BlockPool::AllocateSlow(size_t bytes, BlockClass block_class, bool force) {
  if (block_class == kLarge) return AllocateLarge(bytes, force);
  if (TakeReturned(block_class)) return Pop(block_class);
  bytes = ClassBytes(block_class);
  Arena* arena = &arenas_[bytes <= kSmallBytes ? 0 : 1];
  if (void* block = TakeFromSlab(arena, bytes)) return block;
  if (AddSlab(arena, false)) return TakeFromSlab(arena, bytes);
  // Over the budget: a larger free block serves before anything is refused.
  if (void* block = SplitLarger(block_class)) return block;
  if (!force || !AddSlab(arena, true)) return nullptr;
  return TakeFromSlab(arena, bytes);
}

bool BlockPool::TakeReturned(BlockClass block_class) {
  if (returned_[block_class].load(std::memory_order_relaxed) == nullptr) return false;
  std::lock_guard lock(returned_mutex_);
  void* chain = returned_[block_class].load(std::memory_order_relaxed);
  returned_[block_class].store(NextChain(chain), std::memory_order_relaxed);
  free_[block_class] = chain;
  return true;
}

void* BlockPool::TakeFromSlab(Arena* arena, size_t bytes) {
  char* at = arena->at;
  if (bytes > 64) {
    at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(at) + 63) & ~uintptr_t{63});
  }
  if (at == nullptr || at + bytes > arena->end) return nullptr;
  arena->at = at + bytes;
  MarkUsed(at, bytes);
  return at;
}

bool BlockPool::AddSlab(Arena* arena, bool force) {
  const size_t bytes = arena->next_slab_bytes;
  if (force) {
    owner_->Force(bytes);
  } else if (last_refusal_ = owner_->Charge(bytes); !last_refusal_.ok()) {
    return false;
  }
  void* memory = nullptr;
  if (bytes == HugeSlabs::kBytes) {
    memory = HugeSlabs::Default()->Take();
    if (memory == nullptr && loading_) memory = HugeSlabs::Map();
  }
  if (memory == nullptr) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) {
    owner_->Release(bytes);
    last_refusal_ = Status::ResourceExhausted("the operating system gives no more memory");
    return false;
  }
  GiveRest(arena);
  slabs_.push_back({memory, bytes});
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  arena->next_slab_bytes = std::min(HugeSlabs::kBytes, bytes * 2);
  arena->at = static_cast<char*>(memory);
  arena->end = arena->at + bytes;
  MarkFree(memory, bytes);
  return true;
}

// Puts what the last slab has left on the free lists.
void BlockPool::GiveRest(Arena* arena) {
  if (arena->at == nullptr) return;
  char* at =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(arena->at) + 63) & ~uintptr_t{63});
  while (at + 128 <= arena->end) {
    const size_t bytes =
        std::min<size_t>(kMaxPooledBytes, static_cast<size_t>(arena->end - at) & ~size_t{63});
    MarkUsed(at, bytes);
    Free(at, ClassOf(bytes));
    at += bytes;
  }
}

void* BlockPool::SplitLarger(BlockClass block_class) {
  const size_t bytes = ClassBytes(block_class);
  for (BlockClass larger = std::max<BlockClass>(block_class + 1, 4); larger < kClasses; ++larger) {
    if (free_[larger] == nullptr && !TakeReturned(larger)) continue;
    char* block = static_cast<char*>(Pop(larger));
    // The rest keeps the alignment that its class promises.
    const size_t taken = bytes <= 64 ? 64 : bytes;
    const size_t rest = ClassBytes(larger) - taken;
    if (rest > 0) Free(block + taken, ClassOf(rest));
    if (taken > bytes) Free(block + bytes, ClassOf(taken - bytes));
    return block;
  }
  return nullptr;
}

void* BlockPool::AllocateLarge(size_t bytes, bool force) {
  bytes = (bytes + kLargeHeaderBytes + kPageBytes - 1) & ~(kPageBytes - 1);
  if (force) {
    owner_->Force(bytes);
  } else if (last_refusal_ = owner_->Charge(bytes); !last_refusal_.ok()) {
    return nullptr;
  }
  char* memory =
      static_cast<char*>(::operator new(bytes, std::align_val_t{kLargeHeaderBytes}, std::nothrow));
  if (memory == nullptr) {
    owner_->Release(bytes);
    last_refusal_ = Status::ResourceExhausted("the operating system gives no more memory");
    return nullptr;
  }
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  *reinterpret_cast<size_t*>(memory) = bytes;
  return memory + kLargeHeaderBytes;
}

void BlockPool::FreeLarge(void* block) {
  const size_t bytes = LargeBytes(block);
  owner_->Release(bytes);
  held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  ::operator delete(static_cast<char*>(block) - kLargeHeaderBytes,
                    std::align_val_t{kLargeHeaderBytes});
}

void BlockPool::FreeChains::Add(void* block, BlockClass block_class) {
  if (block_class == kLarge) return pool_->FreeLarge(block);
  Chain& chain = chains_[block_class % kOpenChains];
  if (chain.blocks > 0 && (chain.block_class != block_class || chain.blocks == kChainBlocks)) {
    ReturnChain(&chain);
  }
  Link(block, chain.head);
  MarkFree(static_cast<char*>(block) + 16, ClassBytes(block_class) - 16);
  chain.head = block;
  chain.block_class = block_class;
  ++chain.blocks;
}

void BlockPool::FreeChains::ReturnChain(Chain* chain) {
  std::lock_guard lock(pool_->returned_mutex_);
  std::atomic<void*>& list = pool_->returned_[chain->block_class];
  NextChain(chain->head) = list.load(std::memory_order_relaxed);
  list.store(chain->head, std::memory_order_relaxed);
  *chain = Chain{};
}

void BlockPool::FreeChains::Return() {
  for (Chain& chain : chains_) {
    if (chain.blocks > 0) ReturnChain(&chain);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn
