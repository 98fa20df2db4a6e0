// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/job_testing.h"
#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestJob;

class RetentionTest : public ::testing::Test {
 protected:
  /// Ids with a file of that name, ascending.
  std::vector<uint64_t> Have(const std::string& name) {
    std::vector<uint64_t> ids;
    for (const auto& [path, bytes] : job_.disk().AllFiles()) {
      if (!path.ends_with("/" + name)) continue;
      ids.push_back(IdOfKey(path.substr(job_.directory.size() + 1))->value);
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

  TestJob job_;
  int changes_ = 0;
};

// Case 32: deleting goes on after failures, and checkpoints do not wait for it.
TEST_F(RetentionTest, Case32FailingDeletesStarveNoCheckpointAndAreTriedAgain) {
  job_.options.retained = 1;
  FillAndStart();
  Checkpoint();
  for (int i = 0; i < 12; ++i) {
    job_.Put(0, "key", std::to_string(i));
    Result<PersistedCut> persisted = job_.Persist();
    ASSERT_TRUE(persisted.ok());
    ASSERT_TRUE(job_.Commit(*persisted).ok());
    job_.files.Arm({.call = 0, .kind = env::FaultKind::kFail, .for_ever = true});
    EXPECT_EQ(job_.store->Retire().status().code(), StatusCode::kUnavailable);
    job_.files.Disarm();
  }
  EXPECT_EQ(Have("manifest.json").size(), 13u);
  ASSERT_TRUE(job_.store->Retire().ok());
  EXPECT_EQ(Have("manifest.json").size(), 1u);
}

// Cut short after every call of a retention that has much to delete, the place is whole, and the
// next start deletes what was left.
TEST_F(RetentionTest, APowerCutInEveryPhaseLeavesEveryRetainedCutReadable) {
  for (uint64_t call = 0;; ++call) {
    ASSERT_LT(call, 500u);
    TestJob job;
    ASSERT_TRUE(job.Start(1).ok());
    for (int i = 0; i < 2000; ++i) job.Put(0, "row" + std::to_string(i), "some value");
    for (int i = 0; i < 11; ++i) {
      job.Put(0, "key", std::to_string(i));
      ASSERT_TRUE(job.Checkpoint().ok());
    }
    job.Put(0, "key", "last");
    Result<PersistedCut> persisted = job.Persist();
    ASSERT_TRUE(persisted.ok());
    ASSERT_TRUE(job.Commit(*persisted).ok());
    job.files.Arm({.call = call, .kind = env::FaultKind::kCallback, .after = [&] {
                     job.disk().PowerCut(env::Unsynced::kRandom, call);
                   }});
    (void)job.store->Retire();
    const bool fired = job.files.fired();
    job.Stop();
    job.disk().PowerOn();
    job.files.Disarm();
    for (uint64_t id : {10, 11, 12}) {
      ASSERT_TRUE(job.Start(1, base::CheckpointId(id)).ok()) << "call " << call << ", cut " << id;
      ASSERT_EQ(job.Contents(0), (*job.ModelAt(base::CheckpointId(id)))[0]);
    }
    ASSERT_TRUE(job.Start(1).ok());
    ASSERT_TRUE(job.store->Retire().ok());
    for (const auto& [path, bytes] : job.disk().AllFiles()) {
      const auto id = IdOfKey(path.substr(job.directory.size() + 1));
      if (id) {
        EXPECT_GE(id->value, 10u) << path << " after a cut at call " << call;
      }
    }
    if (!fired) break;
  }
}

}  // namespace
}  // namespace cairn::checkpoint
