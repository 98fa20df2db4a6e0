// SPDX-License-Identifier: Apache-2.0
//
// Restore: exact, accounted for to the last row, at any parallelism, and never empty by mistake.
#include "checkpoint/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/job_testing.h"
#include "checkpoint/loaded_cut.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::ModelTable;
using testing::Rows;
using testing::SlotOf;
using testing::TestJob;

void Fill(TestJob* job, size_t op, int count, const std::string& value) {
  for (int i = 0; i < count; ++i) job->Put(op, "key" + std::to_string(i), value);
}

void ExpectModel(TestJob* job) {
  for (size_t op = 0; op < job->whole_model().size(); ++op) {
    ASSERT_EQ(job->Contents(op), job->model(op)) << "operator " << op;
  }
}

/// Base, deltas and erases in one cut.
void BuildHistory(TestJob* job, uint32_t p) {
  ASSERT_TRUE(job->Start(p).ok());
  for (size_t op = 0; op < job->whole_model().size(); ++op) Fill(job, op, 1000, "base");
  ASSERT_TRUE(job->Checkpoint().ok());
  for (int round = 0; round < 3; ++round) {
    for (int i = round; i < 1000; i += 50) job->Put(0, "key" + std::to_string(i), "delta");
    job->Erase(0, "key" + std::to_string(500 + round));
    ASSERT_TRUE(job->Checkpoint().ok());
  }
}

TEST(RecoveryTest, EveryParallelismReadsWhatEveryOtherWrote) {
  for (uint32_t p = 1; p <= 8; ++p) {
    TestJob job;
    BuildHistory(&job, p);
    for (uint32_t q = 1; q <= 8; ++q) {
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
TEST(RecoveryTest, Case02ThreeOperatorsKeepAllTheirKeys) {
  TestJob job({SlotOf("a"), SlotOf("b"), SlotOf("c")});
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
TEST(RecoveryTest, Case04ARestoreLeavesTheCutAsItWas) {
  TestJob job({SlotOf("a"), SlotOf("b")});
  BuildHistory(&job, 1);
  const auto objects = [&] {
    std::map<std::string, std::string> found;
    for (auto& [path, bytes] : job.disk().AllFiles()) {
      if (path.find("/nodes/") != std::string::npos) found[path] = bytes;
    }
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
TEST(RecoveryTest, Case08SparseKeyGroupsRestoreAnywhere) {
  TestJob job;
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

TEST(RecoveryTest, TwoByteKeyGroupsRestoreToo) {
  TestJob job;
  job.options.key_groups = 1000;
  BuildHistory(&job, 3);
  ASSERT_TRUE(job.Start(2).ok());
  ExpectModel(&job);
}

TEST(RecoveryTest, OneFrameAGroupRestoresToo) {
  state::SlotDescriptor slot = SlotOf("rank");
  slot.frame_per_group = true;
  TestJob job({slot});
  ASSERT_TRUE(job.Start(2).ok());
  Fill(&job, 0, 1000, "v");
  Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->frames_new, 128u);
  ASSERT_TRUE(job.Start(3).ok());
  ExpectModel(&job);
}

TEST(RecoveryTest, ReceiptsAccountForEveryRow) {
  TestJob job;
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

TEST(RecoveryTest, AShortOrDoubledReceiptIsRefused) {
  TestJob job;
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

TEST(RecoveryTest, RowsThatNoTableTakesAreRefused) {
  TestJob job;
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

TEST(RecoveryTest, ASlotDeclaredOtherwiseIsRefused) {
  TestJob job;
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
TEST(RecoveryTest, Case01AMissingObjectIsAnErrorNeverAnEmptyStart) {
  TestJob job;
  BuildHistory(&job, 2);
  job.Stop();
  ASSERT_TRUE(job.disk().RemoveFile(job.PathOf(base::CheckpointId(1), "state.arrow")).ok());
  const Status refused = job.Start(2);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("checkpoint 4"));
  EXPECT_THAT(refused.message(),
              HasSubstr("nodes/1/checkpoints/00000000000000000001/state.arrow is missing"));
  EXPECT_TRUE(job.subtasks.empty());  // known before any table is made
}

TEST(RecoveryTest, Case01AnOperatorThatHadNoRowsRestoresEmpty) {
  TestJob job({SlotOf("a"), SlotOf("empty")});
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

TEST(RecoveryTest, AMissingManifestIsAnErrorNeverAnEmptyStart) {
  TestJob job;
  BuildHistory(&job, 1);
  job.Stop();
  ASSERT_TRUE(job.disk().RemoveFile(job.PathOf(base::CheckpointId(4), "manifest.json")).ok());
  const Status refused = job.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("manifest.json is missing"));
}

// Case 22: a truncated object is fatal at once, and nothing is written over it.
TEST(RecoveryTest, Case22ATruncatedObjectFailsEveryTimeAndNothingIsWritten) {
  TestJob job;
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 100, "v");
  Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  job.Stop();
  const std::string path = job.PathOf(done->id, "state.arrow");
  const std::string whole = job.disk().AllFiles()[path];
  ASSERT_TRUE(job.disk().Truncate(path, 200).ok());
  for (int attempt = 0; attempt < 10; ++attempt) {
    EXPECT_EQ(job.Start(1).code(), StatusCode::kCorruption);
    EXPECT_EQ(job.store->latest_commit(), done->id);
    EXPECT_EQ(job.Contents(0).size(), 0u);
  }
}

// Every byte of the object, flipped: either the restore fails as damaged, or the byte is one that
// holds no row (the file's footer, which `verify` checks) and every row is right.
TEST(RecoveryTest, AnyFlippedByteOfAnObjectIsFoundOrHarmless) {
  TestJob job;
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 40, "some value");
  job.prepared = {{base::CheckpointId(1), 0, "a descriptor"}};
  Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  const std::string path = job.PathOf(done->id, "state.arrow");
  const uint64_t size = job.disk().AllFiles()[path].size();
  ASSERT_TRUE(job.Start(1).ok());
  const uint64_t footer =
      static_cast<const LoadedCut&>(*job.cut).manifest().node_data.suffix->range.offset;
  ASSERT_LT(size - footer, size / 2);
  for (uint64_t at = 0; at < size; ++at) {
    job.Stop();
    ASSERT_TRUE(job.disk().FlipByte(path, at, 0x40).ok());
    const Status started = job.Start(1);
    if (started.ok()) {
      EXPECT_GE(at, footer) << "a damaged byte of schema or rows went unnoticed";
      ExpectModel(&job);
    } else {
      EXPECT_TRUE(started.code() == StatusCode::kCorruption ||
                  started.code() == StatusCode::kUnsupportedFormat)
          << "byte " << at << ": " << started.ToString();
    }
    job.Stop();
    ASSERT_TRUE(job.disk().FlipByte(path, at, 0x40).ok());
  }
  ASSERT_TRUE(job.Start(1).ok());
  ExpectModel(&job);
}

// The same of the records that are read before any row: each is either refused or harmless.
TEST(RecoveryTest, AnyFlippedByteOfARecordIsFound) {
  TestJob job;
  ASSERT_TRUE(job.Start(1).ok());
  Fill(&job, 0, 10, "v");
  Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  const std::string manifest = job.PathOf(done->id, "manifest.json");
  for (const std::string& path :
       {manifest, job.directory + "/control/decision-head.json", job.directory + "/FORMAT"}) {
    const uint64_t size = job.disk().AllFiles()[path].size();
    for (uint64_t at = 0; at < size; at += 3) {
      job.Stop();
      const auto before = job.disk().AllFiles();
      ASSERT_TRUE(job.disk().FlipByte(path, at, 0x01).ok());
      const Status started = job.Start(1);
      // A digit of the head may turn into another number that means the same, such as its sequence.
      if (started.ok()) {
        EXPECT_NE(path, manifest) << "byte " << at;
        ExpectModel(&job);
      }
      job.Stop();
      for (const auto& [restore, bytes] : before) {
        if (job.disk().AllFiles()[restore] == bytes) continue;
        ASSERT_TRUE(job.disk().RemoveFile(restore).ok());
        auto file = job.disk().CreateFile(restore);
        ASSERT_TRUE((*file)->Append(bytes).ok() && (*file)->Close().ok());
      }
    }
  }
  ASSERT_TRUE(job.Start(1).ok());
  ExpectModel(&job);
}

// Case 34: twice in a row, and a crash inside the first: the source is as it was.
TEST(RecoveryTest, Case34ACrashInsideARestoreHarmsNothing) {
  for (const uint32_t restored : {2u, 1u}) {  // as it was, and rescaled
    TestJob job;
    BuildHistory(&job, 2);
    for (uint64_t call = 0;; ++call) {
      ASSERT_LT(call, 500u);
      job.Stop();
      job.files.Arm({.call = call, .kind = env::FaultKind::kCallback, .after = [&] {
                       job.disk().PowerCut(env::Unsynced::kRandom, call);
                     }});
      (void)job.Start(restored);
      const bool fired = job.files.fired();
      job.Stop();
      job.disk().PowerOn();
      job.files.Disarm();
      ASSERT_TRUE(job.Start(2).ok()) << "call " << call;
      ExpectModel(&job);
      if (!fired) break;
    }
  }
}

// Every call of a restore fails, at the same parallelism and rescaled: no restore, no other state,
// and the same place restores when the fault is gone.
TEST(RecoveryTest, Behaviour62AFaultBeforeOrInsideARestoreFailsItOnBothPaths) {
  for (const uint32_t restored : {2u, 3u}) {
    TestJob job;
    BuildHistory(&job, 2);
    uint64_t failed = 0;
    for (uint64_t call = 0;; ++call) {
      ASSERT_LT(call, 500u);
      job.Stop();
      job.files.Arm({.call = call, .kind = env::FaultKind::kFail, .for_ever = true});
      const Status started = job.Start(restored);
      const bool fired = job.files.fired();
      job.files.Disarm();
      if (!fired) {
        ASSERT_TRUE(started.ok()) << started.ToString();
        ExpectModel(&job);
        break;
      }
      failed += !started.ok();
      if (started.ok()) ExpectModel(&job);  // a call that is not needed, such as of a hint
      ASSERT_TRUE(job.Start(restored).ok()) << "call " << call;
      ExpectModel(&job);
    }
    EXPECT_GT(failed, 5u);
  }
}

TEST(RecoveryTest, GoingBackToAnOlderCutIsExplicitAndExact) {
  TestJob job;
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

TEST(RecoveryTest, GoingBackWorksWhenTheLatestManifestIsDamaged) {
  TestJob job;
  BuildHistory(&job, 1);
  job.Stop();
  ASSERT_TRUE(job.disk().FlipByte(job.PathOf(base::CheckpointId(4), "manifest.json"), 10).ok());
  EXPECT_EQ(job.Start(1).code(), StatusCode::kCorruption);
  ASSERT_TRUE(job.Start(1, base::CheckpointId(3)).ok());
  EXPECT_EQ(job.Contents(0), (*job.ModelAt(base::CheckpointId(3)))[0]);
  EXPECT_THAT(job.store->notes(), ::testing::ElementsAre(HasSubstr("checkpoint 4")));
}

TEST(RecoveryTest, GoingBackBehindExactlyOnceOutputIsRefused) {
  TestJob job;
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

TEST(RecoveryTest, GoingBackToACutThatIsNotThereListsThoseThatAre) {
  TestJob job;
  BuildHistory(&job, 1);
  const Status unknown = job.Start(1, base::CheckpointId(1));
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_THAT(unknown.message(), HasSubstr("4, 3, 2"));
}

TEST(RecoveryTest, OperatorStateGoesToEverySubtask) {
  TestJob job({SlotOf("a"), SlotOf("a/partitions", state::SlotKind::kOperatorValue)});
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

}  // namespace
}  // namespace cairn::checkpoint
