// SPDX-License-Identifier: Apache-2.0
#include "cairn/migration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

using ::testing::HasSubstr;

MigrationStep Append(std::string text) {
  return
      [text](std::string_view value) -> Result<std::string> { return std::string(value) + text; };
}

std::string Walk(const MigrationRegistry& migrations, uint32_t from, uint32_t to) {
  const auto path = migrations.FindPath("count", from, to);
  if (!path.ok()) return path.status().ToString();
  std::string value;
  for (const MigrationStep* step : *path) value = *(*step)(value);
  return value;
}

TEST(MigrationRegistry, Behaviour88TakesTheShortestPathAndEachStepOnce) {
  MigrationRegistry migrations;
  ASSERT_TRUE(migrations.Register("count", 1, 2, Append("a")).ok());
  ASSERT_TRUE(migrations.Register("count", 2, 3, Append("b")).ok());
  ASSERT_TRUE(migrations.Register("count", 3, 4, Append("c")).ok());
  ASSERT_TRUE(migrations.Register("count", 1, 3, Append("x")).ok());
  ASSERT_TRUE(migrations.Register("count", 4, 2, Append("back")).ok());
  EXPECT_EQ(Walk(migrations, 1, 4), "xc");
  EXPECT_EQ(Walk(migrations, 2, 4), "bc");
  EXPECT_EQ(Walk(migrations, 3, 2), "cback");
  EXPECT_EQ(Walk(migrations, 4, 4), "");
}

TEST(MigrationRegistry, ChoosesAmongEquallyShortPathsByTheLowestVersions) {
  MigrationRegistry migrations;
  ASSERT_TRUE(migrations.Register("count", 1, 3, Append("3")).ok());
  ASSERT_TRUE(migrations.Register("count", 3, 4, Append("4")).ok());
  ASSERT_TRUE(migrations.Register("count", 1, 2, Append("2")).ok());
  ASSERT_TRUE(migrations.Register("count", 2, 4, Append("5")).ok());
  EXPECT_EQ(Walk(migrations, 1, 4), "25");
}

TEST(MigrationRegistry, Behaviour88RefusesAStepToItsOwnVersionAndOneWithoutFunction) {
  MigrationRegistry migrations;
  for (const Status& refused :
       {migrations.Register("count", 2, 2, Append("a")),
        migrations.Register("count", 1, 2, nullptr), migrations.Register("", 1, 2, Append("a")),
        migrations.Register("count", 0, 1, Append("a")),
        migrations.Register("count", 1, 0, Append("a"))}) {
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE(migrations.Register("count", 1, 2, Append("a")).ok());
  EXPECT_THAT(migrations.Register("count", 1, 2, Append("b")).message(),
              HasSubstr("count from version 1 to 2 is registered already"));
}

TEST(MigrationRegistry, Behaviour88AMissingPathNamesCodecAndVersions) {
  MigrationRegistry migrations;
  ASSERT_TRUE(migrations.Register("count", 1, 2, Append("a")).ok());
  const Status missing = migrations.FindPath("count", 2, 1).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(),
              HasSubstr("no migration of count leads from version 2 to version 1"));
  EXPECT_EQ(migrations.FindPath("counts", 1, 2).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn
