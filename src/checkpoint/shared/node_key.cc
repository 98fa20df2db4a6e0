// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/node_key.h"

#include <utility>

namespace cairn::checkpoint::shared {
namespace {

constexpr int kStateChanges = 8;  // there are four states; more changes than that are a fault

struct NodeAttempt {
  uint64_t node;
  base::CheckpointId id;
};

NodeAttempt AttemptOf(const format::NodeRecord& record) {
  if (const auto* intents = std::get_if<format::SinkIntentRecord>(&record)) {
    return {intents->participant.node, intents->checkpoint_id};
  }
  if (const auto* manifest = std::get_if<format::CheckpointManifest>(&record)) {
    return {manifest->participant_id, manifest->checkpoint_id};
  }
  const auto& seal = std::get<format::AbortSeal>(record);
  return {seal.participant_id, seal.checkpoint_id};
}

Status Aborted(base::CheckpointId id) {
  return Status::Cancelled("attempt " + std::to_string(id.value) + " was aborted");
}

Status TwoWriters(uint64_t node, base::CheckpointId id) {
  return Status::Fenced("another process writes attempt " + std::to_string(id.value) + " as node " +
                        std::to_string(node));
}

/// Bring a node's key to `bytes` from the states that `may_replace` allows.
template <class MayReplace>
Status PutNodeRecord(env::ObjectStore* objects, uint64_t node, base::CheckpointId id,
                     const std::string& bytes, const format::NodeRecord& target,
                     const MayReplace& may_replace) {
  Status failed;
  for (int change = 0; change < kStateChanges; ++change) {
    CAIRN_ASSIGN_OR_RETURN(const SeenNode seen, ReadNode(objects, node, id));
    // What is there already is written over itself: it may not be durable yet.
    if (seen.record && *seen.record != target) {
      if (std::holds_alternative<format::AbortSeal>(*seen.record)) return Aborted(id);
      if (!may_replace(*seen.record)) return TwoWriters(node, id);
    }
    Result<std::string> version =
        SwapRecord(objects, NodeManifestKey(node, id), seen.version, bytes);
    if (version.ok()) return {};
    failed = version.status();
    if (failed.code() != StatusCode::kFenced) return failed;
  }
  return failed;
}

}  // namespace

Result<SeenNode> ReadNode(env::ObjectStore* objects, uint64_t node, base::CheckpointId id) {
  const std::string key = NodeManifestKey(node, id);
  CAIRN_ASSIGN_OR_RETURN(
      SeenNode seen, ReadSeen(objects, key, format::kAbortSealBytesMax, &format::ParseNodeRecord));
  if (seen.record) {
    const NodeAttempt attempt = AttemptOf(*seen.record);
    if (attempt.node != node || attempt.id != id) {
      return Status::Corruption(key + " is of node " + std::to_string(attempt.node) +
                                ", checkpoint " + std::to_string(attempt.id.value));
    }
  }
  return seen;
}

Status PutIntents(env::ObjectStore* objects, const format::SinkIntentRecord& record) {
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeSinkIntentRecord(record));
  return PutNodeRecord(objects, record.participant.node, record.checkpoint_id, bytes, record,
                       [](const format::NodeRecord&) { return false; });
}

Status PutManifest(env::ObjectStore* objects, const format::CheckpointManifest& manifest) {
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeManifest(manifest));
  const format::ProcessIdentity* self = manifest.cluster->fence.Find(manifest.participant_id);
  return PutNodeRecord(objects, manifest.participant_id, manifest.checkpoint_id, bytes, manifest,
                       [&](const format::NodeRecord& there) {
                         const auto* intents = std::get_if<format::SinkIntentRecord>(&there);
                         return intents != nullptr && intents->attempt_id == manifest.attempt_id &&
                                intents->participant == *self;
                       });
}

Result<format::AbortSeal> SealNode(env::ObjectStore* objects, format::AbortSeal seal) {
  const std::string key = NodeManifestKey(seal.participant_id, seal.checkpoint_id);
  Status failed;
  for (int change = 0; change < kStateChanges; ++change) {
    CAIRN_ASSIGN_OR_RETURN(SeenNode seen,
                           ReadNode(objects, seal.participant_id, seal.checkpoint_id));
    seal.intents.reset();
    seal.manifest.reset();
    if (seen.record) {
      if (auto* there = std::get_if<format::AbortSeal>(&*seen.record)) return std::move(*there);
      if (auto* intents = std::get_if<format::SinkIntentRecord>(&*seen.record)) {
        seal.intents = std::move(*intents);
      } else {
        seal.manifest = std::get<format::CheckpointManifest>(*std::move(seen.record));
      }
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeAbortSeal(seal));
    Result<std::string> version = SwapRecord(objects, key, seen.version, bytes);
    if (version.ok()) return seal;
    failed = version.status();
    if (failed.code() != StatusCode::kFenced) return failed;
  }
  return failed;
}

Status MarkCleanedUp(env::ObjectStore* objects, const format::AbortSeal& seal) {
  CAIRN_ASSIGN_OR_RETURN(SeenNode seen, ReadNode(objects, seal.participant_id, seal.checkpoint_id));
  auto* there = seen.record ? std::get_if<format::AbortSeal>(&*seen.record) : nullptr;
  if (there == nullptr) {
    return Status::Corruption(NodeManifestKey(seal.participant_id, seal.checkpoint_id) +
                              " has lost its abort seal");
  }
  if (there->cleanup_complete) return {};
  there->cleanup_complete = true;
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeAbortSeal(*there));
  return SwapRecord(objects, NodeManifestKey(seal.participant_id, seal.checkpoint_id), seen.version,
                    bytes)
      .status();
}

}  // namespace cairn::checkpoint::shared
