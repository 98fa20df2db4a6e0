// SPDX-License-Identifier: Apache-2.0
//
// Restore, on every kind of place: exact, accounted for to the last row, at any parallelism, and
// never empty by mistake.
#include "checkpoint/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/layout.h"
#include "test_places.h"

namespace cairn::checkpoint {
namespace {

using testing::BuildHistory;
using testing::ExpectModel;
using testing::Fill;
using ::testing::HasSubstr;
using testing::ModelTable;
using testing::PlacedJob;
using testing::PlaceKind;
using testing::SlotOf;
using testing::TestJob;

class RecoveryTest : public testing::PlaceTest {};

TEST_P(RecoveryTest, EveryParallelismReadsWhatEveryOtherWrote) {
  // An opening over the network takes some 50 requests.
  const uint32_t step = GetParam() == PlaceKind::kS3 ? 3 : 1;
  for (uint32_t p = 1; p <= 8; p += step) {
    PlacedJob job(GetParam());
    job.options.fsync = false;  // some 90 openings
    BuildHistory(&job, p);
    for (uint32_t q = 1; q <= 8; q += step) {
      ASSERT_TRUE(job.Start(q).ok()) << p << " -> " << q;
      ExpectModel(&job);
    }
    // And goes on from there, with deltas over frames that were cut for another parallelism.
    job.Put(0, "key1", "after the rescale");
    job.Erase(0, "key2");
    ASSERT_TRUE(job.Checkpoint().ok());
    ASSERT_TRUE(job.Start(3).ok());
    ExpectModel(&job);
  }
}

// Case 02: each operator keeps all its keys, whatever its neighbours are.
TEST_P(RecoveryTest, Case02ThreeOperatorsKeepAllTheirKeys) {
  PlacedJob job(GetParam(), {SlotOf("a"), SlotOf("b"), SlotOf("c")});
  ASSERT_TRUE(job.Start(1).ok());
  for (size_t op = 0; op < 3; ++op) Fill(&job, op, 1000, "op " + std::to_string(op));
  ASSERT_TRUE(job.Checkpoint().ok());
  for (uint32_t p = 1; p <= 7; ++p) {
    ASSERT_TRUE(job.Start(p).ok());
    for (size_t op = 0; op < 3; ++op) EXPECT_EQ(job.Contents(op).size(), 1000u);
    ExpectModel(&job);
  }
}

// Case 04: restoring, resized or not, changes nothing of what was restored from.
TEST_P(RecoveryTest, Case04ARestoreLeavesTheCutAsItWas) {
  PlacedJob job(GetParam(), {SlotOf("a"), SlotOf("b")});
  BuildHistory(&job, 1);
  const auto objects = [&] {
    std::map<std::string, std::string> found = job.place().All();
    std::erase_if(found, [](const auto& object) { return !object.first.starts_with("nodes/"); });
    return found;
  };
  const auto before = objects();
  for (uint32_t p : {4u, 1u, 4u}) {
    ASSERT_TRUE(job.Start(p).ok());
    ExpectModel(&job);
    EXPECT_EQ(objects(), before);
  }
}

// Case 08: most groups are empty.
TEST_P(RecoveryTest, Case08SparseKeyGroupsRestoreAnywhere) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(2).ok());
  std::set<uint32_t> groups;
  for (int i = 0; groups.size() < 3; ++i) {
    const std::string key = "k" + std::to_string(i);
    const uint32_t group = KeyGroupOf(key, 128);
    if (group == 2 || group == 3 || group == 127) {
      groups.insert(group);
      job.Put(0, key, "v");
    }
  }
  ASSERT_TRUE(job.Checkpoint().ok());
  // A delta in a group that no base frame covers.
  for (int i = 0;; ++i) {
    const std::string key = "k" + std::to_string(i);
    if (KeyGroupOf(key, 128) != 60) continue;
    job.Put(0, key, "late");
    break;
  }
  ASSERT_TRUE(job.Checkpoint().ok());
  for (uint32_t p : {1u, 2u, 128u, 200u}) {
    ASSERT_TRUE(job.Start(p).ok()) << p;
    ExpectModel(&job);
  }
}

TEST_P(RecoveryTest, TwoByteKeyGroupsRestoreToo) {
  PlacedJob job(GetParam());
  job.options.key_groups = 1000;
  BuildHistory(&job, 3);
  ASSERT_TRUE(job.Start(2).ok());
  ExpectModel(&job);
}

TEST_P(RecoveryTest, OneFrameAGroupRestoresToo) {
  state::SlotDescriptor slot = SlotOf("rank");
  slot.frame_per_group = true;
  PlacedJob job(GetParam(), {slot});
  ASSERT_TRUE(job.Start(2).ok());
  Fill(&job, 0, 1000, "v");
  Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->frames_new, 128u);
  ASSERT_TRUE(job.Start(3).ok());
  ExpectModel(&job);
}

TEST_P(RecoveryTest, ReceiptsAccountForEveryRow) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 1000, "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(3).ok());
  ASSERT_EQ(job.receipts.size(), 3u);
  uint64_t loaded = 0;
  uint64_t skipped = 0;
  for (const LoadReceipt& receipt : job.receipts) {
    loaded += receipt.rows;
    for (const FrameReceipt& frame : receipt.frames) {
      EXPECT_EQ(frame.loaded + frame.skipped, frame.expected);
      skipped += frame.skipped;
    }
  }
  EXPECT_EQ(loaded, 1000u);
  EXPECT_GT(skipped, 0u);
}

TEST_P(RecoveryTest, AShortOrDoubledReceiptIsRefused) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 1000, "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(2).ok());
  std::vector<LoadReceipt> receipts = job.receipts;
  receipts[0].frames[0].loaded -= 1;
  EXPECT_EQ(job.cut->CheckReceipts(receipts).code(), StatusCode::kCorruption);
  receipts = job.receipts;
  receipts.push_back(job.receipts[0]);
  EXPECT_EQ(job.cut->CheckReceipts(receipts).code(), StatusCode::kCorruption);
  receipts = {job.receipts[1]};
  EXPECT_FALSE(job.cut->CheckReceipts(receipts).ok());
  EXPECT_TRUE(job.cut->CheckReceipts(job.receipts).ok());
}

TEST_P(RecoveryTest, RowsThatNoTableTakesAreRefused) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 10, "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(1).ok());
  const Status none = LoadState(*job.cut, {{}}, &job.executor).status();
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none.message(), HasSubstr("out/count/0"));
  state::SlotDescriptor renamed = SlotOf("out/count/0");
  renamed.name = "others";
  ModelTable table(renamed, {0, 128}, 128, 7);
  const Status other = LoadState(*job.cut, {{&table}}, &job.executor).status();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("\"rows\" has no table"));
}

TEST_P(RecoveryTest, ASlotDeclaredOtherwiseIsRefused) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 10, "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(1).ok());
  state::SlotDescriptor newer = SlotOf("out/count/0");
  newer.version = 2;
  ModelTable table(newer, {0, 128}, 128, 7);
  const Status version = LoadState(*job.cut, {{&table}}, &job.executor).status();
  EXPECT_EQ(version.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(version.message(),
              HasSubstr("no migration of bytes leads from version 1 to version 2"));
  state::SlotDescriptor codec = SlotOf("out/count/0");
  codec.value_codec = "int64";
  ModelTable other(codec, {0, 128}, 128, 7);
  EXPECT_EQ(LoadState(*job.cut, {{&other}}, &job.executor).status().code(),
            StatusCode::kInvalidArgument);
}

// Case 01: an object that the manifest names is gone.
TEST_P(RecoveryTest, Case01AMissingObjectIsAnErrorNeverAnEmptyStart) {
  PlacedJob job(GetParam());
  BuildHistory(&job, 2);
  job.Stop();
  job.place().Remove(StateObjectKey(base::CheckpointId(1)));
  const Status refused = job.Start(2);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("checkpoint 4"));
  EXPECT_THAT(refused.message(),
              HasSubstr("nodes/1/checkpoints/00000000000000000001/state.arrow is missing"));
  EXPECT_TRUE(job.subtasks.empty());  // known before any table is made
}

TEST_P(RecoveryTest, Case01AnOperatorThatHadNoRowsRestoresEmpty) {
  PlacedJob job(GetParam(), {SlotOf("a"), SlotOf("empty")});
  ASSERT_TRUE(job.Start(2).ok());
  Fill(&job, 0, 10, "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(2).ok());
  ExpectModel(&job);
  job.Put(1, "first", "row");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(2).ok());
  ExpectModel(&job);
}

TEST_P(RecoveryTest, AMissingManifestIsAnErrorNeverAnEmptyStart) {
  PlacedJob job(GetParam());
  BuildHistory(&job, 1);
  job.Stop();
  job.place().Remove(ManifestKey(base::CheckpointId(4)));
  const Status refused = job.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("manifest.json is missing"));
}

// Case 22: a truncated object is fatal at once, and nothing is written over it.
TEST_P(RecoveryTest, Case22ATruncatedObjectFailsEveryTimeAndNothingIsWritten) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 100, "v");
  Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  job.Stop();
  const std::string key = StateObjectKey(done->id);
  job.place().Write(key, job.place().Read(key).substr(0, 200));
  for (int attempt = 0; attempt < 10; ++attempt) {
    EXPECT_EQ(job.Start(1).code(), StatusCode::kCorruption);
    EXPECT_EQ(job.store->latest_commit(), done->id);
    EXPECT_EQ(job.Contents(0).size(), 0u);
  }
}

TEST_P(RecoveryTest, GoingBackToAnOlderCutIsExplicitAndExact) {
  PlacedJob job(GetParam());
  BuildHistory(&job, 1);
  const base::CheckpointId older(3);
  ASSERT_TRUE(job.Start(2, older).ok());
  EXPECT_EQ(job.cut->id(), older);
  EXPECT_EQ(job.Contents(0), (*job.ModelAt(older))[0]);
  // The next cut builds on it, and is the latest.
  job.SetModel(*job.ModelAt(older));
  job.Put(0, "new", "way");
  Result<PersistedCut> next = job.Checkpoint();
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_EQ(next->rows_new, 1u);
  ASSERT_TRUE(job.Start(2).ok());
  EXPECT_EQ(job.cut->id(), next->id);
  ExpectModel(&job);
}

TEST_P(RecoveryTest, GoingBackWorksWhenTheLatestManifestIsDamaged) {
  PlacedJob job(GetParam());
  BuildHistory(&job, 1);
  job.Stop();
  job.place().FlipByte(ManifestKey(base::CheckpointId(4)), 10);
  EXPECT_EQ(job.Start(1).code(), StatusCode::kCorruption);
  ASSERT_TRUE(job.Start(1, base::CheckpointId(3)).ok());
  EXPECT_EQ(job.Contents(0), (*job.ModelAt(base::CheckpointId(3)))[0]);
  EXPECT_THAT(job.store->notes(), ::testing::ElementsAre(HasSubstr("checkpoint 4")));
}

TEST_P(RecoveryTest, GoingBackBehindExactlyOnceOutputIsRefused) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 10, "a");
  ASSERT_TRUE(job.Checkpoint().ok());
  job.prepared = {{base::CheckpointId(2), 0, "rows"}};
  ASSERT_TRUE(job.Checkpoint().ok());
  job.prepared.clear();
  ASSERT_TRUE(job.Checkpoint().ok());
  const Status refused = job.Start(1, base::CheckpointId(1));
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("checkpoint 2 has published rows"));
  EXPECT_TRUE(job.Start(1, base::CheckpointId(2)).ok());  // nothing was published after it
  EXPECT_EQ(job.Start(1, base::CheckpointId(9)).code(), StatusCode::kNotFound);
}

TEST_P(RecoveryTest, GoingBackToACutThatIsNotThereListsThoseThatAre) {
  PlacedJob job(GetParam());
  BuildHistory(&job, 1);
  const Status unknown = job.Start(1, base::CheckpointId(1));
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_THAT(unknown.message(), HasSubstr("4, 3, 2"));
}

TEST_P(RecoveryTest, OperatorStateGoesToEverySubtask) {
  PlacedJob job(GetParam(), {SlotOf("a"), SlotOf("a/partitions", state::SlotKind::kOperatorValue)});
  ASSERT_TRUE(job.Start(2).ok());
  for (int i = 0; i < 8; ++i) job.Put(1, "p" + std::to_string(i), "0");
  Result<PersistedCut> first = job.Checkpoint();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->frames_new, 2u);
  // Unchanged: by reference. Changed in one subtask: that one whole.
  EXPECT_FALSE(job.Checkpoint()->has_object);
  job.Put(1, "p0", "1");
  Result<PersistedCut> second = job.Checkpoint();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->frames_new, 1u);
  EXPECT_EQ(second->frames_reused, 1u);
  ASSERT_TRUE(job.Start(3).ok());
  for (auto& subtask : job.subtasks) {
    EXPECT_EQ(subtask.tables->Contents(1), job.model(1));
  }
}

INSTANTIATE_TEST_SUITE_P(Places, RecoveryTest,
                         ::testing::Values(PlaceKind::kDirectory, PlaceKind::kMemory,
                                           PlaceKind::kS3),
                         testing::PlaceName);

}  // namespace
}  // namespace cairn::checkpoint
