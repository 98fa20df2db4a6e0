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

struct Vector {
  std::string key;
  uint64_t unseeded;
  uint64_t seeded;
};

std::string Int64(int64_t key) { return {reinterpret_cast<const char*>(&key), sizeof(key)}; }

// docs/formats/keys.md; computed with the xxhash library alone.
TEST(SlotHash, HasItsPublishedVectors) {
  const Vector vectors[] = {
      {Int64(0), 0xc77b3abb6f87acd9, 0x84c4077b5ba88a78},
      {Int64(1), 0x2fbc593564db792e, 0x62da9b4ecf9e94bc},
      {Int64(42), 0xd5a6f8c838df27c8, 0xbcea5640f79d5702},
      {Int64(-1), 0x5111c7e47d784413, 0x1c90f36d547002f0},
      {"", 0x2d06800538d394c2, 0xcc1ca35a1b089c5c},
      {"a", 0xe6c632b61e964e1f, 0xfcf369f9e7541d1b},
      {"alpha", 0xbe6903b5f625ab5a, 0xd722b73911e379da},
      {"fifteen bytes..", 0x88fe618734465de5, 0x43d76bfd4c1e66fb},
      {"a key of more than sixteen bytes", 0x27258608776bc78a, 0x7bfa4399575fd1b0},
  };
  for (const Vector& vector : vectors) {
    EXPECT_EQ(SlotHasher(0).Hash(vector.key), vector.unseeded) << vector.key;
    EXPECT_EQ(SlotHasher(0x0123456789abcdef).Hash(vector.key), vector.seeded) << vector.key;
  }
}

}  // namespace
}  // namespace cairn::detail
