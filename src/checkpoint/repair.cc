// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/repair.h"

#include <algorithm>
#include <optional>

#include "checkpoint/damage_advice.h"
#include "checkpoint/inventory.h"
#include "checkpoint/layout.h"
#include "checkpoint/retention.h"
#include "format/manifest.h"

namespace cairn::checkpoint {
namespace {

/// Ids that may have been given out beyond those that left a trace: some blocks.
constexpr uint64_t kIdMargin = 16 * format::kCheckpointIdBlock;
constexpr std::string_view kNothingDeleted =
    "nothing is deleted, as what a checkpoint needs is not known";

/// A manifest as it lies there, without a head to say what it should be.
Result<format::CutReference> ReadWholeCut(env::ObjectStore* objects, base::CheckpointId id,
                                          const format::DeploymentIdentity& identity) {
  CAIRN_ASSIGN_OR_RETURN(const env::VersionedBytes found,
                         objects->Get(ManifestKey(id), format::kManifestBytesMax));
  CAIRN_ASSIGN_OR_RETURN(const format::CheckpointManifest manifest,
                         format::ParseManifest(found.bytes));
  if (manifest.checkpoint_id != id || manifest.deployment_id != identity.deployment_id) {
    return Status::Corruption("it is of another checkpoint or deployment");
  }
  for (const StoredObject& object : StoredObjectsOf(manifest)) {
    CAIRN_RETURN_IF_ERROR(CheckObject(objects, object));
  }
  format::CutReference reference;
  reference.id = id;
  reference.manifest_sha256 = base::Sha256::Of(found.bytes);
  reference.manifest_length = found.bytes.size();
  // Whether a sink of it is exactly-once is not in the manifest; to say yes forbids going back.
  reference.exactly_once_output = !manifest.prepared_sinks.empty();
  return reference;
}

/// What cuts need, which is not known of one that cannot be read.
Result<Inventory> ReadableInventory(env::ObjectStore* objects, const Place& place) {
  CAIRN_ASSIGN_OR_RETURN(Inventory inventory, TakeInventory(objects, place));
  if (inventory.unreadable.empty()) return inventory;
  const auto& [id, why] = inventory.unreadable.front();
  return AdviseOnCut(why, objects, place, id).WithContext(kNothingDeleted);
}

/// The hint names the latest cut: when nothing of it is there, nothing else tells of it.
void NoteLatest(env::ObjectStore* objects, FoundHead* found) {
  const auto hint = objects->Get(std::string(kLatestKey), format::kSmallRecordBytesMax);
  if (!hint.ok()) return;
  std::string_view text = hint->bytes;
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::optional<base::CheckpointId> named = IdOfKey(std::string(text) + "/");
  if (!named || named->value == 0 || named->value > UINT64_MAX / 2) return;  // never written so
  const auto& latest = found->head.latest_commit;
  if (latest && *named <= latest->id) return;
  for (const LeftOutCut& cut : found->left_out) {
    if (cut.id == *named) return;
  }
  const auto before = std::find_if(found->left_out.begin(), found->left_out.end(),
                                   [&](const LeftOutCut& cut) { return cut.id < *named; });
  found->left_out.insert(
      before, {*named, std::string(kLatestKey) + " names it, and nothing of it is there"});
}

template <class Record>
Result<Record> Required(env::ObjectStore* objects, std::string_view key,
                        Result<Record> (*parse)(std::string_view)) {
  Result<env::VersionedBytes> found = objects->Get(std::string(key), format::kSmallRecordBytesMax);
  if (!found.ok()) return found.status().WithContext(key);
  return parse(found->bytes);
}

}  // namespace

Result<CollectReport> CollectGarbage(env::ObjectStore* objects) {
  CAIRN_ASSIGN_OR_RETURN(Place place, ReadPlace(objects));
  if (!place.head) return Status::NotFound("the place holds no committed checkpoint yet");
  for (const format::CutReference& cut : place.Cuts()) {  // before the head is swapped for it
    CAIRN_RETURN_IF_ERROR(ReadManifest(objects, place, cut).status().WithContext(kNothingDeleted));
  }
  format::DecisionHead head = *place.head;
  ++head.seq;
  bool in_doubt = false;
  CAIRN_RETURN_IF_ERROR(ReplaceHead(objects, head, &place, &in_doubt));
  CAIRN_ASSIGN_OR_RETURN(const Inventory inventory, ReadableInventory(objects, place));
  CollectReport report;
  for (const InventoryItem& item : inventory.items) {
    if (item.foreign || !item.needed_by.empty()) continue;
    // Of a process that has succeeded this one meanwhile: it may have been decided since.
    if (item.checkpoint >= head.next_id) continue;
    CAIRN_RETURN_IF_ERROR(objects->Delete(item.key));
    ++report.objects;
    report.bytes += item.bytes;
  }
  const Result<uint64_t> ended = objects->EndUnfinished("", UploadsOfEarlierIds(head.next_id));
  report.uploads_status = ended.status();
  if (ended.ok()) report.uploads = *ended;
  return report;
}

Result<FoundHead> FindHead(env::ObjectStore* objects) {
  const Result<env::VersionedBytes> there =
      objects->Get(std::string(kHeadKey), format::kDecisionHeadBytesMax);
  if (there.ok()) {
    const Status read = format::ParseDecisionHead(there->bytes).status();
    if (read.ok()) {
      return Status::AlreadyExists(std::string(kHeadKey) + " is there and readable");
    }
    if (read.code() == StatusCode::kUnsupportedFormat) return read;
  }
  if (!there.ok() && there.status().code() != StatusCode::kNotFound &&
      there.status().code() != StatusCode::kCorruption) {
    return there.status();
  }
  CAIRN_RETURN_IF_ERROR(Required(objects, kFormatKey, &format::ParseStoreFormat).status());
  CAIRN_ASSIGN_OR_RETURN(const format::DeploymentIdentity identity,
                         Required(objects, kIdentityKey, &format::ParseDeploymentIdentity));
  CAIRN_ASSIGN_OR_RETURN(std::vector<base::CheckpointId> ids, ListCheckpointIds(objects));
  std::reverse(ids.begin(), ids.end());
  FoundHead found;
  found.head.deployment_id = identity.deployment_id;
  for (const base::CheckpointId id : ids) {
    Result<format::CutReference> cut = ReadWholeCut(objects, id, identity);
    if (cut.status().code() == StatusCode::kUnavailable) return cut.status();
    if (cut.status().code() == StatusCode::kNotFound) {
      // An older directory with an object only is one that newer cuts reference.
      if (found.head.latest_commit) continue;
      found.left_out.push_back(
          {id, ManifestKey(id) + " is missing: it was an attempt, or has lost it"});
    } else if (!cut.ok()) {
      found.left_out.push_back({id, std::string(cut.status().message())});
    } else if (!found.head.latest_commit) {
      found.head.latest_commit = *std::move(cut);
    } else if (found.head.retained.size() < format::kRetainedCutsMax) {
      found.head.retained.push_back(*std::move(cut));
    }
  }
  NoteLatest(objects, &found);
  if (!found.head.latest_commit) {
    std::string missing = "no whole checkpoint is left below " + std::string(kNodesPrefix);
    for (const LeftOutCut& cut : found.left_out) {
      missing += "; checkpoint " + std::to_string(cut.id.value) + ": " + cut.why;
    }
    return Status::NotFound(missing);
  }
  found.head.floor =
      found.head.retained.empty() ? found.head.latest_commit->id : found.head.retained.back().id;
  // Of one that left nothing but its name the id is not given again either.
  const base::CheckpointId highest =
      found.left_out.empty() ? ids.front() : std::max(ids.front(), found.left_out.front().id);
  found.head.next_id.value = highest.value + kIdMargin;
  return found;
}

Status WriteFoundHead(env::ObjectStore* objects, const FoundHead& found) {
  Place place;
  const Result<env::VersionedBytes> damaged =
      objects->Get(std::string(kHeadKey), format::kDecisionHeadBytesMax);
  if (damaged.ok()) {
    place.head = found.head;  // only tells ReplaceHead to expect the version that is there
    place.head_version = damaged->version;
  } else if (damaged.status().code() != StatusCode::kNotFound) {
    return damaged.status();
  }
  bool in_doubt = false;
  return ReplaceHead(objects, found.head, &place, &in_doubt);
}

}  // namespace cairn::checkpoint
