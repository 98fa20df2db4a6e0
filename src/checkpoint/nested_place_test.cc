// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/nested_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/store.h"
#include "env/memory_file_system.h"
#include "format/store_records.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;

class NestedPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override { Write("/jobs/job.cairn", *format::SerializeStoreFormat({})); }

  void Write(const std::string& directory, const std::string& format) {
    ASSERT_TRUE(env::CreateDirectories(&disk_, directory, false).ok());
    auto file = disk_.CreateFile(directory + "/FORMAT");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(format).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  Status Own(const std::string& directory) { return OwnPlace(&disk_, directory).status(); }

  env::MemoryFileSystem disk_;
};

TEST_F(NestedPlaceTest, APlaceWithinAnotherIsRefusedAtAnyDepthAndNothingIsMade) {
  for (const char* inner :
       {"/jobs/job.cairn/b", "/jobs/job.cairn/nodes/1/b", "/jobs/./job.cairn/b/"}) {
    const Status refused = Own(inner);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << inner;
    EXPECT_THAT(refused.ToString(), HasSubstr("would lie in the place /jobs/job.cairn"));
    EXPECT_FALSE(disk_.Stat(inner).ok()) << inner;
  }
}

TEST_F(NestedPlaceTest, APlaceAroundAnotherIsRefused) {
  EXPECT_THAT(Own("/jobs").ToString(), HasSubstr("holds the place /jobs/job.cairn"));
  EXPECT_FALSE(disk_.Stat("/jobs/LOCK").ok());
}

TEST_F(NestedPlaceTest, APlaceBesideAnotherAndOneThatIsThereAreTaken) {
  EXPECT_TRUE(Own("/jobs/other.cairn").ok());
  EXPECT_TRUE(Own("/jobs/job.cairn").ok());
  Write("/jobs/job.cairn/made-before", *format::SerializeStoreFormat({}));
  EXPECT_TRUE(Own("/jobs/job.cairn/made-before").ok());
}

TEST_F(NestedPlaceTest, AnotherProgramsFileOfThatNameMakesNoPlace) {
  Write("/theirs", "some format\n");
  EXPECT_TRUE(Own("/theirs/job.cairn").ok());
  EXPECT_EQ(PlaceAround(&disk_, "/theirs/out"), std::nullopt);
  EXPECT_EQ(PlaceAround(&disk_, "/jobs/job.cairn"), "/jobs/job.cairn");
  EXPECT_EQ(PlaceAround(&disk_, "/jobs/job.cairn/out/a"), "/jobs/job.cairn");
}

}  // namespace
}  // namespace cairn::checkpoint
