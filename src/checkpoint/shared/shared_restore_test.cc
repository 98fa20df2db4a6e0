// SPDX-License-Identifier: Apache-2.0
//
// What is restored, kept, deleted and copied: recovery, retention, savepoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "checkpoint/shared/savepoint.h"
#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using env::ObjectFault;
using testing::Cluster;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::kTestGroups;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TestPipeline;
using testing::World;

class SharedRestoreTest : public testing::ClusterTest {};

// ---- Recovery -----------------------------------------------------------------------------------

TEST_F(SharedRestoreTest, ARestoreWaitsWhileAnAttemptIsUndecided) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  SaveAll();
  EXPECT_EQ(node(1)->participant.Recover(cluster_.assignment).status().code(),
            StatusCode::kUnavailable);
}

TEST_F(SharedRestoreTest, AMissingOrDamagedPieceIsAnErrorAndNeverAnEmptyStart) {
  ASSERT_TRUE(cluster_.Checkpoint(2).ok());
  const format::IndexReference cut = *world_.Head().latest_commit;
  const std::string index = IndexKey(cut.id, cut.index_sha256);
  for (const std::string& key :
       {index, NodeManifestKey(1, cut.id), NodeManifestKey(2, cut.id), NodeDataKey(1, cut.id),
        NodeDataKey(2, cut.id), std::string(kHeadKey)}) {
    SCOPED_TRACE(key);
    const std::string good = world_.bucket()->Get(key, 1 << 24)->bytes;
    ASSERT_TRUE(world_.bucket()->Delete(key).ok());
    const Status missing = RecoverAnew();
    EXPECT_EQ(missing.code(), StatusCode::kCorruption) << missing.ToString();
    ASSERT_TRUE(world_.bucket()->Delete(key).ok());
    Overwrite(key, std::string(good.size(), 'x'));
    const Status damaged = RecoverAnew();
    EXPECT_EQ(damaged.code(), StatusCode::kCorruption) << damaged.ToString();
    Overwrite(key, good);
  }
  for (const std::string_view key : {kFormatKey, kIdentityKey}) {
    const std::string good = world_.bucket()->Get(std::string(key), 1 << 16)->bytes;
    ASSERT_TRUE(world_.bucket()->Delete(std::string(key)).ok());
    EXPECT_EQ(ReadSharedPlace(world_.seams()).status().code(), StatusCode::kCorruption);
    Overwrite(std::string(key), good);
  }
  const Status good = RecoverAnew();
  EXPECT_TRUE(good.ok()) << good.ToString();
}

TEST_F(SharedRestoreTest, AnOutcomeAuthorisesOneIndexAndNoOther) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const format::SharedHead head = world_.Head();
  const std::string other =
      world_.bucket()
          ->Get(IndexKey(head.retained[0].id, head.retained[0].index_sha256), 1 << 24)
          ->bytes;
  Overwrite(IndexKey(head.latest_commit->id, head.latest_commit->index_sha256), other);
  EXPECT_EQ(RecoverAnew().code(), StatusCode::kCorruption);
}

TEST_F(SharedRestoreTest, AnotherPipelineIsRefused) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  world_.clock().Advance(testing::kTestTtlMs);
  LeaderOptions options;
  options.self = {9, world_.NewBoot()};
  options.pipeline_identity = TestPipeline();
  options.pipeline_identity.sha256[0] = 0;
  Leader other(world_.seams(), world_.place(), options);
  (void)other.TryLead();
  world_.clock().Advance(testing::kTestTtlMs);
  EXPECT_EQ(other.TryLead().code(), StatusCode::kInvalidArgument);
}

TEST_F(SharedRestoreTest, EveryAssignmentReadsWhatEveryOtherWrote) {
  const std::vector<std::vector<uint64_t>> nodes = {{1, 2}, {1, 2, 3}, {4}, {2, 3, 5, 7}, {1}};
  uint64_t version = 10;
  uint64_t expected = 0;
  for (const std::vector<uint64_t>& next : nodes) {
    cluster_.leader->leader.Resign().ok();
    Cluster cluster(&world_, next);
    cluster.assignment.version = version += 10;
    cluster.Assign();
    const Status started = cluster.Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
    for (const auto& [n, process] : cluster.processes) {
      for (const auto& [group, count] : process->counts) EXPECT_EQ(count, expected) << group;
    }
    const Status saved = cluster.Checkpoint(2);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
    expected += 2;
    const auto counts = world_.CountsOf(*world_.Head().latest_commit);
    EXPECT_EQ(counts.size(), kTestGroups);
    EXPECT_EQ(world_.Published(), World::RowsOf(counts));
    ASSERT_TRUE(cluster.leader->leader.Resign().ok());
  }
}

TEST_F(SharedRestoreTest, ALocalStoreAndASharedOneRefuseEachOther) {
  const auto format = format::ParseStoreFormat(world_.bucket()->Get("FORMAT", 1 << 16)->bytes);
  EXPECT_EQ(format->profile, "shared");
  World other(1);
  format::StoreFormat local;
  local.key_groups = kTestGroups;
  ASSERT_TRUE(other.bucket()->Delete("FORMAT").ok());
  ASSERT_TRUE(other.bucket()->CreateIfAbsent("FORMAT", *format::SerializeStoreFormat(local)).ok());
  EXPECT_EQ(ReadSharedPlace(other.seams()).status().code(), StatusCode::kInvalidArgument);
}

// ---- Retention ----------------------------------------------------------------------------------

TEST_F(SharedRestoreTest, ADamagedKeptCutStopsAllDeletion) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const base::CheckpointId latest = world_.Head().latest_commit->id;
  const std::string key = NodeDataKey(2, latest);
  const std::string bytes = world_.bucket()->Get(key, 1 << 24)->bytes;
  ASSERT_TRUE(world_.bucket()->Delete(key).ok());
  const auto retired = leader().Retire();
  EXPECT_EQ(retired.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(retired.status().message()), HasSubstr("nothing is deleted"));
  EXPECT_EQ(world_.Head().Cuts().size(), 3u);
  Overwrite(key, bytes);
  EXPECT_EQ(leader().Retire()->retired.value, 1u);
}

TEST_F(SharedRestoreTest, APinKeepsItsCutUntilItIsNotRenewedForItsTimeToLive) {
  const std::string owner = world_.NewBoot();
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  format::SharedPin pin{"export", "e", owner, base::CheckpointId(1), 1, 1'000};
  ASSERT_TRUE(PinCut(world_.seams(), world_.place(), pin).ok());
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(leader().Retire()->retired.value, i == 0 ? 2u : 0u);
    world_.clock().Advance(999);
    ++pin.renew_seq;
    ASSERT_TRUE(PinCut(world_.seams(), world_.place(), pin).ok());
  }
  EXPECT_EQ(world_.CountsOf(*world_.Head().FindCut(base::CheckpointId(1))).at(0), 1u);
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  EXPECT_EQ(leader().Retire()->retired.value, 3u);
  world_.clock().Advance(1'000);
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  EXPECT_EQ(leader().Retire()->retired.value, 1u);
  EXPECT_TRUE(world_.Head().pins.empty());
}

TEST_F(SharedRestoreTest, APinOfAnotherOwnerOrOnALostCutIsRefused) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  format::SharedPin pin{"export", "e", world_.NewBoot(), base::CheckpointId(1), 1, 1'000};
  ASSERT_TRUE(PinCut(world_.seams(), world_.place(), pin).ok());
  pin.owner = world_.NewBoot();
  EXPECT_EQ(PinCut(world_.seams(), world_.place(), pin).code(), StatusCode::kAlreadyExists);
  pin.checkpoint_id = base::CheckpointId(9);
  EXPECT_EQ(PinCut(world_.seams(), world_.place(), pin).code(), StatusCode::kNotFound);
}

TEST_F(SharedRestoreTest, ASweepTakesOrphansOfSettledAttemptsOnlyAndOnlyOldOnes) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const auto attempt = cluster_.Admit();
  const auto create = [&](const std::string& key) {
    ASSERT_TRUE(world_.bucket()->CreateIfAbsent(key, "orphan").ok());
  };
  create(NodeDataKey(7, base::CheckpointId(1)));
  create(IndexPrefix(base::CheckpointId(1)) + "00.json");
  create(NodeDataKey(7, attempt->id));  // of an attempt that may still be decided
  create("nodes/notes.txt");
  EXPECT_TRUE(SweepOrphans(world_.seams(), world_.place(), 1'000)->deleted.empty());
  world_.clock().Advance(1'000);
  EXPECT_EQ(SweepOrphans(world_.seams(), world_.place(), 1'000)->deleted.size(), 2u);
  EXPECT_TRUE(world_.bucket()->Head(NodeDataKey(7, attempt->id)).ok());
  EXPECT_TRUE(world_.bucket()->Head("nodes/notes.txt").ok());
  world_.CountsOf(*world_.Head().latest_commit);
}

TEST_F(SharedRestoreTest, ARestoreReadsOlderObjectsByTheirNamesAndListsNothing) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  ASSERT_TRUE(cluster_.Checkpoint(1, 4).ok());
  cluster_.ReplaceNode(1);
  ASSERT_TRUE(node(1)->Start().ok());
  node(1)->connection.Arm({});
  ASSERT_TRUE(node(1)->Recover(cluster_.assignment).ok());
  const std::vector<std::string> trace = node(1)->connection.trace();
  EXPECT_THAT(trace, Contains("range " + NodeDataKey(1, base::CheckpointId(1))));
  EXPECT_THAT(trace, Each(Not(StartsWith("list "))));
}

TEST_F(SharedRestoreTest, ASavepointIsReadFromAnotherPlaceAndBorrowedThere) {
  ASSERT_TRUE(cluster_.Checkpoint(2).ok());
  ASSERT_TRUE(cluster_.Checkpoint(1, 4).ok());
  const auto counts = world_.CountsOf(*world_.Head().latest_commit);
  EXPECT_EQ(OpenSavepoint(world_.seams(), "savepoints/s/").status().code(), StatusCode::kNotFound);
  const Status written = WriteSavepoint(world_.seams(), world_.place(), base::CheckpointId(2),
                                        {"s", world_.NewBoot(), 60'000});
  ASSERT_TRUE(written.ok()) << written.ToString();
  EXPECT_TRUE(world_.Head().pins.empty());

  // The folder moves to another bucket, under another name; the job's own place is gone.
  World other(5);
  for (const env::ObjectInfo& info : world_.List("savepoints/s/")) {
    const std::string bytes = world_.bucket()->Get(info.key, 1 << 24)->bytes;
    ASSERT_TRUE(other.bucket()->CreateIfAbsent("moved/" + info.key.substr(13), bytes).ok());
  }
  const auto savepoint = OpenSavepoint(other.seams(), "moved/");
  ASSERT_TRUE(savepoint.ok()) << savepoint.status().ToString();
  for (const auto& [n, manifest] : savepoint->cut->manifests) {
    EXPECT_TRUE(manifest->referenced_chunks.empty());
  }
  const auto restored =
      RestoreShare(savepoint->seams, savepoint->place, *savepoint->cut, {{0, kTestGroups}});
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  for (const auto& [group, count] : counts) {
    EXPECT_EQ(restored->groups.at(group), std::to_string(count));
    EXPECT_EQ(restored->source_offsets.at("rows").at("g" + std::to_string(group)).position,
              std::to_string(count));
  }
  // A job in the new place starts from it, with one node, and writes everything anew.
  Cluster job(&other, {4});
  ASSERT_TRUE(job.Start().ok());
  for (auto& [group, count] : job.processes[4]->counts) count = counts.at(group);
  job.processes[4]->participant.AdoptForeignState();
  const Status saved = job.Checkpoint(0);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_EQ(other.CountsOf(*other.Head().latest_commit), counts);
}

TEST_F(SharedRestoreTest, ASavepointCutShortIsNothingAndGoesOnWhenAskedAgain) {
  ASSERT_TRUE(cluster_.Checkpoint(2).ok());
  const SavepointOptions options{"s", world_.NewBoot(), 60'000};
  env::FaultObjectStore connection(world_.bucket());
  Seams seams = world_.seams();
  seams.objects = &connection;
  for (uint64_t call = 0;; ++call) {
    ASSERT_LT(call, 200u);
    connection.Arm({.call = call, .kind = ObjectFault::kLostBefore, .for_ever = true});
    const Status written = WriteSavepoint(seams, world_.place(), base::CheckpointId(1), options);
    const bool complete = OpenSavepoint(world_.seams(), "savepoints/s/").ok();
    if (!connection.fired()) {
      EXPECT_TRUE(written.ok() && complete);
      break;
    }
    EXPECT_FALSE(written.ok());
    const bool there = world_.bucket()->Head("savepoints/s/COMPLETE").ok();
    EXPECT_EQ(complete, there) << call;
  }
  EXPECT_TRUE(world_.Head().pins.empty());
}

}  // namespace
}  // namespace cairn::checkpoint::shared
