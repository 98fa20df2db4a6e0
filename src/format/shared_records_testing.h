// SPDX-License-Identifier: Apache-2.0
//
// Valid records of a cut of two participants that use every field, and every way to alter one field
// of a record's text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/json_fields.h"
#include "format/manifest_testing.h"
#include "format/participant_records.h"

namespace cairn::format {

inline constexpr char kTestDeployment[] = "018bcfe5-687b-7000-8000-000000000002";
inline constexpr char kTestAttempt[] = "018bcfe5-687b-7000-8000-000000000001";
inline constexpr char kTestBoot1[] = "018bcfe5-687b-7000-8000-000000000011";
inline constexpr char kTestBoot2[] = "018bcfe5-687b-7000-8000-000000000012";

inline LeaderProof GoodLeader() { return {{1, kTestBoot1}, 2, 5}; }

/// Nodes 1 and 2 each own half of `key_groups`.
inline AssignmentFence GoodFence(uint32_t key_groups = 128) {
  std::vector<uint64_t> owners(key_groups, 1);
  std::fill(owners.begin() + key_groups / 2, owners.end(), 2);
  return {3, 1, key_groups, OwnerMapDigest(1, owners), {{1, kTestBoot1}, {2, kTestBoot2}}};
}

/// GoodManifest as the one of participant 1 of two.
inline CheckpointManifest GoodClusterManifest() {
  CheckpointManifest m = GoodManifest();
  m.cluster = ClusterShare{GoodFence(), GoodLeader(), {{0, 41}, {64, 128}}};
  for (StateFrame& frame : m.state_frames) {
    if (frame.key.kind != FrameKind::kKeyed || frame.key.last_key_group != 63) continue;
    frame.key.last_key_group = 40;
  }
  Settle(&m);
  return m;
}

inline IndexReference GoodCut(uint64_t id) {
  return {CheckpointId(id), FilledDigest(static_cast<uint8_t>(id)), id * 100, FilledDigest(0x11)};
}

inline SharedHead GoodSharedHead() {
  SharedHead head;
  head.deployment_id = kTestDeployment;
  head.seq = 12;
  head.leader = {{2, kTestBoot2}, 3, 6};
  head.active_attempts = {{CheckpointId(10),
                           kTestAttempt,
                           CheckpointId(9),
                           GoodLeader(),
                           GoodFence(),
                           {"audit", "out"},
                           1'700'000'000'000,
                           true}};
  head.latest_terminal = TerminalOutcome{CheckpointId(9), true};
  head.latest_commit = GoodCut(9);
  head.retained = {GoodCut(7), GoodCut(5)};
  head.floor = CheckpointId(5);
  head.pins = {{"handoff", "1-2", kTestBoot1, CheckpointId(7), 4, 10'000},
               {"savepoint", "before", kTestBoot2, CheckpointId(5), 1, 60'000}};
  return head;
}

inline RetentionHead GoodRetentionHead() {
  return {kTestDeployment, 7, RetentionHead::Phase::kDeleteData, GoodCut(3), GoodCut(9)};
}

inline SinkWitness GoodSinkWitness() {
  return {kTestDeployment, 4, {1, kTestBoot1}, CheckpointId(9), kTestAttempt, {"audit", "out"}};
}

inline SinkIntentRecord GoodIntents() {
  return {CheckpointId(9),
          kTestAttempt,
          kTestDeployment,
          {1, kTestBoot1},
          {{"audit", std::nullopt}, {"blackhole", ""}, {"out", std::string("dir\0x", 5)}}};
}

inline AbortSeal GoodSeal() {
  AbortSeal seal{CheckpointId(9), kTestAttempt, kTestDeployment, 1, GoodLeader(), true, {}, {}};
  seal.manifest = GoodClusterManifest();
  return seal;
}

inline CommittedIndex GoodIndex() {
  CommittedIndex index;
  index.checkpoint_id = CheckpointId(9);
  index.attempt_id = kTestAttempt;
  index.deployment_id = kTestDeployment;
  index.pipeline_identity.sha256 = FilledDigest(0x11);
  index.leader = GoodLeader();
  index.fence = GoodFence();
  index.base_cut = CheckpointId(7);
  index.predecessor = GoodCut(7);
  index.participants = {{1, 5000, FilledDigest(1), 4000, FilledDigest(2)},
                        {2, 4000, FilledDigest(3), 0, checkpoint_sha256(std::string_view())}};
  index.source_offsets = {{"bid", {{"bids#0", {"17", false}}, {"bids#1", {"", true}}}},
                          {"rates", {}}};
  index.channel_progress = {{1, "bid", "c0", 5000, false}, {2, "bid", "c1", std::nullopt, true}};
  index.watermark = 5000;
  index.sink_names = {"audit", "out"};
  return index;
}

/// A record's text with one thing altered, and what.
struct AlteredText {
  std::string what;
  std::string text;
};

/// Every object of `json` with a field more, and every field missing, null and of another type.
/// Fields named in `optional` may be missing.
inline std::vector<AlteredText> AlteredTexts(const std::string& text,
                                             const std::vector<std::string>& optional) {
  std::vector<AlteredText> altered;
  const Json good = Json::parse(text);
  const std::function<void(const Json::json_pointer&)> walk = [&](const Json::json_pointer& at) {
    const Json& here = good.at(at);
    const auto with = [&](const std::string& what, const Json& value) {
      Json changed = good;
      changed[at] = value;
      altered.push_back({what + " at " + at.to_string(), changed.dump()});
    };
    if (here.is_object()) {
      Json more = here;
      more["unknown_field"] = 1;
      with("unknown field", more);
    }
    for (const auto& [key, value] : here.items()) {
      if (here.is_object() && std::find(optional.begin(), optional.end(), key) == optional.end()) {
        Json less = here;
        less.erase(key);
        with("without " + key, less);
      }
      const Json::json_pointer inside =
          here.is_array() ? at / std::stoul(key) : at / std::string(key);
      Json changed = good;
      changed[inside] = nullptr;
      altered.push_back({"null at " + inside.to_string(), changed.dump()});
      changed[inside] = value.is_string() ? Json(7) : Json("text");
      altered.push_back({"other type at " + inside.to_string(), changed.dump()});
      if (value.is_structured()) walk(inside);
    }
  };
  walk(Json::json_pointer());
  return altered;
}

}  // namespace cairn::format
