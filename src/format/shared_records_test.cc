// SPDX-License-Identifier: Apache-2.0
#include "format/shared_records.h"

#include <gtest/gtest.h>

#include <functional>

#include "format/shared_records_testing.h"

namespace cairn::format {
namespace {

/// A record as the tests below go through all of them.
struct RecordCase {
  std::string name;
  std::string text;
  std::function<Result<std::string>(std::string_view)> again;  ///< parse, then print
  std::vector<std::string> optional;                           ///< fields that may be missing
  uint64_t bytes_max;
};

template <class Record>
std::function<Result<std::string>(std::string_view)> Again(
    Result<Record> (*parse)(std::string_view), Result<std::string> (*print)(const Record&)) {
  return [=](std::string_view bytes) -> Result<std::string> {
    CAIRN_ASSIGN_OR_RETURN(const Record record, parse(bytes));
    return print(record);
  };
}

AbortSeal SealOfIntents() {
  AbortSeal seal{CheckpointId(9), kTestAttempt, kTestDeployment, 1, GoodLeader(), false, {}, {}};
  seal.intents = GoodIntents();
  return seal;
}

std::vector<RecordCase> AllRecords() {
  return {
      {"allocator",
       *SerializeIdAllocator({CheckpointId(12), kTestAttempt}),
       Again(&ParseIdAllocator, &SerializeIdAllocator),
       {},
       kAllocatorBytesMax},
      {"lease link",
       *SerializeLeaseLink({"fence", GoodLeader(), 10'000}),
       Again(&ParseLeaseLink, &SerializeLeaseLink),
       {},
       kLeaseRecordBytesMax},
      {"lease head",
       *SerializeLeaseHead({7, 3, true}),
       Again(&ParseLeaseHead, &SerializeLeaseHead),
       {},
       kLeaseHeadBytesMax},
      {"decision head",
       *SerializeSharedHead(GoodSharedHead()),
       Again(&ParseSharedHead, &SerializeSharedHead),
       {"latest_terminal"},
       kSharedHeadBytesMax},
      {"retention head",
       *SerializeRetentionHead(GoodRetentionHead()),
       Again(&ParseRetentionHead, &SerializeRetentionHead),
       {},
       kRetentionHeadBytesMax},
      {"sink witness",
       *SerializeSinkWitness(GoodSinkWitness()),
       Again(&ParseSinkWitness, &SerializeSinkWitness),
       {},
       kSinkWitnessBytesMax},
      {"savepoint's COMPLETE",
       *SerializeSavepointComplete(GoodCut(9)),
       Again(&ParseSavepointComplete, &SerializeSavepointComplete),
       {},
       kLeaseRecordBytesMax},
      {"sink intents",
       *SerializeSinkIntentRecord(GoodIntents()),
       Again(&ParseSinkIntentRecord, &SerializeSinkIntentRecord),
       {"intent"},
       kIntentRecordBytesMax},
      {"abort seal",
       *SerializeAbortSeal(SealOfIntents()),
       Again(&ParseAbortSeal, &SerializeAbortSeal),
       {"intent", "sink_intents"},
       kAbortSealBytesMax},
      {"committed index",
       *SerializeCommittedIndex(GoodIndex()),
       Again(&ParseCommittedIndex, &SerializeCommittedIndex),
       {"predecessor", "watermark", "bid", "rates", "bids#0", "bids#1"},
       kCommittedIndexBytesMax},
  };
}

TEST(SharedRecords, ReadBackWhatTheyWrote) {
  for (const RecordCase& record : AllRecords()) {
    const Result<std::string> again = record.again(record.text);
    ASSERT_TRUE(again.ok()) << record.name << ": " << again.status().ToString();
    EXPECT_EQ(*again, record.text);
  }
}

TEST(SharedRecords, RefuseEveryFieldThatIsUnknownMissingNullOrOfAnotherType) {
  for (const RecordCase& record : AllRecords()) {
    for (const AlteredText& altered : AlteredTexts(record.text, record.optional)) {
      EXPECT_FALSE(record.again(altered.text).ok()) << record.name << ": " << altered.what;
    }
  }
}

TEST(SharedRecords, RefuseOtherVersionsFormsAndTruncations) {
  for (const RecordCase& record : AllRecords()) {
    Json newer = Json::parse(record.text);
    newer["version"] = 2;
    EXPECT_EQ(record.again(newer.dump()).status().code(), StatusCode::kUnsupportedFormat)
        << record.name;
    EXPECT_EQ(record.again(record.text + "\n").status().code(), StatusCode::kCorruption);
    EXPECT_EQ(record.again(" " + record.text).status().code(), StatusCode::kCorruption);
    for (size_t size = 0; size < record.text.size(); size += 3) {
      EXPECT_EQ(record.again(std::string_view(record.text).substr(0, size)).status().code(),
                StatusCode::kCorruption)
          << record.name << " cut to " << size;
    }
  }
}

TEST(SharedRecords, RefuseMoreBytesThanTheirLimit) {
  for (const RecordCase& record : AllRecords()) {
    EXPECT_EQ(record.again(std::string(record.bytes_max + 1, ' ')).status().code(),
              StatusCode::kCorruption)
        << record.name;
  }
}

TEST(SharedHeadRecord, RefusesEveryBrokenShape) {
  const std::function<void(SharedHead&)> changes[] = {
      [](auto& h) { h.deployment_id = "x"; },
      [](auto& h) { h.seq = 0; },
      [](auto& h) { h.leader.owner.node = 0; },
      [](auto& h) { h.leader.owner.boot = ""; },
      [](auto& h) { h.leader.term = 0; },
      [](auto& h) { h.leader.fencing_token = 0; },
      [](auto& h) { h.leader.fencing_token = 4; },  // below that of an attempt
      [](auto& h) { h.latest_terminal->id = CheckpointId(0); },
      [](auto& h) { h.latest_commit.reset(); },
      [](auto& h) { h.latest_commit->id = CheckpointId(7); },
      [](auto& h) { h.latest_commit->index_length = 0; },
      [](auto& h) { std::swap(h.retained[0], h.retained[1]); },
      [](auto& h) { h.retained[1] = h.retained[0]; },
      [](auto& h) { h.retained.resize(kSharedRetainedMax + 1, GoodCut(5)); },
      [](auto& h) { h.floor = CheckpointId(6); },
      [](auto& h) { h.active_attempts[0].id = CheckpointId(9); },
      [](auto& h) { h.active_attempts[0].attempt_id = ""; },
      [](auto& h) { h.active_attempts[0].base_cut = CheckpointId(8); },
      [](auto& h) { h.active_attempts[0].admitted_ms = 0; },
      [](auto& h) { h.active_attempts[0].leader.term = 0; },
      [](auto& h) { h.active_attempts[0].fence.version = 0; },
      [](auto& h) { std::swap(h.active_attempts[0].sinks[0], h.active_attempts[0].sinks[1]); },
      [](auto& h) { h.active_attempts.push_back(h.active_attempts[0]); },
      [](auto& h) {
        while (h.active_attempts.size() <= kActiveAttemptsMax) {
          h.active_attempts.push_back(h.active_attempts.back());
          ++h.active_attempts.back().id.value;
        }
      },
      [](auto& h) { h.pins[0].kind = "lease"; },
      [](auto& h) { h.pins[0].owner = "nobody"; },
      [](auto& h) { h.pins[0].ttl_ms = 0; },
      [](auto& h) { h.pins[0].checkpoint_id = CheckpointId(6); },
      [](auto& h) { std::swap(h.pins[0], h.pins[1]); },
      [](auto& h) { h.pins.resize(kSharedPinsMax + 1); },
  };
  ASSERT_TRUE(ValidateSharedHead(GoodSharedHead()).ok());
  for (size_t i = 0; i < std::size(changes); ++i) {
    SharedHead head = GoodSharedHead();
    changes[i](head);
    EXPECT_EQ(ValidateSharedHead(head).code(), StatusCode::kCorruption) << i;
    EXPECT_EQ(SerializeSharedHead(head).status().code(), StatusCode::kInternal) << i;
  }
}

TEST(SharedHeadRecord, HoldsItsLimitsInItsBytes) {
  SharedHead head = GoodSharedHead();
  head.active_attempts[0].fence.participants.clear();
  for (uint64_t node = 1; node <= kParticipantsMax; ++node) {
    head.active_attempts[0].fence.participants.push_back(
        {~0ull - kParticipantsMax + node, kTestBoot1});
  }
  while (head.active_attempts.size() < kActiveAttemptsMax) {
    head.active_attempts.push_back(head.active_attempts.back());
    ++head.active_attempts.back().id.value;
  }
  head.pins.clear();
  for (uint32_t i = 0; i < kSharedPinsMax; ++i) {
    head.pins.push_back({"savepoint", std::string(100, 'n') + std::to_string(1000 + i), kTestBoot2,
                         CheckpointId(7), ~0ull, ~0ull});
  }
  const auto bytes = SerializeSharedHead(head);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(*ParseSharedHead(*bytes), head);
}

TEST(LeaseHeadRecord, FitsInItsHundredAndTwentyEightBytesAtTheLargest) {
  const LeaseHead head{~0ull, ~0ull, false};
  EXPECT_EQ(*ParseLeaseHead(*SerializeLeaseHead(head)), head);
}

TEST(SmallSharedRecords, RefuseEveryBrokenShape) {
  EXPECT_FALSE(SerializeIdAllocator({CheckpointId(0), ""}).ok());
  EXPECT_FALSE(SerializeIdAllocator({CheckpointId(1), kTestAttempt}).ok());
  EXPECT_FALSE(SerializeIdAllocator({CheckpointId(2), ""}).ok());
  EXPECT_TRUE(SerializeIdAllocator({CheckpointId(1), ""}).ok());
  EXPECT_FALSE(SerializeLeaseHead({0, 0, false}).ok());
  EXPECT_FALSE(SerializeLeaseLink({"lock", GoodLeader(), 1}).ok());
  EXPECT_FALSE(SerializeLeaseLink({"lease", GoodLeader(), 0}).ok());
  EXPECT_FALSE(SerializeLeaseLink({"lease", {}, 1}).ok());

  const std::function<void(RetentionHead&)> retention[] = {
      [](auto& h) { h.deployment_id = ""; },
      [](auto& h) { h.seq = 0; },
      [](auto& h) { h.retired.reset(); },
      [](auto& h) { h.protected_cut.reset(); },
      [](auto& h) { h.phase = RetentionHead::Phase::kIdle; },
      [](auto& h) { h.retired->id = CheckpointId(9); },
  };
  for (const auto& change : retention) {
    RetentionHead head = GoodRetentionHead();
    change(head);
    EXPECT_EQ(SerializeRetentionHead(head).status().code(), StatusCode::kInternal);
  }
  const std::function<void(SinkWitness&)> witnesses[] = {
      [](auto& w) { w.seq = 0; },
      [](auto& w) { w.deployment_id = ""; },
      [](auto& w) { w.process.node = 0; },
      [](auto& w) { w.process.boot = ""; },
      [](auto& w) { w.epoch = CheckpointId(0); },
      [](auto& w) { w.attempt_id.clear(); },
      [](auto& w) { w.attempt_id = "x"; },
      [](auto& w) { w.sinks.clear(); },
      [](auto& w) { std::swap(w.sinks[0], w.sinks[1]); },
      [](auto& w) { w.sinks[1] = w.sinks[0]; },
  };
  for (const auto& change : witnesses) {
    SinkWitness witness = GoodSinkWitness();
    change(witness);
    EXPECT_EQ(SerializeSinkWitness(witness).status().code(), StatusCode::kInternal);
  }
  EXPECT_TRUE(SerializeSinkWitness({kTestDeployment, 1, {1, kTestBoot1}, {}, "", {}}).ok());
}

TEST(SinkIntents, RefuseEveryBrokenShapeAndTellAbsentFromEmpty) {
  const std::function<void(SinkIntentRecord&)> changes[] = {
      [](auto& r) { r.checkpoint_id = CheckpointId(0); },
      [](auto& r) { r.attempt_id = ""; },
      [](auto& r) { r.deployment_id = ""; },
      [](auto& r) { r.participant.node = 0; },
      [](auto& r) { r.participant.boot = ""; },
      [](auto& r) { r.intents.clear(); },
      [](auto& r) { r.intents[0].sink_name = ""; },
      [](auto& r) { std::swap(r.intents[0], r.intents[1]); },
      [](auto& r) { r.intents[1].sink_name = r.intents[0].sink_name; },
      [](auto& r) { r.intents[0].intent = std::string(kSinkIntentBytesMax + 1, 'x'); },
  };
  for (const auto& change : changes) {
    SinkIntentRecord record = GoodIntents();
    change(record);
    EXPECT_EQ(SerializeSinkIntentRecord(record).status().code(), StatusCode::kInternal);
  }
  SinkIntentRecord absent = GoodIntents();
  absent.intents[1].intent.reset();
  EXPECT_NE(*SerializeSinkIntentRecord(absent), *SerializeSinkIntentRecord(GoodIntents()));
}

TEST(SinkIntents, HoldAMebibyteInAllAndNoMore) {
  SinkIntentRecord record = GoodIntents();
  record.intents.clear();
  for (int i = 0; i < 16; ++i) {
    record.intents.push_back({std::to_string(100 + i), std::string(kSinkIntentBytesMax, 'x')});
  }
  const auto bytes = SerializeSinkIntentRecord(record);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(*ParseSinkIntentRecord(*bytes), record);
  record.intents.push_back({"999", "x"});
  EXPECT_FALSE(SerializeSinkIntentRecord(record).ok());
}

TEST(AbortSealRecord, KeepsTheManifestItReplacesByteForByte) {
  const AbortSeal seal = GoodSeal();
  const auto bytes = SerializeAbortSeal(seal);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto read = ParseAbortSeal(*bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, seal);
  EXPECT_EQ(*SerializeManifest(*read->manifest), *SerializeManifest(GoodClusterManifest()));
}

TEST(AbortSealRecord, RefusesTwoKeptRecordsAndThoseOfAnotherAttempt) {
  AbortSeal seal = GoodSeal();
  seal.intents = GoodIntents();
  EXPECT_FALSE(SerializeAbortSeal(seal).ok());
  const std::function<void(AbortSeal&)> changes[] = {
      [](auto& s) { s.checkpoint_id = CheckpointId(8); },
      [](auto& s) { s.attempt_id = kTestBoot1; },
      [](auto& s) { s.deployment_id = kTestBoot1; },
      [](auto& s) { s.participant_id = 2; },
      [](auto& s) { s.participant_id = 0; },
      [](auto& s) { s.leader.term = 0; },
  };
  for (const AbortSeal& good : {GoodSeal(), SealOfIntents()}) {
    for (const auto& change : changes) {
      AbortSeal altered = good;
      change(altered);
      EXPECT_EQ(SerializeAbortSeal(altered).status().code(), StatusCode::kInternal);
    }
  }
}

TEST(NodeRecords, AreToldApartByTheirFormat) {
  const auto kind = [](const std::string& bytes) {
    const auto record = ParseNodeRecord(bytes);
    EXPECT_TRUE(record.ok()) << record.status().ToString();
    return record.ok() ? record->index() : 99;
  };
  EXPECT_EQ(kind(*SerializeSinkIntentRecord(GoodIntents())), 0u);
  EXPECT_EQ(kind(*SerializeManifest(GoodClusterManifest())), 1u);
  EXPECT_EQ(kind(*SerializeAbortSeal(GoodSeal())), 2u);
  EXPECT_EQ(ParseNodeRecord("{\"format\":\"other\"}").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(ParseNodeRecord("{}").status().code(), StatusCode::kCorruption);
}

TEST(CommittedIndexRecord, RefusesEveryBrokenShape) {
  const std::function<void(CommittedIndex&)> changes[] = {
      [](auto& i) { i.checkpoint_id = CheckpointId(0); },
      [](auto& i) { i.attempt_id = ""; },
      [](auto& i) { i.deployment_id = ""; },
      [](auto& i) { i.pipeline_identity.canonical_version = 2; },
      [](auto& i) { i.leader.fencing_token = 0; },
      [](auto& i) { i.fence.participants.pop_back(); },
      [](auto& i) { i.fence.key_groups = 0; },
      [](auto& i) { i.base_cut = CheckpointId(9); },
      [](auto& i) { i.predecessor->id = CheckpointId(9); },
      [](auto& i) { i.participants.pop_back(); },
      [](auto& i) { std::swap(i.participants[0], i.participants[1]); },
      [](auto& i) { i.participants[0].manifest_length = 0; },
      [](auto& i) { i.participants[0].data_length = 0; },
      [](auto& i) { i.participants[1].data_length = 1; },
      [](auto& i) { i.participants[1].data_sha256 = FilledDigest(9); },
      [](auto& i) { std::swap(i.channel_progress[0], i.channel_progress[1]); },
      [](auto& i) { i.channel_progress[1].participant_id = 3; },
      [](auto& i) { i.channel_progress[1].input_channel = ""; },
      [](auto& i) { std::swap(i.sink_names[0], i.sink_names[1]); },
  };
  ASSERT_TRUE(ValidateCommittedIndex(GoodIndex()).ok());
  for (size_t n = 0; n < std::size(changes); ++n) {
    CommittedIndex index = GoodIndex();
    changes[n](index);
    EXPECT_EQ(ValidateCommittedIndex(index).code(), StatusCode::kCorruption) << n;
    EXPECT_EQ(SerializeCommittedIndex(index).status().code(), StatusCode::kInternal) << n;
  }
}

// The digests below were computed with Python's hashlib from docs/formats/shared-records.md.
TEST(AssignmentDigests, AreThoseOfTheDocumentedDomains) {
  EXPECT_EQ(base::ToHex(OwnerMapDigest(1, std::vector<uint64_t>{1, 1, 2, 2})),
            "fa8aebd7d3539c1165eca8a0faa3f4cf07a9a24876b7eaced66b52af0cac2828");
  EXPECT_EQ(base::ToHex(AssignmentFenceDigest(GoodFence(4))),
            "c705099f54d11192605332a3e96ca0fbad42562b5ecdc569314d548e3f05bc74");
}

TEST(AssignmentDigests, ChangeWithEveryField) {
  const base::Sha256Digest good = AssignmentFenceDigest(GoodFence());
  const std::function<void(AssignmentFence&)> changes[] = {
      [](auto& f) { ++f.version; },
      [](auto& f) { ++f.partitioning_abi; },
      [](auto& f) { ++f.key_groups; },
      [](auto& f) { ++f.owner_map_sha256[31]; },
      [](auto& f) { f.participants[0].node = 7; },
      [](auto& f) { f.participants[0].boot = kTestBoot2; },
      [](auto& f) { f.participants.pop_back(); },
  };
  for (const auto& change : changes) {
    AssignmentFence fence = GoodFence();
    change(fence);
    EXPECT_NE(AssignmentFenceDigest(fence), good);
  }
}

}  // namespace
}  // namespace cairn::format
