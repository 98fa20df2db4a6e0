// SPDX-License-Identifier: Apache-2.0
#include "format/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/coding.h"

namespace cairn::format {
namespace {

/// SHA-256 of LP(domain), then 00, or 01 and LP(value).
Sha256Digest OptionalDigest(std::string_view domain, const std::optional<std::string>& value) {
  base::Sha256 hash;
  const auto add = [&hash](std::string_view part) {
    char length[8];
    base::StoreLE<uint64_t>(length, part.size());
    hash.Update({length, sizeof(length)});
    hash.Update(part);
  };
  add(domain);
  hash.Update(value ? std::string_view("\1", 1) : std::string_view("\0", 1));
  if (value) add(*value);
  return hash.Finish();
}

template <class T>
void AppendBE(T value, std::string* out) {
  for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

}  // namespace

uint32_t view_log_segment_limit(uint32_t participants) {
  return std::min(kMaxViewLogSegments, participants <= 1
                                           ? kMaxViewLogSegments
                                           : kMaxClusterViewLogSegments / participants);
}

Sha256Digest checkpoint_sha256(std::string_view bytes) { return base::Sha256::Of(bytes); }

Sha256Digest checkpoint_descriptor_sha256(const std::optional<std::string>& descriptor) {
  return OptionalDigest("cairn/prepared-sink-descriptor/v1", descriptor);
}

Sha256Digest checkpoint_artifact_intent_sha256(const std::optional<std::string>& intent) {
  return OptionalDigest("cairn/sink-artifact-intent/v1", intent);
}

FrameIdentity StateFrame::identity() const {
  return {key.kind,           key.operator_id, key.first_key_group,
          key.last_key_group, delta,           chunk.checkpoint_id};
}

FrameExpectation StateFrame::expectation(bool verify_sha256) const {
  return {identity(), parts, entry_count, crc32c, verify_sha256 ? &sha256 : nullptr};
}

bool StateFrameLess(const StateFrame& a, const StateFrame& b) {
  const auto order = [](const StateFrame& f) {
    return std::tuple(f.key.kind, f.key.operator_id, f.delta, f.delta ? f.chunk : StateChunkId{},
                      f.key.first_key_group, f.chunk, f.key.last_key_group);
  };
  return order(a) < order(b);
}

std::string SinkRowKey(std::string_view sink_name, CheckpointId checkpoint_id, uint32_t subtask) {
  std::string key;
  AppendBE(checkpoint_id.value, &key);
  AppendBE(subtask, &key);
  key.append(sink_name);
  return key;
}

std::optional<int64_t> ClassifyWatermark(const std::vector<ChannelProgress>& progress) {
  std::optional<int64_t> least;
  for (const ChannelProgress& channel : progress) {
    if (channel.idle) continue;
    if (!channel.watermark) return std::nullopt;
    least = least ? std::min(*least, *channel.watermark) : *channel.watermark;
  }
  return least;
}

std::string_view ManifestRuleName(ManifestRule rule) {
  switch (rule) {
#define CAIRN_MANIFEST_RULE_NAME(id, name) \
  case ManifestRule::id:                   \
    return name;
    CAIRN_MANIFEST_RULES(CAIRN_MANIFEST_RULE_NAME)
#undef CAIRN_MANIFEST_RULE_NAME
  }
  return "unknown";
}

Status ManifestValidationError::ToStatus(CheckpointId id) const {
  return Status::Corruption(fmt::format("manifest of checkpoint {} breaks rule {}: {}", id.value,
                                        ManifestRuleName(rule), message));
}

}  // namespace cairn::format
