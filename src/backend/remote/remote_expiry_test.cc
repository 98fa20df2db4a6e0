// SPDX-License-Identifier: Apache-2.0
//
// Rows that begin with an expiry time, in the hot tier and below it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/remote/remote_testing.h"
#include "base/coding.h"

namespace cairn::backend::remote {
namespace {

using ::testing::HasSubstr;

std::string ValueUntil(int64_t expire_at_ms) {
  std::string value(sizeof(expire_at_ms), '\0');
  base::StoreLE<int64_t>(value.data(), expire_at_ms);
  return value + "payload";
}

/// A backend whose slot "s" expires, restored from a checkpoint with `rows` rows of which those
/// with an even number die at 10.
RemoteWorld::Subtask OpenSaved(RemoteWorld* world, int rows) {
  auto first = world->Open();
  for (int i = 0; i < rows; ++i) {
    EXPECT_TRUE(first.backend->Put(kOp, KeyOf(i), ValueUntil(i % 2 == 0 ? 10 : 20)).ok());
  }
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  auto task = world->Open();
  task.backend->expiry()->Declare(kOp, "s");
  MustRestore(task.backend.get(), {{snapshot}});
  return task;
}

TEST(RemoteExpiry, HidesDeadRowsThatLieBelowFromEveryKindOfRead) {
  RemoteWorld world;
  auto task = OpenSaved(&world, 10);
  EXPECT_EQ(ScanAll(task.backend.get(), kOp)->size(), 10u) << "no time yet: nothing is dead";
  task.backend->expiry()->Advance(10);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(0)), std::nullopt);
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(0)), std::nullopt) << "when it is hot, too";
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(1)), ValueUntil(20));
  EXPECT_EQ(ScanAll(task.backend.get(), kOp)->size(), 5u);
  size_t exported = 0;
  ASSERT_TRUE(task.backend
                  ->ExportLive([&](OperatorId, std::string_view, std::string_view) {
                    ++exported;
                    return true;
                  })
                  .ok());
  EXPECT_EQ(exported, 5u);
  StateValue resident;
  ASSERT_TRUE(task.backend->async_reads()->TryGet(kOp, KeyOf(0), &resident));
  EXPECT_EQ(resident, std::nullopt);
  ASSERT_TRUE(task.backend->Merge(kOp, KeyOf(0), ValueUntil(30)).ok());
  EXPECT_EQ(MustGet(task.backend.get(), KeyOf(0)), ValueUntil(30)) << "onto a dead row: onto none";
}

TEST(RemoteExpiry, SweepsDeadRowsOfTheRemoteTierAStretchACall) {
  RemoteWorld world;
  auto task = OpenSaved(&world, 1000);
  task.backend->expiry()->Advance(10);
  uint64_t removed = 0;
  for (int call = 0; call < 10; ++call) {
    const Result<uint64_t> swept = task.backend->expiry()->Sweep(100);
    ASSERT_TRUE(swept.ok()) << swept.status().ToString();
    EXPECT_LE(*swept, 100u);
    removed += *swept;
  }
  EXPECT_EQ(removed, 500u);
  EXPECT_EQ(*task.backend->expiry()->Sweep(10'000), 0u);
  MustSnapshot(task.backend.get(), 2);
  EXPECT_EQ(task.pool->rows_deleted, 500u);
  EXPECT_EQ(*task.pool->CountRows(2), 500u);
}

TEST(RemoteExpiry, SavesNoRowThatWasDeadAtTheCaptureAndEveryOneThatDiedAfterIt) {
  RemoteWorld world;
  auto task = world.Open();
  task.backend->expiry()->Declare(kOp, "s");
  task.backend->expiry()->Advance(5);
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(1), ValueUntil(5)).ok());
  ASSERT_TRUE(task.backend->Put(kOp, KeyOf(2), ValueUntil(6)).ok());
  auto captured = MustCapture(task.backend.get(), 1);
  task.backend->expiry()->Advance(6);
  ASSERT_TRUE(captured->Persist().ok());
  EXPECT_EQ(*task.pool->CountRows(1), 1u);
  EXPECT_NE(*task.pool->Read(1, {kOp, KeyOf(2)}), nullptr);
}

TEST(RemoteExpiry, ADurableValueWithoutAnExpiryTimeIsAnErrorThatNamesItsKey) {
  RemoteWorld world;
  auto first = world.Open();
  ASSERT_TRUE(first.backend->Put(kOp, KeyOf(1), "short").ok());
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  auto task = world.Open();
  task.backend->expiry()->Declare(kOp, "s");
  MustRestore(task.backend.get(), {{snapshot}});
  const Status read = task.backend->Get(kOp, KeyOf(1)).status();
  EXPECT_EQ(read.code(), StatusCode::kCorruption);
  EXPECT_THAT(read.ToString(), HasSubstr("slot s, key 'key1'"));
  EXPECT_EQ(ScanAll(task.backend.get(), kOp).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(task.backend->expiry()->Sweep(10).status().code(), StatusCode::kCorruption);
}

TEST(RemoteRead, FindsAnOperatorRowOlderThanThePrefixBelow) {
  RemoteWorld world;
  auto first = world.Open();
  ASSERT_TRUE(first.backend->Put(kOp, "__offset__", "7").ok());
  const BackendSnapshot snapshot = MustSnapshot(first.backend.get(), 1);
  auto task = world.Open();
  MustRestore(task.backend.get(), {{snapshot}});
  EXPECT_EQ(MustGet(task.backend.get(), OperatorKeyOf("__offset__")), "7");
  EXPECT_EQ(MustGet(task.backend.get(), OperatorKeyOf("other")), std::nullopt);
  ASSERT_TRUE(task.backend->Erase(kOp, OperatorKeyOf("__offset__")).ok());
  MustSnapshot(task.backend.get(), 2);
  EXPECT_EQ(MustGet(task.backend.get(), OperatorKeyOf("__offset__")), std::nullopt);
  EXPECT_EQ(*task.pool->CountRows(2), 0u);
}

}  // namespace
}  // namespace cairn::backend::remote
