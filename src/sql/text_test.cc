// SPDX-License-Identifier: Apache-2.0
#include "sql/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::sql {
namespace {

using ::testing::HasSubstr;

TEST(SourceText, ShowsTheLineWithACaretCountedInCharacters) {
  const SourceText text("SELECT 1;\n\tSELECT 'é', x FROM t", "job.sql");
  const Status error = text.Error({text.text().find('x')}, "no such column");
  EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message(),
            "job.sql:2:14: no such column\n"
            "  \tSELECT 'é', x FROM t\n"
            "  \t            ^");
}

TEST(SourceText, CutsLongLinesAroundThePlace) {
  const std::string line = std::string(300, 'a') + "!" + std::string(300, 'b');
  const SourceText text(line, "");
  const std::string message(text.Error({300}, "here").message());
  EXPECT_EQ(message, "1:301: here\n  ..." + std::string(48, 'a') + "!" + std::string(47, 'b') +
                         "...\n     " + std::string(48, ' ') + "^");
}

TEST(SourceText, PlacesBehindTheEndAreTheEnd) {
  const SourceText text("SELECT", "");
  EXPECT_THAT(std::string(text.Error({100}, "more").message()), HasSubstr("1:7: more"));
}

TEST(SourceText, SkipsBlanksAndNestedComments) {
  const SourceText text(" -- one\n /* two /* nested */ */ SELECT", "");
  EXPECT_EQ(text.SkipBlank({0}).offset, text.text().find("SELECT"));
}

TEST(SourceText, FindsKeywordsOutsideQuotesAndComments) {
  const SourceText text("a 'LIMIT' \"limit\" /* LIMIT */ limits Limit 5", "");
  EXPECT_EQ(text.FindKeyword("LIMIT", {0}, {100}).offset, text.text().find("Limit"));
  EXPECT_EQ(text.FindKeyword("OFFSET", {3}, {100}).offset, 3u);
}

TEST(SourceText, RefusesBytesThatAreNoText) {
  EXPECT_THAT(std::string(SourceText("SELECT '\xff'", "").CheckEncoding().message()),
              HasSubstr("not valid UTF-8"));
  EXPECT_THAT(std::string(SourceText(std::string("a\0b", 3), "").CheckEncoding().message()),
              HasSubstr("NUL byte at byte 1"));
  EXPECT_THAT(std::string(SourceText(std::string(300'000, ' '), "").CheckEncoding().message()),
              HasSubstr("at most 262144"));
}

TEST(SourceTextTest, APositionLeadsBackToItsPlace) {
  const SourceText text("SET a = 1;\n  \xc3\xa4 SET b = 2;\n\nlast", "");
  for (const size_t offset : {0u, 4u, 11u, 13u, 16u, 28u, 29u, 32u}) {
    EXPECT_EQ(text.PlaceOf(text.PositionOf({offset})).offset, offset);
  }
}

}  // namespace
}  // namespace cairn::sql
