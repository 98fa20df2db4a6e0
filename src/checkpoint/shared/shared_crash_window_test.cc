// SPDX-License-Identifier: Apache-2.0
//
// One named test for each crash window of docs/protocol/shared.md. "At" a step: the process died
// before the step had an effect, that is, right after the step before. L is the last committed cut,
// checkpoint 1; N the one being made, checkpoint 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "checkpoint/shared/node_key.h"
#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using env::ObjectFault;
using testing::Cluster;
using testing::Die;
using ::testing::HasSubstr;
using testing::LeaderProcess;
using testing::Retry;
using testing::World;

class CrashWindowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cluster_.Start().ok());
    ASSERT_TRUE(cluster_.Checkpoint(2).ok());
  }

  env::FaultObjectStore* leader() { return &cluster_.leader->connection; }
  env::FaultObjectStore* node() { return &cluster_.processes[1]->connection; }

  /// Node 1 dies when it reaches `step` of N.
  void NodeDiesAt(ProtocolStep step) {
    cluster_.processes[1]->on_step = [this, step](const ProtocolEvent& event) {
      if (event.step == step) Die(node());
    };
  }
  void LeaderDiesAt(ProtocolStep step) {
    cluster_.leader->on_step = [this, step](const ProtocolEvent& event) {
      if (event.step == step) Die(leader());
    };
  }

  /// A new leader takes over from a dead one; the nodes live on.
  void TakeOver() {
    cluster_.ReplaceLeader();
    ASSERT_TRUE(cluster_.leader->Lead().ok());
    const Status resolved = cluster_.leader->leader.Resolve();
    ASSERT_TRUE(resolved.ok()) << resolved.ToString();
    for (auto& [n, process] : cluster_.processes) {
      if (process->participant.attempt() == nullptr) continue;
      const auto outcome = process->participant.Settle();
      ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
      EXPECT_NE(*outcome, Outcome::kPending);
    }
  }

  /// Node 1 is dead: the leader aborts what cannot be completed, all start over.
  void ReplaceDeadNode() {
    cluster_.ReplaceNode(1);
    for (const format::ActiveAttempt& attempt : world_.Head().active_attempts) {
      ASSERT_TRUE(cluster_.leader->leader.Abort(attempt.id).ok());
    }
    ASSERT_TRUE(cluster_.processes[1]->Start().ok());
    ASSERT_TRUE(cluster_.Settle().ok());
  }

  void ExpectStands(uint64_t id) {
    const format::SharedHead head = world_.Head();
    ASSERT_TRUE(head.latest_commit);
    EXPECT_EQ(head.latest_commit->id.value, id);
    EXPECT_TRUE(head.active_attempts.empty());
    EXPECT_EQ(world_.Published(), World::RowsOf(world_.CountsOf(*head.latest_commit)));
  }

  void ExpectNextWorks() {
    const Status next = cluster_.Checkpoint(1);
    ASSERT_TRUE(next.ok()) << next.ToString();
    const format::SharedHead head = world_.Head();
    EXPECT_EQ(world_.Published(), World::RowsOf(world_.CountsOf(*head.latest_commit)));
    ASSERT_TRUE(cluster_.leader->leader.Sweep().ok());
    EXPECT_EQ(world_.Leaks(), std::vector<std::string>());
  }

  std::string StateOutside(uint64_t node, uint64_t epoch) {
    const auto outside = world_.Outside();
    const auto found =
        outside.find("outside/out/" + std::to_string(node) + "/" + std::to_string(epoch));
    return found == outside.end() ? "nothing" : found->second.state;
  }

  format::NodeRecord RecordOf(uint64_t node, uint64_t id) {
    auto seen = ReadNode(world_.bucket().get(), node, base::CheckpointId(id));
    EXPECT_TRUE(seen.ok() && seen->record);
    return seen.ok() && seen->record ? *seen->record : format::NodeRecord();
  }

  World world_{7};
  Cluster cluster_{&world_, {1, 2}};
};

TEST_F(CrashWindowTest, AtTheAllocatorAnIdIsBurntAndNeverGivenTwice) {
  ASSERT_TRUE(AllocateId(world_.seams()).ok());  // by a leader that died after it
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  ExpectStands(3);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtTheAllocatorALostAnswerIsRecognisedByItsId) {
  env::FaultObjectStore connection(world_.bucket());
  Seams seams = world_.seams();
  seams.objects = &connection;
  connection.Arm({.call = 1, .kind = ObjectFault::kLostAfter});
  const auto id = AllocateId(seams);
  ASSERT_TRUE(id.ok()) << id.status().ToString();
  EXPECT_TRUE(connection.fired());
  EXPECT_EQ(id->value, 2u);
  EXPECT_EQ(AllocateId(seams)->value, 3u);
}

TEST_F(CrashWindowTest, AtAdmissionTheNextLeaderAbortsAndSealsEveryParticipant) {
  ASSERT_TRUE(cluster_.Admit().ok());
  Die(leader());
  TakeOver();
  ExpectStands(1);
  for (uint64_t n : {1, 2}) {
    const format::NodeRecord record = RecordOf(n, 2);
    ASSERT_TRUE(std::holds_alternative<format::AbortSeal>(record));
    const auto& seal = std::get<format::AbortSeal>(record);
    EXPECT_TRUE(seal.cleanup_complete);
    EXPECT_FALSE(seal.intents || seal.manifest);
  }
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtSinkBeginTheIntentsAreRolledBackThoughNothingWasBegun) {
  const auto attempt = cluster_.Admit();
  NodeDiesAt(ProtocolStep::kSinkBegin);
  EXPECT_FALSE(cluster_.processes[1]->participant.Begin(*attempt).ok());
  EXPECT_EQ(StateOutside(1, 2), "nothing");
  EXPECT_TRUE(std::holds_alternative<format::SinkIntentRecord>(RecordOf(1, 2)));
  ReplaceDeadNode();
  EXPECT_EQ(StateOutside(1, 2), "rolled-back");
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtCaptureTheOpenTransactionIsUndoneByItsIntent) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(cluster_.processes[1]->participant.Begin(*attempt).ok());
  EXPECT_EQ(StateOutside(1, 2), "open");
  Die(node());
  ReplaceDeadNode();
  EXPECT_EQ(StateOutside(1, 2), "rolled-back");
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtSinkBeginWithoutAnybodyToRollBackTheAttemptStays) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(cluster_.processes[1]->participant.Begin(*attempt).ok());
  Die(leader());
  Die(node());
  cluster_.ReplaceLeader(/*with_cleaners=*/false);
  ASSERT_TRUE(cluster_.leader->Lead().ok());
  const Status failed = cluster_.leader->leader.Resolve();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("sink 'out' of participant 1"));
  EXPECT_TRUE(world_.Head().active_attempts.at(0).aborted);
  EXPECT_EQ(cluster_.leader->leader.Admit(cluster_.assignment, {"out"}).status().code(),
            StatusCode::kInvalidArgument);
  // The node's next process rolls back what its witness names; then the attempt can go.
  cluster_.ReplaceNode(1);
  ASSERT_TRUE(cluster_.processes[1]->Start().ok());
  ASSERT_TRUE(cluster_.Settle().ok());
  EXPECT_EQ(StateOutside(1, 2), "rolled-back");
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtCaptureALiveNodeKeepsItsChangesForTheNextAttempt) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(cluster_.SaveShare(cluster_.processes[1].get(), *attempt, 1).ok());
  ASSERT_TRUE(cluster_.leader->leader.Abort(attempt->id).ok());
  ASSERT_EQ(*cluster_.processes[1]->participant.Settle(), Outcome::kAborted);
  EXPECT_EQ(cluster_.processes[1]->participant.dirty().size(), 4u);
  // The next attempt has no new rows of node 1 but those of the aborted one.
  const auto again = cluster_.Admit();
  ASSERT_TRUE(cluster_.SaveShare(cluster_.processes[1].get(), *again, 0).ok());
  ASSERT_TRUE(cluster_.SaveShare(cluster_.processes[2].get(), *again, 0).ok());
  ASSERT_TRUE(cluster_.Decide().ok());
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SettleNode(process.get(), Outcome::kCommitted).ok());
  }
  EXPECT_EQ(world_.CountsOf(*world_.Head().latest_commit).at(0), 3u);
  ExpectStands(3);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtEncodeThePreparedRowsAreUndoneByTheirIntent) {
  const auto attempt = cluster_.Admit();
  NodeDiesAt(ProtocolStep::kEncode);
  EXPECT_FALSE(cluster_.SaveShare(cluster_.processes[1].get(), *attempt, 1).ok());
  EXPECT_EQ(StateOutside(1, 2), "prepared");
  ReplaceDeadNode();
  EXPECT_EQ(StateOutside(1, 2), "rolled-back");
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtManifestTheObjectIsInvisibleAndDeleted) {
  const auto attempt = cluster_.Admit();
  NodeDiesAt(ProtocolStep::kManifest);
  EXPECT_FALSE(cluster_.SaveShare(cluster_.processes[1].get(), *attempt, 1).ok());
  const std::string object = NodeDataKey(1, attempt->id);
  EXPECT_TRUE(world_.bucket()->Head(object).ok());
  EXPECT_EQ(*cluster_.leader->leader.Collect(), (std::vector<uint64_t>{1, 2}));
  ReplaceDeadNode();
  EXPECT_FALSE(world_.bucket()->Head(object).ok());
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtDataAnObjectOfAnotherWriterFailsClosed) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(world_.bucket()->CreateIfAbsent(NodeDataKey(1, attempt->id), "another's").ok());
  const Status saved = cluster_.SaveShare(cluster_.processes[1].get(), *attempt, 1);
  EXPECT_EQ(saved.code(), StatusCode::kFenced) << saved.ToString();
  EXPECT_THAT(std::string(saved.message()), HasSubstr("another process writes as node 1"));
}

TEST_F(CrashWindowTest, AtManifestASealKeepsItUntilTheSinksAreRolledBackByDescriptor) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(cluster_.SaveShare(cluster_.processes[1].get(), *attempt, 1).ok());
  Die(leader());
  Die(node());
  cluster_.ReplaceLeader(/*with_cleaners=*/false);
  ASSERT_TRUE(cluster_.leader->Lead().ok());
  EXPECT_FALSE(cluster_.leader->leader.Resolve().ok());
  const format::NodeRecord record = RecordOf(1, 2);
  ASSERT_TRUE(std::holds_alternative<format::AbortSeal>(record));
  const auto& seal = std::get<format::AbortSeal>(record);
  EXPECT_FALSE(seal.cleanup_complete);
  ASSERT_TRUE(seal.manifest);
  EXPECT_EQ(seal.manifest->prepared_sinks.size(), 1u);
  EXPECT_TRUE(world_.bucket()->Head(NodeDataKey(1, attempt->id)).ok());  // still needed
  cluster_.ReplaceNode(1);
  ASSERT_TRUE(cluster_.processes[1]->Start().ok());
  ASSERT_TRUE(cluster_.Settle().ok());
  EXPECT_EQ(StateOutside(1, 2), "rolled-back");
  EXPECT_TRUE(std::get<format::AbortSeal>(RecordOf(1, 2)).cleanup_complete);
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtDecideTheIndexIsACandidateAndIsDeleted) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SaveShare(process.get(), *attempt, 1).ok());
  }
  LeaderDiesAt(ProtocolStep::kDecide);
  EXPECT_FALSE(cluster_.Decide().ok());
  EXPECT_EQ(world_.bucket()->List(IndexPrefix(attempt->id))->size(), 1u);
  TakeOver();  // a new leader may only abort, though every manifest is there
  EXPECT_EQ(world_.bucket()->List(IndexPrefix(attempt->id))->size(), 0u);
  ExpectStands(1);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtDecideWithoutAnAnswerTheSameLeaderFindsOutAndDoesNotAbort) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_.leader->leader.Collect()->empty());
  // The swap is done, and from then on nothing can be read either.
  cluster_.leader->on_step = [this](const ProtocolEvent& event) {
    if (event.step != ProtocolStep::kDecide) return;
    leader()->Arm({.call = 1, .kind = ObjectFault::kLostAfter, .for_ever = true});
  };
  EXPECT_EQ(cluster_.leader->leader.Decide().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.leader->leader.Abort(attempt->id).code(), StatusCode::kUnavailable);
  cluster_.leader->on_step = nullptr;
  leader()->Disarm();
  EXPECT_EQ(cluster_.leader->leader.Abort(attempt->id).code(), StatusCode::kAlreadyExists);
  const auto decided = cluster_.leader->leader.Decide();
  ASSERT_TRUE(decided.ok()) << decided.status().ToString();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SettleNode(process.get(), Outcome::kCommitted).ok());
  }
  ExpectStands(2);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AfterDecideANewLeaderFindsTheCutAndTheSinksPublishOnce) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_.Decide().ok());
  Die(leader());
  TakeOver();
  ExpectStands(2);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtSinkCommitTheNextProcessPublishesFromTheManifest) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_.Decide().ok());
  NodeDiesAt(ProtocolStep::kSinkCommit);
  EXPECT_FALSE(cluster_.processes[1]->participant.Settle().ok());
  EXPECT_EQ(StateOutside(1, 2), "prepared");
  ASSERT_TRUE(cluster_.SettleNode(cluster_.processes[2].get(), Outcome::kCommitted).ok());
  ReplaceDeadNode();
  ExpectStands(2);
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtAcknowledgePublishingAgainChangesNothing) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_.Decide().ok());
  NodeDiesAt(ProtocolStep::kAcknowledge);
  (void)cluster_.processes[1]->participant.Settle();
  EXPECT_EQ(StateOutside(1, 2), "committed");
  ASSERT_TRUE(cluster_.SettleNode(cluster_.processes[2].get(), Outcome::kCommitted).ok());
  ReplaceDeadNode();
  ExpectStands(2);
  EXPECT_EQ(cluster_.processes[1]->counts.at(0), 3u);  // the source goes on behind the cut
  ExpectNextWorks();
}

TEST_F(CrashWindowTest, AtSinkCommitADepartedNodeIsPublishedForByTheLeader) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(cluster_.SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_.Decide().ok());
  NodeDiesAt(ProtocolStep::kSinkCommit);
  EXPECT_FALSE(cluster_.processes[1]->participant.Settle().ok());
  cluster_.processes.erase(1);
  cluster_.Assign();
  ASSERT_TRUE(cluster_.Settle().ok());
  const Status next = cluster_.Checkpoint(1);
  ASSERT_TRUE(next.ok()) << next.ToString();
  ExpectStands(3);
}

/// Retirement of checkpoint 1 once three cuts are there.
class RetireWindowTest : public CrashWindowTest {
 protected:
  void SetUp() override {
    CrashWindowTest::SetUp();
    ASSERT_TRUE(cluster_.Checkpoint(1, 2).ok());
    ASSERT_TRUE(cluster_.Checkpoint(1, 2).ok());
  }

  /// The leader dies right after its `count`-th call of kind `verb key…`.
  void LeaderDiesAfter(const std::string& verb_and_key, int count = 1) {
    leader()->Arm({});
    World copy(7);
    Cluster twin(&copy, {1, 2});
    ASSERT_TRUE(twin.Start().ok());
    ASSERT_TRUE(twin.Checkpoint(2).ok());
    ASSERT_TRUE(twin.Checkpoint(1, 2).ok());
    ASSERT_TRUE(twin.Checkpoint(1, 2).ok());
    twin.leader->connection.Arm({});
    ASSERT_TRUE(twin.leader->leader.Retire().ok());
    const std::vector<std::string> trace = twin.leader->connection.trace();
    for (size_t call = 0; call < trace.size(); ++call) {
      if (!trace[call].starts_with(verb_and_key) || --count > 0) continue;
      leader()->Arm({.call = call + 1, .kind = ObjectFault::kLostBefore, .for_ever = true});
      (void)cluster_.leader->leader.Retire();
      ASSERT_TRUE(leader()->fired());
      return;
    }
    FAIL() << "no call " << verb_and_key;
  }

  format::RetentionHead::Phase PhaseNow() {
    const auto seen = ReadSeen(world_.bucket().get(), std::string(kRetentionHeadKey),
                               format::kRetentionHeadBytesMax, &format::ParseRetentionHead);
    return seen->record->phase;
  }

  void ExpectGoneOnWith() {
    TakeOver();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(cluster_.leader->leader.Retire().ok());
    EXPECT_EQ(PhaseNow(), format::RetentionHead::Phase::kIdle);
    EXPECT_EQ(world_.Head().Cuts().size(), 2u);
    ExpectStands(3);
    ExpectNextWorks();
  }
};

TEST_F(RetireWindowTest, PlannedTheNextLeaderDropsTheCutAndGoesOn) {
  LeaderDiesAfter("swap control/retention-head.json");
  EXPECT_EQ(PhaseNow(), format::RetentionHead::Phase::kDeleteData);
  EXPECT_EQ(world_.Head().Cuts().size(), 3u);
  ExpectGoneOnWith();
}

TEST_F(RetireWindowTest, PlannedAndPinnedMeanwhileThePlanIsDropped) {
  LeaderDiesAfter("swap control/retention-head.json");
  ASSERT_TRUE(PinCut(world_.seams(), world_.place(),
                     {"savepoint", "s", world_.NewBoot(), base::CheckpointId(1), 1, 60'000})
                  .ok());
  TakeOver();
  EXPECT_EQ(cluster_.leader->leader.Retire()->retired.value, 0u);
  EXPECT_EQ(PhaseNow(), format::RetentionHead::Phase::kIdle);
  EXPECT_EQ(world_.CountsOf(*world_.Head().FindCut(base::CheckpointId(1))).at(0), 2u);
}

TEST_F(RetireWindowTest, DroppedTheCutCanBeChosenNoMoreAndItsDataGoes) {
  LeaderDiesAfter("swap control/decision-head.json");
  EXPECT_EQ(world_.Head().FindCut(base::CheckpointId(1)), nullptr);
  EXPECT_EQ(world_.Head().floor.value, 2u);
  ExpectGoneOnWith();
}

TEST_F(RetireWindowTest, WithItsDataGoneTheManifestsAreStillThereToGoOnFrom) {
  LeaderDiesAfter("swap control/retention-head.json", 2);
  EXPECT_EQ(PhaseNow(), format::RetentionHead::Phase::kDeleteMetadata);
  EXPECT_TRUE(world_.bucket()->Head(NodeManifestKey(1, base::CheckpointId(1))).ok());
  ExpectGoneOnWith();
}

TEST_F(RetireWindowTest, WithSomeManifestsGoneTheOthersFollow) {
  LeaderDiesAfter("delete nodes/1/checkpoints/00000000000000000001/manifest.json");
  EXPECT_FALSE(world_.bucket()->Head(NodeManifestKey(1, base::CheckpointId(1))).ok());
  EXPECT_TRUE(world_.bucket()->Head(NodeManifestKey(2, base::CheckpointId(1))).ok());
  ExpectGoneOnWith();
}

}  // namespace
}  // namespace cairn::checkpoint::shared
