// SPDX-License-Identifier: Apache-2.0
//
// What two processes do to each other between two calls of one of them.
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using env::ObjectFault;
using testing::Cluster;
using testing::kTestSink;
using testing::NodeProcess;
using testing::Retry;
using testing::World;

// Between looking for the head and listing what else there is, the first leader makes both.
TEST(SharedRaceTest, AHeadThatIsMadeMeanwhileIsNoDamagedStore) {
  World world(1);
  Cluster cluster(&world, {1});
  env::FaultObjectStore looking(world.bucket());
  const std::function<void(const ProtocolEvent&)> none;
  const Seams seams = world.SeamsOf(&looking, &none);
  looking.Arm({.call = 1, .kind = ObjectFault::kInterlude, .interlude = [&] {
                 ASSERT_TRUE(cluster.Start().ok());
                 ASSERT_TRUE(cluster.Checkpoint(1).ok());
               }});
  const Result<SeenHead> seen = ReadHead(seams, world.place());
  ASSERT_TRUE(seen.ok()) << seen.status().ToString();
  ASSERT_TRUE(seen->record.has_value());
  EXPECT_EQ(seen->record->deployment_id, world.place().identity.deployment_id);
}

/// An attempt whose node 1 has prepared and whose manifest is there, aborted and not yet cleaned
/// up: the leader has nobody who acts for the sink. The node has heard of nothing.
class AbortedAttemptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cluster_.Start().ok());
    ASSERT_TRUE(cluster_.Checkpoint(1).ok());
    const auto attempt = cluster_.Admit();
    ASSERT_TRUE(attempt.ok());
    id_ = attempt->id;
    ASSERT_TRUE(node().participant.Begin(*attempt).ok());
    node().Work(1);
    ASSERT_TRUE(node().participant.Capture(node().Share()).ok());
  }
  NodeProcess& node() { return *cluster_.processes[1]; }
  Status Abort() {
    return Retry([&] { return cluster_.leader->leader.Abort(id_); });
  }

  World world_{1};
  Cluster cluster_{&world_, {1}, /*with_cleaners=*/false};
  base::CheckpointId id_;
};

// The swap of its manifest was given up and landed later, so that the seal keeps it. The sinks are
// rolled back by what lies in the node's object.
TEST_F(AbortedAttemptTest, ANodeThatIsToldSoKeepsTheObjectThatTheSealNeeds) {
  uint64_t swaps = 0;
  for (uint64_t call = 0; swaps == 0 && call < 20; ++call) {
    node().connection.Arm({.call = call, .kind = ObjectFault::kLate, .for_ever = true});
    (void)node().participant.Persist();
    swaps += node().connection.Land().ok() ? 1 : 0;
  }
  node().connection.Disarm();
  ASSERT_EQ(swaps, 1u);
  EXPECT_EQ(Abort().code(), StatusCode::kUnavailable);
  EXPECT_EQ(node().participant.Persist().code(), StatusCode::kCancelled);
  const Result<Outcome> outcome = node().participant.Settle();
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(*outcome, Outcome::kAborted);
  EXPECT_TRUE(Abort().ok());
}

// Before each call of the node's own clean-up, another leader does all of it.
TEST_F(AbortedAttemptTest, ANodeAndALeaderMayCleanUpAtOnce) {
  ASSERT_TRUE(node().participant.Persist().ok());
  EXPECT_EQ(Abort().code(), StatusCode::kUnavailable);
  for (uint64_t call = 2; call < 12; ++call) {
    SCOPED_TRACE("the leader comes before call " + std::to_string(call));
    World world(call);
    Cluster cluster(&world, {1}, /*with_cleaners=*/false);
    ASSERT_TRUE(cluster.Start().ok());
    const auto attempt = cluster.Admit();
    NodeProcess& process = *cluster.processes[1];
    ASSERT_TRUE(cluster.SaveShare(&process, *attempt, 1).ok());
    EXPECT_EQ(Retry([&] { return cluster.leader->leader.Abort(attempt->id); }).code(),
              StatusCode::kUnavailable);
    process.connection.Arm({.call = call, .kind = ObjectFault::kInterlude, .interlude = [&] {
                              cluster.ReplaceLeader();
                              ASSERT_TRUE(cluster.leader->Lead().ok());
                              ASSERT_TRUE(cluster.leader->leader.Resolve().ok());
                            }});
    const Result<Outcome> outcome = Retry([&] { return process.participant.Settle(); });
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(*outcome, Outcome::kAborted);
    if (!process.connection.fired()) break;
  }
}

}  // namespace
}  // namespace cairn::checkpoint::shared
