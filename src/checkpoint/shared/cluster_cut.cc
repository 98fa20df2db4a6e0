// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/cluster_cut.h"

#include <utility>

#include "checkpoint/place.h"

namespace cairn::checkpoint::shared {
namespace {

/// Read an object that must be there with these bytes.
Result<std::string> GetExact(env::ObjectStore* objects, const std::string& key, uint64_t bytes_max,
                             uint64_t length, const base::Sha256Digest& sha256) {
  Result<env::VersionedBytes> there = objects->Get(key, bytes_max);
  if (there.status().code() == StatusCode::kNotFound) {
    return Status::Corruption(key + " is missing");
  }
  CAIRN_RETURN_IF_ERROR(there.status());
  if (there->bytes.size() != length || base::Sha256::Of(there->bytes) != sha256) {
    return Status::Corruption(key + " is damaged: its SHA-256 is " +
                              base::Sha256::HexOf(there->bytes) + " instead of " +
                              base::ToHex(sha256));
  }
  return std::move(there->bytes);
}

Status CheckManifestOfCut(const format::CheckpointManifest& manifest,
                          const format::CommittedIndex& index,
                          const format::IndexedParticipant& participant) {
  const bool same = manifest.checkpoint_id == index.checkpoint_id && manifest.cluster &&
                    manifest.participant_id == participant.participant_id &&
                    manifest.attempt_id == index.attempt_id &&
                    manifest.deployment_id == index.deployment_id &&
                    manifest.pipeline_identity == index.pipeline_identity &&
                    manifest.cluster->fence == index.fence &&
                    manifest.node_data.object_length == participant.data_length &&
                    manifest.node_data.sha256 == participant.data_sha256;
  if (same) return {};
  return Status::Corruption("checkpoint " + std::to_string(index.checkpoint_id.value) +
                            ": the manifest of participant " +
                            std::to_string(participant.participant_id) + " is not the index's");
}

/// Every key group has one owner, and all owners together are those of the assignment.
Status CheckOwners(const ClusterCut& cut) {
  std::vector<uint64_t> owners(cut.index.fence.key_groups, 0);
  for (const auto& [node, manifest] : cut.manifests) {
    for (const KeyGroupRange& range : manifest->cluster->owned_key_groups) {
      for (uint32_t group = range.first; group < range.last; ++group) {
        if (owners[group] != 0) {
          return Status::Corruption("key group " + std::to_string(group) + " is owned by " +
                                    std::to_string(owners[group]) + " and " + std::to_string(node));
        }
        owners[group] = node;
      }
    }
  }
  for (uint32_t group = 0; group < owners.size(); ++group) {
    if (owners[group] == 0) {
      return Status::Corruption("key group " + std::to_string(group) + " is owned by nobody");
    }
  }
  if (format::OwnerMapDigest(cut.index.fence.partitioning_abi, owners) ==
      cut.index.fence.owner_map_sha256) {
    return {};
  }
  return Status::Corruption("the owners of key groups are not those of the assignment");
}

}  // namespace

std::map<format::StateChunkId, uint64_t> ClusterCut::Objects() const {
  std::map<format::StateChunkId, uint64_t> objects;
  for (const auto& [node, manifest] : manifests) {
    for (const ObjectExtent& object : ObjectsOf(*manifest)) {
      objects[object.chunk] = object.length;
    }
  }
  return objects;
}

Result<std::shared_ptr<const ClusterCut>> LoadCut(const Seams& seams, const SharedPlace& place,
                                                  const format::IndexReference& reference) {
  auto cut = std::make_shared<ClusterCut>();
  cut->reference = reference;
  const std::string key = IndexKey(reference.id, reference.index_sha256);
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes,
                         GetExact(seams.objects, key, format::kCommittedIndexBytesMax,
                                  reference.index_length, reference.index_sha256));
  Result<format::CommittedIndex> index = format::ParseCommittedIndex(bytes);
  if (!index.ok()) return index.status().WithContext(key);
  if (index->checkpoint_id != reference.id ||
      index->deployment_id != place.identity.deployment_id ||
      index->pipeline_identity.sha256 != reference.pipeline_sha256 ||
      index->fence.key_groups != place.format.key_groups) {
    return Status::Corruption(key + " is not the cut that the head names");
  }
  cut->index = *std::move(index);
  for (const format::IndexedParticipant& participant : cut->index.participants) {
    const std::string manifest_key = NodeManifestKey(participant.participant_id, reference.id);
    CAIRN_ASSIGN_OR_RETURN(const std::string text,
                           GetExact(seams.objects, manifest_key, format::kManifestBytesMax,
                                    participant.manifest_length, participant.manifest_sha256));
    Result<format::CheckpointManifest> manifest = format::ParseManifest(text);
    if (!manifest.ok()) return manifest.status().WithContext(manifest_key);
    CAIRN_RETURN_IF_ERROR(CheckManifestOfCut(*manifest, cut->index, participant));
    cut->manifests[participant.participant_id] =
        std::make_shared<const format::CheckpointManifest>(*std::move(manifest));
  }
  const Status owners = CheckOwners(*cut);
  if (!owners.ok()) return owners.WithContext(key);
  return std::shared_ptr<const ClusterCut>(std::move(cut));
}

Status CheckCutObjects(const Seams& seams, const ClusterCut& cut) {
  for (const auto& [chunk, length] : cut.Objects()) {
    CAIRN_RETURN_IF_ERROR(CheckNodeData(seams.objects, chunk, length));
  }
  return {};
}

Result<RestoredShare> RestoreShare(const Seams& seams, const SharedPlace& place,
                                   const ClusterCut& cut,
                                   const std::vector<KeyGroupRange>& ranges) {
  RestoredShare restored;
  restored.cut = cut.id();
  restored.source_offsets = cut.index.source_offsets;
  restored.watermark = cut.index.watermark;
  for (const auto& [node, manifest] : cut.manifests) {
    for (const format::StateFrame& frame : manifest->state_frames) {
      for (const KeyGroupRange& range : ranges) {
        if (!range.Contains(frame.key.first_key_group)) continue;
        restored.receipt.entries_expected += frame.entry_count;
      }
    }
    CAIRN_RETURN_IF_ERROR(ReadGroups(seams.objects, place, *manifest, ranges, &restored.groups,
                                     &restored.receipt.entries_loaded));
  }
  restored.receipt.groups = restored.groups.size();
  for (const auto& [group, bytes] : restored.groups) restored.receipt.bytes += bytes.size();
  if (restored.receipt.entries_loaded != restored.receipt.entries_expected) {
    return Status::Corruption("checkpoint " + std::to_string(cut.id().value) + ": " +
                              std::to_string(restored.receipt.entries_loaded) + " of " +
                              std::to_string(restored.receipt.entries_expected) +
                              " entries were loaded");
  }
  return restored;
}

Status CheckReferences(const format::CheckpointManifest& manifest, const ClusterCut* base) {
  const auto known = base == nullptr ? std::map<format::StateChunkId, uint64_t>() : base->Objects();
  for (const format::ReferencedStateChunk& chunk : manifest.referenced_chunks) {
    const auto found = known.find(chunk.chunk);
    if (found != known.end() && found->second == chunk.object_length) continue;
    return Status::Corruption("participant " + std::to_string(manifest.participant_id) +
                              " names object " +
                              NodeDataKey(chunk.chunk.participant_id, chunk.chunk.checkpoint_id) +
                              ", which its base cut does not have");
  }
  return {};
}

}  // namespace cairn::checkpoint::shared
