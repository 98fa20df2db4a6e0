// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/async_checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/async_testing.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;

constexpr const char* kFirstId = "01890000-0000-7000-8000-000000000001";
constexpr const char* kSecondId = "01890000-0001-7000-8000-000000000000";

/// Store one checkpoint with two partitions, all of it awaited.
AsyncTask<Status> SaveAll(const AsyncCheckpointer* checkpointer, std::string id) {
  std::vector<OwnedPartitionSnapshot> snapshots;
  snapshots.push_back({"count", 1, false, "one"});
  snapshots.push_back({"count", 0, false, "zero"});
  auto entries = co_await checkpointer->SavePartitionsConcurrent(id, std::move(snapshots));
  if (!entries.ok()) co_return entries.status();
  auto path = co_await checkpointer->SaveSnapshot(id, "rank", 0, "rank");
  if (!path.ok()) co_return path.status();
  format::CheckpointManifestV2 manifest;
  manifest.checkpoint_id = id;
  manifest.epoch = manifest.timestamp_ms = 1;
  for (const auto& [op, entry] : *entries) manifest.operators[op].partitions.push_back(entry);
  manifest.operators["count"].total_bytes = manifest.total_size_bytes = 7;
  Status saved = co_await checkpointer->SaveManifest(std::move(manifest));
  if (!saved.ok()) co_return saved;
  co_return co_await checkpointer->UpdateLatest(id);
}

class AsyncCheckpointerTest : public ::testing::Test {
 protected:
  env::MemoryObjectStore store_;
  ObjectStoreCheckpointer calls_{&store_, CheckpointPaths(), 2};
  async::SimulatedIo io_{7};
  std::shared_ptr<ResumeQueue> queue_ = std::make_shared<ResumeQueue>(
      ResumeQueueOptions{.wake = {}, .idle = [this] { return io_.RunOne(); }});
  AsyncCheckpointer checkpointer_{&calls_, &io_, queue_};
};

TEST_F(AsyncCheckpointerTest, EveryCallHasACoroutineBesideIt) {
  for (const char* id : {kFirstId, kSecondId}) {
    const Status saved = RunToEnd(SaveAll(&checkpointer_, id), queue_.get());
    ASSERT_TRUE(saved.ok()) << saved.ToString();
  }
  EXPECT_EQ(**RunToEnd(checkpointer_.ReadLatest(), queue_.get()), kSecondId);
  EXPECT_THAT(*RunToEnd(checkpointer_.ListCheckpoints(), queue_.get()),
              ElementsAre(kFirstId, kSecondId));
  const auto manifest = RunToEnd(checkpointer_.LoadManifest(kFirstId), queue_.get());
  ASSERT_TRUE(manifest.ok());
  const auto& entry = manifest->operators.at("count").partitions[1];
  EXPECT_EQ(*RunToEnd(checkpointer_.LoadVerified(entry), queue_.get()), "one");
  EXPECT_EQ(*RunToEnd(checkpointer_.LoadArtifact(entry.path), queue_.get()), "one");
  EXPECT_TRUE(RunToEnd(checkpointer_.SaveDelta(kSecondId, "rank", 1, "d"), queue_.get()).ok());
  EXPECT_TRUE(RunToEnd(checkpointer_.DeleteCheckpoint(kFirstId), queue_.get()).ok());
  EXPECT_THAT(*calls_.ListCheckpoints(), ElementsAre(kSecondId));
}

TEST_F(AsyncCheckpointerTest, ACallIsMadeElsewhereAndOthersGoOnMeanwhile) {
  auto first = checkpointer_.SaveSnapshot(kFirstId, "count", 0, "a");
  auto second = checkpointer_.SaveSnapshot(kFirstId, "count", 1, "b");
  first.Start(nullptr, nullptr);
  second.Start(nullptr, nullptr);
  EXPECT_EQ(io_.waiting(), 2u);
  EXPECT_TRUE(store_.List("")->empty()) << "a call was made on the runner's thread";
  while (io_.RunOne()) {
  }
  queue_->RunReady();
  ASSERT_TRUE(first.done() && second.done());
  EXPECT_TRUE(first.TakeOutcome().ok());
  EXPECT_TRUE(second.TakeOutcome().ok());
  EXPECT_EQ(store_.List("")->size(), 2u);
}

TEST_F(AsyncCheckpointerTest, AnErrorComesBackAsTheOutcome) {
  EXPECT_EQ(RunToEnd(checkpointer_.LoadManifest(kFirstId), queue_.get()).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(RunToEnd(checkpointer_.LoadManifest("no id"), queue_.get()).status().code(),
            StatusCode::kInvalidArgument);
  auto given_up = checkpointer_.ReadLatest();
  given_up.Start(nullptr, nullptr);
  io_.CancelAll();
  queue_->RunReady();
  ASSERT_TRUE(given_up.done());
  EXPECT_EQ(given_up.TakeOutcome().status().code(), StatusCode::kCancelled);
}

TEST_F(AsyncCheckpointerTest, ATaskMayEndBeforeItsCallDoes) {
  {
    auto task = checkpointer_.SaveSnapshot(kFirstId, "count", 0, std::string(1000, 'x'));
    task.Start(nullptr, nullptr);
  }
  while (io_.RunOne()) {
  }
  queue_->RunReady();
  EXPECT_EQ(store_.List("")->size(), 1u) << "the call owns what it stores";
}

}  // namespace
}  // namespace cairn::checkpoint
