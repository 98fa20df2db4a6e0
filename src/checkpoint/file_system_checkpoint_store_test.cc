// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/file_system_checkpoint_store.h"
#include "checkpoint/whole_checkpoint_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using testing::WholeManifest;

class FileSystemStoreTest : public ::testing::Test {
 protected:
  void Open(size_t max_retained = 0) {
    store_.reset();  // gives the lock back
    store_ = std::make_unique<FileSystemCheckpointStore>(&files_, "/base", max_retained);
  }
  void SetUp() override { Open(); }
  void Save(uint64_t id, std::optional<std::string> state = std::nullopt) {
    std::optional<std::vector<std::string_view>> chunks;
    if (state) chunks = {std::string_view(*state).substr(0, 2), std::string_view(*state).substr(2)};
    const Status saved = store_->SaveWithState(WholeManifest(id), chunks);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
  }
  std::string Path(uint64_t id, const std::string& file) {
    return "/base/checkpoints/checkpoint_00000" + std::to_string(id) + "/" + file;
  }
  void Overwrite(const std::string& path, std::string_view bytes) {
    (void)memory_.RemoveFile(path);
    auto file = memory_.CreateFile(path);
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE((*file)->Append(bytes).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  std::string Read(const std::string& path) {
    const auto bytes = env::ReadWholeFile(&memory_, path, 1 << 20);
    return bytes.ok() ? *bytes : std::string(StatusCodeName(bytes.status().code()));
  }
  /// What another process finds: this one may hold files open that were replaced.
  std::vector<std::string> Problems(uint64_t id) {
    Open();
    std::vector<std::string> problems;
    const auto result = store_->ValidateCheckpoint(id);
    EXPECT_TRUE(result.ok());
    for (const ValidationIssue& issue : result->issues) {
      if (issue.kind == ValidationIssueKind::kIntegrityFailure) problems.push_back(issue.message);
    }
    EXPECT_EQ(result->valid(), problems.empty());
    return problems;
  }

  env::MemoryFileSystem memory_;
  env::FaultFileSystem files_{&memory_};
  std::unique_ptr<FileSystemCheckpointStore> store_;
};

TEST_F(FileSystemStoreTest, AFreshStoreHoldsNothingAndMakesNothing) {
  EXPECT_EQ(*store_->LoadLatest(), std::nullopt);
  EXPECT_EQ(*store_->LoadById(7), std::nullopt);
  EXPECT_THAT(*store_->ListIds(), IsEmpty());
  EXPECT_EQ(*store_->LoadStateData(7), std::nullopt);
  EXPECT_FALSE(memory_.Stat("/base").ok());
  const auto report = store_->RecoverLatestValidated();
  EXPECT_EQ(report->chosen_id, std::nullopt);
  EXPECT_EQ(report->examined, 0u);
  EXPECT_EQ(store_->vnode_count(), 256);
}

TEST_F(FileSystemStoreTest, NamesAreThoseOfTheDocumentedLayout) {
  Save(2, "state");
  EXPECT_EQ(Read(Path(2, "state.bin")), "state");
  EXPECT_EQ(Read(Path(2, "manifest.json")), *format::SerializeManifest(WholeManifest(2)));
  EXPECT_EQ(Read("/base/checkpoints/latest.txt"), "checkpoint_000002");
}

TEST_F(FileSystemStoreTest, TheNewestIsTheLatestAndAllAreListedAscending) {
  Save(3);
  Save(10, "ten");
  Save(1'000'000);
  Save(2, "two");
  EXPECT_EQ((*store_->LoadLatest())->checkpoint_id.value, 1'000'000u);
  EXPECT_THAT(*store_->ListIds(), ElementsAre(2, 3, 10, 1'000'000));
  EXPECT_THAT(*store_->List(),
              ElementsAre(Pair(2, 2), Pair(3, 3), Pair(10, 10), Pair(1'000'000, 1'000'000)));
  EXPECT_EQ(*store_->LoadStateData(10), "ten");
  EXPECT_EQ(*store_->LoadStateData(3), std::nullopt);
  // An older one saved later does not move the pointer back.
  EXPECT_EQ(Read("/base/checkpoints/latest.txt"), "checkpoint_1000000");
}

TEST_F(FileSystemStoreTest, APointerThatIsLostEmptyOrWrongHidesNothing) {
  Save(4);
  for (const char* pointer : {"", "checkpoint_000009", "garbage"}) {
    Overwrite("/base/checkpoints/latest.txt", pointer);
    EXPECT_EQ((*store_->LoadLatest())->checkpoint_id.value, 4u) << pointer;
  }
  ASSERT_TRUE(memory_.RemoveFile("/base/checkpoints/latest.txt").ok());
  EXPECT_EQ((*store_->LoadLatest())->checkpoint_id.value, 4u);
}

TEST_F(FileSystemStoreTest, AManifestIsNeverReplaced) {
  Save(4);
  EXPECT_TRUE(store_->Save(WholeManifest(4)).ok());
  format::CheckpointManifest other = WholeManifest(4);
  other.timestamp_ms += 1;
  EXPECT_EQ(store_->Save(other).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ((*store_->LoadById(4))->timestamp_ms, WholeManifest(4).timestamp_ms);
}

TEST_F(FileSystemStoreTest, SavesBeyondTheNumberRetainedPruneTheOldest) {
  Open(2);
  for (uint64_t id = 1; id <= 5; ++id) Save(id, "state");
  EXPECT_THAT(*store_->ListIds(), ElementsAre(4, 5));
  EXPECT_FALSE(memory_.Stat("/base/checkpoints/checkpoint_000003").ok());
  EXPECT_TRUE(store_->last_prune().ok());
}

TEST_F(FileSystemStoreTest, PruneCountsReadableOnesAndNeverTakesTheLast) {
  for (uint64_t id = 1; id <= 4; ++id) Save(id);
  Overwrite(Path(3, "manifest.json"), "damaged");
  EXPECT_EQ(*store_->Prune(5), 0u);
  EXPECT_EQ(*store_->Prune(2), 1u);
  EXPECT_THAT(*store_->ListIds(), ElementsAre(2, 3, 4));
  EXPECT_EQ(*store_->Prune(0), 1u);
  EXPECT_THAT(*store_->ListIds(), ElementsAre(3, 4));
}

TEST_F(FileSystemStoreTest, StateWithoutAManifestIsInvisibleAndSwept) {
  ASSERT_TRUE(store_->SaveStateData(6, {"or", "phan"}).ok());
  Save(7, "state");
  EXPECT_THAT(*store_->ListIds(), ElementsAre(7));
  EXPECT_EQ(*store_->CleanupOrphans(), 1u);
  EXPECT_FALSE(memory_.Stat(Path(6, "state.bin")).ok());
  EXPECT_EQ(*store_->CleanupOrphans(), 0u);
  EXPECT_EQ(*store_->LoadStateData(7), "state");
}

TEST_F(FileSystemStoreTest, AnOrphanIsReplacedByTheNextAttemptOfItsId) {
  ASSERT_TRUE(store_->SaveStateData(6, {"first"}).ok());
  Save(6, "second");
  EXPECT_EQ(*store_->LoadStateData(6), "second");
  EXPECT_EQ(store_->SaveStateData(6, {"third"}).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(*store_->LoadStateData(6), "second");
}

TEST_F(FileSystemStoreTest, WhatTheManifestSaysOfItsStateIsCheckedBeforeAnythingIsWritten) {
  format::CheckpointManifest manifest = WholeManifest(3);
  manifest.node_data.object_length = 9;
  EXPECT_EQ(store_->SaveWithState(manifest, std::vector<std::string_view>{"short"}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(memory_.Stat("/base").ok());
  format::CheckpointManifest references = WholeManifest(3);
  references.referenced_chunks.push_back({});
  EXPECT_THAT(store_->Save(references).ToString(), HasSubstr("whole checkpoints"));
}

TEST_F(FileSystemStoreTest, DamageIsNamed) {
  Save(5, "state");
  EXPECT_THAT(Problems(5), IsEmpty());
  EXPECT_THAT(Problems(9), ElementsAre(HasSubstr("manifest.json is missing")));
  Overwrite(Path(5, "state.bin"), "stale");
  EXPECT_THAT(Problems(5), ElementsAre(HasSubstr("SHA-256 differs")));
  EXPECT_EQ(store_->LoadStateData(5).status().code(), StatusCode::kCorruption);
  Overwrite(Path(5, "state.bin"), "stat");
  EXPECT_THAT(Problems(5), ElementsAre(HasSubstr("4 bytes instead of 5")));
  ASSERT_TRUE(memory_.RemoveFile(Path(5, "state.bin")).ok());
  EXPECT_THAT(Problems(5), ElementsAre(HasSubstr("state.bin is missing")));
  EXPECT_EQ(store_->LoadStateData(5).status().code(), StatusCode::kCorruption);
  Overwrite(Path(5, "manifest.json"), "{}");
  EXPECT_THAT(Problems(5), SizeIs(1));
  EXPECT_EQ(store_->LoadLatest().status().code(), StatusCode::kCorruption);
}

TEST_F(FileSystemStoreTest, AnotherNumberOfKeyGroupsIsAWarningOnly) {
  Save(5);
  store_->WithVnodeCount(128);
  const auto result = store_->ValidateCheckpoint(5);
  ASSERT_THAT(result->issues, SizeIs(1));
  EXPECT_EQ(result->issues[0].kind, ValidationIssueKind::kManifestWarning);
  EXPECT_THAT(result->issues[0].message, HasSubstr("256 key groups, this store expects 128"));
  EXPECT_TRUE(result->valid());
}

TEST_F(FileSystemStoreTest, RecoveryWalksBackToTheNewestValidOneAndSaysWhatItSkipped) {
  for (uint64_t id = 1; id <= 4; ++id) Save(id, "state");
  Overwrite(Path(4, "manifest.json"), "damaged");
  Overwrite(Path(3, "state.bin"), "stale");
  auto report = store_->RecoverLatestValidated();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->chosen_id, 2u);
  EXPECT_EQ(report->examined, 3u);
  EXPECT_THAT(report->skipped,
              ElementsAre(Pair(4, HasSubstr("manifest.json")), Pair(3, HasSubstr("SHA-256"))));
  EXPECT_THAT(*store_->ListIds(), ElementsAre(1, 2, 3, 4));  // left in place
  Overwrite(Path(2, "state.bin"), "");
  Overwrite(Path(1, "manifest.json"), "");
  report = store_->RecoverLatestValidated();
  EXPECT_EQ(report->chosen_id, std::nullopt);
  EXPECT_THAT(report->skipped, SizeIs(4));
}

TEST_F(FileSystemStoreTest, OnlyWhatBecameOfTheSinksCanBeUpdated) {
  Save(5);
  Save(6);
  using format::SinkCommitState;
  ASSERT_TRUE(store_->UpdateManifest(WholeManifest(5), {{"out", {}}}).ok());
  const format::SinkStatuses failed = {{"out", {SinkCommitState::kFailed, "disk \"full\""}}};
  ASSERT_TRUE(store_->UpdateManifest(WholeManifest(5), failed).ok());
  EXPECT_EQ(*store_->LoadSinkStatuses(5), failed);
  EXPECT_THAT(*store_->LoadSinkStatuses(6), IsEmpty());
  format::CheckpointManifest other = WholeManifest(5);
  other.timestamp_ms += 1;
  EXPECT_EQ(store_->UpdateManifest(other, failed).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->UpdateManifest(WholeManifest(5), {{"nosuch", {}}}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->UpdateManifest(WholeManifest(8), {}).code(), StatusCode::kNotFound);
  EXPECT_EQ(Read("/base/checkpoints/latest.txt"), "checkpoint_000006");
  EXPECT_THAT(Problems(5), IsEmpty());
}

TEST_F(FileSystemStoreTest, ASecondWriterIsRefusedAndReadersAreNot) {
  Save(5);
  FileSystemCheckpointStore second(&files_, "/base", 0);
  EXPECT_EQ((*second.LoadLatest())->checkpoint_id.value, 5u);
  EXPECT_EQ(second.Save(WholeManifest(6)).code(), StatusCode::kFenced);
}

// The power goes at every call of a save over an older checkpoint: what is found is the old one or
// the new one, whole.
TEST_F(FileSystemStoreTest, APowerCutAnywhereLeavesTheOldCheckpointOrTheNewOne) {
  for (const env::Unsynced unsynced : {env::Unsynced::kDrop, env::Unsynced::kRandom}) {
    for (uint64_t n = 0;; ++n) {
      ASSERT_LT(n, 200u);
      SCOPED_TRACE("power cut after call " + std::to_string(n));
      env::MemoryFileSystem disk;
      env::FaultFileSystem files(&disk);
      bool new_saved = false;
      {
        FileSystemCheckpointStore writer(&files, "/base", 1);
        ASSERT_TRUE(
            writer.SaveWithState(WholeManifest(1), std::vector<std::string_view>{"old"}).ok());
        files.Arm({.call = n, .kind = env::FaultKind::kCallback, .after = [&] {
                     disk.PowerCut(unsynced, n);
                   }});
        new_saved =
            writer.SaveWithState(WholeManifest(2), std::vector<std::string_view>{"new"}).ok();
      }
      const bool fired = files.fired();
      files.Disarm();
      disk.PowerOn();
      FileSystemCheckpointStore reader(&files, "/base", 1);
      const auto report = reader.RecoverLatestValidated();
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      ASSERT_TRUE(report->chosen_id.has_value());
      EXPECT_THAT(report->skipped, IsEmpty());
      EXPECT_EQ(*reader.LoadStateData(*report->chosen_id), *report->chosen_id == 1 ? "old" : "new");
      if (new_saved) {
        EXPECT_EQ(*report->chosen_id, 2u);
      }
      ASSERT_TRUE(reader.SaveWithState(WholeManifest(3), std::vector<std::string_view>{"x"}).ok());
      ASSERT_TRUE(reader.CleanupOrphans().ok());
      EXPECT_EQ(*reader.LoadStateData(3), "x");
      if (!fired) break;
    }
  }
}

}  // namespace
}  // namespace cairn::checkpoint
