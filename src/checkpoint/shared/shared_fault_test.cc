// SPDX-License-Identifier: Apache-2.0
//
// Every call of a checkpoint of two participants may fail, lose its answer, take effect much later,
// be refused without a cause, or be the last of its process. Whatever it is, the cut that stands
// afterwards is exactly the last one or the new one, its output is published exactly once, no kept
// cut misses an object, and after a sweep nothing is left over.
#include <gtest/gtest.h>

#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using env::ObjectFault;
using testing::Cluster;
using testing::Die;
using testing::Retry;
using testing::World;

enum class Victim { kLeader, kFirstNode, kSecondNode };

struct FaultCase {
  const char* name;
  ObjectFault kind;
  bool dies;
};

constexpr FaultCase kFaultCases[] = {
    {"lost before", ObjectFault::kLostBefore, false},
    {"answer lost", ObjectFault::kLostAfter, false},
    {"lands late", ObjectFault::kLate, false},
    {"refused", ObjectFault::kRefused, false},
    {"short read", ObjectFault::kShortRead, false},
    {"dies", ObjectFault::kLostBefore, true},
};

class SharedFaultTest : public ::testing::TestWithParam<bool> {
 protected:
  env::FaultObjectStore* ConnectionOf(Cluster* cluster, Victim victim) {
    if (victim == Victim::kLeader) return &cluster->leader->connection;
    return &cluster->processes[victim == Victim::kFirstNode ? 1 : 2]->connection;
  }

  /// A checkpoint that failed is given up by those who live, or turns out committed.
  Status GiveUp(Cluster* cluster) {
    Status settled;
    // A leader without cleaners needs the nodes to roll back, and they need its seals.
    for (int round = 0; round < 3; ++round) {
      const format::SharedHead head = cluster->world->Head();
      settled = {};
      for (const format::ActiveAttempt& attempt : head.active_attempts) {
        settled = Retry([&] { return cluster->leader->leader.Abort(attempt.id); });
      }
      if (settled.ok()) settled = Retry([&] { return cluster->leader->leader.Resolve(); });
      for (auto& [node, process] : cluster->processes) {
        if (process->participant.attempt() == nullptr) continue;
        const auto outcome = Retry([&] { return process->participant.Settle(); });
        if (!outcome.ok()) return outcome.status();
        if (*outcome == Outcome::kPending) settled = Status::Unavailable("pending");
      }
      if (settled.ok()) break;
    }
    return settled;
  }

  /// Bring the cluster back after the fault, and return whether a process had to be replaced.
  void Heal(Cluster* cluster, Victim victim, bool died) {
    if (died && victim == Victim::kLeader) {
      cluster->ReplaceLeader(GetParam());
      ASSERT_TRUE(Retry([&] { return cluster->leader->Lead(); }).ok());
    }
    if (died && victim != Victim::kLeader) {
      cluster->ReplaceNode(victim == Victim::kFirstNode ? 1 : 2);
      // The attempt needs all: without the dead one's manifest it is aborted.
      for (const format::ActiveAttempt& attempt : cluster->world->Head().active_attempts) {
        (void)cluster->leader->leader.Abort(attempt.id);
      }
      ASSERT_TRUE(cluster->processes[victim == Victim::kFirstNode ? 1 : 2]->Start().ok());
      const Status started = cluster->Settle();
      ASSERT_TRUE(started.ok()) << started.ToString();
      return;
    }
    const Status settled = GiveUp(cluster);
    ASSERT_TRUE(settled.ok()) << settled.ToString();
  }

  /// The latest cut has counted one of `counts` in group 0 and published exactly its rows.
  void ExpectExact(World* world, const std::set<uint64_t>& counts) {
    const format::SharedHead head = world->Head();
    ASSERT_TRUE(head.latest_commit);
    EXPECT_TRUE(head.active_attempts.empty());
    for (const format::IndexReference& kept : head.Cuts()) world->CountsOf(kept);
    const auto latest = world->CountsOf(*head.latest_commit);
    EXPECT_TRUE(counts.contains(latest.at(0))) << latest.at(0);
    EXPECT_EQ(world->Published(), World::RowsOf(latest));
  }

  /// Two cuts, then one with a fault in it; returns false when the fault was past the last call.
  bool RunWithFault(Victim victim, const FaultCase& fault, uint64_t call) {
    World world(call + 1);
    Cluster cluster(&world, {1, 2}, GetParam());
    EXPECT_TRUE(cluster.Start().ok());
    EXPECT_TRUE(cluster.Checkpoint(2).ok());
    EXPECT_TRUE(cluster.Checkpoint(1, 2).ok());

    env::FaultObjectStore* connection = ConnectionOf(&cluster, victim);
    connection->Arm({.call = call, .kind = fault.kind, .for_ever = fault.dies});
    Status done = cluster.Checkpoint(1, 2);
    if (done.ok()) done = Retry([&] { return cluster.leader->leader.Retire(); }).status();
    const bool fired = connection->fired();
    if (!fired) {
      EXPECT_TRUE(done.ok()) << done.ToString();
      return false;
    }
    if (!fault.dies) connection->Disarm();
    Heal(&cluster, victim, fault.dies);
    if (::testing::Test::HasFatalFailure()) return false;
    const uint64_t stands = world.Head().latest_commit->id.value;
    ExpectExact(&world, {3, 4});  // L or N

    const Status next = cluster.Checkpoint(3);
    EXPECT_TRUE(next.ok()) << next.ToString();
    EXPECT_GT(world.Head().latest_commit->id.value, stands);
    for (int i = 0; i < 3; ++i) {
      const auto retired = cluster.leader->leader.Retire();
      EXPECT_TRUE(retired.ok()) << retired.status().ToString();
    }
    // A swap that was given up lands now, long after: its condition is gone.
    if (fault.kind == ObjectFault::kLate) {
      EXPECT_FALSE(connection->Land().ok());
    }
    EXPECT_TRUE(cluster.leader->leader.Sweep().ok());
    ExpectExact(&world, {6, 7});
    EXPECT_EQ(world.Head().Cuts().size(), 2u);
    EXPECT_EQ(world.Leaks(), std::vector<std::string>());
    for (const auto& [key, transaction] : world.Outside()) {
      EXPECT_TRUE(transaction.state == "committed" || transaction.state == "rolled-back")
          << key << " is " << transaction.state;
    }
    return true;
  }

  void RunAll(Victim victim) {
    for (const FaultCase& fault : kFaultCases) {
      uint64_t call = 0;
      for (;; ++call) {
        SCOPED_TRACE(std::string(fault.name) + " at call " + std::to_string(call));
        ASSERT_LT(call, 500u);
        if (!RunWithFault(victim, fault, call)) break;
        if (HasFailure()) return;
      }
      EXPECT_GT(call, 8u) << fault.name;
    }
  }
};

TEST_P(SharedFaultTest, EveryCallOfTheLeaderMayFailOrBeTheLast) { RunAll(Victim::kLeader); }
TEST_P(SharedFaultTest, EveryCallOfTheFirstNodeMayFailOrBeTheLast) { RunAll(Victim::kFirstNode); }
TEST_P(SharedFaultTest, EveryCallOfTheLastNodeMayFailOrBeTheLast) { RunAll(Victim::kSecondNode); }

// With sinks that the leader can reach, and with sinks that only their own node can.
INSTANTIATE_TEST_SUITE_P(Cleaners, SharedFaultTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "AtTheLeader" : "AtTheNodes";
});

}  // namespace
}  // namespace cairn::checkpoint::shared
