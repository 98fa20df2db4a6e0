// SPDX-License-Identifier: Apache-2.0
#include "format/topn_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::format {
namespace {

using ::testing::HasSubstr;

std::string Encode(const std::vector<TopNRow>& rows) {
  std::string bytes(EncodedTopNBytes(rows), '?');
  EncodeTopN(rows, bytes.data());
  return bytes;
}

TEST(TopNCodecTest, WritesTheDocumentedBytes) {
  using std::string_literals::operator""s;
  EXPECT_EQ(Encode({{"k1", "abc"}, {"k2", ""}}),
            "\x02\0\0\0"s
            "\x02\0\0\0k1\x03\0\0\0abc"s
            "\x02\0\0\0k2\0\0\0\0"s);
}

TEST(TopNCodecTest, ReadsBackWhatItWrote) {
  const std::vector<TopNRow> rows = {{"", "x"}, {"", "y"}, {"a", ""}, {"ab", "zz"}};
  const std::string bytes = Encode(rows);
  const auto decoded = DecodeTopN(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(*decoded, rows);
}

TEST(TopNCodecTest, RefusesEveryTruncation) {
  const std::string bytes = Encode({{"k1", "abc"}, {"k2", "de"}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeTopN(std::string_view(bytes).substr(0, size)).status().code(),
              StatusCode::kCorruption)
        << size;
  }
}

TEST(TopNCodecTest, RefusesBytesAfterTheLastRow) {
  const auto decoded = DecodeTopN(Encode({{"k", "abc"}}) + "!");
  EXPECT_EQ(decoded.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(decoded.status().ToString(), HasSubstr("left after"));
}

TEST(TopNCodecTest, RefusesAValueWithoutRows) {
  EXPECT_EQ(DecodeTopN(Encode({})).status().code(), StatusCode::kCorruption);
}

TEST(TopNCodecTest, RefusesRowsOutOfOrder) {
  const auto decoded = DecodeTopN(Encode({{"b", "1"}, {"a", "2"}}));
  EXPECT_EQ(decoded.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(decoded.status().ToString(), HasSubstr("rank 2"));
}

TEST(TopNCodecTest, RefusesACountThatTheBytesCannotHold) {
  std::string bytes = Encode({{"k", "abc"}});
  bytes[3] = '\x7f';
  EXPECT_EQ(DecodeTopN(bytes).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace cairn::format
