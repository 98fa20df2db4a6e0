// SPDX-License-Identifier: Apache-2.0
#include "state/huge_slabs.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/detail/block_pool.h"
#include "cairn/memory_budget.h"

namespace cairn::detail {
namespace {

char* TakeReady() {
  void* slab = nullptr;
  while ((slab = HugeSlabs::Default()->Take()) == nullptr) std::this_thread::yield();
  return static_cast<char*>(slab);
}

TEST(HugeSlabs, AreAlignedZeroAndOneCallers) {
  std::set<char*> slabs;
  for (size_t i = 0; i < 2 * HugeSlabs::kReady; ++i) {
    char* slab = TakeReady();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slab) % HugeSlabs::kBytes, 0u);
    EXPECT_TRUE(std::all_of(slab, slab + HugeSlabs::kBytes, [](char c) { return c == 0; }));
    std::memset(slab, 0xAB, HugeSlabs::kBytes);
    EXPECT_TRUE(slabs.insert(slab).second);
  }
  for (char* slab : slabs) EXPECT_EQ(munmap(slab, HugeSlabs::kBytes), 0);
}

// Pools of two threads at once, as subtasks have them, past the size from which slabs are huge.
TEST(BlockPool, KeepsTheBlocksOfManySlabsApart) {
  MemoryBudget budget(0);
  const auto fill = [&budget](uint64_t mark) {
    const auto owner = budget.AddOwner("pool");
    BlockPool pool;
    pool.set_owner(owner.get());
    std::vector<std::pair<uint64_t*, size_t>> blocks;
    for (uint64_t i = 0; pool.held_bytes() < 8 * HugeSlabs::kBytes; ++i) {
      const size_t words = 16 + i * 37 % 1900;
      auto* block = static_cast<uint64_t*>(pool.Allocate(words * 8));
      ASSERT_NE(block, nullptr);
      std::fill_n(block, words, mark + i);
      blocks.emplace_back(block, words);
    }
    EXPECT_EQ(owner->bytes(), pool.held_bytes());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto [block, words] = blocks[i];
      ASSERT_TRUE(std::all_of(block, block + words, [&](uint64_t w) { return w == mark + i; }))
          << i;
    }
  };
  std::thread other([&] { fill(uint64_t{1} << 40); });
  fill(0);
  other.join();
}

TEST(BlockPool, TakesNoHugeSlabThatItsBudgetRefuses) {
  MemoryBudget budget(3 * HugeSlabs::kBytes);
  const auto owner = budget.AddOwner("pool");
  BlockPool pool;
  pool.set_owner(owner.get());
  while (pool.Allocate(BlockPool::kMaxPooledBytes) != nullptr) {
  }
  EXPECT_EQ(pool.last_refusal().code(), StatusCode::kResourceExhausted);
  EXPECT_LE(budget.total(), budget.limit());
  EXPECT_GT(budget.total(), HugeSlabs::kBytes);
}

}  // namespace
}  // namespace cairn::detail
