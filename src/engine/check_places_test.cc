// SPDX-License-Identifier: Apache-2.0
#include "engine/check_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "format/store_records.h"
#include "sql/compile.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

class CheckPlacesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "cairn-check-places-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    std::filesystem::create_directories(dir_ / "in/sub");
    std::ofstream(dir_ / "in/f") << "{\"a\":1}\n";
    std::filesystem::create_directory_symlink(dir_ / "in", dir_ / "link");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string At(const std::string& path) const { return (dir_ / path).string(); }

  static std::string TableText(const std::string& name, const std::string& path) {
    return "CREATE TABLE " + name + " (a BIGINT) WITH (connector = 'filesystem', path = '" + path +
           "', format = 'ndjson');\n";
  }
  Status Check(const std::string& source, const std::string& sink,
               const std::string& place = "job.cairn") const {
    const auto plan = sql::Compile(TableText("b", At(source)) + TableText("o", At(sink)) +
                                   "INSERT INTO o SELECT a FROM b;\n");
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return CheckPlaces(*plan, place.empty() ? "" : At(place), env::PosixFileSystem());
  }

  std::filesystem::path dir_;
};

TEST_F(CheckPlacesTest, ADirectoryThatIsReadAndWrittenIsRefusedHoweverItIsSpelt) {
  for (const char* sink : {"in", "in/", "./in", "in/sub/..", "link", "link/."}) {
    const Status status = Check("in", sink);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << sink;
    EXPECT_THAT(std::string(status.message()), HasSubstr("read its own output")) << sink;
  }
  EXPECT_FALSE(Check("new", "new").ok());
}

TEST_F(CheckPlacesTest, ADirectoryWithinTheOtherIsRefused) {
  EXPECT_FALSE(Check("in", "in/sub").ok());
  EXPECT_FALSE(Check("in", "link/new/out").ok());
  EXPECT_FALSE(Check("in/sub", "in").ok());
}

TEST_F(CheckPlacesTest, DirectoriesBesideEachOtherAndOneFileAreTaken) {
  EXPECT_TRUE(Check("in", "out").ok());
  EXPECT_TRUE(Check("in", "inner").ok());
  EXPECT_TRUE(Check("in/f", "in/out").ok());
}

TEST_F(CheckPlacesTest, ATableWithinTheCheckpointPlaceIsRefused) {
  for (const char* path : {"job.cairn", "job.cairn/out", "x/../job.cairn/nodes"}) {
    EXPECT_THAT(std::string(Check("in", path).message()), HasSubstr("checkpoint place")) << path;
    EXPECT_THAT(std::string(Check(path, "out").message()), HasSubstr("checkpoint place")) << path;
  }
  EXPECT_TRUE(Check("in", "job.cairn2").ok());
  EXPECT_TRUE(Check("in", "job.cairn/out", "").ok());
}

TEST_F(CheckPlacesTest, ATableOrAPlaceWithinAnotherJobsPlaceIsRefused) {
  std::filesystem::create_directories(dir_ / "other.cairn");
  std::ofstream(dir_ / "other.cairn/FORMAT") << *format::SerializeStoreFormat({});
  for (const char* path : {"other.cairn", "other.cairn/out", "in/../other.cairn/nodes"}) {
    EXPECT_THAT(std::string(Check("in", path).message()), HasSubstr("of another job")) << path;
    EXPECT_THAT(std::string(Check("in", path, "").message()), HasSubstr("of another job")) << path;
    EXPECT_THAT(std::string(Check(path, "out").message()), HasSubstr("of another job")) << path;
  }
  EXPECT_THAT(std::string(Check("in", "out", "other.cairn/job").message()),
              HasSubstr("would lie in the place"));
  EXPECT_TRUE(Check("in", "out", "other.cairn").ok());
}

TEST_F(CheckPlacesTest, WhatAnotherStatementWritesIsCheckedToo) {
  const auto plan = sql::Compile(
      TableText("b", At("in")) + TableText("c", At("c")) + TableText("o", At("out")) +
      TableText("p", At("c")) + "INSERT INTO o SELECT a FROM c;\nINSERT INTO p SELECT a FROM b;\n");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_THAT(std::string(CheckPlaces(*plan, "", env::PosixFileSystem()).message()),
              HasSubstr("table c reads"));
}

}  // namespace
}  // namespace cairn::engine
