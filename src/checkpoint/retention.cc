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
  std::set<base::CheckpointId>& needs = kept_[manifest.checkpoint_id];
  needs.clear();
  for (const ObjectExtent& object : ObjectsOf(manifest)) {
    needs.insert(object.chunk.checkpoint_id);
  }
}

void Retention::AddUnreadable(base::CheckpointId id, Status why) {
  unreadable_.insert_or_assign(id, std::move(why));
}

void Retention::Drop(base::CheckpointId id) {
  auto found = kept_.find(id);
  if (found != kept_.end()) {
    dropped_[id] = std::move(found->second);
    kept_.erase(found);
  }
  // What an unreadable manifest referenced is not known: the next open nominates it.
  unreadable_.erase(id);
}

void Retention::Nominate(base::CheckpointId id) {
  if (!kept_.contains(id) && !unreadable_.contains(id)) nominated_.insert(id);
}

Status Retention::DeleteObject(base::CheckpointId chunk, RetireReport* report) {
  const std::string key = StateObjectKey(chunk);
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
  std::set<base::CheckpointId> needed;
  for (const auto& [cut, objects] : kept_) needed.insert(objects.begin(), objects.end());
  while (!dropped_.empty()) {
    const auto& [cut, objects] = *dropped_.begin();
    CAIRN_RETURN_IF_ERROR(objects_->Delete(ManifestKey(cut)));
    for (base::CheckpointId chunk : objects) {
      if (!needed.contains(chunk)) CAIRN_RETURN_IF_ERROR(DeleteObject(chunk, report));
    }
    report->dropped.push_back(cut);
    dropped_.erase(dropped_.begin());
  }
  while (!nominated_.empty()) {
    const base::CheckpointId id = *nominated_.begin();
    CAIRN_RETURN_IF_ERROR(objects_->Delete(ManifestKey(id)));
    if (!needed.contains(id)) CAIRN_RETURN_IF_ERROR(DeleteObject(id, report));
    nominated_.erase(nominated_.begin());
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

}  // namespace cairn::checkpoint
