// SPDX-License-Identifier: Apache-2.0
//
// The byte contract: snapshots, restores and expiry, on every backend and in every way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend_fixture.h"
#include "base/coding.h"
#include "format/canonical_stream.h"

namespace cairn::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class BackendSnapshots : public BackendContract {};

INSTANTIATE_TEST_SUITE_P(Every, BackendSnapshots, ::testing::ValuesIn(AllBackends()),
                         [](const auto& info) { return info.param.name; });

// --- snapshots ---------------------------------------------------------------------------------

TEST_P(BackendSnapshots, ASnapshotIsACanonicalStreamAndTheSameOnEveryBackend) {
  if (!GetParam().scans) return;
  const auto fill = [](StateBackend* backend) {
    for (int i = 0; i < 40; ++i) {
      EXPECT_OK(backend->Put(kOp, Row("counts", std::to_string(i)), std::to_string(i)));
    }
    EXPECT_OK(backend->Put(kOp, OperatorRow("offset"), "9"));
    EXPECT_OK(backend->Put(kOther, Row("z", "k"), ""));
    for (int i = 0; i < 10; ++i) EXPECT_OK(backend->Erase(kOp, Row("counts", std::to_string(i))));
  };
  ASSERT_NE(backend_->stamps(), nullptr);
  const std::vector<StateStamp> stamps = {{kOp, "int64", 2, "counts"}};
  ASSERT_OK(backend_->stamps()->Set(stamps));
  fill(backend_.get());
  const Result<std::string> bytes = CanonicalOf(Snapshot(5), &world_);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const Result<format::CanonicalStream> stream = format::ReadCanonicalStream(*bytes);
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  EXPECT_EQ(stream->rows, 32u);
  ASSERT_EQ(stream->state_versions.size(), 1u);
  EXPECT_EQ(stream->state_versions[0].version, 2u);

  BackendWorld plain;
  Result<std::unique_ptr<StateBackend>> memory = OpenCase(PlainBackends()[0], &plain);
  ASSERT_TRUE(memory.ok());
  ASSERT_OK((*memory)->stamps()->Set(stamps));
  fill(memory->get());
  EXPECT_EQ(*bytes, (*memory)->Snapshot(5)->bytes);
}

TEST_P(BackendSnapshots, StampsRideASnapshotAndComeBack) {
  const std::vector<StateStamp> stamps = {{kOp, "int64", 3, "counts"}, {kOther, "row", 1, ""}};
  ASSERT_OK(backend_->stamps()->Set(stamps));
  ASSERT_OK(backend_->Put(kOp, Row("counts", "a"), "1"));
  EXPECT_FALSE(backend_->stamps()->Set({{kOp, "a|b", 1, ""}}).ok());
  const BackendSnapshot snapshot = Snapshot(4);
  Reopen();
  EXPECT_TRUE(backend_->stamps()->restored().empty());
  ASSERT_OK(RestoreOwn(snapshot));
  EXPECT_EQ(backend_->stamps()->restored(), stamps);
}

TEST_P(BackendSnapshots, RestoreReplacesAllContent) {
  if (!GetParam().scans) return;
  ASSERT_OK(backend_->Put(kOp, Row("s", "a"), "1"));
  ASSERT_OK(backend_->Put(kOp, OperatorRow("o"), "1"));
  const BackendSnapshot snapshot = Snapshot(1);
  ASSERT_OK(backend_->Put(kOp, Row("s", "a"), "2"));
  ASSERT_OK(backend_->Put(kOp, Row("s", "b"), "2"));
  ASSERT_OK(backend_->Put(kOther, Row("s", "b"), "2"));
  ASSERT_OK(backend_->Erase(kOp, OperatorRow("o")));
  ASSERT_OK(RestoreOwn(snapshot));
  EXPECT_THAT(ScanRows(backend_.get(), kOp),
              ElementsAre(Pair(Row("s", "a"), "1"), Pair(OperatorRow("o"), "1")));
  EXPECT_TRUE(ScanRows(backend_.get(), kOther).empty());
  ASSERT_TRUE(backend_->Restore({}).ok());
  EXPECT_TRUE(ScanRows(backend_.get(), kOp).empty());
}

TEST_P(BackendSnapshots, AnEmptyStateIsAValidSnapshot) {
  if (!GetParam().scans) return;
  const BackendSnapshot snapshot = Snapshot(1);
  ASSERT_OK(backend_->Put(kOp, Row("s", "a"), "1"));
  ASSERT_OK(RestoreOwn(snapshot));
  EXPECT_TRUE(ScanRows(backend_.get(), kOp).empty());
}

TEST_P(BackendSnapshots, ASnapshotIsTheCutOfItsCaptureWhateverComesAfterIt) {
  if (!GetParam().scans) return;
  ASSERT_OK(backend_->Put(kOp, Row("s", "erased"), "old"));
  ASSERT_OK(backend_->Put(kOp, Row("s", "changed"), "old"));
  ASSERT_OK(backend_->Put(kOther, OperatorRow("offset"), "old"));
  Result<std::unique_ptr<CapturedState>> captured = backend_->Capture(7);
  ASSERT_TRUE(captured.ok());
  EXPECT_EQ((*captured)->checkpoint_id(), 7u);
  ASSERT_OK(backend_->Erase(kOp, Row("s", "erased")));
  ASSERT_OK(backend_->Put(kOp, Row("s", "changed"), "new"));
  ASSERT_OK(backend_->Put(kOp, Row("s", "written"), "new"));
  ASSERT_OK(backend_->Put(kOther, OperatorRow("offset"), "new"));
  // The erased key is absent while its row waits to be saved.
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "erased")), std::nullopt);
  const Result<BackendSnapshot> seventh = (*captured)->Persist();
  ASSERT_TRUE(seventh.ok()) << seventh.status().ToString();
  captured->reset();
  const BackendSnapshot eighth = Snapshot(8);

  ASSERT_OK(RestoreOwn(*seventh));
  EXPECT_THAT(ScanRows(backend_.get(), kOp),
              ElementsAre(Pair(Row("s", "erased"), "old"), Pair(Row("s", "changed"), "old")));
  EXPECT_EQ(Read(backend_.get(), kOther, OperatorRow("offset")), "old");
  ASSERT_OK(RestoreOwn(eighth));
  EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), 2u);
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "changed")), "new");
  EXPECT_EQ(Read(backend_.get(), kOther, OperatorRow("offset")), "new");
}

TEST_P(BackendSnapshots, ACaptureOfAnEmptyOperatorStaysEmpty) {
  if (!GetParam().scans) return;
  ASSERT_OK(backend_->Put(kOther, Row("s", "k"), "v"));
  Result<std::unique_ptr<CapturedState>> captured = backend_->Capture(3);
  ASSERT_TRUE(captured.ok());
  ASSERT_OK(backend_->Put(kOp, Row("s", "late"), "v"));
  const Result<BackendSnapshot> snapshot = (*captured)->Persist();
  ASSERT_TRUE(snapshot.ok());
  captured->reset();
  ASSERT_OK(RestoreOwn(*snapshot));
  EXPECT_TRUE(ScanRows(backend_.get(), kOp).empty());
  EXPECT_EQ(ScanRows(backend_.get(), kOther).size(), 1u);
}

TEST_P(BackendSnapshots, CapturesArePersistedInAnyOrder) {
  if (!GetParam().scans) return;
  std::vector<std::unique_ptr<CapturedState>> captures;
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 200; ++k) {
      ASSERT_OK(backend_->Put(kOp, Row("s", std::to_string(k)), std::to_string(i)));
    }
    ASSERT_OK(backend_->Erase(kOp, Row("s", std::to_string(i))));
    Result<std::unique_ptr<CapturedState>> captured = backend_->Capture(10 + i);
    ASSERT_TRUE(captured.ok());
    captures.push_back(*std::move(captured));
  }
  std::map<int, BackendSnapshot> snapshots;
  for (const int i : {2, 0, 3, 1}) {
    Result<BackendSnapshot> snapshot = captures[i]->Persist();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    snapshots[i] = *std::move(snapshot);
  }
  captures.clear();
  for (const auto& [i, snapshot] : snapshots) {
    ASSERT_OK(RestoreOwn(snapshot));
    const Rows rows = ScanRows(backend_.get(), kOp);
    EXPECT_EQ(rows.size(), 199u) << i;
    for (const auto& row : rows) ASSERT_EQ(row.second, std::to_string(i));
    EXPECT_EQ(Read(backend_.get(), kOp, Row("s", std::to_string(i))), std::nullopt);
  }
}

TEST_P(BackendSnapshots, TheChangesOfAnAbortedCaptureAreInTheNextSnapshot) {
  ASSERT_OK(backend_->Put(kOp, Row("s", "base"), "v"));
  (void)Snapshot(1);
  ASSERT_OK(backend_->Put(kOp, Row("s", "aborted"), "v"));
  ASSERT_OK(backend_->Erase(kOp, Row("s", "base")));
  ASSERT_TRUE(backend_->Capture(2).ok());  // and dropped
  ASSERT_OK(backend_->Put(kOp, Row("s", "after"), "v"));
  const BackendSnapshot third = Snapshot(3);
  Reopen();
  ASSERT_OK(RestoreOwn(third));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "base")), std::nullopt);
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "aborted")), "v");
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "after")), "v");
}

TEST_P(BackendSnapshots, ACaptureOfAnEarlierIncarnationIsNotPersisted) {
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "1"));
  const BackendSnapshot first = Snapshot(1);
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "2"));
  Result<std::unique_ptr<CapturedState>> stale = backend_->Capture(2);
  ASSERT_TRUE(stale.ok());
  ASSERT_OK(RestoreOwn(first));
  EXPECT_EQ((*stale)->Persist().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "k")), "1");
}

TEST_P(BackendSnapshots, ManySnapshotsOfAChangingStateRestoreEachToItself) {
  if (!GetParam().scans) return;
  std::map<std::string, std::string> model;
  std::vector<std::pair<BackendSnapshot, Rows>> saved;
  for (int round = 0; round < 12; ++round) {
    WriteBatch batch;
    for (int i = 0; i < 150; ++i) {
      const std::string key = Row("s", std::to_string((round * 37 + i) % 400));
      if (i % 5 == 0) {
        batch.Erase(kOp, key);
        model.erase(key);
      } else {
        batch.Put(kOp, key, std::string(100, static_cast<char>('a' + round)));
        model[key] = std::string(100, static_cast<char>('a' + round));
      }
    }
    ASSERT_OK(backend_->Apply(batch, nullptr));
    saved.emplace_back(Snapshot(round + 1), Rows(model.begin(), model.end()));
  }
  for (auto at = saved.rbegin(); at != saved.rend(); ++at) {
    ASSERT_OK(RestoreOwn(at->first));
    ASSERT_EQ(ScanRows(backend_.get(), kOp), at->second);
  }
  // The state goes on from any of them.
  ASSERT_OK(backend_->Put(kOp, Row("s", "new"), "v"));
  const BackendSnapshot after = Snapshot(20);
  ASSERT_OK(RestoreOwn(after));
  EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), saved[0].second.size() + 1);
}

TEST_P(BackendSnapshots, DamagedSnapshotsAreRefusedAndNothingChanges) {
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "saved"));
  BackendSnapshot snapshot = Snapshot(1);
  if (IsPooled(snapshot, &world_)) return;  // objects of the process: there are no bytes to damage
  if (snapshot.form == SnapshotForm::kStored) {
    ASSERT_OK(world_.disk.FlipByte(snapshot.location, 400));
  } else {
    snapshot.bytes.resize(snapshot.bytes.size() / 2);
  }
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "live"));
  const Status status = RestoreOwn(snapshot);
  EXPECT_EQ(status.code(), StatusCode::kCorruption) << status.ToString();
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "k")), "live");
}

// --- expiry ------------------------------------------------------------------------------------

TEST_P(BackendSnapshots, ExpiredRowsAreAbsentSweptAndNotSaved) {
  if (!GetParam().scans) return;
  const auto stamped = [](int64_t expire_at) {
    std::string value(8, '\0');
    base::StoreLE<int64_t>(value.data(), expire_at);
    return value + "payload";
  };
  const int rows = GetParam().restart ? 2000 : 50'000;
  backend_->expiry()->Declare(kOp, "ttl");
  WriteBatch batch;
  for (int i = 0; i < rows; ++i) batch.Put(kOp, Row("ttl", std::to_string(i)), stamped(1000));
  batch.Put(kOp, Row("ttl", "alive"), stamped(5000));
  batch.Put(kOp, Row("plain", "k"), "short");
  ASSERT_OK(backend_->Apply(batch, nullptr));
  // No time yet expires nothing.
  EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), static_cast<size_t>(rows) + 2);
  Result<std::unique_ptr<CapturedState>> before = backend_->Capture(1);
  ASSERT_TRUE(before.ok());
  backend_->expiry()->Advance(1000);
  EXPECT_EQ(Read(backend_.get(), kOp, Row("ttl", "0")), std::nullopt);
  EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), 2u);
  const BackendSnapshot after = Snapshot(2);
  // The cut's clock stands.
  const Result<BackendSnapshot> first = (*before)->Persist();
  ASSERT_TRUE(first.ok());
  before->reset();
  const Result<std::string> first_bytes = CanonicalOf(*first, &world_);
  ASSERT_TRUE(first_bytes.ok()) << first_bytes.status().ToString();
  EXPECT_EQ(format::ReadCanonicalStream(*first_bytes)->rows, static_cast<size_t>(rows) + 2);
  const auto saved_rows = [&](const BackendSnapshot& snapshot) -> uint64_t {
    const Result<std::string> bytes = CanonicalOf(snapshot, &world_);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    return bytes.ok() ? format::ReadCanonicalStream(*bytes)->rows : 0;
  };
  // A materialisation made before the rows expired still holds them, until they are swept.
  if (!backend_->Describe().incremental) {
    EXPECT_EQ(saved_rows(after), 2u);
  }

  uint64_t swept = 0;
  // A remote tier let go of those that were hot when it saved that cut; how many lie below it does
  // not count.
  const bool exact = GetParam().exact_rows;
  for (int tick = 0; tick < (exact ? 1000 : 20); ++tick) {
    if (exact && backend_->Describe().rows <= 2) break;
    const Result<uint64_t> removed = backend_->expiry()->Sweep(1000);
    ASSERT_TRUE(removed.ok()) << removed.status().ToString();
    swept += *removed;
  }
  EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), 2u);
  if (GetParam().exact_rows) {
    EXPECT_EQ(backend_->Describe().rows, 2u);
  }
  if (GetParam().exact_rows && !GetParam().restart) {
    EXPECT_EQ(swept, static_cast<uint64_t>(rows));
  }
  EXPECT_EQ(saved_rows(Snapshot(3)), 2u);
  // An expired value is absent for a merge, too.
  backend_->expiry()->Advance(5000);
  ASSERT_OK(backend_->Merge(kOp, Row("ttl", "alive"), stamped(9000)));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("ttl", "alive")), stamped(9000));
}

TEST_P(BackendSnapshots, AnExpiringValueWithoutAStampIsAnErrorAndNotAbsent) {
  backend_->expiry()->Declare(kOp, "ttl");
  WriteBatch batch;
  batch.Put(kOp, Row("ttl", "k"), "short");
  // Written while a capture is held, so that no restart reads it first.
  Result<std::unique_ptr<CapturedState>> held = backend_->Capture(1);
  ASSERT_TRUE(held.ok());
  ASSERT_OK(backend_->Apply(batch, nullptr));
  EXPECT_EQ(backend_->Get(kOp, Row("ttl", "k")).status().code(), StatusCode::kCorruption);
  EXPECT_FALSE(backend_->Snapshot(2).ok());
}

}  // namespace
}  // namespace cairn::contract
