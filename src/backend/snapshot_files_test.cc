// SPDX-License-Identifier: Apache-2.0
#include "backend/snapshot_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::backend {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kSnaps[] = "/state/0";

class BackendSnapshotFilesTest : public ::testing::Test {
 protected:
  std::unique_ptr<SnapshotFiles> Open(SnapshotFileOptions options = {}) {
    auto opened = SnapshotFiles::Open(&files_, kSnaps, std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  static Status Save(SnapshotFiles* place, uint64_t id, std::string_view payload) {
    return place->Write(id, [&](format::ByteSink* sink) { return sink->Append(payload); }).status();
  }
  /// The bytes of the newest valid snapshot, as another process sees the directory now.
  std::string SeenBeside() {
    const SnapshotFiles reader = SnapshotFiles::ForReading(&disk_, kSnaps, {});
    const auto latest = reader.LatestValid(UINT64_MAX);
    if (!latest.ok() || !latest->has_value()) return "none";
    const auto payload = reader.Read(reader.PathOf(**latest));
    return payload.ok() ? *payload : payload.status().ToString();
  }

  env::MemoryFileSystem disk_;
  env::FaultFileSystem files_{&disk_};
};

TEST_F(BackendSnapshotFilesTest, Behaviour41AReaderBesideAWriteSeesTheOldOneOrTheNewOneWhole) {
  const auto place = Open();
  ASSERT_TRUE(Save(place.get(), 1, "older").ok());
  bool old_seen = false, new_seen = false;
  for (uint64_t call = 0;; ++call) {
    ASSERT_LT(call, 100u);
    files_.Arm({.call = call, .kind = env::FaultKind::kCallback, .after = [&] {
                  const std::string seen = SeenBeside();
                  EXPECT_TRUE(seen == "older" || seen == "the newer one") << call << ": " << seen;
                  old_seen = old_seen || seen == "older";
                  new_seen = new_seen || seen == "the newer one";
                }});
    ASSERT_TRUE(Save(place.get(), 2, "the newer one").ok());
    const bool fired = files_.fired();
    files_.Disarm();
    ASSERT_TRUE(place->Purge(2).ok());
    if (!fired) break;
  }
  EXPECT_TRUE(old_seen && new_seen);
}

TEST_F(BackendSnapshotFilesTest, Behaviour41APartThatACrashLeftIsNeverLoadedAndGoesAtTheNextOpen) {
  ASSERT_TRUE(Save(Open().get(), 1, "whole").ok());
  auto part = disk_.CreateFile(std::string(kSnaps) + "/checkpoint-2.snap.part");
  ASSERT_TRUE((*part)->Append("half").ok() && (*part)->Close().ok());
  EXPECT_EQ(SeenBeside(), "whole");
  const auto place = Open();
  EXPECT_THAT(*place->ListAll(), ElementsAre(1));
  EXPECT_EQ(disk_.AllFiles().size(), 2u);
}

TEST_F(BackendSnapshotFilesTest, Behaviour44ReplacesWholeWritesEmptyOnesAndWorksWithoutSync) {
  const auto place = Open();
  ASSERT_TRUE(Save(place.get(), 1, "the first, longer payload").ok());
  ASSERT_TRUE(Save(place.get(), 1, "second").ok());
  EXPECT_EQ(*place->Read(place->PathOf(1)), "second");
  ASSERT_TRUE(Save(place.get(), 2, "").ok());
  EXPECT_EQ(*place->Read(place->PathOf(2)), "");
  SnapshotFileOptions unsynced;
  unsynced.fsync = false;
  const auto quick = Open(unsynced);
  files_.Disarm();
  ASSERT_TRUE(Save(quick.get(), 3, "x").ok());
  EXPECT_EQ(files_.Count("fsync"), 0u);
  EXPECT_EQ(*quick->Read(quick->PathOf(3)), "x");
  EXPECT_THAT(*place->ListValid(), ElementsAre(1, 2, 3));
  EXPECT_EQ(disk_.AllFiles().size(), 6u) << "no temporary name is left";
}

TEST_F(BackendSnapshotFilesTest, Behaviour47EachDamageHasItsVerdictAndIsNoValidSnapshot) {
  const auto place = Open();
  ASSERT_TRUE(Save(place.get(), 1, "payload").ok());
  const std::string path = place->PathOf(1);
  const auto verdict = [&] { return place->Read(path).status(); };
  ASSERT_TRUE(disk_.FlipByte(path, 3).ok());  // the length is as it was
  EXPECT_EQ(verdict().code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(verdict().message()), ::testing::HasSubstr("is corrupt"));
  EXPECT_THAT(*place->ListValid(), IsEmpty());
  ASSERT_TRUE(disk_.Truncate(path, 3).ok());
  EXPECT_THAT(std::string(verdict().message()), ::testing::HasSubstr("is incomplete"));
  ASSERT_TRUE(Save(place.get(), 1, "payload").ok());
  ASSERT_TRUE(disk_.RemoveFile(path + ".meta").ok());
  EXPECT_THAT(std::string(verdict().message()), ::testing::HasSubstr("is incomplete"));
  ASSERT_TRUE(disk_.RemoveFile(path).ok());
  EXPECT_EQ(verdict().code(), StatusCode::kNotFound);
}

TEST_F(BackendSnapshotFilesTest, Behaviour50EveryCutOfThePowerLeavesTheOldOneOrTheNewOne) {
  for (uint64_t call = 0;; ++call) {
    ASSERT_LT(call, 100u);
    {
      const auto place = Open();
      ASSERT_TRUE(Save(place.get(), 1, "older").ok());
      files_.Arm({.call = call, .kind = env::FaultKind::kCallback, .after = [&] {
                    disk_.PowerCut(env::Unsynced::kRandom, call);
                  }});
      (void)Save(place.get(), 2, "the newer one");
    }
    const bool fired = files_.fired();
    disk_.PowerOn();
    files_.Disarm();
    const std::string seen = SeenBeside();
    EXPECT_TRUE(seen == "older" || seen == "the newer one") << call << ": " << seen;
    const auto place = Open();
    ASSERT_TRUE(Save(place.get(), 3, "after").ok()) << "what the crash left is not in the way";
    ASSERT_TRUE(place->Purge(2).ok() && place->Purge(3).ok());
    if (!fired) break;
  }
}

}  // namespace
}  // namespace cairn::backend
