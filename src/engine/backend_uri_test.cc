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
      {"file:///var/job", "/var/job"}, {"job", "job"}, {"./job", "./job"}, {"/a b", "/a b"}};
  for (const auto& [uri, directory] : cases) {
    const auto backend = ParseBackendUri(uri);
    ASSERT_TRUE(backend.ok()) << uri;
    EXPECT_EQ(backend->scheme, "file");
    EXPECT_EQ(backend->directory, directory);
  }
}

TEST(BackendUri, AKnownSchemeThatIsNotBuiltSaysSoAndListsWhatIs) {
  for (const char* uri :
       {"rocksdb:///x", "changelog+s3://x", "s3sst+forst://b/p?endpoint=x", "remote-read://b/p"}) {
    const Status status = ParseBackendUri(uri).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not built yet")) << uri;
    EXPECT_THAT(std::string(status.message()), HasSubstr("memory://, memory+sharded://, file://"))
        << uri;
  }
}

TEST(BackendUri, AnUnknownSchemeListsTheKnownOnes) {
  const Status status = ParseBackendUri("redis://x").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'redis'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rocksdb://"));
}

TEST(BackendUri, AnUnknownParameterIsNamedAndTheKnownOnesAreListed) {
  const Status none = ParseBackendUri("file:///x?cache=1").status();
  EXPECT_THAT(std::string(none.message()), HasSubstr("'cache'"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("takes none"));
  const Status some = ParseUri("remote-read://b/p?io_threads=4&hot=1").status();
  EXPECT_THAT(std::string(some.message()), HasSubstr("'hot'"));
  EXPECT_THAT(std::string(some.message()), HasSubstr("hot_max_bytes,io_threads,endpoint"));
  EXPECT_FALSE(ParseUri("remote-read://b/p?io_threads=4&io_threads=5").ok());
}

TEST(BackendUri, DisaggLocalNamesItsParametersAndListsThemForAnUnknownOne) {
  const auto backend = ParseBackendUri("disagg-local://?io_threads=4&hot_max_bytes=65536");
  ASSERT_TRUE(backend.ok()) << backend.status().ToString();
  EXPECT_EQ(backend->scheme, "disagg-local");
  EXPECT_EQ(backend->directory, "");
  EXPECT_EQ(backend->parameters, "hot_max_bytes and io_threads");
  const Status status = ParseBackendUri("disagg-local://?threads=4").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'threads'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("takes hot_max_bytes,io_threads"));
  EXPECT_FALSE(ParseBackendUri("disagg-local://place").ok());
}

TEST(BackendUri, ShardedAndChangelogTablesAreInMemoryToo) {
  const auto sharded = ParseBackendUri("memory+sharded://");
  ASSERT_TRUE(sharded.ok());
  EXPECT_EQ(sharded->scheme, "memory+sharded");
  EXPECT_FALSE(sharded->changelog);
  const auto changelog = ParseBackendUri("changelog://");
  ASSERT_TRUE(changelog.ok());
  EXPECT_TRUE(changelog->changelog);
  EXPECT_EQ(changelog->directory, "");
  const auto files = ParseBackendUri("changelog+file:///data");
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->changelog);
  EXPECT_EQ(*CheckpointPlaceOf(*files, "", "clicks"), "/data");
}

TEST(BackendUri, AnAliasIsItsTwin) {
  const std::pair<const char*, const char*> twins[] = {
      {"forst", "rocksdb"},
      {"changelog+forst", "changelog+rocksdb"},
      {"s3+forst", "s3+rocksdb"},
      {"changelog+s3+forst", "changelog+s3+rocksdb"},
      {"s3sst+forst", "s3sst"}};
  for (const auto& [alias, twin] : twins) {
    const auto uri = ParseUri(std::string(alias) + "://b/p");
    ASSERT_TRUE(uri.ok()) << alias;
    EXPECT_EQ(uri->scheme, twin);
    EXPECT_EQ(uri->path, "b/p");
  }
}

TEST(BackendUri, AFileUriThatNamesAHostIsRefused) {
  for (const char* uri : {"file://host/x", "file://x", "file://./x"}) {
    EXPECT_THAT(std::string(ParseBackendUri(uri).status().message()), HasSubstr("names a host"))
        << uri;
    EXPECT_EQ(ParsePlaceUri(uri).status().code(), StatusCode::kInvalidArgument) << uri;
  }
}

TEST(BackendUri, ADirectoryMustBeGivenWhereOneIsNeededAndOnlyThere) {
  EXPECT_FALSE(ParseBackendUri("file://").ok());
  EXPECT_FALSE(ParseBackendUri("memory://x").ok());
}

TEST(CheckpointPlace, IsTheGivenOneElseTheBackendsElseNamedAfterTheJob) {
  const Backend memory{"memory", "", false};
  const Backend file{"file", "/data", false};
  EXPECT_EQ(*CheckpointPlaceOf(memory, "", "clicks"), "./clicks.cairn");
  EXPECT_EQ(*CheckpointPlaceOf(file, "", "clicks"), "/data");
  EXPECT_EQ(*CheckpointPlaceOf(file, "file:///other", "clicks"), "/other");
  EXPECT_EQ(*CheckpointPlaceOf(file, "other", "clicks"), "other");
  EXPECT_EQ(*CheckpointPlaceOf(file, "none", "clicks"), "");
}

TEST(CheckpointPlace, ABucketIsTakenAsItIsGiven) {
  EXPECT_EQ(*ParsePlaceUri("s3://b/p?region=x"), "s3://b/p?region=x");
  EXPECT_FALSE(ParsePlaceUri("ftp://x").ok());
}

TEST(BackendUriTest, AlmostASchemeIsNoDirectoryOfThatName) {
  for (const std::string text : {"memory:", "memory", "file:", "file:/x", "s3:bucket", "rocksdb:x",
                                 "nope:", "changelog+file", " ", "\t "}) {
    const auto backend = ParseBackendUri(text);
    EXPECT_EQ(backend.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(backend.status().message()), HasSubstr("memory://")) << text;
    const auto place = ParsePlaceUri(text);
    EXPECT_EQ(place.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(place.status().message()), HasSubstr("s3://")) << text;
  }
  for (const std::string path : {"./memory", "dir/a:b", "./a:b", "state", "job.cairn", "a@12:30"}) {
    EXPECT_EQ(ParseBackendUri(path)->directory, path);
    EXPECT_EQ(*ParsePlaceUri(path), path);
  }
}

}  // namespace
}  // namespace cairn::engine
