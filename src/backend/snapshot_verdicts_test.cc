// SPDX-License-Identifier: Apache-2.0
#include "backend/snapshot_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::backend {
namespace {

using format::SnapshotVerdict;
using ::testing::ElementsAre;

constexpr char kDir[] = "/snaps";

class SnapshotFilesTest : public ::testing::Test {
 protected:
  SnapshotFilesTest() {
    auto opened = SnapshotFiles::Open(&files_, kDir, {});
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    snapshots_ = *std::move(opened);
  }

  Status Write(uint64_t id, const std::string& payload) {
    return snapshots_->Write(id, [&](format::ByteSink* sink) { return sink->Append(payload); })
        .status();
  }
  SnapshotVerdict Judge(uint64_t id) {
    const auto verdict = JudgeSnapshotFile(&disk_, Path(id));
    EXPECT_TRUE(verdict.ok()) << verdict.status().ToString();
    return *verdict;
  }
  std::optional<uint64_t> Latest(uint64_t ceiling = UINT64_MAX) {
    return *snapshots_->LatestValid(ceiling);
  }
  static std::string Path(uint64_t id) {
    return std::string(kDir) + "/checkpoint-" + std::to_string(id) + ".snap";
  }
  static std::string Meta(uint64_t id) { return Path(id) + ".meta"; }
  void Replace(const std::string& path, const std::string& bytes) {
    if (disk_.Stat(path).ok()) {
      ASSERT_TRUE(disk_.RemoveFile(path).ok());
    }
    auto file = disk_.CreateFile(path);
    ASSERT_TRUE((*file)->Append(bytes).ok() && (*file)->Close().ok());
  }

  env::MemoryFileSystem disk_;
  env::FaultFileSystem files_{&disk_};
  std::unique_ptr<SnapshotFiles> snapshots_;
};

TEST_F(SnapshotFilesTest, Behaviour46And47GivesTheVerdictOfEachDamage) {
  EXPECT_EQ(Judge(7), SnapshotVerdict::kMissing);
  ASSERT_TRUE(Write(7, "payload").ok());
  EXPECT_EQ(Judge(7), SnapshotVerdict::kValid);
  const std::string meta = disk_.AllFiles()[Meta(7)];
  EXPECT_EQ(meta, "clink_checkpoint_meta=1\ncheckpoint_id=7\npayload_bytes=7\npayload_crc32c=" +
                      std::to_string(format::SidecarOf(7, "payload").payload_crc32c) + "\n");
  Replace(Path(7), "payloa");
  EXPECT_EQ(Judge(7), SnapshotVerdict::kIncomplete);
  Replace(Path(7), "paYload");
  EXPECT_EQ(Judge(7), SnapshotVerdict::kCorrupt);
  Replace(Path(7), "payload");
  Replace(Meta(7), meta + "a_key_from_the_future=7\n");
  EXPECT_EQ(Judge(7), SnapshotVerdict::kValid);
  Replace(Meta(7), "clink_checkpoint_meta=2\n");
  EXPECT_EQ(Judge(7), SnapshotVerdict::kUnsupported);
  Replace(Meta(7), "some text\n");
  EXPECT_EQ(Judge(7), SnapshotVerdict::kCorrupt);
  ASSERT_TRUE(disk_.RemoveFile(Meta(7)).ok());
  EXPECT_EQ(Judge(7), SnapshotVerdict::kIncomplete);
}

TEST_F(SnapshotFilesTest, Behaviour49TheLatestValidOneSkipsBadOnesAndHonoursACeiling) {
  EXPECT_EQ(Latest(), std::nullopt);
  for (const uint64_t id : {1, 2, 3, 10, 11}) ASSERT_TRUE(Write(id, "some bytes").ok());
  EXPECT_EQ(Latest(), 11u);
  EXPECT_EQ(Latest(9), 3u);
  Replace(Path(11), "some BYTES");
  Replace(Path(10), "some");
  ASSERT_TRUE(disk_.RemoveFile(Meta(3)).ok());
  EXPECT_EQ(Latest(), 2u);
  EXPECT_EQ(Latest(0), std::nullopt);
  EXPECT_THAT(*snapshots_->ListAll(), ElementsAre(1, 2, 3, 10, 11));
}

TEST_F(SnapshotFilesTest, Behaviour43RemovingOneTakesItsSidecarAndNothingElse) {
  for (const uint64_t id : {1, 11, 111}) ASSERT_TRUE(Write(id, "bytes").ok());
  ASSERT_TRUE(snapshots_->Purge(11).ok());
  ASSERT_TRUE(snapshots_->Purge(11).ok()) << "one that is gone is success";
  EXPECT_EQ(disk_.AllFiles().size(), 4u);
  EXPECT_EQ(Judge(1), SnapshotVerdict::kValid);
  EXPECT_EQ(Judge(11), SnapshotVerdict::kMissing);
  EXPECT_EQ(Judge(111), SnapshotVerdict::kValid);
}

TEST_F(SnapshotFilesTest, Behaviour44ReplacesWholeWritesEmptyOnesAndWorksWithoutSync) {
  ASSERT_TRUE(Write(1, "the first, longer payload").ok());
  ASSERT_TRUE(Write(1, "second").ok());
  EXPECT_EQ(disk_.AllFiles()[Path(1)], "second");
  EXPECT_EQ(Judge(1), SnapshotVerdict::kValid);
  ASSERT_TRUE(Write(2, "").ok());
  EXPECT_EQ(disk_.AllFiles()[Path(2)], "");
  EXPECT_EQ(Judge(2), SnapshotVerdict::kValid);
  SnapshotFileOptions unsynced;
  unsynced.fsync = false;
  const auto fast = SnapshotFiles::Open(&files_, kDir, unsynced);
  ASSERT_TRUE(fast.ok());
  ASSERT_TRUE((*fast)->Write(3, [](format::ByteSink* sink) { return sink->Append("x"); }).ok());
  EXPECT_EQ(Judge(3), SnapshotVerdict::kValid);
  EXPECT_EQ(disk_.AllFiles().size(), 6u) << "no temporary name is left";
}

TEST_F(SnapshotFilesTest, Behaviour41APartThatACrashLeftIsNeverLoadedAndNotInTheWay) {
  ASSERT_TRUE(Write(1, "whole").ok());
  Replace(Path(2) + ".part", "half of");
  EXPECT_THAT(*snapshots_->ListAll(), ElementsAre(1));
  EXPECT_EQ(Latest(), 1u);
  ASSERT_TRUE(Write(2, "half of it").ok());
  EXPECT_EQ(Latest(), 2u);
}

// Every call of a write fails once, or the power goes after it: the older snapshot stays the newest
// valid one until the new one is whole.
TEST_F(SnapshotFilesTest, Behaviour50EveryFaultLeavesTheOldOneNewestOrTheNewOneWhole) {
  ASSERT_TRUE(Write(1, "older").ok());
  for (const env::FaultKind kind :
       {env::FaultKind::kFail, env::FaultKind::kShortWrite, env::FaultKind::kCallback}) {
    for (uint64_t call = 0;; ++call) {
      ASSERT_LT(call, 100u);
      files_.Arm({.call = call, .kind = kind, .after = [&] {
                    disk_.PowerCut(env::Unsynced::kRandom, call);
                  }});
      const Status written = Write(2, "newer payload");
      const bool fired = files_.fired();
      files_.Disarm();
      disk_.PowerOn();
      const auto latest = Latest();
      if (written.ok() && kind != env::FaultKind::kCallback) {
        EXPECT_EQ(latest, 2u);
      } else {
        EXPECT_TRUE(latest == 1u || latest == 2u) << "call " << call;
      }
      if (latest == 2u) {
        EXPECT_EQ(disk_.AllFiles()[Path(2)], "newer payload");
      }
      EXPECT_EQ(Judge(1), SnapshotVerdict::kValid);
      ASSERT_TRUE(snapshots_->Purge(2).ok());
      if (!fired) break;
    }
  }
}

TEST_F(SnapshotFilesTest, NamesAreReadBackExactly) {
  ASSERT_TRUE(Write(42, "x").ok());
  for (const char* other : {"checkpoint-.snap", "checkpoint-4x.snap", "checkpoint-43.snap.meta",
                            "checkpoint-44.snap.part", "checkpoint--1.snap", "checkpoint.snap"}) {
    Replace(std::string(kDir) + "/" + other, "x");
  }
  ASSERT_TRUE(disk_.CreateDirectory(std::string(kDir) + "/checkpoint-45.snap").ok());
  EXPECT_THAT(*snapshots_->ListAll(), ElementsAre(42));
}

// Other programs write materialisations without a sidecar.
TEST_F(SnapshotFilesTest, WithoutNeedOfASidecarAFileIsTakenAsItIsUnlessItsSidecarSaysOtherwise) {
  SnapshotFileOptions options;
  options.sidecar_needed = false;
  const SnapshotFiles lenient = SnapshotFiles::ForReading(&files_, kDir, options);
  Replace(Path(1), "bare");
  EXPECT_EQ(*lenient.Read(Path(1)), "bare");
  EXPECT_EQ(snapshots_->Read(Path(1)).status().code(), StatusCode::kCorruption);
  ASSERT_TRUE(Write(2, "summed").ok());
  Replace(Path(2), "Summed");
  EXPECT_EQ(lenient.Read(Path(2)).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace cairn::backend
