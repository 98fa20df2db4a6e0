// SPDX-License-Identifier: Apache-2.0
#include "connectors/json_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cairn::connectors {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> Tokens(const std::string& text, bool bytewise, JsonTokenError* error) {
  std::string padded = text;
  padded.append(64, '\0');
  JsonTokens tokens;
  if (bytewise) tokens.FindByteByByteOnly();
  *error = tokens.Find(std::string_view(padded).substr(0, text.size()));
  EXPECT_EQ(tokens.end()[0], text.size());
  EXPECT_EQ(tokens.end()[2], text.size());
  return {tokens.begin(), tokens.end()};
}

TEST(JsonTokens, TellsBracketsStringsAndValues) {
  JsonTokenError error;
  EXPECT_THAT(Tokens(R"({"a": [1, true], "b\"{": "}"})", true, &error),
              ElementsAre(0, 1, 4, 6, 7, 8, 10, 14, 15, 17, 23, 25, 28));
  EXPECT_EQ(error, JsonTokenError::kNone);
}

TEST(JsonTokens, ValuesThatTouchAStringAreTokensOfTheirOwn) {
  JsonTokenError error;
  EXPECT_THAT(Tokens(R"("a"b"c")", true, &error), ElementsAre(0, 3, 4));
}

TEST(JsonTokens, TellsBrokenStrings) {
  JsonTokenError error;
  Tokens(R"({"a)", true, &error);
  EXPECT_EQ(error, JsonTokenError::kUnclosedString);
  Tokens(R"("a\")", true, &error);
  EXPECT_EQ(error, JsonTokenError::kUnclosedString);
  Tokens("\"a\nb\"", true, &error);
  EXPECT_EQ(error, JsonTokenError::kControlCharacter);
  Tokens("\"\xC3\xA9\"", true, &error);
  EXPECT_EQ(error, JsonTokenError::kNone);
  Tokens("\"\xC3\"", true, &error);
  EXPECT_EQ(error, JsonTokenError::kNotUtf8);
}

TEST(JsonTokens, MasksAndSingleBytesAgreeOnRandomTexts) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string letters = "\"\"\\\\{}[]:, \n\t\r1ax\x1F\x7F";
  for (int i = 0; i < 30'000; ++i) {
    std::string text;
    const size_t size = random() % 300;
    const size_t few = 2 + random() % (letters.size() - 1);
    while (text.size() < size) {
      if (random() % 9 == 0) {
        text.append(random() % 140, random() % 3 == 0 ? '\\' : 'x');
      } else if (random() % 200 == 0) {
        text += "\xC3\xA9";
      } else {
        text += letters[random() % few];
      }
    }
    JsonTokenError by_masks;
    JsonTokenError by_bytes;
    const auto expected = Tokens(text, true, &by_bytes);
    ASSERT_EQ(Tokens(text, false, &by_masks), expected) << text;
    ASSERT_EQ(by_masks, by_bytes) << text;
  }
}

}  // namespace
}  // namespace cairn::connectors
