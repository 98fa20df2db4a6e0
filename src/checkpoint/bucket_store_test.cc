// SPDX-License-Identifier: Apache-2.0
//
// The commit protocol in a bucket: no locks, answers that get lost, and former owners that wake up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/bucket_testing.h"
#include "checkpoint/layout.h"
#include "checkpoint/lease.h"
#include "checkpoint/retention.h"
#include "format/store_records.h"

namespace cairn::checkpoint {
namespace {

using env::ObjectFault;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::Process;
using testing::Rows;
using testing::RowsOf;

class BucketStoreTest : public ::testing::Test {
 protected:
  Rows Found() { return testing::FoundIn(bucket_.get()); }

  /// Objects below nodes/ that no retained cut references.
  std::vector<std::string> Leaks() {
    Result<Place> place = ReadPlace(bucket_.get());
    EXPECT_TRUE(place.ok());
    std::set<std::string> needed;
    for (const format::CutReference& cut : place->Cuts()) {
      needed.insert(ManifestKey(cut.id));
      const auto manifest = ReadManifest(bucket_.get(), *place, cut);
      EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
      if (!manifest.ok()) continue;
      needed.insert(StateObjectKey((*manifest)->checkpoint_id));
      for (const auto& chunk : (*manifest)->referenced_chunks) {
        needed.insert(StateObjectKey(chunk.chunk.checkpoint_id));
      }
    }
    std::vector<std::string> leaks;
    const auto objects = bucket_->List("nodes/");
    for (const env::ObjectInfo& object : *objects) {
      if (!needed.contains(object.key)) leaks.push_back(object.key);
    }
    return leaks;
  }

  std::shared_ptr<env::MemoryObjectStore> bucket_ = std::make_shared<env::MemoryObjectStore>();
};

// The second process opens while the first is about to commit. Wherever the commit falls, one of
// the two has its way whole: no cut that the head names is ever missing an object.
TEST_F(BucketStoreTest, AFormerOwnerThatCommitsDuringATakeoverEitherCountsOrIsFenced) {
  int counted = 0;
  int fenced = 0;
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 200u);
    SCOPED_TRACE("commit before call " + std::to_string(n) + " of the takeover");
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process former(bucket_, 1);
    ASSERT_TRUE(former.job.Start(1).ok());
    former.PutMany(20, "old");
    ASSERT_TRUE(former.job.Checkpoint().ok());
    former.PutMany(20, "new");
    Result<PersistedCut> persisted = former.job.Persist();
    ASSERT_TRUE(persisted.ok());

    Status committed = Status::Internal("not tried");
    Process next(bucket_, 2);
    next.connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                           committed = former.job.Commit(*persisted);
                           (void)former.job.store->Retire();
                         }});
    const Status opened = next.job.Start(1);
    const bool fired = next.connection.fired();
    if (!fired) {
      ASSERT_TRUE(opened.ok());
      committed = former.job.Commit(*persisted);
      EXPECT_EQ(committed.code(), StatusCode::kFenced);
    }
    if (committed.ok()) {
      ++counted;
      EXPECT_EQ(Found(), RowsOf(20, "new"));
    } else {
      ++fenced;
      EXPECT_EQ(committed.code(), StatusCode::kFenced) << committed.ToString();
      EXPECT_EQ(Found(), RowsOf(20, "old"));
    }
    if (opened.ok()) {
      EXPECT_EQ(next.job.Contents(0), committed.ok() ? RowsOf(20, "new") : RowsOf(20, "old"));
      next.PutMany(20, "newer");
      ASSERT_TRUE(next.job.Checkpoint().ok());
      EXPECT_EQ(Found(), RowsOf(20, "newer"));
    } else {
      EXPECT_EQ(opened.code(), StatusCode::kFenced) << opened.ToString();
    }
    if (!fired) break;
  }
  EXPECT_GT(counted, 0);
  EXPECT_GT(fenced, 0);
}

// A process that was paused in the middle of a checkpoint wakes up after another has taken over and
// committed twice.
TEST_F(BucketStoreTest, AZombieHarmsNothingWhereverItWakesUp) {
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 200u);
    SCOPED_TRACE("asleep before call " + std::to_string(n) + " of the checkpoint");
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process zombie(bucket_, 1);
    zombie.job.options.retained = 1;
    ASSERT_TRUE(zombie.job.Start(1).ok());
    zombie.PutMany(20, "old");
    ASSERT_TRUE(zombie.job.Checkpoint().ok());
    zombie.PutMany(20, "zombie");

    Process next(bucket_, 2);
    next.job.options.retained = 1;
    zombie.connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                             ASSERT_TRUE(next.job.Start(1).ok());
                             next.PutMany(20, "next");
                             ASSERT_TRUE(next.job.Checkpoint().ok());
                             next.PutMany(10, "next again");
                             ASSERT_TRUE(next.job.Checkpoint().ok());
                           }});
    Result<PersistedCut> done = zombie.job.Checkpoint();
    const bool fired = zombie.connection.fired();
    if (!fired) {
      EXPECT_TRUE(done.ok());
      break;
    }
    Rows expected = RowsOf(20, "next");
    for (auto& [key, value] : RowsOf(10, "next again")) expected[key] = value;
    EXPECT_EQ(Found(), expected);
    EXPECT_EQ(next.job.Contents(0), expected);
    // What the zombie wrote after it was fenced is found by the next opening.
    Process last(bucket_, 3);
    last.job.options.retained = 1;
    ASSERT_TRUE(last.job.Start(1).ok());
    last.PutMany(20, "last");
    ASSERT_TRUE(last.job.Checkpoint().ok());
    EXPECT_EQ(Found(), RowsOf(20, "last"));
    EXPECT_THAT(Leaks(), ::testing::IsEmpty());
  }
}

// The same while it opens: between taking its ids and listing what is left over it was succeeded,
// and all that its successor has committed is new to it.
TEST_F(BucketStoreTest, AProcessThatIsSucceededWhileItOpensRemovesNothingOfItsSuccessor) {
  int succeeded = 0;
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 200u);
    SCOPED_TRACE("asleep before call " + std::to_string(n) + " of opening");
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process first(bucket_, 1);
    ASSERT_TRUE(first.job.Start(1).ok());
    first.PutMany(20, "old");
    ASSERT_TRUE(first.job.Checkpoint().ok());

    Process zombie(bucket_, 2);
    Process next(bucket_, 3);
    zombie.connection.Arm({.call = n, .kind = ObjectFault::kInterlude, .interlude = [&] {
                             ASSERT_TRUE(next.job.Start(1).ok());
                             next.PutMany(20, "next");
                             ASSERT_TRUE(next.job.Checkpoint().ok());
                           }});
    succeeded += zombie.job.Start(1).ok() ? 1 : 0;
    if (!zombie.connection.fired()) break;
    EXPECT_EQ(Found(), RowsOf(20, "next"));
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(succeeded, 0);
}

// A swap that the caller has given up is on its way still. Where it may land later, the caller does
// not believe a head that has not moved yet.
TEST_F(BucketStoreTest, ASwapThatLandsLateNeverNamesACutThatIsGone) {
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 200u);
    SCOPED_TRACE("late call " + std::to_string(n));
    bucket_ = std::make_shared<env::MemoryObjectStore>();
    Process process(bucket_, 1);
    ASSERT_TRUE(process.job.Start(1).ok());
    process.PutMany(20, "old");
    ASSERT_TRUE(process.job.Checkpoint().ok());
    process.PutMany(20, "new");
    process.connection.Arm({.call = n, .kind = ObjectFault::kLate});
    const Result<PersistedCut> done = process.job.Checkpoint();
    if (!process.connection.fired()) break;
    const Status landed = process.connection.Land();
    EXPECT_THAT(landed.code(), AnyOf(StatusCode::kNotFound, StatusCode::kFenced))
        << "call " << n << ": " << landed.ToString();
    EXPECT_EQ(Found(), RowsOf(20, done.ok() ? "new" : "old"));
    process.PutMany(20, "newer");
    ASSERT_TRUE(process.job.Checkpoint().ok());
    EXPECT_EQ(Found(), RowsOf(20, "newer"));
  }
}

// Where no repetition gets an answer either, nothing of the cut is removed.
TEST_F(BucketStoreTest, ASwapThatMayStillLandLeavesItsCutInDoubt) {
  Process process(bucket_, 1);
  ASSERT_TRUE(process.job.Start(1).ok());
  process.PutMany(20, "old");
  ASSERT_TRUE(process.job.Checkpoint().ok());
  process.PutMany(20, "new");
  const Result<PersistedCut> persisted = process.job.Persist();
  ASSERT_TRUE(persisted.ok());
  process.connection.Arm({.call = 0, .kind = ObjectFault::kLate, .for_ever = true});
  const Status committed = process.job.Commit(*persisted);
  EXPECT_EQ(committed.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(process.job.store->NextId().ok()) << "it goes on as if the old cut stood";
  EXPECT_TRUE(process.connection.Land().ok());
  EXPECT_EQ(Found(), RowsOf(20, "new"));
}

// Every call of two checkpoints and a restart fails in every way: what is found is the old cut or
// the new one, the process goes on, and nothing is left over.
TEST_F(BucketStoreTest, ALostAnswerAnywhereLeavesTheOldCutOrTheNewOne) {
  for (const ObjectFault kind : {ObjectFault::kLostBefore, ObjectFault::kLostAfter,
                                 ObjectFault::kRefused, ObjectFault::kShortRead}) {
    for (const bool for_ever : {false, true}) {
      for (uint64_t n = 0;; ++n) {
        ASSERT_LT(n, 200u);
        SCOPED_TRACE("fault " + std::to_string(static_cast<int>(kind)) +
                     (for_ever ? " from call " : " at call ") + std::to_string(n));
        bucket_ = std::make_shared<env::MemoryObjectStore>();
        Process process(bucket_, 1);
        process.job.options.retained = 1;
        ASSERT_TRUE(process.job.Start(1).ok());
        process.PutMany(20, "old");
        ASSERT_TRUE(process.job.Checkpoint().ok());
        process.PutMany(20, "new");
        process.connection.Arm({.call = n, .kind = kind, .for_ever = for_ever});
        const Result<PersistedCut> done = process.job.Checkpoint();
        const bool fired = process.connection.fired();
        process.connection.Disarm();
        if (done.ok()) {
          EXPECT_EQ(Found(), RowsOf(20, "new"));
        } else {
          EXPECT_THAT(Found(), AnyOf(Eq(RowsOf(20, "old")), Eq(RowsOf(20, "new"))));
        }
        // A new process finds one of the two and goes on; the sweep leaves nothing over.
        Process next(bucket_, 2);
        next.job.options.retained = 1;
        ASSERT_TRUE(next.job.Start(1).ok());
        next.PutMany(20, "last");
        ASSERT_TRUE(next.job.Checkpoint().ok());
        EXPECT_EQ(Found(), RowsOf(20, "last"));
        EXPECT_THAT(Leaks(), ::testing::IsEmpty());
        if (!fired || ::testing::Test::HasFailure()) break;
      }
    }
  }
}

TEST_F(BucketStoreTest, AFaultWhileOpeningIsReportedAndTheNextOpeningWorks) {
  for (const ObjectFault kind :
       {ObjectFault::kLostBefore, ObjectFault::kLostAfter, ObjectFault::kRefused}) {
    for (uint64_t n = 0;; ++n) {
      ASSERT_LT(n, 200u);
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(kind)) + " at call " +
                   std::to_string(n));
      bucket_ = std::make_shared<env::MemoryObjectStore>();
      {
        Process first(bucket_, 1);
        first.connection.Arm({.call = n, .kind = kind});
        (void)first.job.Start(1);  // also the making of a place is cut short
      }
      Process second(bucket_, 2);
      const Status started = second.job.Start(1);
      ASSERT_TRUE(started.ok()) << started.ToString();
      second.PutMany(20, "old");
      ASSERT_TRUE(second.job.Checkpoint().ok());
      Process third(bucket_, 3);
      third.connection.Arm({.call = n, .kind = kind});
      const Status reopened = third.job.Start(1);
      if (reopened.ok()) {
        EXPECT_EQ(third.job.Contents(0), RowsOf(20, "old"));
      }
      EXPECT_EQ(Found(), RowsOf(20, "old"));
      if (!third.connection.fired()) break;
    }
  }
}

/// Time that passes only in Sleep; each sleep lets the other side act.
class WatchedClock final : public env::Clock {
 public:
  int64_t UnixMillis() const override { return 0; }
  int64_t MonotonicNanos() const override { return now_ms * 1'000'000; }
  void SleepMillis(int64_t ms) override {
    now_ms += ms;
    if (on_sleep) on_sleep();
  }
  int64_t now_ms = 0;
  std::function<void()> on_sleep;
};

class LeaseTest : public ::testing::Test {
 protected:
  LeaseOptions OfHolder(const std::string& name, const std::string& machine = "elsewhere") {
    LeaseOptions options;
    options.holder = {machine, 7, 1, name};
    options.clock = &clock_;
    options.renew_ms = 3'600'000;  // the test renews by hand
    return options;
  }
  format::Lease Record() {
    return *format::ParseLease(bucket_.Get(std::string(kLeaseKey), 1 << 16)->bytes);
  }
  void Write(const format::Lease& lease) {
    const auto there = bucket_.Get(std::string(kLeaseKey), 1 << 16);
    ASSERT_TRUE(bucket_
                    .CompareAndSwap(std::string(kLeaseKey),
                                    there.ok() ? std::optional(there->version) : std::nullopt,
                                    *format::SerializeLease(lease))
                    .ok());
  }

  env::MemoryObjectStore bucket_;
  WatchedClock clock_;
};

TEST_F(LeaseTest, OneThatWasGivenBackIsTakenAtOnce) {
  {
    ASSERT_TRUE(AcquireLease(&bucket_, OfHolder("a")).ok());
  }
  EXPECT_TRUE(Record().released);
  auto second = AcquireLease(&bucket_, OfHolder("b"));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(clock_.now_ms, 0);
  EXPECT_EQ(Record().holder, "b");
  EXPECT_EQ(Record().term, 2u);
}

TEST_F(LeaseTest, AHolderThatRenewsIsNamedAndKeepsIt) {
  auto first = AcquireLease(&bucket_, OfHolder("process 7 on build-3"));
  ASSERT_TRUE(first.ok());
  clock_.on_sleep = [&] {
    format::Lease lease = Record();
    ++lease.renewals;
    Write(lease);
  };
  const Status second = AcquireLease(&bucket_, OfHolder("b")).status();
  EXPECT_EQ(second.code(), StatusCode::kFenced);
  EXPECT_THAT(second.ToString(), HasSubstr("process 7 on build-3"));
  EXPECT_LT(clock_.now_ms, 5'000);
}

TEST_F(LeaseTest, AHolderThatDoesNotMoveLosesItAfterItsTimeToLive) {
  format::Lease lease;
  lease.holder = "gone";
  lease.machine = "elsewhere";
  lease.ttl_ms = 10'000;
  Write(lease);
  ASSERT_TRUE(AcquireLease(&bucket_, OfHolder("b")).ok());
  EXPECT_GE(clock_.now_ms, 10'000);
  EXPECT_LT(clock_.now_ms, 12'000);
}

TEST_F(LeaseTest, AHolderOfThisMachineThatHasEndedIsNotWaitedFor) {
  const env::ProcessIdentity self = env::ThisProcess();
  format::Lease lease;
  lease.holder = "gone";
  lease.machine = self.machine;
  lease.process = self.id;
  lease.process_started = self.started - 1;
  lease.ttl_ms = 10'000;
  Write(lease);
  ASSERT_TRUE(AcquireLease(&bucket_, OfHolder("b")).ok());
  EXPECT_EQ(clock_.now_ms, 0);
}

TEST_F(LeaseTest, AFormerHolderDoesNotGiveBackWhatAnotherHas) {
  auto first = AcquireLease(&bucket_, OfHolder("a"));
  ASSERT_TRUE(first.ok());
  format::Lease taken = Record();
  taken.holder = "b";
  ++taken.term;
  Write(taken);
  first->reset();
  EXPECT_FALSE(Record().released);
  EXPECT_EQ(Record().holder, "b");
}

TEST_F(LeaseTest, OfTwoThatTakeAFreeOneOneFails) {
  format::Lease lease;
  lease.machine = "elsewhere";
  lease.ttl_ms = 10'000;
  Write(lease);
  bool taken = false;
  clock_.on_sleep = [&] {
    if (taken || clock_.now_ms < 10'000) return;
    taken = true;
    format::Lease other = Record();
    other.holder = "the other";
    ++other.term;
    Write(other);
  };
  EXPECT_EQ(AcquireLease(&bucket_, OfHolder("b")).status().code(), StatusCode::kFenced);
}

}  // namespace
}  // namespace cairn::checkpoint
