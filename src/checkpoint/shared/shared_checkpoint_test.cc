// SPDX-License-Identifier: Apache-2.0
//
// The protocol of several participants when nothing fails.
#include <gtest/gtest.h>

#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using testing::Cluster;
using testing::World;

TEST(SharedCheckpointTest, TwoParticipantsCommitOneCutAndStartOverFromIt) {
  World world(1);
  {
    Cluster cluster(&world, {1, 2});
    ASSERT_TRUE(cluster.Start().ok());
    const Status first = cluster.Checkpoint(3);
    ASSERT_TRUE(first.ok()) << first.ToString();
    const Status second = cluster.Checkpoint(2, 2);
    ASSERT_TRUE(second.ok()) << second.ToString();
  }
  const format::SharedHead head = world.Head();
  ASSERT_TRUE(head.latest_commit);
  EXPECT_EQ(head.latest_commit->id.value, 2u);
  const auto counts = world.CountsOf(*head.latest_commit);
  EXPECT_EQ(counts.at(0), 5u);
  EXPECT_EQ(counts.at(1), 3u);
  EXPECT_EQ(world.Published(), World::RowsOf(counts));

  Cluster next(&world, {1, 2});
  next.assignment.version = 10;
  next.Assign();
  ASSERT_TRUE(next.Start().ok());
  EXPECT_EQ(next.processes[1]->counts.at(0), 5u);
  const Status third = next.Checkpoint(1);
  ASSERT_TRUE(third.ok()) << third.ToString();
  EXPECT_EQ(world.Published(), World::RowsOf(world.CountsOf(*world.Head().latest_commit)));
}

TEST(SharedCheckpointTest, AShareThatDidNotChangeRefersToOlderObjects) {
  World world(2);
  Cluster cluster(&world, {1, 2});
  ASSERT_TRUE(cluster.Start().ok());
  ASSERT_TRUE(cluster.Checkpoint(1).ok());
  ASSERT_TRUE(cluster.Checkpoint(1, 4).ok());
  const auto cut = LoadCut(world.seams(), world.place(), *world.Head().latest_commit);
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  for (const auto& [node, manifest] : (*cut)->manifests) {
    ASSERT_EQ(manifest->referenced_chunks.size(), 1u);
    EXPECT_EQ(manifest->referenced_chunks[0].ref_count, 3u);
    EXPECT_EQ(manifest->referenced_chunks[0].chunk.participant_id, node);
  }
}

TEST(SharedCheckpointTest, RetirementDeletesWhatNoKeptCutNamesAndNothingElse) {
  World world(3);
  Cluster cluster(&world, {1, 2});
  ASSERT_TRUE(cluster.Start().ok());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(cluster.Checkpoint(1, i % 2 == 0 ? 4 : 2).ok());
    const auto retired = cluster.leader->leader.Retire();
    ASSERT_TRUE(retired.ok()) << retired.status().ToString();
    EXPECT_EQ(retired->retired.value, i < 2 ? 0u : static_cast<uint64_t>(i - 1));
    for (const format::IndexReference& kept : world.Head().Cuts()) world.CountsOf(kept);
  }
  ASSERT_TRUE(cluster.leader->leader.Sweep().ok());
  EXPECT_EQ(world.Leaks(), std::vector<std::string>());
  EXPECT_EQ(world.Head().Cuts().size(), 2u);
  EXPECT_EQ(world.Head().floor.value, 4u);
}

}  // namespace
}  // namespace cairn::checkpoint::shared
