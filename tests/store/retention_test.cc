// SPDX-License-Identifier: Apache-2.0
//
// Retention, on every kind of place.
#include "checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "test_places.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlacedJob;
using testing::PlaceKind;

class RetentionTest : public testing::PlaceTest {
 protected:
  /// Ids of the objects of that name, ascending.
  std::vector<uint64_t> Have(const std::string& name) {
    std::vector<uint64_t> ids;
    const auto found = job_.place().objects()->List("nodes/");
    for (const env::ObjectInfo& object : *found) {
      if (object.key.ends_with("/" + name)) ids.push_back(IdOfKey(object.key)->value);
    }
    return ids;
  }
  base::CheckpointId Checkpoint(bool change = true) {
    if (change) {
      ++changes_;
      job_.Put(0, "key" + std::to_string(changes_ % 5), "change " + std::to_string(changes_));
    }
    Result<PersistedCut> done = job_.Checkpoint();
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_TRUE(job_.retired.ok()) << job_.retired.status().ToString();
    return done.ok() ? done->id : base::CheckpointId();
  }
  void Start() {
    const Status started = job_.Start(1);
    ASSERT_TRUE(started.ok()) << started.ToString();
  }
  void FillAndStart() {
    Start();
    for (int i = 0; i < 5000; ++i) job_.Put(0, "row" + std::to_string(i), "some value of a row");
  }

  PlacedJob job_{GetParam()};
  int changes_ = 0;
};

TEST_P(RetentionTest, KeepsTheNewestCutsAndTheObjectsTheyReference) {
  FillAndStart();
  for (int i = 0; i < 5; ++i) Checkpoint();
  EXPECT_THAT(Have("manifest.json"), ElementsAre(3, 4, 5));
  EXPECT_THAT(Have("state.arrow"), ElementsAre(1, 2, 3, 4, 5));  // a base and its deltas
}

TEST_P(RetentionTest, AnObjectGoesWithTheLastCutThatReferencesIt) {
  FillAndStart();
  while (job_.store->latest_commit().value < 10) Checkpoint();  // the tenth is a base again
  EXPECT_THAT(Have("state.arrow"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  Checkpoint();
  Checkpoint();
  EXPECT_THAT(Have("state.arrow"), ElementsAre(10, 11, 12));
  EXPECT_THAT(Have("manifest.json"), ElementsAre(10, 11, 12));
  EXPECT_EQ(job_.retired->objects_deleted, 9u);
  EXPECT_GT(job_.retired->bytes_deleted, 0u);
  Start();
  EXPECT_EQ(job_.Contents(0), job_.model(0));
}

TEST_P(RetentionTest, OneRetainedCutIsEnoughToComeBack) {
  job_.options.retained = 1;
  FillAndStart();
  for (int i = 0; i < 12; ++i) {
    Checkpoint();
    EXPECT_EQ(Have("manifest.json").size(), 1u);
  }
  Start();
  EXPECT_EQ(job_.Contents(0), job_.model(0));
}

TEST_P(RetentionTest, FewerRetainedThanBeforeIsCaughtUpWith) {
  job_.options.retained = 8;
  FillAndStart();
  for (int i = 0; i < 8; ++i) Checkpoint();
  EXPECT_EQ(Have("manifest.json").size(), 8u);
  job_.options.retained = 2;
  Start();
  Checkpoint();
  EXPECT_EQ(Have("manifest.json").size(), 2u);
}

TEST_P(RetentionTest, CutsWithoutAnObjectComeAndGo) {
  FillAndStart();
  Checkpoint();
  for (int i = 0; i < 6; ++i) Checkpoint(false);
  EXPECT_THAT(Have("state.arrow"), ElementsAre(1));
  EXPECT_EQ(Have("manifest.json").size(), 3u);
}

TEST_P(RetentionTest, ADamagedRetainedManifestStopsAllDeletion) {
  FillAndStart();
  for (int i = 0; i < 4; ++i) Checkpoint();
  job_.Stop();
  job_.place().FlipByte(ManifestKey(base::CheckpointId(3)), 20);
  Start();
  const auto before = Have("state.arrow");
  job_.Put(0, "key0", "x");
  ASSERT_TRUE(job_.Checkpoint().ok());
  EXPECT_EQ(job_.retired.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(job_.retired.status().message(), HasSubstr("checkpoint 3"));
  for (uint64_t id : before) {
    EXPECT_THAT(Have("state.arrow"), ::testing::Contains(id));
  }
}

TEST_P(RetentionTest, WhatAnInterruptedDeletionLeftGoesAfterTheNextStart) {
  job_.options.retained = 1;
  FillAndStart();
  Checkpoint();
  Checkpoint();
  job_.Stop();
  // As if the process had died between the head and the deletion of checkpoint 1's manifest, and a
  // failed attempt 3 had left its object behind.
  Start();
  job_.place().Write(ManifestKey(base::CheckpointId(3)), "left behind");
  job_.place().Write(StateObjectKey(base::CheckpointId(3)), "left behind");
  job_.Stop();
  Start();  // above the latest commit: undecided, removed at once
  EXPECT_THAT(Have("manifest.json"), ElementsAre(2));
  const base::CheckpointId latest = Checkpoint();
  job_.place().Write(StateObjectKey(base::CheckpointId(4)), "left behind");
  job_.Stop();
  Start();  // below it: nominated, removed by the books
  Checkpoint();
  EXPECT_THAT(Have("state.arrow"), ::testing::Not(::testing::Contains(4u)));
  EXPECT_THAT(Have("state.arrow"), ::testing::Contains(latest.value));
  Start();
  EXPECT_EQ(job_.Contents(0), job_.model(0));
}

INSTANTIATE_TEST_SUITE_P(Places, RetentionTest,
                         ::testing::Values(PlaceKind::kDirectory, PlaceKind::kMemory,
                                           PlaceKind::kS3),
                         testing::PlaceName);

}  // namespace
}  // namespace cairn::checkpoint
