// SPDX-License-Identifier: Apache-2.0
//
// Faults that others have met on object stores: credentials for one prefix, parts of one size,
// answers that are lost (known faults 37, 40 and 41).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint/job_testing.h"
#include "checkpoint/layout.h"
#include "checkpoint/lease.h"
#include "env/s3/s3_object_store.h"
#include "env/s3/s3_object_writer.h"
#include "env/store_probe.h"
#include "strict_s3.h"

namespace cairn::checkpoint {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StrictS3;
using testing::TestJob;

class StrictStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<env::ObjectStore>> Connect(const std::string& prefix = "jobs/a") {
    env::S3StoreOptions options;
    options.location.bucket = std::string(StrictS3::kBucket);
    options.location.prefix = prefix;
    options.location.endpoint = std::string(StrictS3::kEndpoint);
    options.location.path_style = true;
    options.location.anonymous = true;
    options.http = &server_;
    options.clock = &clock_;
    options.max_concurrent_uploads = 1;  // so that requests come in one order
    CAIRN_ASSIGN_OR_RETURN(auto store, env::S3ObjectStore::Open(std::move(options)));
    return std::unique_ptr<env::ObjectStore>(std::move(store));
  }
  std::unique_ptr<env::ObjectStore> MustConnect() {
    auto store = Connect();
    EXPECT_TRUE(store.ok());
    return *std::move(store);
  }
  /// A job that opens its place as OpenStoreAt does in a bucket.
  void Attach(TestJob* job) {
    job->open = [this](const StoreOptions& options) -> Result<std::unique_ptr<CheckpointStore>> {
      CAIRN_ASSIGN_OR_RETURN(auto objects, Connect());
      CAIRN_RETURN_IF_ERROR(env::VerdictOf(env::ProbeStore(objects.get(), options.random)));
      CAIRN_ASSIGN_OR_RETURN(auto lease, AcquireLease(objects.get(), {.clock = options.clock}));
      return OpenStore(std::move(objects), std::move(lease), options);
    };
  }
  Status Stream(uint64_t size, uint64_t announced, size_t step) {
    const std::unique_ptr<env::ObjectStore> store = MustConnect();
    CAIRN_ASSIGN_OR_RETURN(auto writer, store->NewLargeWriter("data", announced));
    const std::string zeros(step, '\0');
    for (uint64_t at = 0; at < size; at += step) {
      CAIRN_RETURN_IF_ERROR(
          writer->Append(std::string_view(zeros).substr(0, std::min<uint64_t>(step, size - at))));
    }
    CAIRN_RETURN_IF_ERROR(writer->Finish());
    return store->Delete("data");
  }

  StrictS3 server_{"jobs/a/"};
  env::ManualClock clock_;
};

TEST_F(StrictStoreTest, Case41CredentialsForThePrefixAreEnoughForAWholeLife) {
  TestJob job;
  Attach(&job);
  job.options.retained = 1;
  ASSERT_TRUE(job.Start(2).ok());
  uint64_t deleted = 0;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 200; ++i) job.Put(0, "key" + std::to_string(i), std::to_string(round));
    ASSERT_TRUE(job.Checkpoint().ok());
    ASSERT_TRUE(job.retired.ok()) << job.retired.status().ToString();
    deleted += job.retired->objects_deleted;
  }
  EXPECT_GT(deleted, 5u);
  const Status started = job.Start(3);
  ASSERT_TRUE(started.ok()) << started.ToString();
  EXPECT_EQ(job.Contents(0), job.model(0));
  EXPECT_LE(MustConnect()->List("nodes/")->size(), 3u);
  // Only looking for what a dead process was uploading asks the bucket, and may be refused.
  EXPECT_THAT(server_.refused, Each(HasSubstr("uploads=")));
}

TEST_F(StrictStoreTest, Case41ARealDenialNamesActionAndKey) {
  auto store = Connect("jobs/b");
  const Status get = (*store)->Get("FORMAT", 100).status();
  EXPECT_EQ(get.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(get.message(), HasSubstr("GET s3://bucket/jobs/b/FORMAT: 403 AccessDenied"));
  EXPECT_THAT((*store)->CreateIfAbsent("FORMAT", "x").message(),
              HasSubstr("PUT s3://bucket/jobs/b/FORMAT: 403"));
  EXPECT_THAT((*store)->Delete("FORMAT").message(), HasSubstr("DELETE s3://bucket/jobs/b/FORMAT"));
  EXPECT_THAT((*store)->List("nodes/").status().message(), HasSubstr("permissions on the prefix"));
}

TEST_F(StrictStoreTest, Case40PartsAreOfOneSizeWhateverTheSizeOfTheObject) {
  for (const uint64_t size : {uint64_t{0}, (uint64_t{5} << 20) - 1, (uint64_t{5} << 20) + 1,
                              (uint64_t{8} << 20) + 1, uint64_t{60} << 20}) {
    for (const uint64_t announced : {uint64_t{0}, size}) {
      const Status done = Stream(size, announced, 1'000'003);
      EXPECT_TRUE(done.ok()) << size << ": " << done.ToString();
    }
  }
  EXPECT_THAT(server_.broken, IsEmpty());
  EXPECT_EQ(server_.size_seen, uint64_t{60} << 20);
  EXPECT_EQ(server_.parts_seen, 8u);
}

TEST_F(StrictStoreTest, Case40ThePlanOfALargeObjectIsMadeBeforeTheFirstByte) {
  const std::unique_ptr<env::ObjectStore> store = MustConnect();
  const Status refused = store->NewLargeWriter("data", (uint64_t{5} << 40) + 1).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("5 TiB"));
  EXPECT_EQ(server_.requests, 0u);
  for (const uint64_t gib : {1u, 39u, 41u, 60u, 500u, 5'000u}) {
    const uint64_t bytes = uint64_t{gib} << 30;
    const uint64_t part = *env::PartBytesFor(bytes, 8 << 20);
    EXPECT_LE((2 * bytes + part - 1) / part, 10'000u) << gib;
    EXPECT_EQ(part % (8 << 20), 0u);
    EXPECT_LE(part, uint64_t{5} << 30) << gib;
  }
  EXPECT_EQ(*env::PartBytesFor(uint64_t{39} << 30, 8 << 20), uint64_t{8} << 20);
}

TEST_F(StrictStoreTest, Case40AnObjectOf60GiBIsTaken) {
  if (std::getenv("CAIRN_LONG") == nullptr) GTEST_SKIP() << "CAIRN_LONG=1 sends 60 GiB";
  server_.counts_only = true;
  const uint64_t size = uint64_t{60} << 30;
  const Status done = Stream(size, size, 8 << 20);
  EXPECT_TRUE(done.ok()) << done.ToString();
  EXPECT_EQ(server_.size_seen, size);
  EXPECT_LE(server_.parts_seen, 10'000u);
  EXPECT_THAT(server_.broken, IsEmpty());
}

// Any one answer of a whole life is lost, though the request was carried out.
TEST_F(StrictStoreTest, Case37AnAnswerThatIsLostIsNeitherAConflictNorASecondManifest) {
  for (uint64_t lost = 0;; ++lost) {
    ASSERT_LT(lost, 200u);
    SCOPED_TRACE("the answer to request " + std::to_string(lost) + " is lost");
    StrictS3 server("jobs/a/");
    server.lose_answer_of = lost;
    TestJob job;
    job.open = [&](const StoreOptions& options) -> Result<std::unique_ptr<CheckpointStore>> {
      env::S3StoreOptions s3;
      s3.location = {"bucket", "jobs/a", std::string(StrictS3::kEndpoint), "us-east-1", true, true};
      s3.http = &server;
      s3.clock = &clock_;
      CAIRN_ASSIGN_OR_RETURN(auto objects, env::S3ObjectStore::Open(std::move(s3)));
      return OpenStore(std::move(objects), nullptr, options);
    };
    const Status started = job.Start(1);
    ASSERT_TRUE(started.ok()) << started.ToString();
    for (int i = 0; i < 20; ++i) job.Put(0, "key" + std::to_string(i), "a");
    const Result<PersistedCut> done = job.Checkpoint();
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    const uint64_t requests = server.requests;
    ASSERT_TRUE(job.Start(1).ok());
    EXPECT_EQ(job.cut->id(), done->id);
    EXPECT_EQ(job.Contents(0), job.model(0));
    uint64_t manifests = 0;
    for (const std::string& asked : server.log) {
      manifests += asked.starts_with("PUT") && asked.ends_with("/manifest.json");
    }
    EXPECT_LE(manifests, 2u);
    if (requests <= lost) break;
  }
}

TEST_F(StrictStoreTest, Case37AnotherWritersObjectIsAConflictThoughTheAnswerWasLost) {
  const std::unique_ptr<env::ObjectStore> store = MustConnect();
  ASSERT_TRUE(store->CreateIfAbsent("manifest", "another writer's").ok());
  server_.lose_answer_of = server_.requests;
  const Status create = store->CreateIfAbsent("manifest", "ours");
  EXPECT_EQ(create.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(create.message(),
              HasSubstr("s3://bucket/jobs/a/manifest: it exists with other bytes"));
  EXPECT_EQ(store->Get("manifest", 100)->bytes, "another writer's");
}

}  // namespace
}  // namespace cairn::checkpoint
