// SPDX-License-Identifier: Apache-2.0
//
// View logs through the store: written with cuts, compacted, cut back, read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/view_log_testing.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::LogJob;
using testing::LogRows;

using Range = std::pair<uint64_t, uint64_t>;

class ViewLogTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(log_.Start().ok()); }

  base::CheckpointId Checkpoint() {
    const Result<PersistedCut> done = log_.Checkpoint();
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_TRUE(log_.job.retired.ok()) << log_.job.retired.status().ToString();
    return done.ok() ? done->id : base::CheckpointId();
  }
  void Restart() {
    const Status started = log_.Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
  }
  std::vector<format::ViewLogSegment> Segments(uint32_t partition = 0) {
    std::vector<format::ViewLogSegment> segments;
    const auto cut = log_.Cut();
    for (const format::ViewLogSegment& segment : cut->manifest().view_logs.at(0).segments) {
      if (segment.partition == partition) segments.push_back(segment);
    }
    return segments;
  }
  /// Path of the only or the first segment on disk.
  std::string FirstSegmentPath() {
    return log_.job.directory + "/" + *log_.SegmentsOnDisk().begin();
  }

  LogJob log_;
};

TEST_F(ViewLogTest, RowsOfACutAreReadBackAtTheirPlaces) {
  log_.Append(0, 10);
  log_.Append(1, 3);
  log_.Append(0, 5);
  Checkpoint();
  EXPECT_EQ(log_.Check(0), Range(0, 15));
  EXPECT_EQ(log_.Check(1), Range(0, 3));
  log_.Append(1, 4);
  const base::CheckpointId second = Checkpoint();
  EXPECT_EQ(log_.Check(0), Range(0, 15));
  EXPECT_EQ(log_.Check(1), Range(0, 7));
  EXPECT_EQ(log_.Check(1, base::CheckpointId(second.value - 1)), Range(0, 3));
  Restart();
  EXPECT_EQ(log_.Check(0), Range(0, 15));
}

TEST_F(ViewLogTest, ACutWithoutNewRowsWritesNoSegment) {
  log_.Append(0, 10);
  Checkpoint();
  const auto before = log_.SegmentsOnDisk();
  const Result<PersistedCut> done = log_.Checkpoint();
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->view_log_segments_new, 0u);
  EXPECT_EQ(log_.SegmentsOnDisk(), before);
  EXPECT_EQ(log_.Check(0), Range(0, 10));
}

TEST_F(ViewLogTest, RowsOfAnAbandonedAttemptAreWrittenOnceWithTheNext) {
  log_.Append(0, 10);
  Checkpoint();
  log_.Append(0, 5);
  const Result<PersistedCut> given_up = log_.Persist();
  ASSERT_TRUE(given_up.ok());
  EXPECT_EQ(given_up->view_log_rows_new, 5u);
  ASSERT_TRUE(log_.job.store->Abandon(*given_up).ok());
  EXPECT_EQ(log_.SegmentsOnDisk().size(), 1u) << "the attempt's segment stayed";
  log_.Append(0, 2);
  const Result<PersistedCut> done = log_.Checkpoint();
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->view_log_rows_new, 7u);
  EXPECT_EQ(log_.Check(0), Range(0, 17));
  EXPECT_EQ(log_.writer->pending_rows(), 0u);
  EXPECT_EQ(log_.writer->pending_bytes(), 0u);
}

TEST_F(ViewLogTest, RowsThatComeAgainAfterARestartTakeTheirOldPlaces) {
  log_.Append(0, 10);
  Checkpoint();
  log_.Append(0, 5);
  ASSERT_TRUE(log_.Persist().ok());  // the process dies before the commit
  Restart();
  EXPECT_EQ(log_.SegmentsOnDisk().size(), 1u);
  log_.Append(0, 8);
  Checkpoint();
  EXPECT_EQ(log_.Check(0), Range(0, 18));
}

TEST_F(ViewLogTest, GoingBackToAnOlderCutGoesOnFromItsEnd) {
  log_.job.options.pipeline.components.back().exactly_once = false;
  Restart();
  log_.Append(0, 10);
  const base::CheckpointId first = Checkpoint();
  log_.Append(0, 10);
  Checkpoint();
  ASSERT_TRUE(log_.Start(first).ok());
  log_.Append(0, 3);
  Checkpoint();
  EXPECT_EQ(log_.Check(0), Range(0, 13));
}

TEST_F(ViewLogTest, TheNumberOfSegmentsFollowsBytesAndNotCheckpoints) {
  log_.job.options.view_log_segment_bytes = 256 << 10;
  log_.text_bytes = 1000;
  Restart();
  for (int i = 0; i < 600; ++i) {
    log_.Append(0, 1 + static_cast<uint64_t>(i) % 4);
    Checkpoint();
  }
  uint64_t bytes = 0;
  for (const format::ViewLogSegment& segment : Segments()) bytes += segment.object_length;
  EXPECT_EQ(log_.Check(0), Range(0, 1500));
  EXPECT_GT(bytes, uint64_t{1500} * 1000);
  EXPECT_LE(Segments().size(), 12 + bytes / (128 << 10));
  EXPECT_EQ(log_.SegmentsOnDisk(), log_.SegmentsNeeded()) << "merged segments stayed";
}

TEST_F(ViewLogTest, ARetainedCutKeepsTheSegmentsThatANewerOneHasMerged) {
  std::vector<base::CheckpointId> cuts;
  for (int i = 0; i < 8; ++i) {
    log_.Append(0, 10);
    cuts.push_back(Checkpoint());
  }
  ASSERT_EQ(Segments().size(), 1u) << "the eighth checkpoint merges";
  EXPECT_EQ(Segments()[0].origin, cuts[7]);
  EXPECT_EQ(log_.Check(0, cuts[6]), Range(0, 70));
  EXPECT_EQ(log_.Check(0, cuts[5]), Range(0, 60));
  EXPECT_EQ(log_.SegmentsOnDisk().size(), 8u);
  for (int i = 0; i < 2; ++i) Checkpoint();
  EXPECT_EQ(log_.SegmentsOnDisk().size(), 1u) << "old segments go with the last cut that has them";
  EXPECT_EQ(log_.Check(0), Range(0, 80));
}

TEST_F(ViewLogTest, ALargeAppendBecomesSeveralSegments) {
  log_.job.options.view_log_segment_bytes = 64 << 10;
  log_.text_bytes = 100;
  Restart();
  log_.Append(0, 5000);
  Checkpoint();
  EXPECT_GE(Segments().size(), 8u);
  for (const format::ViewLogSegment& segment : Segments()) {
    EXPECT_LE(segment.object_length, 128u << 10);
  }
  EXPECT_EQ(log_.Check(0), Range(0, 5000));
}

TEST_F(ViewLogTest, RetentionByRowsDropsWholeSegmentsAndPositionsGoOn) {
  log_.spec.retention.rows = 25;
  Restart();
  for (int i = 0; i < 6; ++i) {
    log_.Append(0, 10);
    Checkpoint();
  }
  const Range kept = log_.Check(0);
  EXPECT_EQ(kept.second, 60u);
  EXPECT_EQ(kept.first, 30u) << "25 rows need three segments of 10";
  Checkpoint();
  Checkpoint();
  EXPECT_EQ(log_.SegmentsOnDisk(), log_.SegmentsNeeded());
}

TEST_F(ViewLogTest, RetentionByBytesDropsWholeSegments) {
  log_.text_bytes = 1000;
  log_.spec.retention.bytes = 25'000;
  Restart();
  for (int i = 0; i < 6; ++i) {
    log_.Append(0, 10);
    Checkpoint();
  }
  EXPECT_EQ(log_.Check(0), Range(30, 60));
}

TEST_F(ViewLogTest, RetentionByEventTimeCountsFromTheNewestOfTheLog) {
  log_.spec.retention.event_time_ms = 15'000;
  Restart();
  for (int i = 0; i < 4; ++i) {
    log_.Append(0, 10);  // a row a second
    Checkpoint();
  }
  // The newest row saved before the last cut is of second 29: rows from 14 on stay.
  EXPECT_EQ(log_.Check(0), Range(10, 40));
  // A partition that stands still is cut back by the times of the others, but for its last segment.
  log_.Append(1, 5);
  Checkpoint();
  log_.Append(0, 100);
  Checkpoint();
  Checkpoint();
  EXPECT_EQ(log_.Check(0).second, 140u);
  EXPECT_GE(log_.Check(0).first, 40u);
  EXPECT_EQ(log_.Check(1), Range(0, 5));
}

TEST_F(ViewLogTest, RowsThatAreNoLongerRetainedAreAnErrorToAskFor) {
  log_.spec.retention.rows = 1;
  Restart();
  log_.Append(0, 10);
  Checkpoint();
  log_.Append(0, 10);
  Checkpoint();
  const auto cut = log_.Cut();
  const auto log = ViewLogReader::Open(cut->objects(), cut->shared_manifest(), log_.spec.view);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ((*log)->retained_from(0), 10u);
  const auto scan = (*log)->Scan(0, {.first = 5});
  EXPECT_EQ(scan.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(scan.status().message(), HasSubstr("rows 5 to 9 are no longer retained"));
  EXPECT_EQ((*log)->Scan(0, {.first = 21}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*log)->Scan(2, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE((*log)->Scan(0, {.first = 20}).ok()) << "the end is where a follower waits";
}

TEST_F(ViewLogTest, ASegmentOutsideTheRangeIsNotRead) {
  for (int i = 0; i < 6; ++i) {
    log_.Append(0, 10);
    Checkpoint();
  }
  const auto cut = log_.Cut();
  const auto log = ViewLogReader::Open(cut->objects(), cut->shared_manifest(), log_.spec.view);
  ASSERT_TRUE(log.ok());
  const auto rows_of = [&](const ViewLogRange& range, ViewLogScanCounts* counts) {
    const auto scan = (*log)->Scan(0, range);
    EXPECT_TRUE(scan.ok()) << scan.status().ToString();
    std::vector<Range> rows;
    while (true) {
      const auto batch = (*scan)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status().ToString();
      if (!batch.ok() || !*batch) break;
      const auto count = static_cast<uint64_t>((*batch)->rows->num_rows());
      EXPECT_TRUE((*batch)->rows->Equals(*LogRows(0, (*batch)->first, (*batch)->first + count)));
      rows.emplace_back((*batch)->first, (*batch)->first + count);
    }
    *counts = (*scan)->counts();
    return rows;
  };
  ViewLogScanCounts counts;
  EXPECT_EQ(rows_of({.first = 25, .end = 33}, &counts), (std::vector<Range>{{25, 30}, {30, 33}}));
  EXPECT_EQ(counts.segments, 6u);
  EXPECT_EQ(counts.pruned_position, 4u);
  EXPECT_EQ(rows_of({.event_time_min = 19'000, .event_time_max = 20'000}, &counts),
            (std::vector<Range>{{10, 20}, {20, 30}}));
  EXPECT_EQ(counts.pruned_event_time, 4u);
  EXPECT_EQ(rows_of({.event_time_min = 59'001}, &counts), std::vector<Range>{});
  EXPECT_EQ(rows_of({.event_time_min = 59'000}, &counts), (std::vector<Range>{{50, 60}}));
  EXPECT_EQ(rows_of({.event_time_max = 0}, &counts), (std::vector<Range>{{0, 10}}));
}

TEST_F(ViewLogTest, TooManySegmentsAreMergedSoonerAndThenRefused) {
  log_.job.options.view_log_segment_limit = 4;
  Restart();
  for (int i = 0; i < 20; ++i) {
    log_.Append(0, 10);
    log_.Append(1, 10);
    Checkpoint();
    EXPECT_LE(Segments(0).size() + Segments(1).size(), 4u);
  }
  EXPECT_EQ(log_.Check(0), Range(0, 200));
  log_.job.options.view_log_segment_limit = 1;
  Restart();
  log_.Append(0, 10);
  const Status refused = log_.Checkpoint().status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("log_retention"));
  EXPECT_EQ(log_.Check(0), Range(0, 200)) << "a refused checkpoint changed the log";
}

TEST_F(ViewLogTest, AChangedViewCannotGoOnWithTheLogOfTheOld) {
  log_.Append(0, 10);
  Checkpoint();
  log_.spec.event_time.reset();
  Restart();
  const Status refused = log_.Checkpoint().status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("begins a new generation"));
}

TEST_F(ViewLogTest, ANewGenerationBeginsAnewAndTheOldOneGoes) {
  log_.Append(0, 10);
  Checkpoint();
  log_.spec.generation = "018f0000-0000-7000-8000-000000000002";
  log_.writer = *ViewLogWriter::Open(log_.spec);
  ASSERT_TRUE(log_.writer->Append(0, LogRows(0, 0, 4)).ok());
  Checkpoint();
  EXPECT_EQ(log_.Check(0), Range(0, 4));
  Checkpoint();
  Checkpoint();
  EXPECT_EQ(log_.SegmentsOnDisk().size(), 1u);
}

TEST_F(ViewLogTest, TwoSubtasksCannotAppendToOnePartition) {
  log_.job.add_to_capture = [this](CapturedCut* captured) {
    captured->view_logs.push_back(log_.writer->Capture());
    captured->view_logs.push_back(log_.writer->Capture());
  };
  log_.Append(0, 1);
  EXPECT_EQ(log_.Checkpoint().status().code(), StatusCode::kInternal);
}

TEST_F(ViewLogTest, PartitionsOfSeveralSubtasksMakeOneLog) {
  const auto other = ViewLogWriter::Open(log_.spec);
  ASSERT_TRUE((*other)->Append(1, LogRows(1, 0, 6)).ok());
  const auto capture = log_.job.add_to_capture;
  log_.job.add_to_capture = [&](CapturedCut* captured) {
    captured->view_logs.push_back((*other)->Capture());
    capture(captured);
  };
  log_.Append(0, 7);
  Checkpoint();
  EXPECT_EQ(log_.Check(0), Range(0, 7));
  EXPECT_EQ(log_.Check(1), Range(0, 6));
}

TEST_F(ViewLogTest, ADamagedSegmentIsNamedAndNeverReadAsRows) {
  log_.Append(0, 10);
  Checkpoint();
  const std::string path = FirstSegmentPath();
  const std::string good = log_.job.disk().AllFiles().at(path);
  for (size_t at = 0; at < good.size(); at += 7) {
    ASSERT_TRUE(log_.job.disk().FlipByte(path, at).ok());
    const auto cut = log_.Cut();
    const auto log = ViewLogReader::Open(cut->objects(), cut->shared_manifest(), log_.spec.view);
    const auto scan = (*log)->Scan(0, {});
    const Status read = (*scan)->Next().status();
    EXPECT_EQ(read.code(), StatusCode::kCorruption) << "byte " << at;
    EXPECT_THAT(read.message(), HasSubstr("segment view-log/orders%20by%20day/"));
    ASSERT_TRUE(log_.job.disk().FlipByte(path, at).ok());
  }
  EXPECT_EQ(log_.Check(0), Range(0, 10));
}

TEST_F(ViewLogTest, ASegmentThatCannotBeMergedLosesNoRowOfToday) {
  for (int i = 0; i < 7; ++i) {
    log_.Append(0, 10);
    Checkpoint();
  }
  const std::string path = FirstSegmentPath();
  ASSERT_TRUE(log_.job.disk().FlipByte(path, 900).ok());
  log_.Append(0, 10);
  const Result<PersistedCut> done = log_.Checkpoint();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  ASSERT_EQ(done->problems.size(), 1u);
  EXPECT_THAT(done->problems[0], HasSubstr("SHA-256 differs"));
  ASSERT_TRUE(log_.job.disk().FlipByte(path, 900).ok());
  EXPECT_EQ(log_.Check(0), Range(0, 80));
}

TEST_F(ViewLogTest, VerifyFindsEveryDamagedOrMissingSegment) {
  log_.Append(0, 10);
  log_.Append(1, 10);
  Checkpoint();
  EXPECT_EQ(log_.Cut()->Verify({}).segments, 2u);
  EXPECT_TRUE(log_.Cut()->Verify({}).problems.empty());
  const std::string path = FirstSegmentPath();
  ASSERT_TRUE(log_.job.disk().FlipByte(path, 300).ok());
  auto verdict = log_.Cut()->Verify({});
  ASSERT_EQ(verdict.problems.size(), 1u);
  EXPECT_THAT(verdict.problems[0], HasSubstr("SHA-256"));
  EXPECT_EQ(verdict.segments, 1u);
  ASSERT_TRUE(log_.job.disk().RemoveFile(path).ok());
  verdict = log_.Cut()->Verify({});
  ASSERT_EQ(verdict.problems.size(), 1u);
  EXPECT_THAT(verdict.problems[0], HasSubstr("is missing"));
}

TEST_F(ViewLogTest, AWriterRefusesWhatNoLogCanHold) {
  ViewLogSpec spec = log_.spec;
  spec.view = std::string(format::kViewNameBytesMax + 1, 'v');
  EXPECT_EQ(ViewLogWriter::Open(spec).status().code(), StatusCode::kInvalidArgument);
  spec = log_.spec;
  spec.event_time = "text";
  EXPECT_EQ(ViewLogWriter::Open(spec).status().code(), StatusCode::kInvalidArgument);
  spec = log_.spec;
  spec.event_time.reset();
  spec.retention.event_time_ms = 1;
  EXPECT_EQ(ViewLogWriter::Open(spec).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(log_.writer->Append(2, LogRows(0, 0, 1)).code(), StatusCode::kInvalidArgument);
  const auto other = LogRows(0, 0, 1)->RemoveColumn(0);
  EXPECT_EQ(log_.writer->Append(0, *other).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::checkpoint
