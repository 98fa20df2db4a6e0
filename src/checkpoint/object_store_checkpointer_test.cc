// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/object_store_checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/hash.h"
#include "env/fault_object_store.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ascending: a UUIDv7 begins with its time.
constexpr const char* kFirst = "01890000-0000-7000-8000-000000000001";
constexpr const char* kSecond = "01890000-0001-7000-8000-000000000000";
constexpr const char* kThird = "01890000-0002-7000-8000-000000000000";

class CheckpointerTest : public ::testing::Test {
 protected:
  format::CheckpointManifestV2 Manifest(
      const std::string& id,
      const std::vector<std::pair<std::string, format::PartitionSnapshotEntry>>& entries) {
    format::CheckpointManifestV2 manifest;
    manifest.checkpoint_id = id;
    manifest.epoch = 1;
    manifest.timestamp_ms = 1'700'000'000'000;
    for (const auto& [op, entry] : entries) {
      manifest.operators[op].partitions.push_back(entry);
      manifest.operators[op].total_bytes += entry.size_bytes;
      manifest.total_size_bytes += entry.size_bytes;
    }
    return manifest;
  }
  /// A checkpoint with one partition.
  void Make(const std::string& id, std::optional<std::string> parent = std::nullopt) {
    const auto entries =
        checkpointer_.SavePartitionsConcurrent(id, {{"count", 0, parent.has_value(), "state"}});
    ASSERT_TRUE(entries.ok()) << entries.status().ToString();
    format::CheckpointManifestV2 manifest = Manifest(id, *entries);
    manifest.parent_id = parent;
    const Status saved = checkpointer_.SaveManifest(manifest);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto found = memory_->List("");
    for (const env::ObjectInfo& object : *found) keys.push_back(object.key);
    return keys;
  }

  std::shared_ptr<env::MemoryObjectStore> memory_ = std::make_shared<env::MemoryObjectStore>();
  env::FaultObjectStore faults_{memory_};
  ObjectStoreCheckpointer checkpointer_{&faults_, CheckpointPaths(), 4};
};

TEST_F(CheckpointerTest, NamesAreThoseOfTheDocumentedLayout) {
  Make(kFirst);
  Make(kSecond, kFirst);
  ASSERT_TRUE(checkpointer_.UpdateLatest(kSecond).ok());
  EXPECT_THAT(
      Keys(),
      ElementsAre(std::string("checkpoints/") + kFirst + "/manifest.json",
                  std::string("checkpoints/") + kFirst + "/operators/count/partition-0.snap",
                  std::string("checkpoints/") + kSecond + "/manifest.json",
                  std::string("checkpoints/") + kSecond + "/operators/count/partition-0.delta",
                  "checkpoints/_latest"));
  EXPECT_EQ(memory_->Get("checkpoints/_latest", 100)->bytes, kSecond);
}

TEST_F(CheckpointerTest, ManyPartitionsComeBackInOrderAndVerified) {
  std::vector<std::string> data;
  std::vector<PartitionSnapshot> snapshots;
  for (uint32_t i = 0; i < 64; ++i) data.push_back(std::string(i * 37, static_cast<char>(i)));
  for (uint32_t i = 64; i-- > 0;) {
    snapshots.push_back({i % 2 ? "count" : "rank", i, false, data[i]});
  }
  const auto entries = checkpointer_.SavePartitionsConcurrent(kFirst, snapshots);
  ASSERT_TRUE(entries.ok()) << entries.status().ToString();
  ASSERT_THAT(*entries, SizeIs(64));
  for (size_t i = 0; i < 64; ++i) {
    const auto& [op, entry] = (*entries)[i];
    EXPECT_EQ(op, i < 32 ? "count" : "rank");
    EXPECT_EQ(entry.partition_id, i < 32 ? 2 * i + 1 : 2 * (i - 32));
    EXPECT_EQ(*checkpointer_.LoadVerified(entry), data[entry.partition_id]);
    EXPECT_EQ(entry.sha256, base::Sha256::HexOf(data[entry.partition_id]));
  }
  const format::CheckpointManifestV2 manifest = Manifest(kFirst, *entries);
  ASSERT_TRUE(checkpointer_.SaveManifest(manifest).ok());
  EXPECT_EQ(*checkpointer_.LoadManifest(kFirst), manifest);
}

TEST_F(CheckpointerTest, AFailedUploadFailsTheCallAndLeavesNothingOfIt) {
  // What an earlier call stored stays, also when this one names it again.
  ASSERT_TRUE(checkpointer_.SaveSnapshot(kFirst, "count", 3, "state 3").ok());
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 100u);
    faults_.Arm({.call = n, .kind = env::ObjectFault::kLostBefore});
    std::vector<std::string> data;
    for (int i = 0; i < 6; ++i) data.push_back("state " + std::to_string(i));
    std::vector<PartitionSnapshot> snapshots;
    for (uint32_t i = 0; i < 6; ++i) snapshots.push_back({"count", i, false, data[i]});
    const auto entries = checkpointer_.SavePartitionsConcurrent(kFirst, snapshots);
    const bool fired = faults_.fired();
    faults_.Disarm();
    if (!fired) {
      EXPECT_TRUE(entries.ok());
      break;
    }
    EXPECT_EQ(entries.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Keys(), ElementsAre(HasSubstr("partition-3.snap"))) << "call " << n;
  }
}

TEST_F(CheckpointerTest, AnObjectIsNeverOverwritten) {
  ASSERT_TRUE(checkpointer_.SaveSnapshot(kFirst, "count", 0, "state").ok());
  EXPECT_TRUE(checkpointer_.SaveSnapshot(kFirst, "count", 0, "state").ok());
  EXPECT_EQ(checkpointer_.SaveSnapshot(kFirst, "count", 0, "other").status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(checkpointer_.SaveDelta(kFirst, "count", 0, "other").ok());
}

TEST_F(CheckpointerTest, AManifestNamesOnlyWhatIsThere) {
  const auto entries = checkpointer_.SavePartitionsConcurrent(kFirst, {{"count", 0, false, "ab"}});
  ASSERT_TRUE(entries.ok());
  format::CheckpointManifestV2 manifest = Manifest(kFirst, *entries);
  manifest.parent_id = kSecond;
  EXPECT_EQ(checkpointer_.SaveManifest(manifest).code(), StatusCode::kNotFound);
  manifest.parent_id.reset();
  manifest.operators["count"].partitions[0].path += "x";
  EXPECT_EQ(checkpointer_.SaveManifest(manifest).code(), StatusCode::kNotFound);
  manifest = Manifest(kFirst, *entries);
  ++manifest.total_size_bytes;
  EXPECT_EQ(checkpointer_.SaveManifest(manifest).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(*checkpointer_.ListCheckpoints(), IsEmpty());
}

TEST_F(CheckpointerTest, LatestNeverGoesBackAndNamesOnlyWhatIsThere) {
  EXPECT_EQ(*checkpointer_.ReadLatest(), std::nullopt);
  Make(kFirst);
  Make(kSecond);
  EXPECT_EQ(checkpointer_.UpdateLatest(kThird).code(), StatusCode::kNotFound);
  ASSERT_TRUE(checkpointer_.UpdateLatest(kSecond).ok());
  ASSERT_TRUE(checkpointer_.UpdateLatest(kFirst).ok());
  EXPECT_EQ(*checkpointer_.ReadLatest(), kSecond);
  ASSERT_TRUE(memory_->Delete(std::string("checkpoints/") + kSecond + "/manifest.json").ok());
  EXPECT_EQ(checkpointer_.ReadLatest().status().code(), StatusCode::kCorruption);
  ASSERT_TRUE(memory_->PutHint("checkpoints/_latest", "garbage").ok());
  EXPECT_EQ(checkpointer_.ReadLatest().status().code(), StatusCode::kCorruption);
}

TEST_F(CheckpointerTest, CheckpointsAreListedOldestFirst) {
  Make(kThird);
  Make(kFirst);
  Make(kSecond);
  ASSERT_TRUE(checkpointer_.SaveSnapshot("01890000-0009-7000-8000-000000000000", "x", 0, "").ok());
  ASSERT_TRUE(memory_->CreateIfAbsent("checkpoints/readme/manifest.json", "").ok());
  EXPECT_THAT(*checkpointer_.ListCheckpoints(), ElementsAre(kFirst, kSecond, kThird));
}

TEST_F(CheckpointerTest, DeletingRemovesEverythingOfACheckpointButNotWhatOthersBuildOn) {
  Make(kFirst);
  Make(kSecond, kFirst);
  ASSERT_TRUE(checkpointer_.UpdateLatest(kSecond).ok());
  const Status parent = checkpointer_.DeleteCheckpoint(kFirst);
  EXPECT_EQ(parent.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(parent.ToString(), HasSubstr(kSecond));
  EXPECT_EQ(checkpointer_.DeleteCheckpoint(kSecond).code(), StatusCode::kInvalidArgument);
  Make(kThird);
  ASSERT_TRUE(checkpointer_.UpdateLatest(kThird).ok());
  ASSERT_TRUE(checkpointer_.DeleteCheckpoint(kSecond).ok());
  ASSERT_TRUE(checkpointer_.DeleteCheckpoint(kFirst).ok());
  EXPECT_THAT(*checkpointer_.ListCheckpoints(), ElementsAre(kThird));
  EXPECT_THAT(Keys(), SizeIs(3));
}

TEST_F(CheckpointerTest, DamageIsFound) {
  const auto entries =
      checkpointer_.SavePartitionsConcurrent(kFirst, {{"count", 0, false, "state"}});
  ASSERT_TRUE(entries.ok());
  format::PartitionSnapshotEntry entry = entries->front().second;
  ASSERT_TRUE(memory_->PutHint(entry.path, "stale").ok());
  EXPECT_THAT(checkpointer_.LoadVerified(entry).status().ToString(), HasSubstr("SHA-256"));
  ASSERT_TRUE(memory_->PutHint(entry.path, "stat").ok());
  EXPECT_THAT(checkpointer_.LoadVerified(entry).status().ToString(), HasSubstr("4 bytes"));
  ASSERT_TRUE(memory_->Delete(entry.path).ok());
  EXPECT_EQ(checkpointer_.LoadVerified(entry).status().code(), StatusCode::kCorruption);
}

TEST_F(CheckpointerTest, NamesThatLeaveThePlaceAreRefused) {
  for (const char* op : {"", "..", "a/b", "."}) {
    EXPECT_EQ(checkpointer_.SaveSnapshot(kFirst, op, 0, "x").status().code(),
              StatusCode::kInvalidArgument)
        << op;
  }
  EXPECT_EQ(checkpointer_.SaveSnapshot("7", "count", 0, "x").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(checkpointer_.LoadArtifact("checkpoints/../secret").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(checkpointer_.LoadArtifact("elsewhere").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::checkpoint
