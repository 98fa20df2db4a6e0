// SPDX-License-Identifier: Apache-2.0
//
// Faults that others have met where several processes reach one place (known faults 13, 25, 29 and
// 38), and heads that two processes write byte for byte alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/bucket_testing.h"
#include "checkpoint/layout.h"
#include "checkpoint/lease.h"
#include "checkpoint/repair.h"

namespace cairn::checkpoint {
namespace {

using env::ObjectFault;
using testing::FoundIn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Process;
using testing::RowsOf;

class BucketRaceTest : public ::testing::Test {
 protected:
  /// Cuts of the head of which an object or the manifest is missing.
  std::vector<std::string> Incomplete() {
    std::vector<std::string> problems;
    const Result<Place> place = ReadPlace(bucket_.get());
    EXPECT_TRUE(place.ok()) << place.status().ToString();
    for (const format::CutReference& cut : place->Cuts()) {
      const auto manifest = ReadManifest(bucket_.get(), *place, cut);
      if (!manifest.ok()) {
        problems.push_back(manifest.status().ToString());
        continue;
      }
      for (const StoredObject& object : StoredObjectsOf(**manifest)) {
        const Status there = CheckObject(bucket_.get(), object);
        if (!there.ok()) problems.push_back(there.ToString());
      }
    }
    return problems;
  }
  bool Has(base::CheckpointId id) {
    return bucket_->Head(ManifestKey(id)).ok() || bucket_->Head(StateObjectKey(id)).ok();
  }

  std::shared_ptr<env::MemoryObjectStore> bucket_ = std::make_shared<env::MemoryObjectStore>();
};

// While any request of a checkpoint up to the swap of the head is held, nothing says that the
// checkpoint is there; and when the process dies right then, the one before is the latest.
TEST_F(BucketRaceTest, Case13AHeldWriteIsNoCheckpointAndADeathThenLeavesTheOneBefore) {
  int before_the_head = 0;
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 100u);
    SCOPED_TRACE("held before request " + std::to_string(n));
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process process(bucket_, 1);
    ASSERT_TRUE(process.job.Start(1).ok());
    process.PutMany(20, "old");
    ASSERT_TRUE(process.job.Checkpoint().ok());
    const std::string hint = bucket_->Get(std::string(kLatestKey), 100)->bytes;
    process.PutMany(20, "new");
    testing::Rows while_held;
    std::string hint_then;
    process.connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                              while_held = FoundIn(bucket_.get());
                              hint_then = bucket_->Get(std::string(kLatestKey), 100)->bytes;
                            }});
    ASSERT_TRUE(process.job.Checkpoint().ok());
    if (!process.connection.fired()) break;
    EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(20, "new"));
    const std::vector<std::string> trace = process.connection.trace();
    const auto head = std::find(trace.begin(), trace.end(), "swap " + std::string(kHeadKey));
    ASSERT_NE(head, trace.end());
    if (static_cast<uint64_t>(head - trace.begin()) < n) {
      EXPECT_EQ(while_held, RowsOf(20, "new"));  // after the head: retention, hints
      continue;
    }
    ++before_the_head;
    EXPECT_EQ(while_held, RowsOf(20, "old"));
    EXPECT_EQ(hint_then, hint);
  }
  EXPECT_GE(before_the_head, 3);
}

// Case 25: a cut that references an older object is persisted, not published; another process
// prunes; then it is published.
TEST_F(BucketRaceTest, Case25AHeldPublicationNeverNamesWhatAnotherProcessHasPruned) {
  for (const bool published_first : {false, true}) {
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process process(bucket_, 1);
    process.job.options.retained = 1;
    ASSERT_TRUE(process.job.Start(1).ok());
    process.PutMany(200, "base");
    ASSERT_TRUE(process.job.Checkpoint().ok());
    process.PutMany(5, "delta");
    const Result<PersistedCut> held = process.job.Persist();
    ASSERT_TRUE(held.ok());
    ASSERT_GT(held->bytes_reused, 0u);
    if (published_first) {
      ASSERT_TRUE(process.job.Commit(*held).ok());
    }
    ASSERT_TRUE(CollectGarbage(bucket_.get()).ok());
    {
      Process other(bucket_, 2);  // takes over, writes all anew, and drops what was before
      other.job.options.retained = 1;
      ASSERT_TRUE(other.job.Start(1).ok());
      for (int i = 0; i < 10; ++i) {
        other.PutMany(200, "other " + std::to_string(i));
        ASSERT_TRUE(other.job.Checkpoint().ok());
      }
    }
    if (!published_first) {
      const Status published = process.job.Commit(*held);
      EXPECT_EQ(published.code(), StatusCode::kFenced) << published.ToString();
    }
    EXPECT_THAT(Incomplete(), IsEmpty());
    EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(200, "other 9"));
  }
}

// Case 29: objects that were uploaded and whose cut is not decided look like orphans. In the one
// order the sweep comes first and the cut is refused, in the other the cut comes first and stays.
TEST_F(BucketRaceTest, Case29ASweepAndALateCommitInEitherOrder) {
  for (const bool sweep_first : {true, false}) {
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process process(bucket_, 1);
    ASSERT_TRUE(process.job.Start(1).ok());
    process.PutMany(20, "old");
    ASSERT_TRUE(process.job.Checkpoint().ok());
    process.PutMany(20, "late");
    const Result<PersistedCut> late = process.job.Persist();
    ASSERT_TRUE(late.ok());
    process.job.clock.Advance(600'000);  // no age protects or condemns it
    if (sweep_first) {
      ASSERT_EQ(CollectGarbage(bucket_.get())->objects, 2u);
      const Status refused = process.job.Commit(*late);
      EXPECT_EQ(refused.code(), StatusCode::kFenced);
      EXPECT_FALSE(Has(late->id));
    } else {
      ASSERT_TRUE(process.job.Commit(*late).ok());
      ASSERT_EQ(CollectGarbage(bucket_.get())->objects, 0u);
    }
    EXPECT_THAT(Incomplete(), IsEmpty());
    EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(20, sweep_first ? "old" : "late"));
  }
}

// A collector that has swapped the head and is paused before it lists or deletes.
TEST_F(BucketRaceTest, ACollectorThatIsSucceededRemovesNothingOfItsSuccessor) {
  int succeeded = 0;
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 100u);
    SCOPED_TRACE("asleep before request " + std::to_string(n));
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    {
      Process first(bucket_, 1);
      ASSERT_TRUE(first.job.Start(1).ok());
      first.PutMany(20, "old");
      ASSERT_TRUE(first.job.Checkpoint().ok());
    }
    Process next(bucket_, 2);
    env::FaultObjectStore collector(bucket_);
    collector.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                     ASSERT_TRUE(next.job.Start(1).ok());
                     next.PutMany(20, "next");
                     ASSERT_TRUE(next.job.Checkpoint().ok());
                   }});
    succeeded += CollectGarbage(&collector).ok() ? 1 : 0;
    if (!collector.fired()) break;
    EXPECT_THAT(Incomplete(), IsEmpty());
    EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(20, "next"));
  }
  EXPECT_GT(succeeded, 1);
}

/// Wakes up only after its time to live: it renews nothing by itself.
LeaseOptions PausedHolder(env::Clock* clock, const char* name) {
  LeaseOptions options;
  options.holder = {"elsewhere", 7, 1, name};
  options.clock = clock;
  options.renew_ms = 3'600'000;
  return options;
}

// Case 38: the writer is paused for an hour in the middle of a checkpoint; its lease is over.
TEST_F(BucketRaceTest, Case38APausedWriterIsRefusedAndWhatItUploadedIsSwept) {
  env::ManualClock clock;
  Process paused(bucket_, 1);
  const auto lease = AcquireLease(bucket_.get(), PausedHolder(&clock, "a"));
  ASSERT_TRUE(lease.ok());
  ASSERT_TRUE(paused.job.Start(1).ok());
  paused.PutMany(20, "before");
  ASSERT_TRUE(paused.job.Checkpoint().ok());
  paused.PutMany(20, "paused");
  const Result<PersistedCut> held = paused.job.Persist();
  ASSERT_TRUE(held.ok());
  clock.Advance(3'600'000);

  const auto taken_over = AcquireLease(bucket_.get(), PausedHolder(&clock, "b"));
  ASSERT_TRUE(taken_over.ok()) << taken_over.status().ToString();
  Process next(bucket_, 2);
  ASSERT_TRUE(next.job.Start(1).ok());
  EXPECT_FALSE(Has(held->id)) << "what the paused writer uploaded is still there";
  next.PutMany(20, "next");
  const Result<PersistedCut> published = next.job.Checkpoint();
  ASSERT_TRUE(published.ok());
  const std::string manifest = bucket_->Get(ManifestKey(published->id), 1 << 20)->bytes;

  const Status refused = paused.job.Commit(*held);
  EXPECT_EQ(refused.code(), StatusCode::kFenced);
  EXPECT_THAT(refused.message(), HasSubstr("another process"));
  EXPECT_THAT(refused.message(), HasSubstr("checkpoint " + std::to_string(published->id.value)));
  EXPECT_EQ(paused.job.Checkpoint().status().code(), StatusCode::kFenced);
  EXPECT_EQ(bucket_->Get(ManifestKey(published->id), 1 << 20)->bytes, manifest);
  EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(20, "next"));
  EXPECT_THAT(Incomplete(), IsEmpty());
}

// Two processes that open one place at the same moment write heads of equal bytes. The answer of
// the one is lost, and what it reads back looks like its own.
TEST_F(BucketRaceTest, EqualHeadsOfTwoProcessesAreNotTakenForOnesOwn) {
  int won = 0;
  for (const bool new_place : {false, true}) {
    for (uint64_t n = 0;; ++n) {
      ASSERT_LT(n, 100u);
      SCOPED_TRACE("the answer to request " + std::to_string(n) + " is lost" +
                   (new_place ? ", in a new place" : ""));
      bucket_ = std::make_shared<env::MemoryObjectStore>();
      {
        Process first(bucket_, 1);
        ASSERT_TRUE(first.job.Start(1).ok());
        first.PutMany(20, "old");
        if (!new_place) {
          ASSERT_TRUE(first.job.Checkpoint().ok());
        }
      }
      if (new_place) {
        ASSERT_TRUE(bucket_->Delete(std::string(kHeadKey)).ok());
      }
      Process other(bucket_, 2);
      auto loses = std::make_shared<env::FaultObjectStore>(bucket_);
      Process process(loses, 3);
      loses->Arm({.call = n, .kind = ObjectFault::kLostBefore});
      process.connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                                ASSERT_TRUE(other.job.Start(1).ok());
                              }});
      const Status started = process.job.Start(1);
      if (!process.connection.fired()) break;
      if (!started.ok()) continue;  // said so, and holds nothing
      EXPECT_NE(process.job.store->NextId()->value, other.job.store->NextId()->value)
          << "one id was given to both";
      other.PutMany(20, "other");
      const bool others = other.job.Checkpoint().ok();
      process.PutMany(20, "new");
      const bool ours = process.job.Checkpoint().ok();
      EXPECT_NE(ours, others) << "both or neither committed";
      EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(20, ours ? "new" : "other"));
      EXPECT_THAT(Incomplete(), IsEmpty());
      won += ours ? 1 : 0;
    }
  }
  EXPECT_GT(won, 0) << "no answer that was lost was that of the head";
}

}  // namespace
}  // namespace cairn::checkpoint
