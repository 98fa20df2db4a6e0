// SPDX-License-Identifier: Apache-2.0
//
// The fault loop with a view log: every call of a checkpoint that touches the disk fails once,
// fails from then on, loses its answer, finds the disk full, or is the last before the power goes.
// After each, the place is opened again and its log has every row of the cut that was found once,
// at its place; the job goes on from it, and no segment is left that no cut needs.
#include <gtest/gtest.h>

#include <cstdio>

#include "checkpoint/view_log_testing.h"
#include "faults.h"

namespace cairn::checkpoint {
namespace {

using testing::Fault;
using testing::kFaults;
using testing::LogJob;

/// How many checkpoints come before the one that meets the fault.
struct LogMoment {
  const char* name;
  int checkpoints_before;
  uint64_t rows_retained;
  uint64_t segments_before;  ///< of partition 0 in the cut before
  uint64_t segments_after;
};

const LogMoment kLogMoments[] = {
    {"the first checkpoint", 0, 1000, 0, 1},
    {"rows beside segments that stay", 2, 1000, 2, 3},
    {"a merge of eight segments", 7, 1000, 7, 1},
    {"merged segments go", 8, 1000, 1, 2},
    {"segments beyond the retention go", 5, 25, 3, 3},
};

class LogFaultLoop {
 public:
  LogFaultLoop(const LogMoment& moment, const Fault& fault, uint64_t seed)
      : moment_(moment), fault_(fault), seed_(seed) {}

  /// Run with the fault at call `n`; false when the run met no fault.
  bool Run(uint64_t n) {
    SCOPED_TRACE(std::string(moment_.name) + ", call " + std::to_string(n) + " " + fault_.name +
                 ", seed " + std::to_string(seed_));
    LogJob log;
    log.job.options.retained = 2;
    log.spec.retention.rows = moment_.rows_retained;
    Prepare(&log);
    if (::testing::Test::HasFatalFailure()) return false;
    const base::CheckpointId last = log.job.store->latest_commit();
    EXPECT_EQ(SegmentsOf(&log), moment_.segments_before);
    AppendTo(&log, 5);

    Arm(&log, n);
    const Result<PersistedCut> done = log.Checkpoint();
    const bool fired = log.job.files.fired();
    calls_ = log.job.files.calls();
    log.job.files.Disarm();
    if (!fired && done.ok()) {
      EXPECT_EQ(SegmentsOf(&log), moment_.segments_after);
    }
    bool again_ok = false;
    if (!fault_.cut) {
      AppendTo(&log, 3);
      again_ok = log.Checkpoint().ok();
    }
    const base::CheckpointId highest = log.job.last_id;

    // The process dies, and with it all that was not synced.
    log.job.Stop();
    log.job.disk().PowerCut(env::Unsynced::kRandom, seed_ + n);
    log.job.disk().PowerOn();
    const Status started = log.Start();
    EXPECT_TRUE(started.ok()) << started.ToString();
    if (!started.ok()) return fired;
    const base::CheckpointId found = log.job.store->latest_commit();
    EXPECT_GE(found, done.ok() ? done->id : last) << "an acknowledged checkpoint is gone";
    if (again_ok) {
      EXPECT_EQ(found, highest);
    }
    if (found.value != 0) Expect(&log, found);
    GoOn(&log);
    return fired;
  }

  uint64_t calls() const { return calls_; }

 private:
  /// Segments of partition 0 in the newest cut.
  static uint64_t SegmentsOf(LogJob* log) {
    if (log->job.store->latest_commit().value == 0) return 0;
    const auto cut = log->Cut();
    uint64_t segments = 0;
    for (const format::ViewLogSegment& segment : cut->manifest().view_logs.at(0).segments) {
      segments += segment.partition == 0 ? 1 : 0;
    }
    return segments;
  }

  static void AppendTo(LogJob* log, uint64_t rows) {
    log->Append(0, rows);
    log->Append(1, rows + 1);
    log->Append(0, 1);
    log->job.Put(0, "key", std::to_string(rows));
  }

  void Prepare(LogJob* log) {
    ASSERT_TRUE(log->Start().ok());
    for (int i = 0; i < moment_.checkpoints_before; ++i) {
      AppendTo(log, 10);
      const Result<PersistedCut> done = log->Checkpoint();
      ASSERT_TRUE(done.ok()) << done.status().ToString();
      ASSERT_TRUE(log->job.retired.ok());
    }
  }

  void Arm(LogJob* log, uint64_t n) {
    env::FaultPlan plan;
    plan.call = n;
    plan.kind = fault_.kind;
    plan.for_ever = fault_.for_ever;
    if (fault_.cut) {
      plan.after = [this, log, n] { log->job.disk().PowerCut(*fault_.cut, seed_ + n); };
    }
    log->job.files.Arm(std::move(plan));
  }

  /// Every row of cut `id` is in its log once, at its place; and so in every other retained cut.
  void Expect(LogJob* log, base::CheckpointId id) const {
    for (uint32_t partition : {0u, 1u}) {
      const auto [first, end] = log->Check(partition, id);
      EXPECT_EQ(end, log->EndAt(id, partition));
      EXPECT_LE(first, end - std::min(end, moment_.rows_retained)) << "too much was dropped";
    }
    const auto place = OpenPlace(&log->job.files, log->job.directory);
    for (const format::CutReference& cut : place->Cuts()) {
      EXPECT_EQ(log->Check(0, cut.id).second, log->EndAt(cut.id, 0)) << "retained cut";
      EXPECT_TRUE(log->Cut(cut.id)->Verify({}).problems.empty());
    }
  }

  void GoOn(LogJob* log) const {
    for (uint64_t rows : {4, 6}) {
      AppendTo(log, rows);
      const Result<PersistedCut> next = log->Checkpoint();
      ASSERT_TRUE(next.ok()) << next.status().ToString();
      EXPECT_TRUE(log->job.retired.ok()) << log->job.retired.status().ToString();
    }
    const Status started = log->Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
    Expect(log, log->job.store->latest_commit());
    AppendTo(log, 1);
    ASSERT_TRUE(log->Checkpoint().ok());
    EXPECT_EQ(log->SegmentsOnDisk(), log->SegmentsNeeded()) << "a segment was forgotten";
    for (const auto& [path, bytes] : log->job.disk().AllFiles()) {
      EXPECT_EQ(path.find(".cairn-tmp-"), std::string::npos) << path;
    }
  }

  LogMoment moment_;
  Fault fault_;
  uint64_t seed_;
  uint64_t calls_ = 0;
};

class ViewLogFaultTest : public ::testing::TestWithParam<int> {};

TEST_P(ViewLogFaultTest, EveryCallOfACheckpointMayFailOrBeTheLast) {
  const LogMoment& moment = kLogMoments[GetParam()];
  const uint64_t seed = testing::TestSeed();
  for (const Fault& fault : kFaults) {
    uint64_t n = 0;
    LogFaultLoop loop(moment, fault, seed);
    while (loop.Run(n)) {
      ASSERT_FALSE(::testing::Test::HasFailure()) << "stopped at the first failing call";
      ASSERT_LT(++n, 800u);
    }
    ASSERT_FALSE(::testing::Test::HasFailure());
    std::printf("%s: %s at each of N = %lu calls\n", moment.name, fault.name, n);
    EXPECT_EQ(n, loop.calls()) << "the last run met no fault, so it made N calls";
    EXPECT_GE(n, 30u);
  }
}

INSTANTIATE_TEST_SUITE_P(Moments, ViewLogFaultTest, ::testing::Range(0, 5));

}  // namespace
}  // namespace cairn::checkpoint
