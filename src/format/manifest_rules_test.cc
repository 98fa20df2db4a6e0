// SPDX-License-Identifier: Apache-2.0
#include "format/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <set>

#include "format/manifest_testing.h"
#include "format/shared_records_testing.h"

namespace cairn::format {
namespace {

using M = CheckpointManifest;
using R = ManifestRule;

OperatorRecord& Count(M& m) {
  for (OperatorRecord& op : m.operators) {
    if (op.uid == "out/count/0") return op;
  }
  return m.operators.front();
}
OperatorRecord& Top(M& m) {
  for (OperatorRecord& op : m.operators) {
    if (op.uid == "out/top/0") return op;
  }
  return m.operators.front();
}
/// The frame of GoodManifest() whose digest is filled with `byte`.
StateFrame& Frame(M& m, uint8_t byte) {
  for (StateFrame& frame : m.state_frames) {
    if (frame.sha256 == FilledDigest(byte)) return frame;
  }
  return m.state_frames.front();
}

struct Mutation {
  R rule;
  const char* what;
  std::function<void(M&)> change;
};

// Each mutation breaks exactly the rule it names: a single field where one is enough.
std::vector<Mutation> HeadMutations() {
  return {
      {R::kCheckpointId, "zero", [](M& m) { m.checkpoint_id.value = 0; }},
      {R::kEpoch, "other", [](M& m) { m.epoch = 8; }},
      {R::kTimestamp, "zero", [](M& m) { m.timestamp_ms = 0; }},
      {R::kParticipant, "other", [](M& m) { m.participant_id = 2; }},
      {R::kAttemptId, "empty", [](M& m) { m.attempt_id = ""; }},
      {R::kAttemptId, "nil", [](M& m) { m.attempt_id = "00000000-0000-0000-0000-000000000000"; }},
      {R::kDeploymentId, "upper case", [](M& m) { m.deployment_id[8 - 1] = 'E'; }},
      {R::kPipelineIdentity, "version", [](M& m) { m.pipeline_identity.canonical_version = 2; }},
      {R::kPartitioningAbi, "zero", [](M& m) { m.partitioning_abi = 0; }},
      {R::kKeyGroups, "none", [](M& m) { m.key_groups = 0; }},
      {R::kKeyGroups, "too many", [](M& m) { m.key_groups = 32769; }},
      {R::kParallelism, "zero", [](M& m) { m.parallelism = 0; }},
      {R::kParallelism, "above groups", [](M& m) { m.parallelism = 129; }},
      {R::kSlotHash, "unknown", [](M& m) { m.slot_hash.function = "md5"; }},
      {R::kBaseCheckpoint, "itself", [](M& m) { m.base_checkpoint_id.value = 9; }},
      {R::kSourceNames, "order", [](M& m) { std::swap(m.source_names[0], m.source_names[1]); }},
      {R::kSourceNames, "empty", [](M& m) { m.source_names.insert(m.source_names.begin(), ""); }},
      {R::kSinkNames, "twice", [](M& m) { m.sink_names[0] = "out"; }},
      {R::kEndedSources, "unknown", [](M& m) { m.ended_sources[0] = "nobody"; }},
      {R::kSourceOffsets, "unknown", [](M& m) { m.source_offsets["nobody"]; }},
      {R::kInputChannels, "order",
       [](M& m) { m.source_offsets["bid"].input_channels = {"c1", "c0"}; }},
      {R::kInputChannels, "empty", [](M& m) { m.source_offsets["bid"].input_channels = {""}; }},
      {R::kInputChannels, "logical",
       [](M& m) { m.source_offsets["rates"].input_channels = {std::string(kLogicalChannel)}; }},
  };
}

std::vector<Mutation> ProgressMutations() {
  return {
      {R::kChannelProgressOrder, "order",
       [](M& m) { std::swap(m.channel_progress[0], m.channel_progress[1]); }},
      {R::kChannelProgressOrder, "twice",
       [](M& m) { m.channel_progress[1] = m.channel_progress[0]; }},
      {R::kChannelProgressSource, "unknown",
       [](M& m) { m.channel_progress[2].source_name = "zzz"; }},
      {R::kChannelProgressSource, "participant",
       [](M& m) { m.channel_progress[2].participant_id = 3; }},
      {R::kChannelProgressChannel, "empty",
       [](M& m) { m.channel_progress[2].input_channel.clear(); }},
      {R::kChannelProgressChannel, "mixed",
       [](M& m) { m.channel_progress.push_back({1, "rates", "p0", {}, true}); }},
      {R::kChannelProgressRoster, "missing",
       [](M& m) { m.channel_progress.erase(m.channel_progress.begin()); }},
      {R::kChannelProgressRoster, "extra",
       [](M& m) { m.source_offsets["bid"].input_channels.push_back("c2"); }},
      {R::kWatermarkReserved, "least",
       [](M& m) { m.channel_progress[2].watermark = std::numeric_limits<int64_t>::min(); }},
      {R::kCheckpointWatermark, "other", [](M& m) { m.checkpoint_watermark = -4; }},
      {R::kCheckpointWatermark, "none", [](M& m) { m.checkpoint_watermark.reset(); }},
      {R::kCheckpointWatermark, "an active channel has none",
       [](M& m) { m.channel_progress[2].idle = false; }},
  };
}

std::vector<Mutation> OperatorMutations() {
  return {
      {R::kOperatorOrder, "order", [](M& m) { std::swap(m.operators[0], m.operators[1]); }},
      {R::kOperatorUid, "other", [](M& m) { m.operators[0].uid += "x"; }},
      {R::kOperatorUid, "empty", [](M& m) { m.operators[0].uid.clear(); }},
      {R::kSlotOrder, "order", [](M& m) { std::swap(Top(m).slots[0], Top(m).slots[1]); }},
      {R::kSlotName, "separator", [](M& m) { Count(m).slots[0].name = "a|b"; }},
      {R::kSlotKind, "unknown", [](M& m) { Count(m).slots[0].kind = "list"; }},
      {R::kSlotTtl, "no TTL",
       [](M& m) {
         Count(m).slots[0].ttl_ms.reset();
         Count(m).slots[0].ttl_clock = "wall";
       }},
      {R::kSlotTtl, "a clock's first time without a TTL",
       [](M& m) {
         Count(m).slots[0].ttl_ms.reset();
         Count(m).slots[0].ttl_first_ms = 7;
       }},
      {R::kSlotTtl, "unknown clock",
       [](M& m) {
         Count(m).slots[0].ttl_ms = 5;
         Count(m).slots[0].ttl_clock = "moon";
       }},
      {R::kSlotCodec, "no name", [](M& m) { Count(m).slots[0].value_codec.clear(); }},
      {R::kSlotCodec, "no version", [](M& m) { Count(m).slots[0].version = 0; }},
      {R::kSlotColumns, "type", [](M& m) { Count(m).slots[0].value_columns[0].type = "int"; }},
      {R::kSlotColumns, "name twice",
       [](M& m) { Count(m).slots[0].value_columns[1].name = "count"; }},
      {R::kSlotColumns, "no name", [](M& m) { Count(m).slots[0].key_columns[0].name.clear(); }},
      {R::kOperatorTotals, "frames", [](M& m) { ++Count(m).frames; }},
      {R::kOperatorTotals, "entries", [](M& m) { --Count(m).entries; }},
      {R::kOperatorTotals, "bytes", [](M& m) { ++Top(m).bytes; }},
      {R::kOperatorTotals, "of a frame", [](M& m) { ++Frame(m, 3).entry_count; }},
      {R::kNodeDataChunk, "checkpoint", [](M& m) { m.node_data.chunk.checkpoint_id.value = 8; }},
      {R::kNodeDataChunk, "participant", [](M& m) { m.node_data.chunk.participant_id = 2; }},
      {R::kNodeDataAbsent, "frames", [](M& m) { m.node_data.object_length = 0; }},
      {R::kNodeDataSections, "no prefix", [](M& m) { m.node_data.prefix.reset(); }},
      {R::kNodeDataSections, "no suffix", [](M& m) { m.node_data.suffix.reset(); }},
      {R::kNodeDataSections, "offset", [](M& m) { m.node_data.prefix->range.offset = 8; }},
      {R::kNodeDataDigest, "object", [](M& m) { m.node_data.sha256[0] ^= 1; }},
      {R::kNodeDataDigest, "prefix", [](M& m) { m.node_data.prefix->sha256[0] ^= 1; }},
      {R::kNodeDataDigest, "suffix", [](M& m) { m.node_data.suffix->sha256[31] ^= 1; }},
      {R::kNodeDataDigest, "frame", [](M& m) { Frame(m, 4).sha256[0] ^= 1; }},
      {R::kNodeDataDigest, "sink frame", [](M& m) { m.prepared_sink_frame->sha256[0] ^= 1; }},
  };
}

std::vector<Mutation> FrameMutations() {
  return {
      {R::kReferencedChunkOrder, "order",
       [](M& m) { std::swap(m.referenced_chunks[0], m.referenced_chunks[1]); }},
      {R::kReferencedChunkAge, "newer than the base cut",
       [](M& m) { m.base_checkpoint_id.value = 6; }},
      {R::kReferencedChunkAge, "participant",
       [](M& m) {
         const StateChunkId moved{2, CheckpointId(7)};
         m.referenced_chunks[1].chunk = Frame(m, 5).chunk = Frame(m, 6).chunk = moved;
         Settle(&m);
       }},
      {R::kReferencedChunkCount, "more", [](M& m) { ++m.referenced_chunks[0].ref_count; }},
      {R::kReferencedChunkCount, "zero", [](M& m) { m.referenced_chunks[1].ref_count = 0; }},
      {R::kFrameOrder, "order", [](M& m) { std::swap(m.state_frames[0], m.state_frames[1]); }},
      {R::kFrameOrder, "twice", [](M& m) { m.state_frames[1] = m.state_frames[0]; }},
      {R::kFrameOrder, "delta first", [](M& m) { Frame(m, 3).delta = true; }},
      {R::kFrameKind, "sink",
       [](M& m) { m.state_frames.back().key.kind = FrameKind::kSinkDescriptor; }},
      {R::kFrameOperator, "unknown",
       [](M& m) {
         std::erase_if(m.operators, [](const auto& op) { return op.uid == "out/top/0"; });
       }},
      {R::kFrameGroups, "past the last", [](M& m) { m.key_groups = 127; }},
      {R::kFrameGroups, "backwards",
       [](M& m) { Frame(m, 7).key.last_key_group = 0, Frame(m, 7).key.first_key_group = 1; }},
      {R::kFrameGroups, "two subtasks", [](M& m) { Frame(m, 9).key.last_key_group = 2; }},
      {R::kFrameEmpty, "no bytes", [](M& m) { Frame(m, 3).range.length = 0; }},
      {R::kFrameEmpty, "no parts", [](M& m) { Frame(m, 3).parts = 0; }},
      {R::kFrameEmpty, "no entries", [](M& m) { Frame(m, 3).entry_count = 0; }},
      {R::kFrameChunk, "unlisted", [](M& m) { m.referenced_chunks.pop_back(); }},
      {R::kFrameRange, "past the object",
       [](M& m) { m.referenced_chunks[0].object_length = 1911; }},
      {R::kFrameRange, "overflow", [](M& m) { Frame(m, 3).range.offset = ~0ull; }},
      {R::kBaseOverlap, "groups", [](M& m) { Frame(m, 3).key.last_key_group = 64; }},
      {R::kDeltaOverlap, "groups", [](M& m) { Frame(m, 5).key.last_key_group = 32; }},
      {R::kDeltaBeforeBase, "same object", [](M& m) { Frame(m, 7).key.last_key_group = 64; }},
      {R::kFrameOverlapInChunk, "bytes", [](M& m) { Frame(m, 6).range.offset = 811; }},
      {R::kObjectTiling, "gap", [](M& m) { --m.node_data.prefix->range.length; }},
      {R::kObjectTiling, "overlap", [](M& m) { ++m.node_data.prefix->range.length; }},
      {R::kObjectTiling, "suffix", [](M& m) { ++m.node_data.suffix->range.offset; }},
      {R::kObjectTiling, "length", [](M& m) { ++m.node_data.object_length; }},
      {R::kObjectTiling, "sink frame", [](M& m) { --m.sink_intent_frame->range.offset; }},
  };
}

std::vector<Mutation> SinkAndLogMutations() {
  return {
      {R::kPreparedSinkOrder, "order",
       [](M& m) { std::swap(m.prepared_sinks[0], m.prepared_sinks[1]); }},
      {R::kPreparedSinkName, "unknown", [](M& m) { m.sink_names[1] = "zzz"; }},
      {R::kPreparedSinkCheckpoint, "newer",
       [](M& m) { m.prepared_sinks[2].checkpoint_id.value = 10; }},
      {R::kPreparedSinkCheckpoint, "none",
       [](M& m) { m.prepared_sinks[0].checkpoint_id.value = 0; }},
      {R::kPreparedSinkVersion, "other", [](M& m) { m.prepared_sinks[0].format_version = 2; }},
      {R::kPreparedSinkAbsent, "digest of nothing",
       [](M& m) { m.prepared_sinks[0].sha256 = checkpoint_descriptor_sha256(std::nullopt); }},
      {R::kPreparedSinkAbsent, "digest of something",
       [](M& m) { m.prepared_sinks[2].sha256 = checkpoint_descriptor_sha256(""); }},
      {R::kPreparedSinkFrame, "entries", [](M& m) { m.prepared_sink_frame->entry_count = 3; }},
      {R::kPreparedSinkFrame, "missing", [](M& m) { m.prepared_sink_frame.reset(); }},
      {R::kPreparedSinkFrame, "no parts", [](M& m) { m.prepared_sink_frame->parts = 0; }},
      {R::kSinkIntentRoster, "fewer", [](M& m) { m.sink_artifact_intents.pop_back(); }},
      {R::kSinkIntentRoster, "other subtask", [](M& m) { m.sink_artifact_intents[2].subtask = 2; }},
      {R::kSinkIntentVersion, "other", [](M& m) { m.sink_artifact_intents[0].format_version = 0; }},
      {R::kSinkIntentAbsent, "descriptor's digest",
       [](M& m) {
         m.sink_artifact_intents[0].sha256 = checkpoint_descriptor_sha256(std::nullopt);
       }},
      {R::kSinkIntentFrame, "entries", [](M& m) { m.sink_intent_frame->entry_count = 2; }},
      {R::kSinkIntentFrame, "without intents", [](M& m) { m.sink_artifact_intents.clear(); }},
      {R::kViewLogLimit, "too many",
       [](M& m) {
         const ViewLog log = m.view_logs[0];
         for (uint32_t i = 0; i < kMaxViewLogs; ++i) {
           m.view_logs.push_back(log);
           m.view_logs.back().view += fmt::format("-{:04}", i);
         }
       }},
      {R::kViewLogName, "no name", [](M& m) { m.view_logs[0].view.clear(); }},
      {R::kViewLogName, "too long",
       [](M& m) { m.view_logs[0].view.assign(kViewNameBytesMax + 1, 'v'); }},
      {R::kViewLogOrder, "twice", [](M& m) { m.view_logs.push_back(m.view_logs[0]); }},
      {R::kViewLogGeneration, "no UUID", [](M& m) { m.view_logs[0].generation = "1"; }},
      {R::kViewLogPartition, "too high", [](M& m) { m.view_logs[0].partitions = 1; }},
      {R::kViewLogSegmentOrder, "order",
       [](M& m) { std::swap(m.view_logs[0].segments[0], m.view_logs[0].segments[1]); }},
      {R::kViewLogSegmentRange, "no rows", [](M& m) { m.view_logs[0].segments[2].end = 40; }},
      {R::kViewLogSegmentRange, "no bytes",
       [](M& m) { m.view_logs[0].segments[2].object_length = 0; }},
      {R::kViewLogContiguous, "gap", [](M& m) { m.view_logs[0].segments[0].end = 99; }},
      {R::kViewLogOrigin, "newer", [](M& m) { m.view_logs[0].segments[0].origin.value = 10; }},
      {R::kViewLogOrigin, "none", [](M& m) { m.view_logs[0].segments[0].origin.value = 0; }},
      {R::kViewLogEventTime, "backwards",
       [](M& m) { m.view_logs[0].segments[0].event_time->min = 6; }},
  };
}

// Of a participant of a cut of several.
std::vector<Mutation> ClusterMutations() {
  return {
      {R::kParticipant, "none", [](M& m) { m.participant_id = 0; }},
      {R::kParticipant, "local", [](M& m) { m.cluster.reset(), m.participant_id = 2; }},
      {R::kAssignmentFence, "no version", [](M& m) { m.cluster->fence.version = 0; }},
      {R::kAssignmentFence, "not in it", [](M& m) { m.cluster->fence.participants[0].node = 9; }},
      {R::kAssignmentFence, "twice",
       [](M& m) { m.cluster->fence.participants[1] = m.cluster->fence.participants[0]; }},
      {R::kAssignmentFence, "no boot", [](M& m) { m.cluster->fence.participants[1].boot = "b"; }},
      {R::kAssignmentFence, "another's place",
       [](M& m) {
         std::erase_if(m.cluster->fence.participants, [](auto& p) { return p.node == 1; });
       }},
      {R::kAssignmentFence, "nobody", [](M& m) { m.cluster->fence.participants.clear(); }},
      {R::kAssignmentFence, "too many",
       [](M& m) {
         m.cluster->fence.participants.clear();
         for (uint64_t node = 1; node <= kParticipantsMax + 1; ++node) {
           m.cluster->fence.participants.push_back({node, kTestBoot1});
         }
       }},
      {R::kAssignmentFence, "other groups", [](M& m) { m.cluster->fence.key_groups = 64; }},
      {R::kAssignmentFence, "other ABI", [](M& m) { m.cluster->fence.partitioning_abi = 2; }},
      {R::kLeader, "nobody", [](M& m) { m.cluster->leader.owner.node = 0; }},
      {R::kLeader, "no boot", [](M& m) { m.cluster->leader.owner.boot.clear(); }},
      {R::kLeader, "no term", [](M& m) { m.cluster->leader.term = 0; }},
      {R::kLeader, "no token", [](M& m) { m.cluster->leader.fencing_token = 0; }},
      {R::kOwnedKeyGroups, "order",
       [](M& m) { std::swap(m.cluster->owned_key_groups[0], m.cluster->owned_key_groups[1]); }},
      {R::kOwnedKeyGroups, "out of range", [](M& m) { m.cluster->owned_key_groups[1].last = 129; }},
      {R::kOwnedKeyGroups, "empty", [](M& m) { m.cluster->owned_key_groups[1].first = 128; }},
      {R::kOwnedKeyGroups, "touching", [](M& m) { m.cluster->owned_key_groups[1].first = 41; }},
      {R::kFrameNotOwned, "another's", [](M& m) { m.cluster->owned_key_groups[0].last = 40; }},
      {R::kFrameNotOwned, "all", [](M& m) { m.cluster->owned_key_groups.clear(); }},
      {R::kViewLogSegmentLimit, "a share only",
       [](M& m) {
         m.view_logs = ManyViewLogSegments(kMaxClusterViewLogSegments / 2 + 1).view_logs;
         for (ViewLog& log : m.view_logs) {
           for (ViewLogSegment& s : log.segments) s.origin = m.checkpoint_id;
         }
       }},
  };
}

std::vector<Mutation> Mutations() {
  std::vector<Mutation> all;
  for (const auto& some : {HeadMutations(), ProgressMutations(), OperatorMutations(),
                           FrameMutations(), SinkAndLogMutations()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(ManifestRules, HoldForTheGoodManifest) {
  const auto error = Validate(GoodManifest());
  EXPECT_FALSE(error.has_value()) << ManifestRuleName(error->rule) << ": " << error->message;
  const auto cluster = Validate(GoodClusterManifest());
  EXPECT_FALSE(cluster.has_value()) << ManifestRuleName(cluster->rule) << ": " << cluster->message;
}

void ExpectRefusedByName(const M& good, const std::vector<Mutation>& mutations) {
  for (const Mutation& mutation : mutations) {
    M m = good;
    mutation.change(m);
    const auto error = Validate(m);
    ASSERT_TRUE(error.has_value()) << ManifestRuleName(mutation.rule) << ": " << mutation.what;
    EXPECT_EQ(ManifestRuleName(error->rule), ManifestRuleName(mutation.rule))
        << mutation.what << ": " << error->message;
    EXPECT_EQ(SerializeManifest(m).status().code(), StatusCode::kInternal);
  }
}

TEST(ManifestRules, RefuseEachMutationByItsOwnName) {
  ExpectRefusedByName(GoodManifest(), Mutations());
  ExpectRefusedByName(GoodClusterManifest(), ClusterMutations());
}

TEST(ManifestRules, AllowEightDeltasOverAGroupAndRefuseNine) {
  M m = GoodManifest();
  m.checkpoint_id.value = m.epoch = m.node_data.chunk.checkpoint_id.value = 100;
  m.base_checkpoint_id.value = 99;
  for (StateFrame& frame : m.state_frames) {
    if (frame.chunk.checkpoint_id.value == 9) frame.chunk = m.node_data.chunk;
  }
  const auto add_delta = [&](uint64_t checkpoint) {
    StateFrame delta = Frame(m, 5);
    delta.key.first_key_group = 0;
    delta.key.last_key_group = 63;
    delta.chunk = {1, CheckpointId(checkpoint)};
    delta.range = {512, 100};
    m.state_frames.push_back(delta);
    m.referenced_chunks.push_back({delta.chunk, 1000, FilledDigest(50), 1});
  };
  for (uint64_t checkpoint = 10; checkpoint < 16; ++checkpoint) add_delta(checkpoint);
  Settle(&m);
  const auto eight = Validate(m);
  EXPECT_FALSE(eight.has_value()) << ManifestRuleName(eight->rule) << eight->message;
  add_delta(16);
  Settle(&m);
  const auto nine = Validate(m);
  ASSERT_TRUE(nine.has_value());
  EXPECT_EQ(nine->rule, R::kDeltaCount) << nine->message;
}

TEST(ManifestRules, AllowTheViewLogLimitAndRefuseOneMore) {
  EXPECT_FALSE(Validate(ManyViewLogSegments(kMaxViewLogSegments)).has_value());
  const auto error = Validate(ManyViewLogSegments(kMaxViewLogSegments + 1));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->rule, R::kViewLogSegmentLimit);
}

TEST(ManifestRules, AreAllBrokenByATest) {
  std::set<R> tested = {R::kDeltaCount, R::kViewLogSegmentLimit};  // by the two tests above
  for (const auto& mutations : {Mutations(), ClusterMutations()}) {
    for (const Mutation& mutation : mutations) tested.insert(mutation.rule);
  }
#define CAIRN_EXPECT_TESTED(id, name) EXPECT_TRUE(tested.contains(R::id)) << name;
  CAIRN_MANIFEST_RULES(CAIRN_EXPECT_TESTED)
#undef CAIRN_EXPECT_TESTED
}

}  // namespace
}  // namespace cairn::format
