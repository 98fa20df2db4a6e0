// SPDX-License-Identifier: Apache-2.0
//
// A directory of whole checkpoints that an earlier program wrote (testdata/format/v1/whole-v1-*),
// read through FileSystemCheckpointStore; and what was wrong in that program and is not here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "checkpoint/file_system_checkpoint_store.h"
#include "checkpoint/whole_checkpoint_testing.h"
#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::WholeManifest;

std::string GoldenFile(const std::string& name) {
  std::ifstream in("testdata/format/v1/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class WholeCheckpointV1Test : public ::testing::Test {
 protected:
  void SetUp() override {
    Put(6, "manifest.json", GoldenFile("whole-v1-early.json"));
    Put(7, "manifest.json", GoldenFile("whole-v1-inline.json"));
    for (const auto& [id, name] : {std::pair(8, "sidecar"), std::pair(9, "both")}) {
      Put(static_cast<uint64_t>(id), "state.bin", GoldenFile("whole-v1-state.bin"));
      Put(static_cast<uint64_t>(id), "manifest.json",
          GoldenFile("whole-v1-" + std::string(name) + ".json"));
    }
    PutFile("/base/checkpoints/latest.txt", "checkpoint_000009");
    Open();
  }
  void Open(size_t max_retained = 0) {
    store_.reset();
    store_ = std::make_unique<FileSystemCheckpointStore>(&files_, "/base", max_retained);
  }
  static std::string PathOf(uint64_t id, const std::string& file) {
    return "/base/checkpoints/checkpoint_00000" + std::to_string(id) + "/" + file;
  }
  void PutFile(const std::string& path, std::string_view bytes) {
    (void)memory_.RemoveFile(path);
    ASSERT_TRUE(env::CreateDirectories(&memory_, path.substr(0, path.rfind('/')), true).ok());
    auto file = memory_.CreateFile(path);
    ASSERT_TRUE(file.ok() && (*file)->Append(bytes).ok() && (*file)->Sync().ok());
    ASSERT_TRUE(memory_.SyncDirectory(path.substr(0, path.rfind('/'))).ok());
  }
  void Put(uint64_t id, const std::string& file, std::string_view bytes) {
    PutFile(PathOf(id, file), bytes);
  }
  void Replace(uint64_t id, const std::string& from, const std::string& to) {
    std::string text = *env::ReadWholeFile(&memory_, PathOf(id, "manifest.json"), 1 << 20);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Put(id, "manifest.json", text.replace(at, from.size(), to));
    Open();
  }
  /// The integrity failures of a checkpoint.
  std::vector<std::string> Failures(uint64_t id) {
    std::vector<std::string> failures;
    const auto result = store_->ValidateCheckpoint(id);
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    for (const ValidationIssue& issue : result->issues) {
      if (issue.kind == ValidationIssueKind::kIntegrityFailure) failures.push_back(issue.message);
    }
    return failures;
  }

  env::MemoryFileSystem memory_;
  env::FaultFileSystem files_{&memory_};
  std::unique_ptr<FileSystemCheckpointStore> store_;
};

TEST_F(WholeCheckpointV1Test, AStoreOfAnEarlierProgramIsListedValidatedAndRecovered) {
  EXPECT_THAT(*store_->ListIds(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(*store_->List(), ElementsAre(Pair(6, 6), Pair(7, 107), Pair(8, 108), Pair(9, 109)));
  for (const uint64_t id : {6, 7, 8, 9}) EXPECT_THAT(Failures(id), IsEmpty()) << id;
  const auto report = store_->RecoverLatestValidated();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->chosen_id, 9u);
  EXPECT_EQ((*store_->LoadV1(7))->epoch, 107u);
  EXPECT_EQ(*store_->LoadV1(5), std::nullopt);
  EXPECT_EQ(store_->LoadSinkStatuses(7)->at("audit").state, format::SinkCommitState::kCommitted);
  const Status own = store_->LoadLatest().status();
  EXPECT_EQ(own.code(), StatusCode::kUnsupportedFormat);
  EXPECT_THAT(own.message(), HasSubstr("LoadV1"));
}

TEST_F(WholeCheckpointV1Test, StatesAreReadFromTheManifestFromTheSidecarAndFromBoth) {
  const std::string sidecar = GoldenFile("whole-v1-state.bin");
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  const auto states = [&](uint64_t id) {
    const auto read = store_->LoadOperatorStatesV1(id);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return read.ok() ? *read : std::map<std::string, std::string>();
  };
  EXPECT_THAT(states(6), ElementsAre(Pair("agg", every_byte)));
  EXPECT_THAT(states(7), ElementsAre(Pair("agg", every_byte), Pair("join", "")));
  EXPECT_THAT(states(8), ElementsAre(Pair("agg", sidecar.substr(0, 1000)),
                                     Pair("join", sidecar.substr(1000, 2000))));
  EXPECT_THAT(states(9),
              ElementsAre(Pair("agg", every_byte), Pair("join", sidecar.substr(500, 1500))));
  EXPECT_EQ(*store_->LoadStateData(8), sidecar);
  EXPECT_EQ(*store_->LoadStateData(7), std::nullopt);
}

TEST_F(WholeCheckpointV1Test, EachFormOfTheChecksumFindsAFlippedByte) {
  ASSERT_TRUE(memory_.FlipByte(PathOf(8, "state.bin"), 2999).ok());
  ASSERT_TRUE(memory_.FlipByte(PathOf(9, "state.bin"), 0).ok());
  Open();
  EXPECT_THAT(Failures(8), ElementsAre(HasSubstr("state_checksum differs")));
  EXPECT_THAT(Failures(9), ElementsAre(HasSubstr("state_checksum differs")));
  EXPECT_EQ(store_->LoadOperatorStatesV1(9).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(store_->LoadStateData(8).status().code(), StatusCode::kCorruption);
  Replace(7, "\"state_b64\": \"\"", "\"state_b64\": \"AAAA\"");
  EXPECT_THAT(Failures(7), ElementsAre(HasSubstr("state_checksum differs")));
}

TEST_F(WholeCheckpointV1Test, AChecksumThatIsNotThereIsAccepted) {
  const auto manifest = *store_->LoadV1(9);
  Replace(9, "\"" + *manifest->state_checksum + "\"", "null");
  EXPECT_THAT(Failures(9), IsEmpty());
  EXPECT_TRUE(store_->LoadOperatorStatesV1(9).ok());
}

TEST_F(WholeCheckpointV1Test, AnEarlyChecksumOfTheSidecarAloneIsAcceptedWithAWarning) {
  const auto manifest = *store_->LoadV1(9);
  Replace(9, *manifest->state_checksum, base::Sha256::HexOf(GoldenFile("whole-v1-state.bin")));
  const auto result = store_->ValidateCheckpoint(9);
  EXPECT_TRUE(result->valid());
  ASSERT_EQ(result->issues.size(), 1u);
  EXPECT_EQ(result->issues[0].kind, ValidationIssueKind::kManifestWarning);
}

// The earlier program let the operator begin with nothing.
TEST_F(WholeCheckpointV1Test, DamagedBase64IsAnErrorThatNamesTheOperatorAndNeverAnEmptyStart) {
  Replace(6, "\"AAEC", "\"*AEC");
  EXPECT_THAT(Failures(6), ElementsAre(HasSubstr("operator 'agg'")));
  const auto states = store_->LoadOperatorStatesV1(6);
  EXPECT_EQ(states.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(states.status().message(), HasSubstr("operator 'agg'"));
}

TEST_F(WholeCheckpointV1Test, AMissingOrShortSidecarNamesTheOperator) {
  ASSERT_TRUE(memory_.RemoveFile(PathOf(9, "state.bin")).ok());
  Put(8, "state.bin", GoldenFile("whole-v1-state.bin").substr(0, 2999));
  Open();
  EXPECT_THAT(Failures(9), ::testing::Contains(HasSubstr("operator 'join': state.bin is missing")));
  EXPECT_THAT(Failures(8), ::testing::Contains(HasSubstr("operator 'join' is at 1000+2000")));
  EXPECT_EQ(store_->LoadOperatorStatesV1(8).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(store_->LoadStateData(9).status().code(), StatusCode::kCorruption);
  const auto report = store_->RecoverLatestValidated(/*rows_may_come_twice=*/true);
  EXPECT_EQ(report->chosen_id, 7u);
  EXPECT_EQ(report->skipped.size(), 2u);
}

// The earlier program only warned, and keyed state went to the wrong places.
TEST_F(WholeCheckpointV1Test, AnotherNumberOfKeyGroupsIsAWarningOfValidationAndAnErrorOfARestore) {
  store_->WithVnodeCount(128);
  const auto result = store_->ValidateCheckpoint(7);
  EXPECT_TRUE(result->valid());
  ASSERT_EQ(result->issues.size(), 1u);
  EXPECT_THAT(result->issues[0].message, HasSubstr("256 key groups"));
  const Status refused = store_->LoadOperatorStatesV1(7).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("WithVnodeCount(256)"));
  EXPECT_TRUE(store_->LoadOperatorStatesV1(6).ok()) << "one that does not say is read";
}

TEST_F(WholeCheckpointV1Test, AnIdOrEpochOf0AndAManifestOfAnotherIdAreDamage) {
  Replace(6, "\"epoch\": 6", "\"epoch\": 0");
  EXPECT_THAT(Failures(6), ElementsAre(HasSubstr("epoch is 0")));
  Replace(7, "\"checkpoint_id\": 7", "\"checkpoint_id\": 17");
  EXPECT_THAT(Failures(7), ElementsAre(HasSubstr("of checkpoint 17")));
}

TEST_F(WholeCheckpointV1Test, NothingOfAnEarlierProgramIsWrittenPrunedOrSwept) {
  Open(1);
  const auto before = memory_.AllFiles();
  ASSERT_TRUE(store_->Save(WholeManifest(10)).ok());
  ASSERT_TRUE(store_->Save(WholeManifest(11)).ok());
  EXPECT_TRUE(store_->last_prune().ok());
  EXPECT_EQ(*store_->CleanupOrphans(), 0u);
  EXPECT_THAT(*store_->ListIds(), ElementsAre(6, 7, 8, 9, 11));
  EXPECT_EQ(store_->Save(WholeManifest(9)).code(), StatusCode::kAlreadyExists);
  for (const auto& [path, bytes] : before) {
    if (path.ends_with("latest.txt")) continue;
    EXPECT_EQ(memory_.AllFiles().at(path), bytes) << path;
  }
  EXPECT_EQ(store_->RecoverLatestValidated()->chosen_id, 11u);
}

// The rest of what was wrong in the earlier program, in this one's own checkpoints.
class EarlierDefectsTest : public WholeCheckpointV1Test {
 protected:
  void SetUp() override { Open(); }
};

TEST_F(EarlierDefectsTest, RecordingASinkOfAnOlderCheckpointMovesNoPointerAndPrunesNothing) {
  for (const uint64_t id : {1, 2, 3}) ASSERT_TRUE(store_->Save(WholeManifest(id)).ok());
  Open(1);
  ASSERT_TRUE(
      store_->UpdateManifest(WholeManifest(1), {{"out", {format::SinkCommitState::kCommitted, ""}}})
          .ok());
  EXPECT_EQ(*env::ReadWholeFile(&memory_, "/base/checkpoints/latest.txt", 100),
            "checkpoint_000003");
  EXPECT_THAT(*store_->ListIds(), ElementsAre(1, 2, 3));
}

TEST_F(EarlierDefectsTest, APointerToNothingIsNoFreshStart) {
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(store_->Save(WholeManifest(id)).ok());
  PutFile("/base/checkpoints/latest.txt", "checkpoint_000099");
  Open();
  EXPECT_EQ((*store_->LoadLatest())->checkpoint_id.value, 2u);
  EXPECT_EQ(store_->RecoverLatestValidated()->chosen_id, 2u);
}

TEST_F(EarlierDefectsTest, TheFirstCheckpointOfANewPlaceSurvivesAPowerCut) {
  const std::string state = "bytes of any kind";
  ASSERT_TRUE(store_->SaveWithState(WholeManifest(1), {{std::string_view(state)}}).ok());
  store_.reset();
  memory_.PowerCut(env::Unsynced::kDrop, 1);
  memory_.PowerOn();
  Open();
  EXPECT_EQ(store_->RecoverLatestValidated()->chosen_id, 1u);
  EXPECT_EQ(*store_->LoadStateData(1), state);
}

TEST_F(EarlierDefectsTest, OrphansOfASaveUnderWayAreNotSweptByAnotherProcess) {
  ASSERT_TRUE(store_->SaveStateData(1, {"state"}).ok());  // and its manifest is to come
  FileSystemCheckpointStore other(&files_, "/base", 0);
  EXPECT_EQ(other.CleanupOrphans().status().code(), StatusCode::kFenced);
  ASSERT_TRUE(store_->Save(WholeManifest(1)).ok());
  EXPECT_EQ(*store_->LoadStateData(1), "state");
}

TEST_F(EarlierDefectsTest, WhatAnInterruptedSaveLeftUnderATemporaryNameGoesAtTheNextWrite) {
  files_.Arm({.call = 4, .kind = env::FaultKind::kFail, .for_ever = true});
  EXPECT_FALSE(store_->SaveWithState(WholeManifest(1), {{std::string_view("state")}}).ok());
  files_.Disarm();
  PutFile("/base/checkpoints/checkpoint_000001/.cairn-tmp-7", "half a state");
  Open();
  ASSERT_TRUE(store_->SaveWithState(WholeManifest(2), {{std::string_view("state")}}).ok());
  for (const auto& [path, bytes] : memory_.AllFiles()) {
    EXPECT_EQ(path.find(".cairn-tmp-"), std::string::npos) << path;
  }
}

TEST_F(EarlierDefectsTest, GoingBackBehindRowsThatASinkPublishedHasToBeAskedFor) {
  for (const uint64_t id : {1, 2}) {
    ASSERT_TRUE(store_->SaveWithState(WholeManifest(id), {{std::string_view("state")}}).ok());
  }
  ASSERT_TRUE(
      store_->UpdateManifest(WholeManifest(2), {{"out", {format::SinkCommitState::kCommitted, ""}}})
          .ok());
  ASSERT_TRUE(memory_.FlipByte(PathOf(2, "state.bin"), 1).ok());
  Open();
  const auto refused = store_->RecoverLatestValidated();
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("sink out has published"));
  EXPECT_EQ(store_->RecoverLatestValidated(/*rows_may_come_twice=*/true)->chosen_id, 1u);
}

TEST_F(EarlierDefectsTest, ChunksOfStateAreAnyBytesInTheirOrder) {
  const std::string chunks[] = {std::string("\0\xff\n", 3), "", std::string(100'000, 'x'), "end"};
  ASSERT_TRUE(store_->SaveStateData(1, {chunks[0], chunks[1], chunks[2], chunks[3]}).ok());
  ASSERT_TRUE(store_->Save(WholeManifest(1)).ok());
  EXPECT_EQ(*store_->LoadStateData(1), chunks[0] + chunks[1] + chunks[2] + chunks[3]);
  EXPECT_THAT(Failures(1), IsEmpty());
}

}  // namespace
}  // namespace cairn::checkpoint
