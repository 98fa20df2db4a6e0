// SPDX-License-Identifier: Apache-2.0
//
// A valid manifest that uses every field: tests break it, golden files keep its bytes.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "format/manifest.h"

namespace cairn::format {

inline Sha256Digest FilledDigest(uint8_t byte) {
  Sha256Digest digest;
  digest.fill(byte);
  return digest;
}

/// Set the object's digest, the operators' totals and the order of frames from the frames.
inline void Settle(CheckpointManifest* m) {
  std::sort(m->state_frames.begin(), m->state_frames.end(), StateFrameLess);
  std::vector<std::pair<ByteRange, Sha256Digest>> pieces;
  for (OperatorRecord& op : m->operators) op.frames = op.entries = op.bytes = 0;
  for (const StateFrame& frame : m->state_frames) {
    if (frame.chunk == m->node_data.chunk) pieces.emplace_back(frame.range, frame.sha256);
    for (OperatorRecord& op : m->operators) {
      if (op.operator_id != frame.key.operator_id) continue;
      ++op.frames;
      op.entries += frame.entry_count;
      op.bytes += frame.range.length;
    }
  }
  for (const auto* frame : {&m->prepared_sink_frame, &m->sink_intent_frame}) {
    if (*frame) pieces.emplace_back((*frame)->range, (*frame)->sha256);
  }
  std::sort(pieces.begin(), pieces.end());
  std::vector<Sha256Digest> digests;
  for (const auto& piece : pieces) digests.push_back(piece.second);
  if (m->node_data.prefix && m->node_data.suffix) {
    m->node_data.sha256 =
        ObjectDigest(m->node_data.prefix->sha256, digests, m->node_data.suffix->sha256);
  }
}

/// Checkpoint 9 on base cut 7: operator "out/count/0" has bases of checkpoints 5 and 9 and deltas
/// of 7 and 9; "out/top/0" has meta and state; a prepared piece of failed checkpoint 8 is carried
/// on.
inline CheckpointManifest GoodManifest();

inline void AddGoodHead(CheckpointManifest* out) {
  CheckpointManifest& m = *out;
  m.checkpoint_id = CheckpointId(9);
  m.epoch = 9;
  m.timestamp_ms = 1'700'000'000'123;
  m.attempt_id = "018bcfe5-687b-7000-8000-000000000001";
  m.deployment_id = "018bcfe5-687b-7000-8000-000000000002";
  m.pipeline_identity.sha256 = FilledDigest(0x11);
  m.key_groups = 128;
  m.parallelism = 2;
  m.slot_hash.seed = 0x0123456789abcdef;
  m.base_checkpoint_id = CheckpointId(7);

  OperatorRecord count{base::OperatorIdOf("out/count/0"), "out/count/0", {}, 0, 0, 0};
  count.slots.push_back({"counts",
                         "keyed_value",
                         "row",
                         "row",
                         1,
                         {{"auction", "bigint", false}},
                         {{"count", "bigint", false}, {"avg", "decimal(38,2)", true}},
                         false,
                         3'600'000});
  OperatorRecord top{base::OperatorIdOf("out/top/0"), "out/top/0", {}, 0, 0, 0};
  top.slots.push_back({"offsets", "operator_value", "bytes", "bytes", 3, {}, {}, false, {}});
  top.slots.push_back({"rows", "keyed_value", "row", "topn", 2, {}, {}, true, {}});
  m.operators = {count, top};
  std::sort(m.operators.begin(), m.operators.end(),
            [](const auto& a, const auto& b) { return a.operator_id < b.operator_id; });
}

inline void AddGoodFrames(CheckpointManifest* out) {
  CheckpointManifest& m = *out;
  const StateChunkId own{1, CheckpointId(9)}, five{1, CheckpointId(5)}, seven{1, CheckpointId(7)};
  m.node_data = {own,
                 4000,
                 {},
                 ObjectSection{{0, 512}, FilledDigest(1)},
                 ObjectSection{{3600, 400}, FilledDigest(2)}};
  const auto frame = [](FrameKind kind, OperatorId op, uint16_t first, uint16_t last, bool delta,
                        StateChunkId chunk, ByteRange range, uint8_t digest) {
    return StateFrame{{kind, op, first, last}, delta, chunk, range, 1, 10, digest * 1000u,
                      FilledDigest(digest)};
  };
  const OperatorId c = base::OperatorIdOf("out/count/0"), t = base::OperatorIdOf("out/top/0");
  m.state_frames = {
      frame(FrameKind::kKeyed, c, 0, 63, false, five, {512, 1000}, 3),
      frame(FrameKind::kKeyed, c, 64, 127, false, own, {512, 800}, 4),
      frame(FrameKind::kKeyed, c, 0, 31, true, seven, {512, 300}, 5),
      frame(FrameKind::kKeyed, c, 32, 40, true, seven, {812, 300}, 6),
      frame(FrameKind::kKeyed, c, 0, 63, true, own, {1312, 688}, 7),
      frame(FrameKind::kOperatorState, t, 0, 0, false, own, {2000, 400}, 8),
      frame(FrameKind::kOperatorState, t, 1, 1, false, five, {1512, 400}, 9),
      frame(FrameKind::kOperatorMeta, t, 0, 0, false, own, {2400, 400}, 10),
  };
  m.referenced_chunks = {{five, 2400, FilledDigest(20), 2}, {seven, 1600, FilledDigest(21), 2}};
}

inline void AddGoodSources(CheckpointManifest* out) {
  CheckpointManifest& m = *out;
  m.source_names = {"bid", "rates"};
  m.ended_sources = {"rates"};
  m.source_offsets["bid"] = {
      {{"bids.ndjson#0", {"{\"offset\":1024,\"rows\":7}", false}}, {"bids.ndjson#1", {"", false}}},
      {{"format", "ndjson"}},
      {"c0", "c1"}};
  m.source_offsets["rates"] = {{{"rates.csv", {"{\"offset\":99}", true}}}, {}, {}};
  m.channel_progress = {{1, "bid", "c0", 5000, false},
                        {1, "bid", "c1", -3, false},
                        {1, "rates", std::string(kLogicalChannel), std::nullopt, true}};
  m.checkpoint_watermark = -3;
}

inline void AddGoodSinksAndLogs(CheckpointManifest* out) {
  CheckpointManifest& m = *out;
  m.sink_names = {"blackhole", "out"};
  m.prepared_sinks = {
      {"out", CheckpointId(8), 0, 1, true, checkpoint_descriptor_sha256("files: a")},
      {"out", CheckpointId(9), 0, 1, true, checkpoint_descriptor_sha256("")},
      {"out", CheckpointId(9), 1, 1, false, checkpoint_descriptor_sha256(std::nullopt)}};
  m.prepared_sink_frame = SinkFrame{{2800, 400}, 1, 2, 77, FilledDigest(30)};
  for (const PreparedSinkDescriptor& p : m.prepared_sinks) {
    m.sink_artifact_intents.push_back(
        {p.sink_name, p.checkpoint_id, p.subtask, 1, p.subtask == 1,
         checkpoint_artifact_intent_sha256(p.subtask == 1 ? std::optional<std::string>("dir")
                                                          : std::nullopt)});
  }
  m.sink_intent_frame = SinkFrame{{3200, 400}, 1, 1, 78, FilledDigest(31)};

  ViewLog log{"top10", "018bcfe5-687b-7000-8000-000000000003", FilledDigest(40), 2, {}};
  log.segments = {{0, CheckpointId(5), 0, 100, 4096, FilledDigest(41), EventTimeBounds{-5, 5}},
                  {0, CheckpointId(9), 100, 150, 2048, FilledDigest(42), std::nullopt},
                  {1, CheckpointId(7), 40, 60, 1024, FilledDigest(43), EventTimeBounds{7, 7}}};
  m.view_logs = {log};
}

inline CheckpointManifest GoodManifest() {
  CheckpointManifest m;
  AddGoodHead(&m);
  AddGoodFrames(&m);
  AddGoodSources(&m);
  AddGoodSinksAndLogs(&m);
  Settle(&m);
  return m;
}

/// A manifest of `count` view-log segments of the most digits there are.
inline CheckpointManifest ManyViewLogSegments(uint32_t count) {
  CheckpointManifest m = GoodManifest();
  m.checkpoint_id.value = m.epoch = m.node_data.chunk.checkpoint_id.value =
      std::numeric_limits<uint64_t>::max();
  for (StateFrame& frame : m.state_frames) {
    if (frame.chunk.checkpoint_id.value == 9) frame.chunk.checkpoint_id = m.checkpoint_id;
  }
  // As many logs as there may be, whose names take six characters a byte.
  ViewLog log = m.view_logs[0];
  log.partitions = 4'000'000'000u;
  log.segments.clear();
  m.view_logs.assign(kMaxViewLogs, log);
  for (uint32_t i = 0; i < kMaxViewLogs; ++i) {
    std::string& name = m.view_logs[i].view;
    name.assign(kViewNameBytesMax, '\x01');
    name[0] = static_cast<char>(1 + i / 31 / 31);
    name[1] = static_cast<char>(1 + i / 31 % 31);
    name[2] = static_cast<char>(1 + i % 31);
  }
  const uint64_t first = std::numeric_limits<uint64_t>::max() - 2 * uint64_t{count};
  for (uint32_t i = 0; i < count; ++i) {
    ViewLog& of = m.view_logs[uint64_t{i} * kMaxViewLogs / count];
    of.segments.push_back({3'999'999'999u, m.checkpoint_id, first + i, first + i + 1, ~0ull,
                           FilledDigest(0xee),
                           EventTimeBounds{std::numeric_limits<int64_t>::min(),
                                           std::numeric_limits<int64_t>::min() + 1}});
  }
  return m;
}

}  // namespace cairn::format
