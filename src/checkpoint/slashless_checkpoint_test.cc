// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of one object a partition whose names lack the slash behind the id, as an earlier
// program wrote them (testdata/format/v1/partition-v2*.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "checkpoint/object_store_checkpointer.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOld = "018f3c2a-7b00-7000-8000-00000000002a";
constexpr const char* kNew = "018f3c2b-0000-7000-8000-000000000000";

std::string FileOf(const std::string& name) {
  std::ifstream in("testdata/format/v1/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class SlashlessCheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 256; ++i) snapshot_ += static_cast<char>(i);
    const std::string prefix = std::string("checkpoints/") + kOld;
    Put(prefix + "manifest.json", FileOf("partition-v2.json"));
    Put(prefix + "operators/agg/partition-0.snap", snapshot_);
    Put(prefix + "operators/agg/partition-3.snap", FileOf("whole-v1-state.bin"));
    Put(prefix + "offsets/orders.json", "{}");
    Put("checkpoints/_latest", kOld);
  }
  void Put(const std::string& key, std::string_view bytes) {
    ASSERT_TRUE(store_.CreateIfAbsent(key, bytes).ok());
  }
  void SaveNew(std::optional<std::string> parent) {
    const auto entries =
        checkpointer_.SavePartitionsConcurrent(kNew, {{"agg", 0, parent.has_value(), "changes"}});
    ASSERT_TRUE(entries.ok());
    format::CheckpointManifestV2 manifest;
    manifest.checkpoint_id = kNew;
    manifest.epoch = 43;
    manifest.timestamp_ms = 1;
    manifest.operators["agg"] = {{(*entries)[0].second}, 7};
    manifest.total_size_bytes = 7;
    manifest.parent_id = std::move(parent);
    const Status saved = checkpointer_.SaveManifest(manifest);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
  }

  env::MemoryObjectStore store_;
  ObjectStoreCheckpointer checkpointer_{&store_, CheckpointPaths(), 4};
  std::string snapshot_;
};

TEST_F(SlashlessCheckpointTest, ItIsFoundAndReadWithAllItsObjects) {
  EXPECT_THAT(*checkpointer_.ListCheckpoints(), ElementsAre(kOld));
  EXPECT_EQ(*checkpointer_.ReadLatest(), kOld);
  const auto manifest = checkpointer_.LoadManifest(kOld);
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(manifest->epoch, 42u);
  EXPECT_EQ(manifest->parent_id, std::nullopt);
  EXPECT_EQ(manifest->watermark, 5000);
  EXPECT_EQ(manifest->source_offsets.at("orders").offsets.at("partition-0"), "1234");
  const auto& partitions = manifest->operators.at("agg").partitions;
  ASSERT_EQ(partitions.size(), 2u);
  EXPECT_EQ(*checkpointer_.LoadVerified(partitions[0]), snapshot_);
  EXPECT_EQ(partitions[1].sha256, std::nullopt);
  EXPECT_EQ(*checkpointer_.LoadVerified(partitions[1]), FileOf("whole-v1-state.bin"));
  EXPECT_EQ(*checkpointer_.LoadArtifact(partitions[0].path), snapshot_);
}

TEST_F(SlashlessCheckpointTest, WhatAnEarlyWriterLeftOutHasItsDefault) {
  const auto manifest = format::ParsePartitionManifest(FileOf("partition-v2-early.json"));
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  format::CheckpointManifestV2 expected;
  expected.checkpoint_id = kOld;
  expected.epoch = 1;
  expected.timestamp_ms = 1000;
  EXPECT_EQ(*manifest, expected);
}

TEST_F(SlashlessCheckpointTest, NewOnesGoOnFromItWithTheSlash) {
  SaveNew(kOld);
  ASSERT_TRUE(checkpointer_.UpdateLatest(kNew).ok());
  EXPECT_EQ(*checkpointer_.ReadLatest(), kNew);
  EXPECT_THAT(*checkpointer_.ListCheckpoints(), ElementsAre(kOld, kNew));
  EXPECT_TRUE(store_.Head(std::string("checkpoints/") + kNew + "/manifest.json").ok());
  const Status refused = checkpointer_.DeleteCheckpoint(kOld);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("holds deltas of"));
}

// The earlier program listed with a slash, and so deleted nothing.
TEST_F(SlashlessCheckpointTest, DeletingItRemovesAllOfItAndNothingElse) {
  SaveNew(std::nullopt);
  ASSERT_TRUE(checkpointer_.UpdateLatest(kNew).ok());
  ASSERT_TRUE(checkpointer_.DeleteCheckpoint(kOld).ok());
  EXPECT_THAT(*checkpointer_.ListCheckpoints(), ElementsAre(kNew));
  EXPECT_THAT(*store_.List(std::string("checkpoints/") + kOld), IsEmpty());
  EXPECT_TRUE(checkpointer_.LoadManifest(kNew).ok());
  EXPECT_EQ(checkpointer_.LoadManifest(kOld).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn::checkpoint
