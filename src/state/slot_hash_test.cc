// SPDX-License-Identifier: Apache-2.0
#include "cairn/detail/slot_hash.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cairn::detail {
namespace {

TEST(SlotHash, EqualsTheLibraryAtEveryShortLength) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const uint64_t seed = round < 2 ? static_cast<uint64_t>(round) : random();
    const SlotHasher hasher(seed);
    for (size_t size = 0; size <= 40; ++size) {
      std::string bytes(size, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      ASSERT_EQ(hasher.Hash(bytes), SlotHashLong(bytes, seed)) << size << " bytes, seed " << seed;
    }
  }
}

TEST(SlotHash, OfAnObjectIsThatOfItsBytes) {
  const SlotHasher hasher(0x123456789abcdef0ULL);
  const int64_t eight = -42;
  const int32_t four = 42;
  EXPECT_EQ(hasher.HashObject(eight),
            hasher.Hash({reinterpret_cast<const char*>(&eight), sizeof(eight)}));
  EXPECT_EQ(hasher.HashObject(four),
            hasher.Hash({reinterpret_cast<const char*>(&four), sizeof(four)}));
}

// Computed with the xxhash command line tool's library, version 0.8.1.
TEST(SlotHash, HasItsPublishedVectors) {
  EXPECT_EQ(SlotHasher(0).Hash(""), 0x2d06800538d394c2ULL);
  EXPECT_EQ(SlotHasher(0).HashObject(int64_t{0}), SlotHasher(0).Hash(std::string(8, '\0')));
}

}  // namespace
}  // namespace cairn::detail
