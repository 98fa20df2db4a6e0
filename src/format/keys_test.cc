// SPDX-License-Identifier: Apache-2.0
#include "format/keys.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "format/utf8.h"

namespace cairn::format {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

std::string BigintKey(int64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

KeyLayout LayoutOf(uint32_t key_groups) { return *KeyLayout::ForKeyGroups(key_groups); }

TEST(KeyGroupVectors, Int64KeysFallIntoThePublishedGroups) {
  const std::pair<int64_t, uint32_t> vectors[] = {{0, 69},   {1, 36},   {2, 7},  {7, 98},
                                                  {42, 111}, {100, 97}, {-1, 61}};
  for (const auto& [key, group] : vectors) EXPECT_EQ(KeyGroupOf(BigintKey(key), 128), group) << key;
  EXPECT_EQ(Fnv1a64(BigintKey(1)), 0x89cd31291d2aefa4ULL);
}

TEST(KeyGroupVectors, TextKeysFallIntoThePublishedGroups) {
  const std::pair<std::string_view, uint32_t> vectors[] = {
      {"", 37},     {"alpha", 43}, {"beta", 39}, {"gamma", 106},
      {"alice", 7}, {"bob", 84},   {"a", 12},    {"k1", 65}};
  for (const auto& [key, group] : vectors) EXPECT_EQ(KeyGroupOf(key, 128), group) << key;
}

TEST(KeyGroupVectors, OwnersSplitTheGroupsAsPublished) {
  EXPECT_EQ(KeyGroupsOfSubtask(1, 3, 128), (KeyGroupRange{43, 86}));
  EXPECT_EQ(KeyGroupsOfSubtask(2, 5, 128), (KeyGroupRange{52, 77}));
  for (uint32_t p = 1; p <= 130; ++p) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < p; ++i) {
      const KeyGroupRange range = KeyGroupsOfSubtask(i, p, 128);
      ASSERT_EQ(range.first, next);
      next = range.last;
      for (uint32_t g = range.first; g < range.last; ++g) ASSERT_EQ(OwnerOfKeyGroup(g, p, 128), i);
    }
    ASSERT_EQ(next, 128u);
  }
}

TEST(KeyLayout, TakesOneByteUpTo128GroupsAndTwoAbove) {
  EXPECT_EQ(LayoutOf(1).prefix_bytes(), 1u);
  EXPECT_EQ(LayoutOf(128).prefix_bytes(), 1u);
  EXPECT_EQ(LayoutOf(128).id(), KeyLayoutId::kOneByteGroup);
  EXPECT_EQ(LayoutOf(129).prefix_bytes(), 2u);
  EXPECT_EQ(LayoutOf(32768).id(), KeyLayoutId::kTwoByteGroup);
}

TEST(KeyLayout, RefusesNoGroupsAndTooMany) {
  EXPECT_EQ(KeyLayout::ForKeyGroups(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(KeyLayout::ForKeyGroups(32769).status().code(), StatusCode::kInvalidArgument);
}

TEST(KeyLayout, ComposesTheGoldenKeyedRow) {
  std::string stored;
  LayoutOf(128).AppendKeyed(36, "counts", BigintKey(1), &stored);
  EXPECT_EQ(stored,
            "\x24"
            "counts|\x01\0\0\0\0\0\0\0"s);
  EXPECT_EQ(LayoutOf(128).KeyedPrefix(36, "counts"),
            "\x24"
            "counts|");
}

TEST(KeyLayout, ComposesTwoByteGroupsBigEndian) {
  std::string stored;
  LayoutOf(1000).AppendKeyed(0x0102, "s", "k", &stored);
  EXPECT_EQ(stored, "\x01\x02s|k");
}

TEST(KeyLayout, ComposesOperatorStateUnderAllOnes) {
  std::string one;
  LayoutOf(128).AppendOperatorState("off:3", &one);
  EXPECT_EQ(one,
            "\xff"
            "off:3");
  std::string two;
  LayoutOf(129).AppendOperatorState("off:3", &two);
  EXPECT_EQ(two,
            "\xff\xff"
            "off:3");
  EXPECT_EQ(LayoutOf(128).OperatorStatePrefix("rules"),
            "\xff"
            "rules|");
}

TEST(KeyLayout, ParsesWhatItComposes) {
  for (uint32_t groups : {1u, 128u, 129u, 32768u}) {
    const KeyLayout layout = LayoutOf(groups);
    for (uint32_t group : {0u, groups / 2, groups - 1}) {
      std::string stored;
      layout.AppendKeyed(group, "slot", "a|b\0c"sv, &stored);
      const StoredKey key = layout.Parse(stored);
      EXPECT_EQ(key.kind, StoredKeyKind::kKeyed);
      EXPECT_EQ(key.group, group);
      EXPECT_EQ(key.slot, "slot");
      EXPECT_EQ(key.user_key, "a|b\0c"sv);
    }
  }
}

TEST(KeyLayout, ParsesOperatorStateWithoutLookingForASlot) {
  const StoredKey key = LayoutOf(128).Parse(
      "\xff"
      "rules|x");
  EXPECT_EQ(key.kind, StoredKeyKind::kOperatorState);
  EXPECT_EQ(key.user_key, "rules|x");
}

TEST(KeyLayout, ReadsAnythingElseAsRaw) {
  const KeyLayout layout = LayoutOf(128);
  for (std::string_view raw : {""sv, "\x05no separator"sv, "\x80slot|key"sv, "\xfeslot|k"sv}) {
    const StoredKey key = layout.Parse(raw);
    EXPECT_EQ(key.kind, StoredKeyKind::kRaw);
    EXPECT_EQ(key.user_key, raw);
  }
  EXPECT_EQ(LayoutOf(129).Parse("\xff").kind, StoredKeyKind::kRaw);
}

TEST(SlotNames, RefuseTheSeparatorsAndNamesNobodyCanRead) {
  EXPECT_TRUE(ValidateSlotName("counts").ok());
  EXPECT_TRUE(ValidateSlotName("zähler").ok());
  for (std::string_view bad : {""sv, "a|b"sv, "a\nb"sv, "a\0b"sv, "\xff"sv}) {
    EXPECT_EQ(ValidateSlotName(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_TRUE(ValidateSlotName(std::string(255, 'x')).ok());
  EXPECT_FALSE(ValidateSlotName(std::string(256, 'x')).ok());
}

TEST(Utf8, TellsWellFormedTextFromOtherBytes) {
  for (std::string_view good : {""sv, "plain ascii, long enough"sv, "\xc2\x80"sv, "\xe2\x82\xac"sv,
                                "\xf0\x9f\x98\x80"sv, "\xf4\x8f\xbf\xbf"sv, "eight ch\xc3\xa4"sv}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (std::string_view bad : {"\x80"sv, "\xc0\xaf"sv, "\xc1\x81"sv, "\xc3"sv, "\xe0\x80\xaf"sv,
                               "\xed\xa0\x80"sv, "\xf0\x80\x80\xaf"sv, "\xf4\x90\x80\x80"sv,
                               "\xf5\x80\x80\x80"sv, "\xe2\x82"sv, "eight ch\xc3("sv}) {
    EXPECT_FALSE(IsUtf8(bad));
  }
}

}  // namespace
}  // namespace cairn::format
