// SPDX-License-Identifier: Apache-2.0
//
// The byte contract: places of snapshots, on every backend: what a failing disk, a purge, a missing
// or damaged snapshot and a participant without rows do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend_fixture.h"

namespace cairn::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BackendPlaces : public BackendContract {
 protected:
  static void Fill(StateBackend* backend, int rows, char letter) {
    WriteBatch batch;
    for (int i = 0; i < rows; ++i) {
      batch.Put(kOp, Row("s", std::to_string(i)), std::string(50, letter));
    }
    ASSERT_OK(backend->Apply(batch, nullptr));
  }
  static Status RestoreInto(StateBackend* backend, const BackendSnapshot& snapshot) {
    const RestorePart part{snapshot, 0, 1};
    return backend->Restore({&part, 1}).status();
  }
};

INSTANTIATE_TEST_SUITE_P(Every, BackendPlaces, ::testing::ValuesIn(PlainBackends()),
                         [](const auto& info) { return info.param.name; });

// Every file-system call of a snapshot fails in turn, in every way: the snapshots before it stay,
// the state goes on, and the next snapshot holds all.
TEST_P(BackendPlaces, Behaviour50APersistThatFailsAtAnyCallHarmsNothing) {
  if (!GetParam().scans) GTEST_SKIP() << "what it holds cannot be listed";
  uint64_t calls = 0;
  for (const env::FaultKind kind :
       {env::FaultKind::kNone, env::FaultKind::kFail, env::FaultKind::kFailAfter,
        env::FaultKind::kShortWrite, env::FaultKind::kNoSpace}) {
    for (uint64_t call = 0; call < (kind == env::FaultKind::kNone ? 1 : calls); ++call) {
      SCOPED_TRACE("call " + std::to_string(call));
      BackendWorld world;
      Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      StateBackend* backend = opened->get();
      Fill(backend, 200, 'a');
      const Result<BackendSnapshot> first = backend->Snapshot(1);
      ASSERT_TRUE(first.ok()) << first.status().ToString();
      Fill(backend, 150, 'b');
      ASSERT_OK(backend->Erase(kOp, Row("s", "5")));
      world.files.Arm({call, kind, false, nullptr});
      const Result<BackendSnapshot> second = backend->Snapshot(2);
      if (kind == env::FaultKind::kNone) calls = world.files.calls();
      world.files.Disarm();
      ASSERT_OK(backend->Put(kOp, Row("s", "new"), "c"));
      const Result<BackendSnapshot> third = backend->Snapshot(3);
      ASSERT_TRUE(third.ok()) << third.status().ToString();
      if (second.ok()) {
        ASSERT_OK(RestoreInto(backend, *second));
        ASSERT_EQ(ScanRows(backend, kOp).size(), 199u);
      }
      ASSERT_OK(RestoreInto(backend, *first));
      ASSERT_EQ(Read(backend, kOp, Row("s", "7")), std::string(50, 'a'));
      ASSERT_OK(RestoreInto(backend, *third));
      ASSERT_EQ(ScanRows(backend, kOp).size(), 200u);
      ASSERT_EQ(Read(backend, kOp, Row("s", "7")), std::string(50, 'b'));
      ASSERT_EQ(Read(backend, kOp, Row("s", "5")), std::nullopt);
      for (const auto& [path, bytes] : world.disk.AllFiles()) {
        EXPECT_EQ(path.find(".part"), std::string::npos) << path << " is left";
      }
    }
  }
  if (!world_.disk.AllFiles().empty()) {
    EXPECT_GT(calls, 4u) << "it writes files, so it can fail";
  }
}

TEST_P(BackendPlaces, Behaviour43PurgingASnapshotTakesItsFilesAndNoOther) {
  SnapshotPlace* place = backend_->snapshot_place();
  if (place == nullptr) GTEST_SKIP() << "its snapshots are bytes in the caller's hands";
  std::map<uint64_t, BackendSnapshot> snapshots;
  for (const uint64_t id : {1, 11, 111}) {
    ASSERT_OK(backend_->Put(kOp, Row("s", "k"), std::to_string(id)));
    snapshots[id] = Snapshot(id);
  }
  EXPECT_THAT(*place->List(), ElementsAre(1, 11, 111));
  ASSERT_OK(place->Purge(11));
  ASSERT_OK(place->Purge(11));  // one that is gone is no error
  EXPECT_THAT(*place->List(), ElementsAre(1, 111));
  for (const auto& [path, bytes] : world_.disk.AllFiles()) {
    EXPECT_EQ(path.find("-11.snap"), std::string::npos) << path;
  }
  EXPECT_EQ(RestoreOwn(snapshots[11]).code(), StatusCode::kNotFound);
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "k")), "111") << "a refused restore changes nothing";
  for (const uint64_t id : {1, 111}) {
    ASSERT_OK(RestoreOwn(snapshots[id]));
    EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "k")), std::to_string(id));
  }
}

TEST_P(BackendPlaces, Behaviour58ASnapshotThatIsNotThereIsAnErrorAndNeverAnEmptyStart) {
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "live"));
  BackendSnapshot snapshot = Snapshot(1);
  for (const uint64_t id : {99, 2}) {
    BackendSnapshot absent;
    absent.checkpoint_id = id;
    absent.form = SnapshotForm::kStored;
    const Status refused = RestoreOwn(absent);
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "k")), "live");
  }
}

TEST_P(BackendPlaces, Behaviour59DamageNamesTheNewestOlderValidSnapshotOrSaysThereIsNone) {
  if (Snapshot(1).location.empty()) GTEST_SKIP() << "its snapshots lie in no place of their own";
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "v"));
  const BackendSnapshot second = Snapshot(2);
  const BackendSnapshot third = Snapshot(3);
  if (IsPooled(third, &world_)) GTEST_SKIP() << "objects of the process: no bytes to damage";
  ASSERT_OK(world_.disk.FlipByte(third.location, 100));
  EXPECT_THAT(std::string(RestoreOwn(third).message()),
              HasSubstr("the newest older valid one is 2"));
  ASSERT_OK(world_.disk.RemoveFile(second.location + ".meta"));
  EXPECT_THAT(std::string(RestoreOwn(third).message()),
              HasSubstr("the newest older valid one is 1"));
  ASSERT_OK(backend_->snapshot_place()->Purge(1));
  EXPECT_THAT(std::string(RestoreOwn(third).message()), HasSubstr("there is no older valid one"));
}

TEST_P(BackendPlaces, Case01AParticipantWithoutRowsWroteASnapshotAndRestores) {
  ASSERT_OK(backend_->Close());
  backend_.reset();
  std::vector<RestorePart> parts;
  for (uint32_t subtask = 0; subtask < 2; ++subtask) {
    const auto half = Open(subtask, 2);
    ASSERT_NE(half, nullptr);
    if (subtask == 0) {
      std::string mine = "k";
      while (OwnerOfKeyGroup(KeyGroupOf(mine, kDefaultKeyGroups), 2, kDefaultKeyGroups) == 1) {
        mine += "k";
      }
      ASSERT_OK(half->Put(kOp, Row("s", mine), "v"));
    }
    const Result<BackendSnapshot> snapshot = half->Snapshot(4);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    parts.push_back({*snapshot, subtask, 2});
  }
  backend_ = Open();
  ASSERT_NE(backend_, nullptr);
  const Result<RestoreCounts> counts = backend_->Restore(parts);
  ASSERT_TRUE(counts.ok()) << counts.status().ToString();
  EXPECT_EQ(counts->rows, 1u);
  if (GetParam().scans) {
    EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), 1u);
  }
}

}  // namespace
}  // namespace cairn::contract
