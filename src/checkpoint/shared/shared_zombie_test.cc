// SPDX-License-Identifier: Apache-2.0
//
// Processes that were taken over and wake up, two that want the same role, and leases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "checkpoint/shared/node_key.h"
#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using env::ObjectFault;
using testing::Cluster;
using ::testing::HasSubstr;
using testing::kTestSink;
using testing::kTestTtlMs;
using testing::LeaderProcess;
using testing::NodeProcess;
using testing::Retry;
using testing::World;

class ZombieTest : public ::testing::Test {
 protected:
  void SetUp() override { Build(1); }

  void Build(uint64_t seed) {
    zombie_leader_.reset();
    zombie_node_.reset();
    cluster_.reset();
    world_ = std::make_unique<World>(seed);
    cluster_ = std::make_unique<Cluster>(world_.get(), std::vector<uint64_t>{1, 2});
    ASSERT_TRUE(cluster_->Start().ok());
    ASSERT_TRUE(cluster_->Checkpoint(2).ok());
    ASSERT_TRUE(cluster_->Checkpoint(1, 2).ok());
  }

  /// Node 1 is given up and replaced, and its successor saves a cut.
  void ReplaceNodeMeanwhile() {
    for (const format::ActiveAttempt& attempt : world_->Head().active_attempts) {
      const Status aborted = cluster_->leader->leader.Abort(attempt.id);
      ASSERT_TRUE(aborted.ok()) << aborted.ToString();
    }
    cluster_->ReplaceNode(1);
    ASSERT_TRUE(cluster_->processes[1]->Start().ok());
    const Status settled = cluster_->Settle();
    ASSERT_TRUE(settled.ok()) << settled.ToString();
    GoOn();
  }

  /// Another leader takes over, settles what is open and makes a cut.
  void ReplaceLeaderMeanwhile() {
    auto next = std::make_unique<LeaderProcess>(world_.get(), 101);
    ASSERT_TRUE(next->Lead().ok());
    zombie_leader_ = std::exchange(cluster_->leader, std::move(next));
    const Status resolved = cluster_->leader->leader.Resolve();
    ASSERT_TRUE(resolved.ok()) << resolved.ToString();
    for (auto& [node, process] : cluster_->processes) {
      if (process->participant.attempt() == nullptr) continue;
      ASSERT_TRUE(process->participant.Settle().ok());
    }
    GoOn();
  }

  void GoOn() {
    const Status next = cluster_->Checkpoint(1);
    ASSERT_TRUE(next.ok()) << next.ToString();
    ASSERT_TRUE(cluster_->leader->leader.Retire().ok());
  }

  void ExpectUnharmed() {
    const format::SharedHead head = world_->Head();
    for (const format::IndexReference& kept : head.Cuts()) world_->CountsOf(kept);
    EXPECT_EQ(world_->Published(), World::RowsOf(world_->CountsOf(*head.latest_commit)));
    GoOn();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(cluster_->leader->leader.Retire().ok());
    ASSERT_TRUE(cluster_->leader->leader.Sweep().ok());
    EXPECT_EQ(world_->Leaks(), std::vector<std::string>());
    EXPECT_EQ(world_->Published(), World::RowsOf(world_->CountsOf(*world_->Head().latest_commit)));
  }

  /// Node 1 goes through a whole checkpoint; before its call `n` it is replaced. False: it had made
  /// fewer calls.
  bool NodeWakesAt(uint64_t n) {
    Build(n + 1);
    const auto attempt = cluster_->Admit();
    EXPECT_TRUE(cluster_->SaveShare(cluster_->processes[2].get(), *attempt, 1).ok());
    NodeProcess* zombie = cluster_->processes[1].get();
    bool replaced = false;
    zombie->connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                              replaced = true;
                              zombie_node_ = std::move(cluster_->processes[1]);
                              ReplaceNodeMeanwhile();
                            }});
    (void)cluster_->SaveShare(zombie, *attempt, 1);
    if (!replaced) (void)cluster_->Decide();
    (void)zombie->participant.Settle();
    (void)zombie->participant.Settle();
    if (!replaced) return false;
    EXPECT_EQ(zombie->participant.Renew().code(), StatusCode::kFenced);
    ExpectUnharmed();
    return true;
  }

  /// The leader decides, retires and sweeps; before its call `n` another one takes over.
  bool LeaderWakesAt(uint64_t n) {
    Build(n + 1);
    const auto attempt = cluster_->Admit();
    for (auto& [node, process] : cluster_->processes) {
      EXPECT_TRUE(cluster_->SaveShare(process.get(), *attempt, 1).ok());
    }
    LeaderProcess* zombie = cluster_->leader.get();
    bool replaced = false;
    zombie->connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                              replaced = true;
                              ReplaceLeaderMeanwhile();
                            }});
    (void)zombie->leader.Collect();
    (void)zombie->leader.Decide();
    (void)zombie->leader.Retire();
    (void)zombie->leader.Abort(attempt->id);
    (void)zombie->leader.Sweep();
    if (!replaced) return false;
    EXPECT_EQ(zombie->leader.Renew().code(), StatusCode::kFenced);
    ExpectUnharmed();
    return true;
  }

  std::unique_ptr<World> world_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<LeaderProcess> zombie_leader_;
  std::unique_ptr<NodeProcess> zombie_node_;
};

// Before each call of a checkpoint: intents, witness, begin, prepare, object (step 6), manifest
// (7), decision read, publishing (10), witness.
TEST_F(ZombieTest, ANodeHarmsNothingWhereverItWakesUp) {
  uint64_t call = 0;
  for (;; ++call) {
    SCOPED_TRACE("replaced before call " + std::to_string(call));
    ASSERT_LT(call, 200u);
    if (!NodeWakesAt(call) || HasFailure()) break;
  }
  EXPECT_GT(call, 15u);
}

// Before each call from collecting over deciding (9), retiring (12) and aborting to sweeping.
TEST_F(ZombieTest, ALeaderHarmsNothingWhereverItWakesUp) {
  uint64_t call = 0;
  for (;; ++call) {
    SCOPED_TRACE("replaced before call " + std::to_string(call));
    ASSERT_LT(call, 200u);
    if (!LeaderWakesAt(call) || HasFailure()) break;
  }
  EXPECT_GT(call, 15u);
}

TEST_F(ZombieTest, AtDataAndManifestTheSealRefusesItAndItsObjectIsSwept) {
  const auto attempt = cluster_->Admit();
  NodeProcess* zombie = cluster_->processes[1].get();
  ASSERT_TRUE(zombie->participant.Begin(*attempt).ok());
  zombie->Work(1);
  ASSERT_TRUE(zombie->participant.Capture(zombie->Share()).ok());
  zombie_node_ = std::move(cluster_->processes[1]);
  ReplaceNodeMeanwhile();
  const Status saved = zombie->participant.Persist();
  EXPECT_EQ(saved.code(), StatusCode::kCancelled) << saved.ToString();
  EXPECT_TRUE(world_->bucket()->Head(NodeDataKey(1, attempt->id)).ok());  // late, and no one's
  ExpectUnharmed();
  EXPECT_FALSE(world_->bucket()->Head(NodeDataKey(1, attempt->id)).ok());
}

TEST_F(ZombieTest, AtDecideTheHeadNamesANewerLeader) {
  const auto attempt = cluster_->Admit();
  for (auto& [node, process] : cluster_->processes) {
    ASSERT_TRUE(cluster_->SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_->leader->leader.Collect()->empty());
  ReplaceLeaderMeanwhile();
  const auto decided = zombie_leader_->leader.Decide();
  EXPECT_EQ(decided.status().code(), StatusCode::kFenced);
  EXPECT_THAT(std::string(decided.status().message()), HasSubstr("node 101"));
  ExpectUnharmed();
}

TEST_F(ZombieTest, AtSinkCommitTheSinkRefusesAnOlderToken) {
  const auto attempt = cluster_->Admit();
  for (auto& [node, process] : cluster_->processes) {
    ASSERT_TRUE(cluster_->SaveShare(process.get(), *attempt, 1).ok());
  }
  ASSERT_TRUE(cluster_->Decide().ok());
  const uint64_t former = cluster_->leader->leader.proof().fencing_token;
  NodeProcess* zombie = cluster_->processes[1].get();
  zombie_node_ = std::move(cluster_->processes[1]);
  // A new leader and a new process of the node settle it under a higher token.
  auto next = std::make_unique<LeaderProcess>(world_.get(), 101);
  ASSERT_TRUE(next->Lead().ok());
  zombie_leader_ = std::exchange(cluster_->leader, std::move(next));
  cluster_->ReplaceNode(1);
  ASSERT_TRUE(cluster_->processes[1]->Start().ok());
  ASSERT_TRUE(cluster_->Settle().ok());
  const SinkEpoch epoch{world_->place().identity.deployment_id, 1, attempt->id, former};
  const Status published =
      zombie->sink.Commit(epoch, "outside/out/1/" + std::to_string(attempt->id.value));
  EXPECT_EQ(published.code(), StatusCode::kFenced) << published.ToString();
  ExpectUnharmed();
}

TEST_F(ZombieTest, AtRetireThePlanOfAFormerLeaderDropsNothing) {
  GoOn();
  ASSERT_TRUE(cluster_->Checkpoint(1).ok());  // one more than is kept
  LeaderProcess* zombie = cluster_->leader.get();
  zombie->on_step = [&](const ProtocolEvent& event) {
    if (event.step != ProtocolStep::kRetire || zombie_leader_ != nullptr) return;
    auto next = std::make_unique<LeaderProcess>(world_.get(), 101);
    ASSERT_TRUE(next->Lead().ok());
    zombie_leader_ = std::exchange(cluster_->leader, std::move(next));
  };
  EXPECT_EQ(zombie->leader.Retire().status().code(), StatusCode::kFenced);
  EXPECT_EQ(world_->Head().Cuts().size(), 3u);
  ExpectUnharmed();
}

TEST_F(ZombieTest, TwoLeadersNeverLeadAtOnce) {
  LeaderProcess second(world_.get(), 101);
  EXPECT_EQ(second.leader.TryLead().code(), StatusCode::kFenced);
  for (int i = 0; i < 5; ++i) {  // as long as the first one renews, for ever
    world_->clock().Advance(kTestTtlMs / 2 + 1);
    ASSERT_TRUE(cluster_->leader->leader.Renew().ok());
    EXPECT_EQ(second.leader.TryLead().code(), StatusCode::kFenced);
  }
  world_->clock().Advance(kTestTtlMs);
  ASSERT_TRUE(second.leader.TryLead().ok());
  EXPECT_GT(second.leader.proof().fencing_token, cluster_->leader->leader.proof().fencing_token);
  EXPECT_EQ(cluster_->Admit().status().code(), StatusCode::kFenced);
  EXPECT_EQ(cluster_->leader->leader.Renew().code(), StatusCode::kFenced);
}

TEST_F(ZombieTest, TwoCandidatesForOneLeaseHaveOneWinner) {
  for (uint64_t call = 0;; ++call) {
    SCOPED_TRACE("the third takes it before call " + std::to_string(call) + " of the second");
    ASSERT_LT(call, 50u);
    Build(call + 1);
    LeaderProcess second(world_.get(), 101);
    LeaderProcess third(world_.get(), 102);
    (void)second.leader.TryLead();
    (void)third.leader.TryLead();
    world_->clock().Advance(kTestTtlMs);
    Status taken = Status::Internal("not tried");
    second.connection.Arm({.call = call, .kind = ObjectFault::kInterlude, .interlude = [&] {
                             taken = third.leader.TryLead();
                           }});
    const Status first = second.leader.TryLead();
    if (!second.connection.fired()) break;
    second.connection.Disarm();
    const bool second_leads = first.ok() && second.leader.Renew().ok();
    const bool third_leads = taken.ok() && third.leader.Renew().ok();
    EXPECT_NE(second_leads, third_leads);
    EXPECT_EQ(world_->Head().leader.owner.node, second_leads ? 101u : 102u);
  }
}

TEST_F(ZombieTest, ALeaseGivenBackIsTakenAtOnce) {
  LeaderProcess second(world_.get(), 101);
  ASSERT_TRUE(cluster_->leader->leader.Resign().ok());
  EXPECT_TRUE(second.leader.TryLead().ok());
}

TEST_F(ZombieTest, ALinkWithoutAHeadIsPassedOver) {
  // A candidate died between its link and the head.
  LeaderProcess dead(world_.get(), 101);
  (void)dead.leader.TryLead();
  world_->clock().Advance(kTestTtlMs);
  dead.connection.Arm({.call = 3, .kind = ObjectFault::kLostBefore, .for_ever = true});
  EXPECT_FALSE(dead.leader.TryLead().ok());
  LeaderProcess next(world_.get(), 102);
  ASSERT_TRUE(next.Lead().ok());
  EXPECT_EQ(world_->Head().leader.owner.node, 102u);
}

TEST_F(ZombieTest, ANodeIsFencedOnlyAfterAWholeTimeToLiveWithoutASign) {
  Leader& leader = cluster_->leader->leader;
  EXPECT_EQ(leader.FenceProcess(1).code(), StatusCode::kFenced);
  world_->clock().Advance(kTestTtlMs - 1);
  ASSERT_TRUE(cluster_->processes[1]->participant.Renew().ok());
  world_->clock().Advance(kTestTtlMs - 1);
  EXPECT_EQ(leader.FenceProcess(1).code(), StatusCode::kFenced);
  world_->clock().Advance(kTestTtlMs);
  ASSERT_TRUE(leader.FenceProcess(1).ok());
  EXPECT_EQ(cluster_->processes[1]->participant.Renew().code(), StatusCode::kFenced);
  // A fence is nobody's reign: the node's next process starts at once.
  NodeProcess next(world_.get(), 1);
  EXPECT_TRUE(next.participant.TryStart().ok());
}

TEST_F(ZombieTest, AFormerProcessOfANodeIsNoParticipantOfTheNextAttempt) {
  zombie_node_ = std::move(cluster_->processes[1]);
  ReplaceNodeMeanwhile();
  const auto attempt = cluster_->Admit();
  const Status begun = zombie_node_->participant.Begin(*attempt);
  EXPECT_EQ(begun.code(), StatusCode::kFenced) << begun.ToString();
}

}  // namespace
}  // namespace cairn::checkpoint::shared
