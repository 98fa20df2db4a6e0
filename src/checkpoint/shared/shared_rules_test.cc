// SPDX-License-Identifier: Apache-2.0
//
// What the protocol refuses, keeps and restores, one rule a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/shared/node_key.h"
#include "checkpoint/shared/shared_testing.h"

namespace cairn::checkpoint::shared {
namespace {

using env::ObjectFault;
using testing::Cluster;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kTestGroups;
using testing::kTestSink;
using testing::NodeProcess;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TestPipeline;
using testing::World;

class SharedRulesTest : public testing::ClusterTest {};

// ---- Admission ------------------------------------------------------------------------------

TEST_F(SharedRulesTest, OneAttemptIsAdmittedAtATime) {
  ASSERT_TRUE(cluster_.Admit().ok());
  const auto second = leader().Admit(cluster_.assignment, {kTestSink});
  EXPECT_EQ(second.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(world_.Head().active_attempts.size(), 1u);
}

TEST_F(SharedRulesTest, IdsAreNeverGivenTwiceAlsoAfterAborts) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 4; ++i) {
    const auto attempt = cluster_.Admit();
    ASSERT_TRUE(attempt.ok());
    EXPECT_TRUE(ids.insert(attempt->id.value).second);
    ASSERT_TRUE(leader().Abort(attempt->id).ok());
    ASSERT_TRUE(leader().Sweep().ok());
  }
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  EXPECT_TRUE(ids.insert(world_.Head().latest_commit->id.value).second);
}

TEST_F(SharedRulesTest, AChangedAssignmentNeedsANewVersionAndEverybodyRecovers) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  Assignment other = cluster_.assignment;
  std::swap(other.owners.front(), other.owners.back());
  EXPECT_EQ(leader().Admit(other, {kTestSink}).status().code(), StatusCode::kInvalidArgument);
  ++other.version;
  const auto attempt = leader().Admit(other, {kTestSink});
  ASSERT_TRUE(attempt.ok()) << attempt.status().ToString();
  EXPECT_EQ(node(1)->participant.Begin(*attempt).code(), StatusCode::kFenced);
}

TEST_F(SharedRulesTest, AnAssignmentWithoutOwnersOrParticipantsIsRefused) {
  Assignment bad = cluster_.assignment;
  bad.owners.pop_back();
  EXPECT_EQ(leader().Admit(bad, {}).status().code(), StatusCode::kInvalidArgument);
  bad = cluster_.assignment;
  bad.owners[0] = 9;
  EXPECT_EQ(leader().Admit(bad, {}).status().code(), StatusCode::kInvalidArgument);
  bad = cluster_.assignment;
  bad.participants.clear();
  EXPECT_EQ(leader().Admit(bad, {}).status().code(), StatusCode::kInvalidArgument);
}

// ---- A participant's manifest key -------------------------------------------------------------

TEST_F(SharedRulesTest, IntentsAndWitnessAreDurableBeforeASinkBegins) {
  const auto attempt = cluster_.Admit();
  node(1)->connection.Arm({});
  ASSERT_TRUE(node(1)->participant.Begin(*attempt).ok());
  const std::vector<std::string> trace = node(1)->connection.trace();
  const auto find = [&](const std::string& call) {
    return std::find(trace.begin(), trace.end(), call) - trace.begin();
  };
  const auto intents = find("swap " + NodeManifestKey(1, attempt->id));
  const auto witness = find("swap " + SinkWitnessKey(1));
  const auto begun = find("swap outside/out/1/" + std::to_string(attempt->id.value));
  EXPECT_LT(intents, witness);
  EXPECT_LT(witness, begun);
  EXPECT_LT(begun, static_cast<ptrdiff_t>(trace.size()));
}

TEST_F(SharedRulesTest, IntentsAreReplacedByExactlyTheManifest) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(node(1)->participant.Begin(*attempt).ok());
  auto seen = ReadNode(world_.bucket().get(), 1, attempt->id);
  EXPECT_TRUE(std::holds_alternative<format::SinkIntentRecord>(*seen->record));
  ASSERT_TRUE(node(1)->participant.Capture(node(1)->Share()).ok());
  ASSERT_TRUE(node(1)->participant.Persist().ok());
  seen = ReadNode(world_.bucket().get(), 1, attempt->id);
  ASSERT_TRUE(std::holds_alternative<format::CheckpointManifest>(*seen->record));
  const auto& manifest = std::get<format::CheckpointManifest>(*seen->record);
  EXPECT_EQ(manifest.prepared_sinks.size(), 1u);
  EXPECT_EQ(manifest.sink_artifact_intents.size(), 1u);
  // Saving again is saving once.
  const std::string before = *seen->version;
  ASSERT_TRUE(node(1)->participant.Persist().ok());
  EXPECT_EQ(*ReadNode(world_.bucket().get(), 1, attempt->id)->version, before);
}

TEST_F(SharedRulesTest, ADifferentManifestOfTheAttemptFailsClosed) {
  const format::ActiveAttempt attempt = SaveAll();
  const auto seen = ReadNode(world_.bucket().get(), 1, attempt.id);
  auto other = std::get<format::CheckpointManifest>(*seen->record);
  ++other.timestamp_ms;
  EXPECT_EQ(PutManifest(world_.bucket().get(), other).code(), StatusCode::kFenced);
  format::SinkIntentRecord late;
  late.checkpoint_id = attempt.id;
  late.attempt_id = attempt.attempt_id;
  late.deployment_id = world_.place().identity.deployment_id;
  late.participant = node(1)->self;
  late.intents = {{kTestSink, std::nullopt}};
  EXPECT_EQ(PutIntents(world_.bucket().get(), late).code(), StatusCode::kFenced);
}

TEST_F(SharedRulesTest, ASealBlocksLateCreatesAndKeepsWhatWasThere) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(cluster_.SaveShare(node(1), *attempt, 1).ok());
  ASSERT_TRUE(leader().Abort(attempt->id).ok());
  const auto seal =
      std::get<format::AbortSeal>(*ReadNode(world_.bucket().get(), 1, attempt->id)->record);
  EXPECT_TRUE(seal.manifest && seal.cleanup_complete);
  EXPECT_EQ(node(2)->participant.Begin(*attempt).code(), StatusCode::kCancelled);
  EXPECT_EQ(PutManifest(world_.bucket().get(), *seal.manifest).code(), StatusCode::kCancelled);
}

TEST_F(SharedRulesTest, CleanupIsTriedAgainAndNotRepeatedOnceItIsDone) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(node(1)->participant.Begin(*attempt).ok());
  // The first rollback loses its call, the second its answer.
  env::FaultObjectStore* connection = &cluster_.leader->connection;
  connection->Arm({});
  uint64_t rollback_call = 0;
  {
    World copy(11);
    Cluster twin(&copy, {1, 2});
    ASSERT_TRUE(twin.Start().ok());
    const auto same = twin.Admit();
    ASSERT_TRUE(twin.processes[1]->participant.Begin(*same).ok());
    twin.leader->connection.Arm({});
    ASSERT_TRUE(twin.leader->leader.Abort(same->id).ok());
    const auto trace = twin.leader->connection.trace();
    while (!trace.at(rollback_call).starts_with("swap outside/")) ++rollback_call;
  }
  connection->Arm({.call = rollback_call, .kind = ObjectFault::kLostBefore, .for_ever = true});
  EXPECT_EQ(leader().Abort(attempt->id).code(), StatusCode::kUnavailable);
  EXPECT_EQ(world_.Head().active_attempts.size(), 1u);  // its inventory is kept until it is clean
  connection->Disarm();
  ASSERT_TRUE(leader().Abort(attempt->id).ok());
  EXPECT_TRUE(world_.Head().active_attempts.empty());
  const int rollbacks = cluster_.leader->cleaner.rollbacks;
  ASSERT_TRUE(leader().Abort(attempt->id).ok());
  ASSERT_TRUE(leader().Resolve().ok());
  cluster_.ReplaceNode(1);
  ASSERT_TRUE(node(1)->Start().ok());
  ASSERT_TRUE(cluster_.Settle().ok());
  EXPECT_EQ(cluster_.leader->cleaner.rollbacks, rollbacks);
  EXPECT_EQ(node(1)->sink.rollbacks, 0);
}

// ---- Deciding ---------------------------------------------------------------------------------

TEST_F(SharedRulesTest, NothingIsDecidedWhileAManifestIsMissing) {
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(cluster_.SaveShare(node(2), *attempt, 1).ok());
  EXPECT_EQ(*leader().Collect(), std::vector<uint64_t>{1});
  EXPECT_EQ(leader().Decide().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SharedRulesTest, TheHeadKeepsItsCutAcrossALaterAbort) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const format::IndexReference cut = *world_.Head().latest_commit;
  const auto attempt = cluster_.Admit();
  ASSERT_TRUE(leader().Abort(attempt->id).ok());
  EXPECT_EQ(world_.Head().latest_commit, cut);
  EXPECT_FALSE(world_.Head().latest_terminal->committed);
}

TEST_F(SharedRulesTest, ACommitExtendsTheHeadAndNamesItsPredecessor) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const format::IndexReference first = *world_.Head().latest_commit;
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const format::SharedHead head = world_.Head();
  EXPECT_EQ(head.retained, std::vector<format::IndexReference>{first});
  const auto cut = LoadCut(world_.seams(), world_.place(), *head.latest_commit);
  EXPECT_EQ((*cut)->index.predecessor, first);
  EXPECT_EQ((*cut)->index.base_cut, first.id);
}

TEST_F(SharedRulesTest, AnObjectShorterThanItsManifestSaysIsNotCommitted) {
  const format::ActiveAttempt attempt = SaveAll();
  const std::string key = NodeDataKey(1, attempt.id);
  const std::string bytes = world_.bucket()->Get(key, 1 << 24)->bytes;
  Overwrite(key, bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(leader().Collect().status().code(), StatusCode::kCorruption);
  ASSERT_TRUE(world_.bucket()->Delete(key).ok());
  EXPECT_EQ(leader().Collect().status().code(), StatusCode::kCorruption);
}

TEST_F(SharedRulesTest, ACutNamesOnlyItsOwnObjectsAndThoseOfItsBase) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  ASSERT_TRUE(cluster_.Checkpoint(1, 2).ok());
  const auto base = LoadCut(world_.seams(), world_.place(), *world_.Head().latest_commit);
  const format::CheckpointManifest& good = *(*base)->manifests.at(1);
  const auto before = LoadCut(world_.seams(), world_.place(), world_.Head().retained.at(0));
  EXPECT_TRUE(CheckReferences(good, before->get()).ok());
  EXPECT_EQ(CheckReferences(good, nullptr).code(), StatusCode::kCorruption);
  format::CheckpointManifest altered = good;
  ++altered.referenced_chunks[0].object_length;
  EXPECT_EQ(CheckReferences(altered, before->get()).code(), StatusCode::kCorruption);
}

TEST_F(SharedRulesTest, AWatermarkThatGoesBackIsRefused) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(process->participant.Begin(*attempt).ok());
    CapturedShare share = process->Share();
    share.channel_progress[0].watermark = 999;
    ASSERT_TRUE(process->participant.Capture(share).ok());
    ASSERT_TRUE(process->participant.Persist().ok());
  }
  ASSERT_TRUE(leader().Collect()->empty());
  EXPECT_EQ(leader().Decide().status().code(), StatusCode::kCorruption);
  ASSERT_TRUE(leader().Abort(attempt->id).ok());
}

TEST_F(SharedRulesTest, ACutWithoutChannelsKeepsTheWatermarkOfTheOneBefore) {
  ASSERT_TRUE(cluster_.Checkpoint(1).ok());
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(process->participant.Begin(*attempt).ok());
    CapturedShare share = process->Share();
    share.channel_progress.clear();
    ASSERT_TRUE(process->participant.Capture(share).ok());
    ASSERT_TRUE(process->participant.Persist().ok());
  }
  ASSERT_TRUE(cluster_.Decide().ok());
  const auto cut = LoadCut(world_.seams(), world_.place(), *world_.Head().latest_commit);
  EXPECT_EQ((*cut)->index.watermark, 1'000);
}

TEST_F(SharedRulesTest, ASplitReadByTwoParticipantsIsRefused) {
  const auto attempt = cluster_.Admit();
  for (auto& [n, process] : cluster_.processes) {
    ASSERT_TRUE(process->participant.Begin(*attempt).ok());
    CapturedShare share = process->Share();
    share.source_offsets["rows"].offsets["both"] = {"1", false};
    ASSERT_TRUE(process->participant.Capture(share).ok());
    ASSERT_TRUE(process->participant.Persist().ok());
  }
  ASSERT_TRUE(leader().Collect()->empty());
  EXPECT_EQ(leader().Decide().status().code(), StatusCode::kCorruption);
}

// ---- Sinks --------------------------------------------------------------------------------------

/// A sink that fails on request and notes its calls.
class StubbornSink final : public TwoPhaseSink {
 public:
  StubbornSink(std::string name, std::vector<std::string>* calls)
      : name_(std::move(name)), calls_(calls) {}
  const std::string& name() const override { return name_; }
  Result<std::optional<std::string>> Intend(const SinkEpoch&) override {
    return std::optional<std::string>("intent of " + name_);
  }
  Status Begin(const SinkEpoch&) override { return Note("begin"); }
  Result<std::optional<std::string>> Prepare(const SinkEpoch&) override {
    CAIRN_RETURN_IF_ERROR(Note("prepare"));
    return std::optional<std::string>();
  }
  Status Commit(const SinkEpoch&, const std::optional<std::string>& descriptor) override {
    EXPECT_FALSE(descriptor.has_value());
    return Note("commit");
  }
  Status Rollback(const SinkEpoch&, const SinkEvidence& evidence) override {
    EXPECT_EQ(evidence.intent, "intent of " + name_);
    return Note("rollback");
  }
  std::string fails;  ///< the call that does

 private:
  Status Note(const std::string& call) {
    calls_->push_back(call + " " + name_);
    return call == fails ? Status::ResourceExhausted(name_ + " is full") : Status();
  }
  const std::string name_;
  std::vector<std::string>* calls_;
};

/// Node 1 alone with three stubborn sinks.
class SharedSinksTest : public SharedRulesTest {
 protected:
  void SetUp() override {
    SharedRulesTest::SetUp();
    cluster_.processes.erase(2);
    cluster_.processes.erase(1);
    world_.clock().Advance(testing::kTestTtlMs);
    ParticipantOptions options;
    options.self = {3, world_.NewBoot()};
    options.pipeline_identity = TestPipeline();
    options.sinks = {&a_, &b_, &c_};
    participant_ = std::make_unique<Participant>(world_.seams(), world_.place(), options);
    ASSERT_TRUE(participant_->TryStart().ok());
    assignment_ = {50, std::vector<uint64_t>(kTestGroups, 3), {options.self}};
    ASSERT_TRUE(participant_->Recover(assignment_).ok());
  }
  CapturedShare Share() {
    CapturedShare share;
    share.read = [](uint16_t group) -> Result<std::string> { return std::to_string(group); };
    return share;
  }
  std::vector<std::string> calls_;
  StubbornSink a_{"a", &calls_}, b_{"b", &calls_}, c_{"c", &calls_};
  std::unique_ptr<Participant> participant_;
  Assignment assignment_;
};

TEST_F(SharedSinksTest, AFailureInPhaseOneRollsBackEverySinkAndKeepsTheFirstError) {
  const auto attempt = leader().Admit(assignment_, {"a", "b", "c"});
  ASSERT_TRUE(participant_->Begin(*attempt).ok());
  b_.fails = "prepare";
  a_.fails = "rollback";
  calls_.clear();
  const Status captured = participant_->Capture(Share());
  EXPECT_EQ(captured.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(captured.message()), HasSubstr("b is full"));
  EXPECT_EQ(calls_, (std::vector<std::string>{"prepare a", "prepare b", "rollback a", "rollback b",
                                              "rollback c"}));
}

TEST_F(SharedSinksTest, EverySinkPublishesThoughOneFailsAndOnlyThenIsTheWitnessCleared) {
  const auto attempt = leader().Admit(assignment_, {"a", "b", "c"});
  ASSERT_TRUE(participant_->Begin(*attempt).ok());
  ASSERT_TRUE(participant_->Capture(Share()).ok());
  ASSERT_TRUE(participant_->Persist().ok());
  ASSERT_TRUE(leader().Collect()->empty());
  ASSERT_TRUE(leader().Decide().ok());
  a_.fails = "commit";
  calls_.clear();
  EXPECT_EQ(participant_->Settle().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(calls_, (std::vector<std::string>{"commit a", "commit b", "commit c"}));
  const auto witness = [&] {
    return ReadSeen(world_.bucket().get(), SinkWitnessKey(3), format::kSinkWitnessBytesMax,
                    &format::ParseSinkWitness)
        ->record->epoch;
  };
  EXPECT_EQ(witness(), attempt->id);
  a_.fails.clear();
  EXPECT_EQ(*participant_->Settle(), Outcome::kCommitted);
  EXPECT_EQ(witness().value, 0u);
}

TEST_F(SharedSinksTest, ASinkThatTheAttemptDoesNotNameIsRefused) {
  const auto attempt = leader().Admit(assignment_, {"a", "b"});
  EXPECT_EQ(participant_->Begin(*attempt).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(calls_, Not(Contains(StartsWith("begin"))));
}

}  // namespace
}  // namespace cairn::checkpoint::shared
