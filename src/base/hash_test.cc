// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/ids.h"

namespace cairn::base {
namespace {

std::string Int64Key(int64_t key) {
  std::string bytes;
  AppendLE(&bytes, key);
  return bytes;
}

TEST(Fnv1a64, MatchesThePublishedVectors) {
  EXPECT_EQ(Fnv1a64(Int64Key(1)), 0x89cd31291d2aefa4ULL);
  EXPECT_EQ(Fnv1a64(""), 0xcbf29ce484222325ULL);
}

TEST(KeyGroupOf, MatchesThePublishedVectors) {
  const std::pair<int64_t, uint32_t> ints[] = {{0, 69},   {1, 36},   {2, 7},  {7, 98},
                                               {42, 111}, {100, 97}, {-1, 61}};
  for (const auto& [key, group] : ints) EXPECT_EQ(KeyGroupOf(Int64Key(key), 128), group) << key;
  const std::pair<std::string_view, uint32_t> strings[] = {
      {"", 37},     {"alpha", 43}, {"beta", 39}, {"gamma", 106},
      {"alice", 7}, {"bob", 84},   {"a", 12},    {"k1", 65}};
  for (const auto& [key, group] : strings) EXPECT_EQ(KeyGroupOf(key, 128), group) << key;
}

TEST(KeyGroupsOfSubtask, RangesAreDisjointAndCoverAllGroups) {
  for (uint32_t groups : {1U, 7U, 128U, 129U, 32768U}) {
    for (uint32_t p = 1; p <= 16; ++p) {
      uint32_t next = 0;
      for (uint32_t i = 0; i < p; ++i) {
        const KeyGroupRange range = KeyGroupsOfSubtask(i, p, groups);
        ASSERT_EQ(range.first, next);
        for (uint32_t g = range.first; g < range.last; ++g) {
          ASSERT_EQ(OwnerOfKeyGroup(g, p, groups), i);
        }
        next = range.last;
      }
      ASSERT_EQ(next, groups);
    }
  }
  EXPECT_EQ(KeyGroupsOfSubtask(1, 3, 128), (KeyGroupRange{43, 86}));
  EXPECT_EQ(KeyGroupsOfSubtask(3, 5, 128), (KeyGroupRange{77, 103}));
}

TEST(Crc32c, MatchesThePublishedVectors) {
  EXPECT_EQ(Crc32c(0, "123456789"), 0xe3069283U);
  EXPECT_EQ(Crc32c(0, ""), 0U);
  EXPECT_EQ(Crc32c(0, std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(Crc32c(Crc32c(0, "12345"), "6789"), Crc32c(0, "123456789"));
}

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256::HexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256::HexOf("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hex, RoundTripsAndRefusesWhatIsNotHex) {
  std::string bytes;
  ASSERT_TRUE(FromHex("00fF10", &bytes));
  EXPECT_EQ(ToHex(bytes), "00ff10");
  EXPECT_FALSE(FromHex("0", &bytes));
  EXPECT_FALSE(FromHex("0g", &bytes));
}

TEST(Crc32c, IsTheSameInOnePieceAndInManyAtEveryLength) {
  EXPECT_EQ(Crc32c(0, "123456789"), 0xe3069283U);  // the published check value
  std::string bytes;
  for (uint32_t i = 0; i < 10000; ++i) bytes.push_back(static_cast<char>(i * 2654435761U >> 24));
  uint32_t one_by_one = 0;
  for (size_t length = 1; length <= bytes.size(); ++length) {
    one_by_one = Crc32c(one_by_one, std::string_view(bytes).substr(length - 1, 1));
    ASSERT_EQ(Crc32c(0, std::string_view(bytes).substr(0, length)), one_by_one) << length;
  }
}

TEST(OperatorId, IsTheFnvOfTheUid) {
  EXPECT_EQ(OperatorIdOf("").value, 0xcbf29ce484222325ULL);
  EXPECT_EQ(ToHex16(OperatorIdOf("a")), "af63dc4c8601ec8c");
  OperatorId id;
  ASSERT_TRUE(ParseHex16("af63dc4c8601ec8c", &id));
  EXPECT_EQ(id, OperatorIdOf("a"));
  EXPECT_FALSE(ParseHex16("af63dc4c8601ec8", &id));
  EXPECT_FALSE(ParseHex16("AF63DC4C8601EC8C", &id));
}

TEST(Uuid, IsCanonicalVersion7AndSortsByTime) {
  const std::string a = MakeUuidV7(1000, ~0ULL, ~0ULL);
  const std::string b = MakeUuidV7(1001, 0, 0);
  EXPECT_TRUE(IsCanonicalUuid(a));
  EXPECT_EQ(a[14], '7');
  EXPECT_LT(a, b);
  EXPECT_FALSE(IsCanonicalUuid("00000000-0000-0000-0000-000000000000"));
  EXPECT_FALSE(IsCanonicalUuid("00000000-0000-0000-0000-00000000000G"));
}

}  // namespace
}  // namespace cairn::base
