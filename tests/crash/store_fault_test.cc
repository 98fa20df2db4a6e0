// SPDX-License-Identifier: Apache-2.0
//
// The fault loop: every call of a checkpoint that touches the disk fails once, fails from then on,
// loses its answer, finds the disk full, or is the last before the power goes. After each, the
// place is opened again: it holds the last committed cut or the new one, equal to the model to the
// last row; it holds the new one whenever Commit said so; and the job goes on from it.
//
// Real tables, real formats, the release store; only the disk is simulated.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "faults.h"
#include "real_tables.h"

namespace cairn::checkpoint {
namespace {

using testing::Eight;
using testing::Fault;
using testing::kFaults;
using testing::RealTables;
using testing::Rows;
using testing::SlotOf;
using testing::TablesSpec;
using testing::TestJob;

constexpr uint64_t kRows = 300;

/// When in a job's life the fault comes: before the first checkpoint that, without a fault, does
/// what `is` says. `change` false = nothing has changed since the one before.
struct Moment {
  const char* name;
  bool change;
  bool (*is)(const PersistedCut& done, const RetireReport& retired);
};

const Moment kMoments[] = {
    {"the first checkpoint", true,
     [](const PersistedCut& done, const RetireReport&) { return done.id.value == 1; }},
    {"a delta", true,
     [](const PersistedCut& done, const RetireReport& retired) {
       return done.frames_new > 0 && done.frames_reused > 0 && !retired.dropped.empty();
     }},
    {"a new base", true,
     [](const PersistedCut& done, const RetireReport&) {
       return done.id.value > 1 && done.rows_new >= kRows;
     }},
    {"the end of a base and its deltas", true,
     [](const PersistedCut&, const RetireReport& retired) { return retired.objects_deleted >= 3; }},
    {"nothing changed", false,
     [](const PersistedCut& done, const RetireReport& retired) {
       return !done.has_object && !retired.dropped.empty();
     }},
};

class FaultLoop {
 public:
  FaultLoop(const Moment& moment, const Fault& fault, int checkpoints_before, uint64_t seed)
      : moment_(moment), fault_(fault), checkpoints_before_(checkpoints_before), seed_(seed) {}

  /// How many checkpoints come before the moment.
  static int CheckpointsBefore(const Moment& moment) {
    for (int before = 0; before < 30; ++before) {
      FaultLoop loop(moment, {"meets no fault", env::FaultKind::kNone, false, {}}, before, 0);
      loop.Run(0);
      if (loop.done_ && moment.is(*loop.done_, loop.retired_)) return before;
    }
    ADD_FAILURE() << "no checkpoint is " << moment.name;
    return 0;
  }

  /// Run with the fault at call `n`; false when the run met no fault.
  bool Run(uint64_t n) {
    SCOPED_TRACE(std::string(moment_.name) + ", call " + std::to_string(n) + " " + fault_.name +
                 ", seed " + std::to_string(seed_));
    TestJob job({SlotOf("out/count/0"), SlotOf("out/rank/0")},
                [](const TablesSpec& spec) { return std::make_unique<RealTables>(spec); });
    job.options.retained = 2;
    Prepare(&job);
    if (::testing::Test::HasFatalFailure()) return false;
    const std::vector<Rows> before =
        checkpoints_before_ == 0 ? std::vector<Rows>(2) : *job.ModelAt(job.last_id);
    const base::CheckpointId last = job.store->latest_commit();
    job.prepared.clear();
    if (moment_.change) Change(&job, 1000);

    Arm(&job, n);
    const Result<PersistedCut> done = job.Checkpoint();
    const bool fired = job.files.fired();
    trace_calls_ = job.files.calls();
    fsyncs_ = job.files.Count("fsync");
    if (done.ok() && job.retired.ok()) {
      done_ = *done;
      retired_ = *job.retired;
    }
    const std::vector<Rows> after = job.whole_model();
    if (!fault_.cut) TryAgain(&job);
    const base::CheckpointId highest = job.last_id;
    const std::vector<Rows> latest = job.whole_model();

    // The process dies, and with it all that was not synced.
    job.Stop();
    job.files.Disarm();
    job.disk().PowerCut(env::Unsynced::kRandom, seed_ + n);
    job.disk().PowerOn();
    const uint32_t p = static_cast<uint32_t>(n % 3 + 1);
    const Status started = job.Start(p);
    EXPECT_TRUE(started.ok()) << started.ToString();
    if (!started.ok()) return fired;
    const base::CheckpointId found = job.store->latest_commit();
    if (done.ok()) {
      EXPECT_GE(found, done->id) << "an acknowledged checkpoint is gone";
    }
    if (again_ok_) {
      EXPECT_EQ(found, highest);
    }
    if (found == last) {
      Expect(&job, before);
      job.SetModel(before);
    } else if (again_ok_ && found == highest) {
      Expect(&job, latest);
    } else {
      Expect(&job, after);
      job.SetModel(after);
    }
    GoOn(&job, highest, p);
    return fired;
  }

  uint64_t trace_calls() const { return trace_calls_; }
  uint64_t fsyncs() const { return fsyncs_; }

 private:
  void Prepare(TestJob* job) {
    ASSERT_TRUE(job->Start(2).ok());
    for (uint64_t i = 0; i < kRows; ++i) {
      job->Put(0, Eight(i), Eight(i * 7));
      job->Put(1, Eight(i), "a text of row " + std::to_string(i));
    }
    for (int i = 0; i < checkpoints_before_; ++i) {
      if (i > 0) Change(job, static_cast<uint64_t>(i));
      const Result<PersistedCut> done = job->Checkpoint();
      ASSERT_TRUE(done.ok()) << done.status().ToString();
      ASSERT_TRUE(job->retired.ok());
    }
  }

  /// Few changes, so that deltas stay under half of the base: put, erase, insert in both operators.
  void Change(TestJob* job, uint64_t round) {
    for (uint64_t i = 0; i < 4; ++i) {
      const uint64_t row = (round * 13 + i * 5) % kRows;
      job->Put(0, Eight(row), Eight(round));
      job->Put(1, Eight(row + 1), "changed in round " + std::to_string(round));
    }
    job->Erase(0, Eight((round * 11 + 3) % kRows));
    job->Erase(1, Eight((round * 17 + 8) % kRows));
    job->Put(0, Eight(kRows + round), Eight(round));
    job->prepared = {{base::CheckpointId(1), 0, "descriptor " + std::to_string(round)}};
    job->offset = round;
  }

  void Arm(TestJob* job, uint64_t n) {
    env::FaultPlan plan;
    plan.call = n;
    plan.kind = fault_.kind;
    plan.for_ever = fault_.for_ever;
    if (fault_.cut) {
      plan.after = [this, job, n] { job->disk().PowerCut(*fault_.cut, seed_ + n); };
    }
    job->files.Arm(std::move(plan));
  }

  /// In the same process, once the disk is well again: the next attempt works, or the store says
  /// that it must be opened again.
  void TryAgain(TestJob* job) {
    job->files.Disarm();
    job->Put(0, Eight(2), Eight(99));
    job->Erase(1, Eight(30));
    const Result<PersistedCut> again = job->Checkpoint();
    again_ok_ = again.ok();
    if (again.ok()) return;
    EXPECT_EQ(again.status().code(), StatusCode::kUnavailable) << again.status().ToString();
    const std::string message(again.status().message());
    EXPECT_TRUE(message.find("opened again") != std::string::npos ||
                message.find("restart") != std::string::npos)
        << message;
  }

  void Expect(TestJob* job, const std::vector<Rows>& model) {
    for (size_t op = 0; op < model.size(); ++op) {
      EXPECT_EQ(job->Contents(op), model[op]) << "operator " << op;
    }
  }

  /// Two more checkpoints and a restart: ids are new, deltas stand on what was found.
  void GoOn(TestJob* job, base::CheckpointId highest, uint32_t p) {
    for (uint64_t round : {2000, 2001}) {
      Change(job, round);
      const Result<PersistedCut> next = job->Checkpoint();
      ASSERT_TRUE(next.ok()) << next.status().ToString();
      EXPECT_GT(next->id, highest) << "an id was used twice";
      EXPECT_TRUE(job->retired.ok()) << job->retired.status().ToString();
    }
    const Status started = job->Start(p % 3 + 1);
    ASSERT_TRUE(started.ok()) << started.ToString();
    Expect(job, job->whole_model());
    for (const auto& [path, bytes] : job->disk().AllFiles()) {
      EXPECT_EQ(path.find(".cairn-tmp-"), std::string::npos) << path;
    }
  }

  Moment moment_;
  Fault fault_;
  int checkpoints_before_;
  uint64_t seed_;
  uint64_t trace_calls_ = 0;
  uint64_t fsyncs_ = 0;
  bool again_ok_ = false;
  std::optional<PersistedCut> done_;
  RetireReport retired_;
};

class StoreFaultTest : public ::testing::TestWithParam<int> {};

TEST_P(StoreFaultTest, EveryCallOfACheckpointMayFailOrBeTheLast) {
  const Moment& moment = kMoments[GetParam()];
  const uint64_t seed = testing::TestSeed();
  const int before = FaultLoop::CheckpointsBefore(moment);
  for (const Fault& fault : kFaults) {
    uint64_t n = 0;
    FaultLoop loop(moment, fault, before, seed);
    while (loop.Run(n)) {
      ASSERT_FALSE(::testing::Test::HasFailure()) << "stopped at the first failing call";
      ASSERT_LT(++n, 500u);
    }
    std::printf("%s: %s at each of N = %lu calls; %lu syncs\n", moment.name, fault.name, n,
                loop.fsyncs());
    EXPECT_EQ(n, loop.trace_calls()) << "the last run met no fault, so it made N calls";
    EXPECT_GE(n, 15u);
    EXPECT_LE(loop.fsyncs(), 6u);
  }
}

INSTANTIATE_TEST_SUITE_P(Moments, StoreFaultTest, ::testing::Range(0, 5));

// Case 19: a checkpoint is committed or given up, never a mixture.
TEST(StoreAbortTest, Case19EveryRoundEndsCommittedOrGone) {
  const uint64_t seed = testing::TestSeed();
  std::mt19937_64 random(seed);
  TestJob job({SlotOf("out/count/0"), SlotOf("out/rank/0")},
              [](const TablesSpec& spec) { return std::make_unique<RealTables>(spec); });
  ASSERT_TRUE(job.Start(2).ok());
  for (uint64_t i = 0; i < 50; ++i) job.Put(1, Eight(i), "text");
  ASSERT_TRUE(job.Checkpoint().ok());
  const int rounds = std::getenv("CAIRN_LONG") != nullptr ? 10'000 : 2000;
  for (int round = 0; round < rounds; ++round) {
    job.Put(0, Eight(random() % 20), Eight(random()));
    if (random() % 3 == 0) job.Erase(1, Eight(random() % 50));
    if (random() % 3 == 0) job.Put(1, Eight(random() % 50), std::to_string(round));
    const Result<PersistedCut> persisted = job.Persist();
    ASSERT_TRUE(persisted.ok()) << persisted.status().ToString();
    const std::string manifest = job.PathOf(persisted->id, "manifest.json");
    if (random() % 2 == 0) {
      ASSERT_TRUE(job.store->Abandon(*persisted).ok());
      ASSERT_FALSE(job.disk().AllFiles().contains(manifest)) << "round " << round;
      ASSERT_FALSE(job.disk().AllFiles().contains(job.PathOf(persisted->id, "state.arrow")));
      ASSERT_EQ(job.store->Commit(*persisted).code(), StatusCode::kInternal);
    } else {
      ASSERT_TRUE(job.Commit(*persisted).ok());
      ASSERT_TRUE(job.disk().AllFiles().contains(manifest)) << "round " << round;
      ASSERT_TRUE(job.store->Retire().ok());
    }
    if (round % 100 == 99) {
      // Changes of attempts that were given up are in the next committed cut.
      ASSERT_TRUE(job.Checkpoint().ok());
      ASSERT_TRUE(job.Start(static_cast<uint32_t>(round / 100 % 3 + 1)).ok());
      for (size_t op = 0; op < 2; ++op) ASSERT_EQ(job.Contents(op), job.model(op));
    }
  }
  EXPECT_LE(job.disk().AllFiles().size(), 40u);  // nothing piles up
  EXPECT_LE(job.disk().open_handles(), 33u);
}

}  // namespace
}  // namespace cairn::checkpoint
