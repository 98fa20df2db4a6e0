// SPDX-License-Identifier: Apache-2.0
#include "engine/backend_uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

TEST(BackendUri, NothingAndMemoryKeepTablesInMemoryWithoutAPlaceOfTheirOwn) {
  for (const char* uri : {"", "memory://", "MEMORY://"}) {
    const auto backend = ParseBackendUri(uri);
    ASSERT_TRUE(backend.ok()) << uri;
    EXPECT_EQ(backend->scheme, "memory");
    EXPECT_EQ(backend->directory, "");
  }
}

TEST(BackendUri, AFileUriOrAPathGivesTheDefaultPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"file:///var/job", "/var/job"}, {"file://job", "job"}, {"./job", "./job"}, {"/a b", "/a b"}};
  for (const auto& [uri, directory] : cases) {
    const auto backend = ParseBackendUri(uri);
    ASSERT_TRUE(backend.ok()) << uri;
    EXPECT_EQ(backend->scheme, "file");
    EXPECT_EQ(backend->directory, directory);
  }
}

TEST(BackendUri, AKnownSchemeThatIsNotBuiltSaysSoAndListsWhatIs) {
  for (const char* uri : {"rocksdb:///x", "changelog+file://x", "s3sst+forst://b/p?endpoint=x",
                          "remote-read://b/p", "memory+sharded://"}) {
    const Status status = ParseBackendUri(uri).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not built yet")) << uri;
    EXPECT_THAT(std::string(status.message()), HasSubstr("memory://, file://")) << uri;
  }
}

TEST(BackendUri, AnUnknownSchemeListsTheKnownOnes) {
  const Status status = ParseBackendUri("redis://x").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'redis'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rocksdb://"));
}

TEST(BackendUri, AnUnknownParameterIsNamed) {
  EXPECT_THAT(std::string(ParseBackendUri("file://x?cache=1").status().message()),
              HasSubstr("'cache'"));
}

TEST(BackendUri, ADirectoryMustBeGivenWhereOneIsNeededAndOnlyThere) {
  EXPECT_FALSE(ParseBackendUri("file://").ok());
  EXPECT_FALSE(ParseBackendUri("memory://x").ok());
}

TEST(CheckpointPlace, IsTheGivenOneElseTheBackendsElseNamedAfterTheJob) {
  const Backend memory{"memory", ""};
  const Backend file{"file", "/data"};
  EXPECT_EQ(*CheckpointPlaceOf(memory, "", "clicks"), "./clicks.cairn");
  EXPECT_EQ(*CheckpointPlaceOf(file, "", "clicks"), "/data");
  EXPECT_EQ(*CheckpointPlaceOf(file, "file:///other", "clicks"), "/other");
  EXPECT_EQ(*CheckpointPlaceOf(file, "other", "clicks"), "other");
  EXPECT_EQ(*CheckpointPlaceOf(file, "none", "clicks"), "");
}

TEST(CheckpointPlace, ABucketIsNotBuiltYet) {
  EXPECT_THAT(std::string(ParsePlaceUri("s3://b/p").status().message()),
              HasSubstr("not built yet"));
  EXPECT_FALSE(ParsePlaceUri("ftp://x").ok());
}

}  // namespace
}  // namespace cairn::engine
