// SPDX-License-Identifier: Apache-2.0
#include "cli/source_reference.h"

#include <gtest/gtest.h>

#include "env/memory_file_system.h"

namespace cairn::cli {
namespace {

class SourceReferenceTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(env::CreateDirectories(&files_, "/jobs/a.cairn/nodes", false).ok());
    ASSERT_TRUE(env::CreateDirectories(&files_, "/jobs/me@5/nodes", false).ok());
    ASSERT_TRUE(files_.CreateFile("/jobs/state.snap").ok());
  }
  env::MemoryFileSystem files_;
};

TEST_F(SourceReferenceTest, ADirectoryIsAPlaceAtItsNewestCut) {
  for (const char* text : {"/jobs/a.cairn", "file:///jobs/a.cairn"}) {
    const auto source = ResolveSource(&files_, text);
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    EXPECT_EQ(source->path, "/jobs/a.cairn");
    EXPECT_FALSE(source->is_file);
    EXPECT_FALSE(source->id.has_value());
  }
}

TEST_F(SourceReferenceTest, AnIdBehindTheSignChoosesACut) {
  const auto source = ResolveSource(&files_, "file:///jobs/a.cairn@41");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ(source->path, "/jobs/a.cairn");
  EXPECT_EQ(source->id, base::CheckpointId(41));
}

TEST_F(SourceReferenceTest, ANameWithTheSignThatExistsIsThatName) {
  const auto source = ResolveSource(&files_, "/jobs/me@5");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ(source->path, "/jobs/me@5");
  EXPECT_FALSE(source->id.has_value());
  EXPECT_EQ(ResolveSource(&files_, "/jobs/me@5@7")->id, base::CheckpointId(7));
}

TEST_F(SourceReferenceTest, AFileIsASnapshotAndHasNoIds) {
  EXPECT_TRUE(ResolveSource(&files_, "/jobs/state.snap")->is_file);
  EXPECT_EQ(ResolveSource(&files_, "/jobs/state.snap@3").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SourceReferenceTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(ResolveSource(&files_, "/jobs/none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ResolveSource(&files_, "/jobs/none@3").status().code(), StatusCode::kNotFound);
}

TEST_F(SourceReferenceTest, OfABucketTheIdStandsBeforeTheParametersOrAtTheEnd) {
  auto source = ResolveSource(&files_, "s3://bucket/a@7?endpoint=http://x:1");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->path, "s3://bucket/a?endpoint=http://x:1");
  EXPECT_EQ(source->id, base::CheckpointId(7));
  source = ResolveSource(&files_, "s3://bucket/a?endpoint=http://x:1@8");
  EXPECT_EQ(source->path, "s3://bucket/a?endpoint=http://x:1");
  EXPECT_EQ(source->id, base::CheckpointId(8));
  source = ResolveSource(&files_, "s3://bucket/me@home");
  EXPECT_EQ(source->path, "s3://bucket/me@home");
  EXPECT_FALSE(source->id.has_value());
}

TEST_F(SourceReferenceTest, OtherSchemesAndIdsAreRefused) {
  for (const char* text : {"gs://bucket/a", "", "file://", "file://jobs/a.cairn", "/jobs/a.cairn@x",
                           "/jobs/a.cairn@0", "/jobs/a.cairn@-1"}) {
    EXPECT_EQ(ResolveSource(&files_, text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace cairn::cli
