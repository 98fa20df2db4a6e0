// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint store promises, on every kind of place.
#include "checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "format/store_records.h"
#include "test_places.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::PlacedJob;
using testing::PlaceKind;
using testing::SlotOf;

class StoreTest : public testing::PlaceTest {
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

  PlacedJob job_{GetParam(), {SlotOf("out/count/0"), SlotOf("out/rank/0")}};
};

TEST_P(StoreTest, AnEmptyPlaceHoldsNoCut) {
  MustStart(2);
  EXPECT_EQ(job_.cut, nullptr);
  EXPECT_EQ(job_.store->latest_commit().value, 0u);
  EXPECT_TRUE(job_.store->notes().empty());
}

TEST_P(StoreTest, ACommittedCutComesBackWhole) {
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

TEST_P(StoreTest, EndAndWatermarkOfASourceComeBack) {
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

TEST_P(StoreTest, APersistedCutIsNothingBeforeItIsCommitted) {
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

TEST_P(StoreTest, ASecondCutWritesOnlyWhatChanged) {
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

TEST_P(StoreTest, ACutInWhichNothingChangedWritesNoObject) {
  MustStart(2);
  PutMany(0, 100, "a");
  MustCheckpoint();
  const PersistedCut second = MustCheckpoint();
  EXPECT_FALSE(second.has_object);
  EXPECT_EQ(second.bytes_new, 0u);
  EXPECT_FALSE(job_.place().Has(StateObjectKey(second.id)));
  MustStart(2);
  EXPECT_EQ(job_.cut->id(), second.id);
  ExpectModel();
}

TEST_P(StoreTest, DeltasGrowToEightAndThenABaseFollows) {
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

TEST_P(StoreTest, ARestartGoesOnWithDeltasOverTheCutItFound) {
  MustStart(2);
  PutMany(0, 5000, std::string(50, 'x'));
  MustCheckpoint();
  MustStart(2);
  job_.Put(0, "key1", "new");
  EXPECT_EQ(MustCheckpoint().rows_new, 1u);
  MustStart(2);
  ExpectModel();
}

TEST_P(StoreTest, AnAbandonedCutLeavesNothingAndItsChangesAreInTheNext) {
  MustStart(1);
  PutMany(0, 100, "a");
  MustCheckpoint();
  job_.Put(0, "key1", "b");
  Result<PersistedCut> persisted = job_.Persist();
  ASSERT_TRUE(persisted.ok());
  ASSERT_TRUE(job_.store->Abandon(*persisted).ok());
  EXPECT_FALSE(job_.place().Has(ManifestKey(persisted->id)));
  job_.Put(0, "key2", "c");
  EXPECT_EQ(MustCheckpoint().rows_new, 2u);
  MustStart(1);
  ExpectModel();
}

TEST_P(StoreTest, IdsGrowAndAreNeverGivenTwice) {
  MustStart(1);
  const base::CheckpointId first = *job_.store->NextId();
  EXPECT_EQ(first.value, 1u);
  EXPECT_EQ(job_.store->NextId()->value, 2u);
  MustStart(1);
  EXPECT_EQ(job_.store->NextId()->value, 1 + format::kCheckpointIdBlock);
}

TEST_P(StoreTest, IdsGoOnPastOneBlock) {
  MustStart(1);
  uint64_t last = 0;
  for (uint64_t i = 0; i < format::kCheckpointIdBlock + 2; ++i) {
    Result<base::CheckpointId> id = job_.store->NextId();
    ASSERT_TRUE(id.ok());
    ASSERT_EQ(id->value, last + 1);
    last = id->value;
  }
  MustStart(1);
  EXPECT_GT(job_.store->NextId()->value, last);
}

TEST_P(StoreTest, AnIdServesOneAttemptOnly) {
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

TEST_P(StoreTest, PersistingBeforeRecoveryIsRefused) {
  MustStart(1);
  PutMany(0, 10, "a");
  MustCheckpoint();
  job_.Stop();
  auto store = job_.place().Open(job_.options);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->Persist(*(*store)->NextId(), {}, &job_.executor).status().code(),
            StatusCode::kInternal);
}

// Case 17: a job that is another one neither adopts nor harms what it finds.
TEST_P(StoreTest, Case17AForeignPipelineIsRefusedAndSaysWhatDiffers) {
  MustStart(1);
  PutMany(0, 10, "a");
  MustCheckpoint();
  job_.Stop();
  const auto before = job_.place().All();
  StoreOptions other = job_.options;
  other.pipeline.components[1].definition = R"({"limit":10})";
  other.pipeline.components[2].name = "out/other/0";
  const Status refused = job_.place().Open(other).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("operator out/count/0 changed"));
  EXPECT_THAT(refused.message(), HasSubstr("operator out/rank/0 is gone"));
  EXPECT_THAT(refused.message(), HasSubstr("operator out/other/0 is new"));
  EXPECT_EQ(job_.place().All(), before);
  MustStart(1);
  ExpectModel();
}

TEST_P(StoreTest, OtherKeyGroupsAreRefused) {
  MustStart(1);
  job_.Stop();
  job_.options.key_groups = 256;
  const Status refused = job_.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("128 key groups"));
}

TEST_P(StoreTest, FreshRefusesAPlaceThatHoldsACut) {
  job_.options.fresh = true;
  MustStart(1);
  MustStart(1);  // no cut yet: still fresh
  const PersistedCut done = MustCheckpoint();
  const Status refused = job_.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("checkpoint " + std::to_string(done.id.value)));
}

TEST_P(StoreTest, RetainedHasItsBounds) {
  for (uint32_t retained : {0u, 17u}) {
    job_.options.retained = retained;
    EXPECT_EQ(job_.Start(1).code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(StoreTest, AMissingHeadBesideCheckpointsIsADamagedStore) {
  MustStart(1);
  MustCheckpoint();
  job_.Stop();
  job_.place().Remove(std::string(kHeadKey));
  const Status refused = job_.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("damaged store"));
}

TEST_P(StoreTest, AMissingFormatOrIdentityIsADamagedStore) {
  for (const std::string_view key : {kFormatKey, kIdentityKey}) {
    PlacedJob job(GetParam());
    ASSERT_TRUE(job.Start(1).ok());
    ASSERT_TRUE(job.Checkpoint().ok());
    job.Stop();
    job.place().Remove(std::string(key));
    EXPECT_EQ(job.Start(1).code(), StatusCode::kCorruption) << key;
  }
}

TEST_P(StoreTest, AMissingHintIsNothing) {
  MustStart(1);
  PutMany(0, 10, "a");
  const PersistedCut done = MustCheckpoint();
  EXPECT_EQ(job_.place().Read(std::string(kLatestKey)), CheckpointDirectory(done.id) + "\n");
  job_.Stop();
  job_.place().Remove(std::string(kLatestKey));
  job_.place().Remove(std::string(kPipelineKey));
  MustStart(1);
  ExpectModel();
}

// Case 14: what a sink prepared at the barrier is in that barrier's cut.
TEST_P(StoreTest, Case14PreparedRowsAreInTheCutOfTheirBarrier) {
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

TEST_P(StoreTest, PiecesOfAFailedAttemptAreListedWithTheNext) {
  MustStart(1);
  job_.prepared = {{base::CheckpointId(2), 1, "later"}, {base::CheckpointId(1), 0, "earlier"}};
  (void)job_.store->NextId();
  ASSERT_TRUE(job_.Checkpoint().ok());
  MustStart(1);
  ASSERT_EQ(job_.cut->sinks()[0].pieces.size(), 2u);
  EXPECT_EQ(job_.cut->sinks()[0].pieces[0].descriptor, "earlier");
  EXPECT_EQ(job_.cut->sinks()[0].pieces[1].descriptor, "later");
}

// A listing would find a newer one; the head does not name it.
TEST_P(StoreTest, Behaviour60OnlyWhatTheHeadNamesIsACheckpoint) {
  MustStart(1);
  PutMany(0, 10, "a");
  const PersistedCut done = MustCheckpoint();
  job_.Stop();
  const base::CheckpointId stray(done.id.value + 5);
  job_.place().Write(ManifestKey(stray), job_.place().Read(ManifestKey(done.id)));
  job_.place().Write(StateObjectKey(stray), job_.place().Read(StateObjectKey(done.id)));
  MustStart(1);
  EXPECT_EQ(job_.cut->id(), done.id);
  EXPECT_EQ(job_.store->RecoverAt(stray).status().code(), StatusCode::kNotFound);
  ExpectModel();
}

TEST_P(StoreTest, Behaviour05ASlotWhoseNameHoldsASeparatorIsNeverSaved) {
  for (const std::string& name :
       {std::string("a|b"), std::string("a\nb"), std::string("a\0b", 3), std::string()}) {
    state::SlotDescriptor slot = SlotOf("out/count/0");
    slot.name = name;
    PlacedJob job(GetParam(), {slot});
    ASSERT_TRUE(job.Start(1).ok());
    job.Put(0, "key", "v");
    const Status refused = job.Checkpoint().status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
    EXPECT_THAT(refused.message(), HasSubstr("slot name"));
    EXPECT_EQ(job.store->latest_commit().value, 0u);
    EXPECT_EQ(job.store->NextId()->value, 2u) << "the store goes on";
    for (const auto& [path, bytes] : job.place().All()) {
      EXPECT_EQ(path.find("nodes/"), std::string::npos) << path << " is left";
    }
  }
}

// Case 23: a key that does not encode fails the checkpoint and harms nothing.
TEST_P(StoreTest, Case23AKeyThatDoesNotEncodeFailsTheCheckpointAndNamesItself) {
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
    EXPECT_FALSE(job_.place().Has(StateObjectKey(job_.last_id)));
  }
  for (uint32_t i = 0; i < 2; ++i) job_.model_table(i, 0)->FailAt("", false);
  EXPECT_EQ(MustCheckpoint().rows_new, 100u);
  MustStart(2);
  ExpectModel();
}

TEST_P(StoreTest, TheObserverSeesEveryStepInOrder) {
  std::vector<std::string> steps;
  job_.options.observer = [&](Step step) { steps.emplace_back(StepName(step)); };
  MustStart(1);
  PutMany(0, 1, "a");
  MustCheckpoint();
  EXPECT_THAT(steps, ::testing::ElementsAre("persist", "manifest", "head", "retire", "between"));
}

TEST_P(StoreTest, SubtasksOnManyThreadsWriteTheSameState) {
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

INSTANTIATE_TEST_SUITE_P(Places, StoreTest,
                         ::testing::Values(PlaceKind::kDirectory, PlaceKind::kMemory,
                                           PlaceKind::kS3),
                         testing::PlaceName);

}  // namespace
}  // namespace cairn::checkpoint
