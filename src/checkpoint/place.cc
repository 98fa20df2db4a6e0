// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/place.h"

#include <algorithm>

#include "base/hash.h"
#include "checkpoint/damage_advice.h"
#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

// How often an answer that got lost is asked for again before the outcome counts as unknown.
constexpr int kReadBackAttempts = 3;

Status Damaged(const std::string& what) {
  return Status::Corruption("damaged store: " + what + "; restore the place from a copy");
}

/// Read and parse one record; nothing when it is not there.
template <class T>
Result<std::optional<T>> ReadRecord(env::ObjectStore* objects, std::string_view key,
                                    uint64_t max_bytes, Result<T> (*parse)(std::string_view),
                                    std::string* version = nullptr) {
  Result<env::VersionedBytes> found = objects->Get(std::string(key), max_bytes);
  if (!found.ok()) {
    if (found.status().code() == StatusCode::kNotFound) return std::optional<T>();
    return std::move(found).status();
  }
  Result<T> record = parse(found->bytes);
  if (!record.ok()) return record.status().WithContext(key);
  if (version != nullptr) *version = std::move(found->version);
  return std::optional<T>(*std::move(record));
}

/// A record that is made once and that nothing can make again.
template <class T>
Result<std::optional<T>> ReadOnceMade(env::ObjectStore* objects, std::string_view key,
                                      Result<T> (*parse)(std::string_view)) {
  Result<std::optional<T>> record = ReadRecord(objects, key, format::kSmallRecordBytesMax, parse);
  if (record.status().code() != StatusCode::kCorruption) return record;
  return Damaged(std::string(record.status().message()));
}

/// Say how far the process that has fenced this one has come.
Status FencedBy(const Status& fenced, env::ObjectStore* objects) {
  const auto there =
      ReadRecord(objects, kHeadKey, format::kDecisionHeadBytesMax, &format::ParseDecisionHead);
  if (!there.ok() || !*there) return fenced;
  const auto& latest = (*there)->latest_commit;
  return Status::Fenced(std::string(fenced.message()) + ": it is at sequence " +
                        std::to_string((*there)->seq) + ", " +
                        (latest ? "checkpoint " + std::to_string(latest->id.value)
                                : std::string("without a checkpoint")));
}

}  // namespace

std::vector<format::CutReference> Place::Cuts() const {
  std::vector<format::CutReference> cuts;
  if (!head) return cuts;
  if (head->latest_commit) cuts.push_back(*head->latest_commit);
  cuts.insert(cuts.end(), head->retained.begin(), head->retained.end());
  return cuts;
}

const format::CutReference* Place::Find(base::CheckpointId id) const {
  if (!head) return nullptr;
  if (head->latest_commit && head->latest_commit->id == id) return &*head->latest_commit;
  for (const format::CutReference& cut : head->retained) {
    if (cut.id == id) return &cut;
  }
  return nullptr;
}

Result<Place> ReadPlace(env::ObjectStore* objects) {
  Place place;
  CAIRN_ASSIGN_OR_RETURN(place.format,
                         ReadOnceMade(objects, kFormatKey, &format::ParseStoreFormat));
  if (place.format && place.format->profile != "local") {
    return Status::InvalidArgument(
        "the place is one of several participants; a job of one process needs a place of its own");
  }
  CAIRN_ASSIGN_OR_RETURN(place.identity,
                         ReadOnceMade(objects, kIdentityKey, &format::ParseDeploymentIdentity));
  Result<std::optional<format::DecisionHead>> head =
      ReadRecord(objects, kHeadKey, format::kDecisionHeadBytesMax, &format::ParseDecisionHead,
                 &place.head_version);
  if (!head.ok()) return AdviseOnHead(head.status(), objects);
  place.head = *std::move(head);
  if (place.head) {
    if (!place.format) return Damaged("FORMAT is missing");
    if (!place.identity) return Damaged(std::string(kIdentityKey) + " is missing");
    if (place.head->deployment_id != place.identity->deployment_id) {
      return Damaged(std::string(kHeadKey) + " is of deployment " + place.head->deployment_id +
                     ", the place of " + place.identity->deployment_id);
    }
    return place;
  }
  // Without a head nothing can be told from an empty place but by what else is there.
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> content,
                         objects->List(std::string(kNodesPrefix)));
  if (!content.empty()) {
    return AdviseOnHead(Status::Corruption("damaged store: " + std::string(kHeadKey) +
                                           " is missing though there are checkpoints, such as " +
                                           content.front().key),
                        objects);
  }
  if (place.identity && !place.format) return Damaged("FORMAT is missing");
  return place;
}

Result<format::CutReference> ChooseRestorable(const Place& place,
                                              std::optional<base::CheckpointId> id) {
  const std::vector<format::CutReference> cuts = place.Cuts();  // newest first
  if (cuts.empty()) return Status::NotFound("no checkpoint is there yet");
  if (!id) return cuts.front();
  const format::CutReference* wanted = place.Find(*id);
  if (wanted == nullptr) {
    std::string ids;
    for (const format::CutReference& cut : cuts) {
      ids += (ids.empty() ? "" : ", ") + std::to_string(cut.id.value);
    }
    return Status::NotFound("no checkpoint " + std::to_string(id->value) +
                            " is retained; there are " + ids);
  }
  for (const format::CutReference& newer : cuts) {
    if (newer.id == *id) break;
    if (!newer.exactly_once_output) continue;
    return Status::InvalidArgument("checkpoint " + std::to_string(newer.id.value) +
                                   " has published rows of an exactly-once sink; going back to "
                                   "checkpoint " +
                                   std::to_string(id->value) + " would publish them again");
  }
  return *wanted;
}

Result<std::shared_ptr<const format::CheckpointManifest>> ReadManifest(
    env::ObjectStore* objects, const Place& place, const format::CutReference& cut) {
  auto manifest = TryManifest(objects, place, cut);
  if (manifest.ok()) return manifest;
  return AdviseOnCut(manifest.status(), objects, place, cut.id);
}

Result<std::shared_ptr<const format::CheckpointManifest>> TryManifest(
    env::ObjectStore* objects, const Place& place, const format::CutReference& cut) {
  const std::string key = ManifestKey(cut.id);
  const std::string what = "checkpoint " + std::to_string(cut.id.value);
  Result<env::VersionedBytes> found = objects->Get(key, format::kManifestBytesMax);
  if (!found.ok()) {
    if (found.status().code() != StatusCode::kNotFound) return found.status().WithContext(what);
    return Status::Corruption(what + " is committed but its manifest " + key + " is missing");
  }
  const std::string& bytes = found->bytes;
  if (bytes.size() != cut.manifest_length || base::Sha256::Of(bytes) != cut.manifest_sha256) {
    return Status::Corruption(what + ": manifest " + key + " is damaged: its SHA-256 is " +
                              base::Sha256::HexOf(bytes) + ", the decision head names " +
                              base::ToHex(cut.manifest_sha256));
  }
  Result<format::CheckpointManifest> manifest = format::ParseManifest(bytes);
  if (!manifest.ok()) return manifest.status().WithContext(key);
  if (manifest->checkpoint_id != cut.id ||
      manifest->deployment_id != place.identity->deployment_id) {
    return Status::Corruption(what + ": manifest " + key + " is of checkpoint " +
                              std::to_string(manifest->checkpoint_id.value) + " of deployment " +
                              manifest->deployment_id);
  }
  return std::make_shared<const format::CheckpointManifest>(*std::move(manifest));
}

Status ReplaceHead(env::ObjectStore* objects, const format::DecisionHead& head, Place* place,
                   bool* in_doubt) {
  *in_doubt = false;
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeDecisionHead(head));
  std::optional<std::string> expected;
  if (place->head) expected = place->head_version;
  const bool known_by_its_cut =
      head.latest_commit && !(place->head && place->head->latest_commit == head.latest_commit);
  Status failed;
  for (int attempt = 0; attempt < kReadBackAttempts; ++attempt) {
    Result<std::string> version = objects->CompareAndSwap(std::string(kHeadKey), expected, bytes);
    if (version.ok()) {
      place->head = head;
      place->head_version = *std::move(version);
      return {};
    }
    failed = version.status();
    if (failed.code() == StatusCode::kFenced && attempt == 0) return FencedBy(failed, objects);
    // The write may have been done. Only what is there now can say.
    Result<env::VersionedBytes> there =
        objects->Get(std::string(kHeadKey), format::kDecisionHeadBytesMax);
    if (!there.ok()) {
      if (there.status().code() == StatusCode::kNotFound && !expected) return failed;
      *in_doubt = true;
      return Status::Unavailable(std::string(failed.message()) +
                                 "; and whether it took effect cannot be read back: " +
                                 std::string(there.status().message()));
    }
    if (there->bytes != bytes) {
      if (expected && there->version == *expected) {  // the old head stands
        if (!objects->may_write_late()) return failed;
        // Until the head has moved, the write that was given up may still land, and name a cut of
        // which nothing is left. So it is asked for again.
        continue;
      }
      return Status::Fenced("another process has replaced " + std::string(kHeadKey));
    }
    if (!known_by_its_cut) {
      place->head = head;
      place->head_version = there->version;
      return Status::Unavailable(std::string(failed.message()) +
                                 "; whether this process or another wrote what is there now cannot "
                                 "be told");
    }
    // Ours is there, but perhaps not durable: write it once more over itself.
    expected = there->version;
  }
  *in_doubt = true;
  return failed;
}

std::string ObjectExtent::key() const { return StateObjectKey(chunk.checkpoint_id); }

std::vector<ObjectExtent> ObjectsOf(const format::CheckpointManifest& manifest) {
  std::vector<ObjectExtent> objects;
  const format::NodeDataObject& own = manifest.node_data;
  if (own.object_length > 0) objects.push_back({own.chunk, own.object_length});
  for (const format::ReferencedStateChunk& older : manifest.referenced_chunks) {
    objects.push_back({older.chunk, older.object_length});
  }
  return objects;
}

std::vector<StoredObject> StoredObjectsOf(const format::CheckpointManifest& manifest) {
  std::vector<StoredObject> objects;
  for (const ObjectExtent& object : ObjectsOf(manifest)) {
    objects.push_back({object.key(), object.length});
  }
  for (const format::ViewLog& log : manifest.view_logs) {
    for (const format::ViewLogSegment& segment : log.segments) {
      objects.push_back({ViewLogSegmentKey(log, segment), segment.object_length});
    }
  }
  return objects;
}

Status CheckObject(env::ObjectStore* objects, const StoredObject& object) {
  const Result<env::ObjectInfo> found = objects->Head(object.key);
  if (found.status().code() == StatusCode::kNotFound) {
    return Status::Corruption("object " + object.key + " is missing");
  }
  CAIRN_RETURN_IF_ERROR(found.status());
  if (found->size == object.length) return {};
  return Status::Corruption("object " + object.key + " has " + std::to_string(found->size) +
                            " bytes instead of " + std::to_string(object.length));
}

Status RefuseLostOrigin(env::ObjectStore* objects) {
  const Result<env::VersionedBytes> origin =
      objects->Get(std::string(kOriginKey), format::kSmallRecordBytesMax);
  if (origin.status().code() == StatusCode::kNotFound) return {};
  CAIRN_RETURN_IF_ERROR(origin.status());
  return Status::InvalidArgument("the place was begun with --from " + origin->bytes +
                                 " and holds no checkpoint of its own yet: run it with --from " +
                                 origin->bytes +
                                 " again. To begin from the start, choose another place");
}

Status CreateRecord(env::ObjectStore* objects, const std::string& key, std::string_view bytes) {
  Status status = objects->CreateIfAbsent(key, bytes);
  // Creating is idempotent for equal bytes, so an answer that got lost is simply asked for again.
  if (status.code() == StatusCode::kUnavailable && objects->Head(key).ok()) {
    status = objects->CreateIfAbsent(key, bytes);
  }
  return status;
}

}  // namespace cairn::checkpoint
