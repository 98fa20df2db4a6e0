// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/retention.h"

#include "checkpoint/layout.h"
#include "checkpoint/place.h"

namespace cairn::checkpoint {
namespace {

// What is no checkpoint's may be under way.
constexpr int64_t kUploadGraceMs = 3'600'000;

}  // namespace

void Retention::Add(const format::CheckpointManifest& manifest) {
  std::vector<References::iterator> needs;
  for (StoredObject& object : StoredObjectsOf(manifest)) {
    needs.push_back(references_.try_emplace(std::move(object.key), 0).first);
    ++needs.back()->second;
  }
  kept_[manifest.checkpoint_id] = std::move(needs);
}

void Retention::AddUnreadable(base::CheckpointId id, Status why) {
  unreadable_.insert_or_assign(id, std::move(why));
}

void Retention::Drop(base::CheckpointId id) {
  // What an unreadable manifest referenced is not known: the next open nominates it.
  unreadable_.erase(id);
  const auto found = kept_.find(id);
  if (found == kept_.end()) return;
  std::vector<std::string>& unneeded = dropped_[id];
  for (const References::iterator& object : found->second) {
    if (--object->second > 0) continue;
    unneeded.push_back(object->first);
    references_.erase(object);
  }
  kept_.erase(found);
}

void Retention::Nominate(base::CheckpointId id) {
  if (!kept_.contains(id) && !unreadable_.contains(id)) nominated_.insert(id);
}

void Retention::NominateObject(std::string key) {
  if (!references_.contains(key)) nominated_objects_.insert(std::move(key));
}

Status Retention::DeleteObject(const std::string& key, RetireReport* report) {
  if (references_.contains(key)) return {};
  Result<env::ObjectInfo> info = objects_->Head(key);
  if (!info.ok()) {
    return info.status().code() == StatusCode::kNotFound ? Status() : info.status();
  }
  CAIRN_RETURN_IF_ERROR(objects_->Delete(key));
  ++report->objects_deleted;
  report->bytes_deleted += info->size;
  return {};
}

Status Retention::Run(RetireReport* report) {
  if (!unreadable_.empty()) {
    const auto& [id, why] = *unreadable_.begin();
    return Status::Corruption(
        "retained checkpoint " + std::to_string(id.value) +
        " cannot be read, so nothing is deleted: " + std::string(why.message()));
  }
  while (!dropped_.empty()) {
    const auto& [cut, objects] = *dropped_.begin();
    CAIRN_RETURN_IF_ERROR(objects_->Delete(ManifestKey(cut)));
    for (const std::string& key : objects) CAIRN_RETURN_IF_ERROR(DeleteObject(key, report));
    report->dropped.push_back(cut);
    dropped_.erase(dropped_.begin());
  }
  while (!nominated_.empty()) {
    const base::CheckpointId id = *nominated_.begin();
    CAIRN_RETURN_IF_ERROR(objects_->Delete(ManifestKey(id)));
    CAIRN_RETURN_IF_ERROR(DeleteObject(StateObjectKey(id), report));
    nominated_.erase(nominated_.begin());
  }
  while (!nominated_objects_.empty()) {
    CAIRN_RETURN_IF_ERROR(DeleteObject(*nominated_objects_.begin(), report));
    nominated_objects_.erase(nominated_objects_.begin());
  }
  return {};
}

Status DeleteUndecided(env::ObjectStore* objects, base::CheckpointId id) {
  CAIRN_RETURN_IF_ERROR(objects->Delete(ManifestKey(id)));
  return objects->Delete(StateObjectKey(id));
}

env::AbandonedObjects UploadsOfEarlierIds(base::CheckpointId first) {
  return [first](const std::string& key, int64_t age_ms) {
    const std::optional<base::CheckpointId> id = IdOfKey(key);
    return id ? *id < first : age_ms > kUploadGraceMs;
  };
}

Result<std::vector<base::CheckpointId>> ListCheckpointIds(env::ObjectStore* objects) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                         objects->List(std::string(kCheckpointsPrefix)));
  std::vector<base::CheckpointId> ids;
  for (const env::ObjectInfo& info : found) {
    const std::optional<base::CheckpointId> id = IdOfKey(info.key);
    if (id && (ids.empty() || ids.back() != *id)) ids.push_back(*id);
  }
  return ids;
}

Result<std::vector<ListedSegment>> ListViewLogSegments(env::ObjectStore* objects) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                         objects->List(std::string(kViewLogsPrefix)));
  std::vector<ListedSegment> segments;
  for (const env::ObjectInfo& info : found) {
    const std::optional<ViewLogSegmentName> name = ParseViewLogSegmentKey(info.key);
    if (name) segments.push_back({info.key, name->origin});
  }
  return segments;
}

}  // namespace cairn::checkpoint
