// SPDX-License-Identifier: Apache-2.0
//
// What only a changelog does: materialise, keep logs small, collect, canonicalise. What it shares
// with every backend is in tests/contract/backend_contract_test.cc.
#include "backend/changelog/changelog_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "env/fault_file_system.h"
#include "env/memory_file_system.h"
#include "format/canonical_stream.h"
#include "format/keys.h"

namespace cairn::backend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr OperatorId kOp{42};
constexpr char kPlace[] = "/state/0";

std::string RowKey(std::string_view user_key, std::string_view slot = "s") {
  std::string key;
  format::KeyLayout().AppendKeyed(KeyGroupOf(user_key, kDefaultKeyGroups), slot, user_key, &key);
  return key;
}

class ChangelogTest : public ::testing::Test {
 protected:
  std::unique_ptr<ChangelogBackend> Open(bool files, bool inside = false,
                                         uint64_t rebase_bytes_min = 64 << 10) {
    ChangelogOptions options;
    options.tables.state.budget = &budget_;
    options.inline_materialisations = inside;
    options.rebase_bytes_min = rebase_bytes_min;
    if (files) {
      options.tables.files = &files_;
      options.tables.directory = kPlace;
    }
    Result<std::unique_ptr<ChangelogBackend>> opened = ChangelogBackend::Open(options);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  static BackendSnapshot Save(StateBackend* backend, uint64_t id) {
    Result<BackendSnapshot> snapshot = backend->Snapshot(id);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    return snapshot.ok() ? *std::move(snapshot) : BackendSnapshot();
  }

  static Status RestoreOwn(StateBackend* backend, const BackendSnapshot& snapshot) {
    const RestorePart part{snapshot, 0, 1};
    return backend->Restore({&part, 1}).status();
  }

  static void Fill(StateBackend* backend, int rows, char letter, size_t bytes = 100) {
    WriteBatch batch;
    for (int i = 0; i < rows; ++i) {
      batch.Put(kOp, RowKey(std::to_string(i)), std::string(bytes, letter));
    }
    const Status status = backend->Apply(batch, nullptr);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  std::string BytesOf(const BackendSnapshot& snapshot) {
    if (snapshot.form != SnapshotForm::kStored) return snapshot.bytes;
    Result<std::string> bytes = env::ReadWholeFile(&disk_, snapshot.location, 1 << 30);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    return bytes.ok() ? *bytes : "";
  }

  static format::ChangelogStream Parse(const std::string& bytes) {
    Result<format::ChangelogStream> log = format::ReadChangelogStream(bytes);
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    return log.ok() ? *std::move(log) : format::ChangelogStream();
  }

  std::vector<std::string> Materialisations() const {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : disk_.AllFiles()) {
      if (path.ends_with(".bin")) names.push_back(path.substr(path.rfind('/') + 1));
    }
    return names;
  }

  env::MemoryFileSystem disk_;
  env::FaultFileSystem files_{&disk_};
  MemoryBudget budget_{0};
};

TEST_F(ChangelogTest, TheFirstSnapshotMaterialisesAndLaterOnesHoldTheLogOnly) {
  const auto backend = Open(true);
  Fill(backend.get(), 5000, 'a');
  const BackendSnapshot first = Save(backend.get(), 1);
  EXPECT_EQ(backend->materialisations(), 1u);
  EXPECT_EQ(Parse(BytesOf(first)).rows, 0u);
  ASSERT_TRUE(backend->Put(kOp, RowKey("7"), "new").ok());
  ASSERT_TRUE(backend->Erase(kOp, RowKey("8")).ok());
  const BackendSnapshot second = Save(backend.get(), 2);
  EXPECT_EQ(backend->materialisations(), 1u);
  const std::string bytes = BytesOf(second);
  EXPECT_EQ(Parse(bytes).rows, 2u);
  EXPECT_LT(bytes.size(), 2000u);
  EXPECT_EQ(backend->Describe().last_snapshot_bytes, bytes.size());
}

TEST_F(ChangelogTest, ALogHoldsEachChangedKeyOnceAndTellsOperatorsApart) {
  const auto backend = Open(false);
  Fill(backend.get(), 100, 'a');
  Save(backend.get(), 1);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(backend->Put(kOp, RowKey("7"), std::to_string(i)).ok());
    ASSERT_TRUE(backend->Put(OperatorId{43}, RowKey("7"), std::to_string(i)).ok());
  }
  ASSERT_TRUE(backend->Put(kOp, RowKey("gone"), "1").ok());
  ASSERT_TRUE(backend->Erase(kOp, RowKey("gone")).ok());
  const BackendSnapshot snapshot = Save(backend.get(), 2);
  const format::ChangelogStream log = Parse(snapshot.bytes);
  std::map<std::pair<uint64_t, std::string>, std::string> rows;
  uint64_t count = 0;
  for (const format::CanonicalBatch& batch : log.batches) {
    for (size_t i = 0; i < batch.rows.rows; ++i, ++count) {
      rows[{batch.operator_ids[i], std::string(batch.rows.key(i))}] = batch.rows.value(i);
    }
  }
  EXPECT_EQ(count, rows.size());
  EXPECT_EQ((rows[{42, RowKey("7")}]), "49");
  EXPECT_EQ((rows[{43, RowKey("7")}]), "49");
  EXPECT_LE(count, 3u);
}

TEST_F(ChangelogTest, ALogPastHalfTheBaseAnd64KiBBecomesAMaterialisation) {
  const auto backend = Open(true);
  Fill(backend.get(), 10'000, 'a');  // about 1.2 MiB
  Save(backend.get(), 1);
  Fill(backend.get(), 400, 'b');  // about 50 KiB
  Save(backend.get(), 2);
  EXPECT_EQ(backend->materialisations(), 1u);
  Fill(backend.get(), 4000, 'c');  // about 0.5 MiB, under half
  Save(backend.get(), 3);
  EXPECT_EQ(backend->materialisations(), 1u);
  Fill(backend.get(), 7000, 'd');
  const BackendSnapshot fourth = Save(backend.get(), 4);
  EXPECT_EQ(backend->materialisations(), 2u);
  EXPECT_EQ(Parse(BytesOf(fourth)).rows, 0u);
  EXPECT_THAT(Materialisations(), ElementsAre("mat-1.bin", "mat-4.bin"));
}

TEST_F(ChangelogTest, ASmallStateIsNotMaterialisedAtEverySnapshot) {
  const auto backend = Open(true);
  for (uint64_t id = 1; id <= 20; ++id) {
    Fill(backend.get(), 20, static_cast<char>('a' + id));
    Save(backend.get(), id);
  }
  EXPECT_EQ(backend->materialisations(), 1u);
}

TEST_F(ChangelogTest, MaterializeNowEmptiesTheLogOfTheNextSnapshot) {
  const auto backend = Open(true);
  Fill(backend.get(), 1000, 'a');
  Save(backend.get(), 1);
  ASSERT_TRUE(backend->Put(kOp, RowKey("7"), "new").ok());
  backend->MaterializeNow();
  EXPECT_EQ(Parse(BytesOf(Save(backend.get(), 2))).rows, 0u);
  EXPECT_EQ(backend->materialisations(), 2u);
  ASSERT_TRUE(backend->Put(kOp, RowKey("8"), "new").ok());
  EXPECT_EQ(Parse(BytesOf(Save(backend.get(), 3))).rows, 1u);
}

TEST_F(ChangelogTest, ARestoredChangelogGoesOnWithItsMaterialisationAndLog) {
  BackendSnapshot second;
  {
    const auto backend = Open(true);
    Fill(backend.get(), 5000, 'a');
    Save(backend.get(), 1);
    ASSERT_TRUE(backend->Put(kOp, RowKey("7"), "new").ok());
    ASSERT_TRUE(backend->Erase(kOp, RowKey("8")).ok());
    second = Save(backend.get(), 2);
  }
  const auto backend = Open(true);
  ASSERT_TRUE(RestoreOwn(backend.get(), second).ok());
  EXPECT_EQ(backend->Describe().rows, 4999u);
  ASSERT_TRUE(backend->Put(kOp, RowKey("9"), "newer").ok());
  const BackendSnapshot third = Save(backend.get(), 3);
  EXPECT_EQ(backend->materialisations(), 0u);
  EXPECT_EQ(Parse(BytesOf(third)).rows, 3u);
  ASSERT_TRUE(RestoreOwn(backend.get(), third).ok());
  EXPECT_EQ(**backend->Get(kOp, RowKey("7")), "new");
  EXPECT_EQ(**backend->Get(kOp, RowKey("9")), "newer");
  EXPECT_EQ(*backend->Get(kOp, RowKey("8")), std::nullopt);
}

TEST_F(ChangelogTest, ASnapshotAndItsMaterialisationsCanBeMovedTogether) {
  BackendSnapshot snapshot;
  {
    const auto backend = Open(true);
    Fill(backend.get(), 100, 'a');
    snapshot = Save(backend.get(), 5);
  }
  ASSERT_TRUE(env::CreateDirectories(&disk_, "/moved/0/materializations", false).ok());
  for (const auto& [path, bytes] : disk_.AllFiles()) {
    if (!path.starts_with("/state/0/") || path.ends_with("LOCK")) continue;
    ASSERT_TRUE(disk_.Rename(path, "/moved/0/" + path.substr(9)).ok()) << path;
  }
  snapshot.location = "/moved/0/changelog-5.snap";
  const auto backend = Open(true);
  const Status status = RestoreOwn(backend.get(), snapshot);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(backend->Describe().rows, 100u);
  // The next snapshot stands on its own: what was read lies elsewhere.
  Save(backend.get(), 6);
  EXPECT_EQ(backend->materialisations(), 1u);
}

TEST_F(ChangelogTest, InsideAndOutsideAreNotMixed) {
  const auto outside = Open(true);
  const auto inside = Open(false);
  Fill(outside.get(), 10, 'a');
  Fill(inside.get(), 10, 'a');
  BackendSnapshot stored = Save(outside.get(), 1);
  const BackendSnapshot bytes = Save(inside.get(), 1);
  EXPECT_THAT(std::string(RestoreOwn(outside.get(), bytes).message()), HasSubstr("is inside"));
  stored.bytes = BytesOf(stored);
  stored.form = SnapshotForm::kChangelog;
  EXPECT_THAT(std::string(RestoreOwn(inside.get(), stored).message()),
              HasSubstr("is kept outside"));
  EXPECT_EQ(outside->Describe().rows, 10u);
}

TEST_F(ChangelogTest, AMaterialisationGoesWithTheLastSnapshotThatNamesIt) {
  const auto backend = Open(true);
  Fill(backend.get(), 1000, 'a');
  Save(backend.get(), 1);
  Save(backend.get(), 2);
  backend->MaterializeNow();
  Save(backend.get(), 3);
  EXPECT_THAT(Materialisations(), ElementsAre("mat-1.bin", "mat-3.bin"));
  ASSERT_TRUE(backend->snapshot_place()->Purge(1).ok());
  EXPECT_THAT(Materialisations(), ElementsAre("mat-1.bin", "mat-3.bin"));
  ASSERT_TRUE(backend->snapshot_place()->Purge(2).ok());
  EXPECT_THAT(Materialisations(), ElementsAre("mat-3.bin"));
  // The one in force stays though no snapshot names it.
  ASSERT_TRUE(backend->snapshot_place()->Purge(3).ok());
  EXPECT_THAT(Materialisations(), ElementsAre("mat-3.bin"));
  ASSERT_TRUE(backend->snapshot_place()->Purge(99).ok());
  EXPECT_THAT(*backend->snapshot_place()->List(), IsEmpty());
}

TEST_F(ChangelogTest, ADamagedSnapshotKeepsAllMaterialisations) {
  {
    const auto backend = Open(true);
    Fill(backend.get(), 100, 'a');
    Save(backend.get(), 1);
    backend->MaterializeNow();
    Save(backend.get(), 2);
    backend->MaterializeNow();
    Save(backend.get(), 3);
  }
  ASSERT_TRUE(disk_.FlipByte("/state/0/changelog-1.snap", 300).ok());
  const auto backend = Open(true);
  const Status status = backend->snapshot_place()->Purge(2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no materialisation was removed"));
  EXPECT_EQ(Materialisations().size(), 3u);
  EXPECT_TRUE(backend->snapshot_place()->Purge(1).ok());
  EXPECT_THAT(Materialisations(), ElementsAre("mat-3.bin"));
}

TEST_F(ChangelogTest, ATornSnapshotIsRefusedAtEveryLength) {
  const auto backend = Open(false);
  Fill(backend.get(), 20, 'a', 10);
  Save(backend.get(), 1);
  ASSERT_TRUE(backend->Put(kOp, RowKey("7"), "new").ok());
  BackendSnapshot snapshot = Save(backend.get(), 2);
  const std::string whole = snapshot.bytes;
  ASSERT_GT(whole.size(), 500u);
  const auto target = Open(false);
  for (size_t length = 1; length < whole.size(); ++length) {
    snapshot.bytes = whole.substr(0, length);
    ASSERT_EQ(RestoreOwn(target.get(), snapshot).code(), StatusCode::kCorruption) << length;
  }
  snapshot.bytes = whole;
  EXPECT_TRUE(RestoreOwn(target.get(), snapshot).ok());
  EXPECT_EQ(target->Describe().rows, 20u);
}

TEST_F(ChangelogTest, AMissingOrTornMaterialisationIsRefusedByName) {
  BackendSnapshot snapshot;
  {
    const auto backend = Open(true);
    Fill(backend.get(), 100, 'a');
    snapshot = Save(backend.get(), 1);
  }
  const std::string path = "/state/0/materializations/mat-1.bin";
  ASSERT_TRUE(disk_.Truncate(path, 1000).ok());
  const auto backend = Open(true);
  Status status = RestoreOwn(backend.get(), snapshot);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + " is incomplete"));
  ASSERT_TRUE(disk_.RemoveFile(path).ok());
  status = RestoreOwn(backend.get(), snapshot);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST_F(ChangelogTest, CanonicalisingGivesTheBytesOfAFullSnapshot) {
  TableBackendOptions options;
  options.state.budget = &budget_;
  Result<std::unique_ptr<TableBackend>> memory = TableBackend::Open(options);
  ASSERT_TRUE(memory.ok());
  for (const bool inside : {true, false}) {
    const auto backend = Open(!inside, inside);
    BackendSnapshot snapshot;
    for (StateBackend* one :
         {static_cast<StateBackend*>(backend.get()), static_cast<StateBackend*>(memory->get())}) {
      Fill(one, 1000, 'a');
      if (one == backend.get()) Save(one, 1);
      Fill(one, 10, 'b');
      ASSERT_TRUE(one->Erase(kOp, RowKey("5")).ok());
      if (one == backend.get()) snapshot = Save(one, 2);
    }
    const std::string bytes = BytesOf(snapshot);
    EXPECT_FALSE(!inside && CanonicaliseChangelog(bytes, nullptr).ok());
    const Result<std::string> canonical =
        CanonicaliseChangelog(bytes, [&](std::string_view handle) {
          return ReadMaterialisation(&disk_, std::string(kPlace) + "/materializations", handle);
        });
    ASSERT_TRUE(canonical.ok()) << canonical.status().ToString();
    EXPECT_EQ(*canonical, Save(memory->get(), 2).bytes);
  }
}

TEST_F(ChangelogTest, ABaseInMemoryIsChargedToItsOwner) {
  const auto backend = Open(false);
  Fill(backend.get(), 5000, 'a');
  Save(backend.get(), 1);
  EXPECT_THAT(budget_.DescribeLargest(5), HasSubstr("state materialisation"));
  const uint64_t before = budget_.total();
  backend->MaterializeNow();
  Save(backend.get(), 2);
  EXPECT_LT(budget_.total(), before + (200 << 10));
  ASSERT_TRUE(backend->Close().ok());
}

// Every file-system call of a snapshot fails in turn, in every way: the snapshots before it stay,
// the state goes on, and the next snapshot holds all.
TEST_F(ChangelogTest, APersistThatFailsAtAnyCallHarmsNothing) {
  uint64_t calls = 0;
  for (const env::FaultKind kind :
       {env::FaultKind::kNone, env::FaultKind::kFail, env::FaultKind::kFailAfter,
        env::FaultKind::kShortWrite, env::FaultKind::kNoSpace}) {
    for (uint64_t call = 0; call < (kind == env::FaultKind::kNone ? 1 : calls); ++call) {
      for (const auto& [path, bytes] : disk_.AllFiles()) ASSERT_TRUE(disk_.RemoveFile(path).ok());
      const auto backend = Open(true);
      Fill(backend.get(), 300, 'a');
      const BackendSnapshot first = Save(backend.get(), 1);
      Fill(backend.get(), 250, 'b');
      ASSERT_TRUE(backend->Erase(kOp, RowKey("5")).ok());
      backend->MaterializeNow();
      files_.Arm({call, kind, false, nullptr});
      const Result<BackendSnapshot> second = backend->Snapshot(2);
      if (kind == env::FaultKind::kNone) {
        calls = files_.calls();
        ASSERT_GT(calls, 10u);
      }
      files_.Disarm();
      ASSERT_TRUE(backend->Put(kOp, RowKey("new"), "c").ok());
      const BackendSnapshot third = Save(backend.get(), 3);
      ASSERT_TRUE(RestoreOwn(backend.get(), third).ok());
      ASSERT_EQ(backend->Describe().rows, 300u) << "call " << call;
      ASSERT_EQ(**backend->Get(kOp, RowKey("7")), std::string(100, 'b'));
      if (second.ok()) {
        ASSERT_TRUE(RestoreOwn(backend.get(), *second).ok()) << "call " << call;
        ASSERT_EQ(backend->Describe().rows, 299u);
      }
      const Status restored = RestoreOwn(backend.get(), first);
      ASSERT_TRUE(restored.ok()) << "call " << call << ": " << restored.ToString();
      ASSERT_EQ(backend->Describe().rows, 300u);
      ASSERT_EQ(**backend->Get(kOp, RowKey("7")), std::string(100, 'a'));
    }
  }
}

}  // namespace
}  // namespace cairn::backend
