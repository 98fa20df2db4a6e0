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

using testing::BuildHistory;
using testing::ExpectModel;
using testing::Fill;
using ::testing::HasSubstr;
using testing::ModelTable;
using testing::Rows;
using testing::SlotOf;
using testing::TestJob;

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

}  // namespace
}  // namespace cairn::checkpoint
