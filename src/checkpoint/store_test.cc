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

TEST_F(StoreTest, AnEmptyPlaceHoldsNoCut) {
  MustStart(2);
  EXPECT_EQ(job_.cut, nullptr);
  EXPECT_EQ(job_.store->latest_commit().value, 0u);
  EXPECT_TRUE(job_.store->notes().empty());
}

TEST_F(StoreTest, ACommittedCutComesBackWhole) {
  MustStart(2);
  PutMany(0, 1000, "a");
  PutMany(1, 10, "b");
  job_.offset = 77;
  job_.prepared = {{base::CheckpointId(1), 0, "file a"}, {base::CheckpointId(1), 1, ""}};
  const PersistedCut done = MustCheckpoint();
  EXPECT_EQ(done.rows_new, 1010u);
  EXPECT_TRUE(done.has_object);
  MustStart(2);
  ASSERT_NE(job_.cut, nullptr);
  EXPECT_EQ(job_.cut->id(), done.id);
  EXPECT_EQ(job_.cut->parallelism(), 2u);
  EXPECT_EQ(job_.cut->timestamp_ms(), job_.clock.UnixMillis());
  ASSERT_EQ(job_.cut->sources().size(), 1u);
  EXPECT_EQ(job_.cut->sources()[0].source, "in");
  EXPECT_EQ(job_.cut->sources()[0].splits[0].position, "77");
  EXPECT_FALSE(job_.cut->ended());
  ASSERT_EQ(job_.cut->sinks().size(), 1u);
  EXPECT_EQ(job_.cut->sinks()[0].pieces, job_.prepared);
  EXPECT_EQ(job_.cut->slots().size(), 2u);
  ExpectModel();
}

TEST_F(StoreTest, EndAndWatermarkOfASourceComeBack) {
  MustStart(1);
  Result<base::CheckpointId> id = job_.store->NextId();
  CapturedCut captured = job_.Capture();
  captured.sources[0].ended = true;
  captured.sources[0].event_time = true;
  captured.sources[0].watermark_ms = 12345;
  Result<PersistedCut> persisted = job_.store->Persist(*id, captured, &job_.executor);
  ASSERT_TRUE(persisted.ok()) << persisted.status().ToString();
  ASSERT_TRUE(job_.store->Commit(*persisted).ok());
  MustStart(1);
  EXPECT_TRUE(job_.cut->ended());
  EXPECT_TRUE(job_.cut->sources()[0].event_time);
  EXPECT_EQ(job_.cut->watermark_ms(), 12345);
}

TEST_F(StoreTest, APersistedCutIsNothingBeforeItIsCommitted) {
  MustStart(1);
  PutMany(0, 100, "a");
  const PersistedCut first = MustCheckpoint();
  PutMany(0, 100, "b");
  ASSERT_TRUE(job_.Persist().ok());
  MustStart(1);
  EXPECT_EQ(job_.cut->id(), first.id);
  EXPECT_EQ(job_.Contents(0), (*job_.ModelAt(first.id))[0]);
  EXPECT_THAT(job_.store->notes(), ::testing::ElementsAre("removed the unfinished checkpoint 2"));
}

TEST_F(StoreTest, ASecondCutWritesOnlyWhatChanged) {
  MustStart(2);
  PutMany(0, 5000, std::string(100, 'a'));
  const PersistedCut base = MustCheckpoint();
  for (int i = 0; i < 20; ++i) job_.Put(0, "key" + std::to_string(i), "changed");
  job_.Erase(0, "key4000");
  const PersistedCut delta = MustCheckpoint();
  EXPECT_EQ(delta.rows_new, 21u);
  EXPECT_LT(delta.bytes_new * 20, base.bytes_new);
  EXPECT_EQ(delta.bytes_reused, base.bytes_new);
  MustStart(2);
  ExpectModel();
}

TEST_F(StoreTest, ACutInWhichNothingChangedWritesNoObject) {
  MustStart(2);
  PutMany(0, 100, "a");
  MustCheckpoint();
  const PersistedCut second = MustCheckpoint();
  EXPECT_FALSE(second.has_object);
  EXPECT_EQ(second.bytes_new, 0u);
  EXPECT_FALSE(job_.disk().AllFiles().contains(job_.PathOf(second.id, "state.arrow")));
  MustStart(2);
  EXPECT_EQ(job_.cut->id(), second.id);
  ExpectModel();
}

TEST_F(StoreTest, DeltasGrowToEightAndThenABaseFollows) {
  MustStart(1);
  PutMany(0, 20000, std::string(50, 'x'));
  MustCheckpoint();
  std::vector<uint64_t> rows;
  for (int i = 0; i < 10; ++i) {
    job_.Put(0, "key" + std::to_string(i), "v");
    rows.push_back(MustCheckpoint().rows_new);
  }
  EXPECT_THAT(rows, ::testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 20000, 1));
  MustStart(1);
  ExpectModel();
}

TEST_F(StoreTest, ARestartGoesOnWithDeltasOverTheCutItFound) {
  MustStart(2);
  PutMany(0, 5000, std::string(50, 'x'));
  MustCheckpoint();
  MustStart(2);
  job_.Put(0, "key1", "new");
  EXPECT_EQ(MustCheckpoint().rows_new, 1u);
  MustStart(2);
  ExpectModel();
}

TEST_F(StoreTest, AnAbandonedCutLeavesNothingAndItsChangesAreInTheNext) {
  MustStart(1);
  PutMany(0, 100, "a");
  MustCheckpoint();
  job_.Put(0, "key1", "b");
  Result<PersistedCut> persisted = job_.Persist();
  ASSERT_TRUE(persisted.ok());
  ASSERT_TRUE(job_.store->Abandon(*persisted).ok());
  EXPECT_FALSE(job_.disk().AllFiles().contains(job_.PathOf(persisted->id, "manifest.json")));
  job_.Put(0, "key2", "c");
  EXPECT_EQ(MustCheckpoint().rows_new, 2u);
  MustStart(1);
  ExpectModel();
}

TEST_F(StoreTest, IdsGrowAndAreNeverGivenTwice) {
  MustStart(1);
  const base::CheckpointId first = *job_.store->NextId();
  EXPECT_EQ(first.value, 1u);
  EXPECT_EQ(job_.store->NextId()->value, 2u);
  MustStart(1);
  EXPECT_EQ(job_.store->NextId()->value, 1 + format::kCheckpointIdBlock);
}

TEST_F(StoreTest, IdsGoOnPastOneBlock) {
  MustStart(1);
  uint64_t last = 0;
  job_.files.Disarm();
  for (uint64_t i = 0; i < format::kCheckpointIdBlock + 2; ++i) {
    Result<base::CheckpointId> id = job_.store->NextId();
    ASSERT_TRUE(id.ok());
    ASSERT_EQ(id->value, last + 1);
    last = id->value;
  }
  EXPECT_EQ(job_.files.Count("fsync"), 2u);  // one swap of the head for the second block
  MustStart(1);
  EXPECT_GT(job_.store->NextId()->value, last);
}

TEST_F(StoreTest, AnIdServesOneAttemptOnly) {
  MustStart(1);
  const base::CheckpointId id = *job_.store->NextId();
  const CapturedCut captured = job_.Capture();
  Result<PersistedCut> persisted = job_.store->Persist(id, captured, &job_.executor);
  ASSERT_TRUE(persisted.ok());
  ASSERT_TRUE(job_.store->Abandon(*persisted).ok());
  EXPECT_EQ(job_.store->Persist(id, captured, &job_.executor).status().code(),
            StatusCode::kInternal);
  EXPECT_EQ(job_.store->Persist(base::CheckpointId(99), captured, &job_.executor).status().code(),
            StatusCode::kInternal);
}

TEST_F(StoreTest, PersistingBeforeRecoveryIsRefused) {
  MustStart(1);
  PutMany(0, 10, "a");
  MustCheckpoint();
  job_.Stop();
  auto store = OpenStoreAt(&job_.files, job_.directory, job_.options);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->Persist(*(*store)->NextId(), {}, &job_.executor).status().code(),
            StatusCode::kInternal);
}

TEST_F(StoreTest, ASecondOpenerIsFencedAndTheHolderIsNamed) {
  MustStart(1);
  const Status second = OpenStoreAt(&job_.files, job_.directory, job_.options).status();
  EXPECT_EQ(second.code(), StatusCode::kFenced);
  EXPECT_THAT(second.message(), HasSubstr("process 1 holds it"));
  EXPECT_THAT(second.message(), HasSubstr(job_.directory));
}

// Case 17: a job that is another one neither adopts nor harms what it finds.
TEST_F(StoreTest, Case17AForeignPipelineIsRefusedAndSaysWhatDiffers) {
  MustStart(1);
  PutMany(0, 10, "a");
  MustCheckpoint();
  job_.Stop();
  const auto before = job_.disk().AllFiles();
  StoreOptions other = job_.options;
  other.pipeline.components[1].definition = R"({"limit":10})";
  other.pipeline.components[2].name = "out/other/0";
  const Status refused = OpenStoreAt(&job_.files, job_.directory, other).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("operator out/count/0 changed"));
  EXPECT_THAT(refused.message(), HasSubstr("operator out/rank/0 is gone"));
  EXPECT_THAT(refused.message(), HasSubstr("operator out/other/0 is new"));
  EXPECT_EQ(job_.disk().AllFiles(), before);
  MustStart(1);
  ExpectModel();
}

TEST_F(StoreTest, OtherKeyGroupsAreRefused) {
  MustStart(1);
  job_.Stop();
  job_.options.key_groups = 256;
  const Status refused = job_.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("128 key groups"));
}

TEST_F(StoreTest, FreshRefusesAPlaceThatHoldsACut) {
  job_.options.fresh = true;
  MustStart(1);
  MustStart(1);  // no cut yet: still fresh
  const PersistedCut done = MustCheckpoint();
  const Status refused = job_.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("checkpoint " + std::to_string(done.id.value)));
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

TEST_F(StoreTest, RetainedHasItsBounds) {
  for (uint32_t retained : {0u, 17u}) {
    job_.options.retained = retained;
    EXPECT_EQ(job_.Start(1).code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(StoreTest, AMissingHeadBesideCheckpointsIsADamagedStore) {
  MustStart(1);
  MustCheckpoint();
  job_.Stop();
  ASSERT_TRUE(job_.disk().RemoveFile(job_.directory + "/control/decision-head.json").ok());
  const Status refused = job_.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("damaged store"));
}

TEST_F(StoreTest, AMissingFormatOrIdentityIsADamagedStore) {
  for (const char* name : {"/FORMAT", "/deployment/identity.json"}) {
    TestJob job;
    ASSERT_TRUE(job.Start(1).ok());
    ASSERT_TRUE(job.Checkpoint().ok());
    job.Stop();
    ASSERT_TRUE(job.disk().RemoveFile(job.directory + name).ok());
    EXPECT_EQ(job.Start(1).code(), StatusCode::kCorruption) << name;
  }
}

TEST_F(StoreTest, AMissingHintIsNothing) {
  MustStart(1);
  PutMany(0, 10, "a");
  const PersistedCut done = MustCheckpoint();
  EXPECT_EQ(job_.disk().AllFiles()[job_.directory + "/control/latest.txt"],
            CheckpointDirectory(done.id) + "\n");
  job_.Stop();
  ASSERT_TRUE(job_.disk().RemoveFile(job_.directory + "/control/latest.txt").ok());
  ASSERT_TRUE(job_.disk().RemoveFile(job_.directory + "/deployment/pipeline.json").ok());
  MustStart(1);
  ExpectModel();
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

// Case 14: what a sink prepared at the barrier is in that barrier's cut.
TEST_F(StoreTest, Case14PreparedRowsAreInTheCutOfTheirBarrier) {
  MustStart(1);
  Result<base::CheckpointId> id = job_.store->NextId();
  job_.prepared = {{*id, 0, "staged file"}};
  Result<PersistedCut> persisted = job_.store->Persist(*id, job_.Capture(), &job_.executor);
  ASSERT_TRUE(persisted.ok());
  ASSERT_TRUE(job_.Commit(*persisted).ok());
  MustStart(1);  // died before the sink committed
  ASSERT_EQ(job_.cut->sinks().size(), 1u);
  EXPECT_EQ(job_.cut->sinks()[0].pieces[0].descriptor, "staged file");
  EXPECT_EQ(job_.cut->sinks()[0].pieces[0].checkpoint, *id);
}

TEST_F(StoreTest, PiecesOfAFailedAttemptAreListedWithTheNext) {
  MustStart(1);
  job_.prepared = {{base::CheckpointId(2), 1, "later"}, {base::CheckpointId(1), 0, "earlier"}};
  (void)job_.store->NextId();
  ASSERT_TRUE(job_.Checkpoint().ok());
  MustStart(1);
  ASSERT_EQ(job_.cut->sinks()[0].pieces.size(), 2u);
  EXPECT_EQ(job_.cut->sinks()[0].pieces[0].descriptor, "earlier");
  EXPECT_EQ(job_.cut->sinks()[0].pieces[1].descriptor, "later");
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

// A listing would find a newer one; the head does not name it.
TEST_F(StoreTest, Behaviour60OnlyWhatTheHeadNamesIsACheckpoint) {
  MustStart(1);
  PutMany(0, 10, "a");
  const PersistedCut done = MustCheckpoint();
  job_.Stop();
  const base::CheckpointId stray(done.id.value + 5);
  const std::string directory = job_.PathOf(stray, "");
  ASSERT_TRUE(env::CreateDirectories(&job_.disk(), directory, true).ok());
  for (const char* name : {"manifest.json", "state.arrow"}) {
    auto file = job_.disk().CreateFile(job_.PathOf(stray, name));
    ASSERT_TRUE((*file)->Append(job_.disk().AllFiles()[job_.PathOf(done.id, name)]).ok());
    ASSERT_TRUE((*file)->Sync().ok() && (*file)->Close().ok());
  }
  MustStart(1);
  EXPECT_EQ(job_.cut->id(), done.id);
  EXPECT_EQ(job_.store->RecoverAt(stray).status().code(), StatusCode::kNotFound);
  ExpectModel();
}

TEST_F(StoreTest, Behaviour05ASlotWhoseNameHoldsASeparatorIsNeverSaved) {
  for (const std::string& name :
       {std::string("a|b"), std::string("a\nb"), std::string("a\0b", 3), std::string()}) {
    state::SlotDescriptor slot = SlotOf("out/count/0");
    slot.name = name;
    TestJob job({slot});
    ASSERT_TRUE(job.Start(1).ok());
    job.Put(0, "key", "v");
    const Status refused = job.Checkpoint().status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
    EXPECT_THAT(refused.message(), HasSubstr("slot name"));
    EXPECT_EQ(job.store->latest_commit().value, 0u);
    EXPECT_EQ(job.store->NextId()->value, 2u) << "the store goes on";
    for (const auto& [path, bytes] : job.disk().AllFiles()) {
      EXPECT_EQ(path.find("/nodes/"), std::string::npos) << path << " is left";
    }
  }
}

// Case 23: a key that does not encode fails the checkpoint and harms nothing.
TEST_F(StoreTest, Case23AKeyThatDoesNotEncodeFailsTheCheckpointAndNamesItself) {
  MustStart(2);
  PutMany(0, 100, "a");
  const PersistedCut first = MustCheckpoint();
  PutMany(0, 100, "b");
  for (bool by_throwing : {false, true}) {
    for (uint32_t i = 0; i < 2; ++i) job_.model_table(i, 0)->FailAt("key42", by_throwing);
    const Status failed = job_.Checkpoint().status();
    EXPECT_FALSE(failed.ok());
    EXPECT_THAT(failed.message(), HasSubstr("key42"));
    if (!by_throwing) {
      EXPECT_EQ(failed.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(failed.message(), HasSubstr("operator out/count/0, slot rows"));
    }
    EXPECT_EQ(job_.store->latest_commit(), first.id);
    EXPECT_EQ(job_.Contents(0).size(), 100u);
    EXPECT_FALSE(job_.disk().AllFiles().contains(job_.PathOf(job_.last_id, "state.arrow")));
  }
  for (uint32_t i = 0; i < 2; ++i) job_.model_table(i, 0)->FailAt("", false);
  EXPECT_EQ(MustCheckpoint().rows_new, 100u);
  MustStart(2);
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

TEST_F(StoreTest, TheObserverSeesEveryStepInOrder) {
  std::vector<std::string> steps;
  job_.options.observer = [&](Step step) { steps.emplace_back(StepName(step)); };
  MustStart(1);
  PutMany(0, 1, "a");
  MustCheckpoint();
  EXPECT_THAT(steps, ::testing::ElementsAre("persist", "manifest", "head", "retire", "between"));
}

TEST_F(StoreTest, SubtasksOnManyThreadsWriteTheSameState) {
  MustStart(4);
  PutMany(0, 2000, "a");
  PutMany(1, 2000, "b");
  ThreadsExecutor threads(4);
  Result<base::CheckpointId> id = job_.store->NextId();
  Result<PersistedCut> persisted = job_.store->Persist(*id, job_.Capture(), &threads);
  ASSERT_TRUE(persisted.ok()) << persisted.status().ToString();
  EXPECT_EQ(persisted->rows_new, 4000u);
  ASSERT_TRUE(job_.Commit(*persisted).ok());
  MustStart(3);
  ExpectModel();
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
