// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/job_testing.h"
#include "checkpoint/layout.h"
#include "checkpoint/pipeline.h"
#include "format/store_records.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::ModelTable;
using testing::Rows;
using testing::SlotOf;
using testing::TestJob;

class StoreTest : public ::testing::Test {
 protected:
  void PutMany(size_t op, int count, const std::string& value) {
    for (int i = 0; i < count; ++i) job_.Put(op, "key" + std::to_string(i), value);
  }
  PersistedCut MustCheckpoint() {
    Result<PersistedCut> done = job_.Checkpoint();
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    return done.ok() ? *done : PersistedCut{};
  }
  void MustStart(uint32_t p, std::optional<base::CheckpointId> at = std::nullopt) {
    const Status started = job_.Start(p, at);
    ASSERT_TRUE(started.ok()) << started.ToString();
  }
  void ExpectModel() {
    for (size_t op = 0; op < job_.whole_model().size(); ++op) {
      EXPECT_EQ(job_.Contents(op), job_.model(op)) << "operator " << op;
    }
  }

  TestJob job_{{SlotOf("out/count/0"), SlotOf("out/rank/0")}};
};

TEST_F(StoreTest, ASecondOpenerIsFencedAndTheHolderIsNamed) {
  MustStart(1);
  const Status second = OpenStoreAt(&job_.files, job_.directory, job_.options).status();
  EXPECT_EQ(second.code(), StatusCode::kFenced);
  EXPECT_THAT(second.message(), HasSubstr("process 1 holds it"));
  EXPECT_THAT(second.message(), HasSubstr(job_.directory));
}

TEST_F(StoreTest, WithoutFsyncThePlaceIsMarkedAndNothingIsSynced) {
  job_.options.fsync = false;
  MustStart(1);
  PutMany(0, 10, "a");
  job_.files.Disarm();
  MustCheckpoint();
  EXPECT_EQ(job_.files.Count("fsync"), 0u);
  EXPECT_THAT(job_.disk().AllFiles()[job_.directory + "/FORMAT"], HasSubstr("none"));
  job_.options.fsync = true;
  MustStart(1);
  EXPECT_THAT(job_.store->notes(), ::testing::ElementsAre(HasSubstr("durability: none")));
}

TEST_F(StoreTest, APlaceMadeWithFsyncRefusesARunWithout) {
  MustStart(1);
  job_.options.fsync = false;
  EXPECT_EQ(job_.Start(1).code(), StatusCode::kInvalidArgument);
}

TEST_F(StoreTest, AnInterruptedFirstStartGoesOn) {
  for (uint64_t call = 0;; ++call) {
    ASSERT_LT(call, 200u);
    TestJob job;
    job.files.Arm({.call = call, .kind = env::FaultKind::kFail, .for_ever = true});
    (void)job.Start(1);
    const bool fired = job.files.fired();
    job.Stop();
    job.files.Disarm();
    ASSERT_TRUE(job.Start(1).ok()) << "call " << call;
    EXPECT_EQ(job.cut, nullptr);
    ASSERT_TRUE(job.Checkpoint().ok()) << "call " << call;
    if (!fired) break;
  }
}

// Case 13: not before the manifest is durable does Persist return, nor Commit before the head is.
TEST_F(StoreTest, Case13NothingIsAcknowledgedBeforeItIsDurable) {
  MustStart(1);
  PutMany(0, 10, "a");
  Result<PersistedCut> persisted = job_.Persist();
  ASSERT_TRUE(persisted.ok());
  ASSERT_TRUE(job_.Commit(*persisted).ok());
  job_.disk().PowerCut(env::Unsynced::kDrop);
  job_.disk().PowerOn();
  MustStart(1);
  ASSERT_NE(job_.cut, nullptr);
  EXPECT_EQ(job_.cut->id(), persisted->id);
  ExpectModel();
}

// Case 20: a process that lost the place, and goes on, decides nothing any more.
TEST_F(StoreTest, Case20AStoreThatWasOvertakenCommitsNothing) {
  MustStart(1);
  PutMany(0, 10, "a");
  const PersistedCut first = MustCheckpoint();
  PutMany(0, 10, "late");
  const Result<PersistedCut> late = job_.Persist();
  ASSERT_TRUE(late.ok());
  const std::unique_ptr<CheckpointStore> overtaken = std::move(job_.store);
  job_.disk().PowerCut(env::Unsynced::kKeep);  // its lock is gone; its calls are not
  job_.disk().PowerOn();
  job_.SetModel(*job_.ModelAt(first.id));
  MustStart(1);
  EXPECT_EQ(job_.cut->id(), first.id);
  PutMany(0, 10, "b");
  const PersistedCut second = MustCheckpoint();
  const Status refused = overtaken->Commit(*late);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(overtaken->latest_commit(), first.id);
  MustStart(1);
  EXPECT_EQ(job_.cut->id(), second.id);
  ExpectModel();
}

// Case 61: the disk fills at any write; the next checkpoint works once there is space.
TEST_F(StoreTest, Case61AFullDiskFailsCleanlyAndSpaceHeals) {
  MustStart(1);
  PutMany(0, 1000, std::string(100, 'a'));
  const PersistedCut first = MustCheckpoint();
  uint64_t used = 0;
  for (const auto& [path, bytes] : job_.disk().AllFiles()) used += bytes.size();
  for (uint64_t spare : {0u, 100u, 700u, 2000u, 20000u, 100000u}) {
    PutMany(0, 1000, std::string(100, static_cast<char>('b' + spare % 7)));
    job_.disk().SetCapacity(used + spare);
    const Status failed = job_.Checkpoint().status();
    EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted) << failed.ToString();
    EXPECT_EQ(job_.store->latest_commit(), first.id);
  }
  job_.disk().SetCapacity(UINT64_MAX);
  MustCheckpoint();
  for (const auto& [path, bytes] : job_.disk().AllFiles()) {
    EXPECT_EQ(path.find(".cairn-tmp-"), std::string::npos) << path;
  }
  MustStart(1);
  ExpectModel();
}

TEST_F(StoreTest, ACheckpointTakesSixSyncsAtMost) {
  MustStart(2);
  PutMany(0, 1000, "a");
  MustCheckpoint();
  for (int i = 0; i < 12; ++i) {
    job_.Put(0, "key" + std::to_string(i), "b");
    job_.files.Disarm();
    MustCheckpoint();
    EXPECT_LE(job_.files.Count("fsync"), 6u);
  }
  job_.files.Disarm();
  EXPECT_FALSE(MustCheckpoint().has_object);
  EXPECT_LE(job_.files.Count("fsync"), 5u);
}

TEST(LayoutTest, KeysNameTheirCheckpointAndNothingElseDoes) {
  const base::CheckpointId id(70'000);
  EXPECT_EQ(ManifestKey(id), "nodes/1/checkpoints/00000000000000070000/manifest.json");
  EXPECT_EQ(IdOfKey(StateObjectKey(id)), id);
  EXPECT_EQ(IdOfKey("nodes/1/checkpoints/00000000000000070000"), std::nullopt);
  EXPECT_EQ(IdOfKey("nodes/1/checkpoints/0000000000000007000x/manifest.json"), std::nullopt);
  EXPECT_EQ(IdOfKey("nodes/2/checkpoints/00000000000000070000/manifest.json"), std::nullopt);
  EXPECT_EQ(IdOfKey("nodes/1/checkpoints/99999999999999999999/manifest.json"), std::nullopt);
}

TEST(PipelineTest, IdentityKnowsDefinitionsAndKeyGroupsButNoOrder) {
  Pipeline pipeline;
  pipeline.components = {{"source", "in", "{}", false}, {"sink", "in", "{\"a\":1}", true}};
  const format::PipelineIdentity identity = *IdentityOf(pipeline, 128);
  Pipeline turned;
  turned.components = {pipeline.components[1], pipeline.components[0]};
  EXPECT_EQ(*IdentityOf(turned, 128), identity);
  EXPECT_NE(*IdentityOf(pipeline, 256), identity);
  pipeline.components[1].definition = "{\"a\":2}";
  EXPECT_NE(*IdentityOf(pipeline, 128), identity);
  pipeline.components[1].definition = "not json";
  EXPECT_EQ(IdentityOf(pipeline, 128).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DescribePipeline(pipeline).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DifferenceOf("garbage", pipeline), "");
}

}  // namespace
}  // namespace cairn::checkpoint
