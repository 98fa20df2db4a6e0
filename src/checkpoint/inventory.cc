// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inventory.h"

#include <map>

#include "checkpoint/layout.h"

namespace cairn::checkpoint {

namespace {

InventoryItem ItemOf(const env::ObjectInfo& info) {
  InventoryItem item;
  item.key = info.key;
  item.bytes = info.size;
  item.segment = ParseViewLogSegmentKey(info.key);
  if (item.segment) {
    item.checkpoint = item.segment->origin;
    return item;
  }
  const std::optional<base::CheckpointId> id = IdOfKey(info.key);
  item.foreign = !id || (info.key != ManifestKey(*id) && info.key != StateObjectKey(*id));
  if (id) item.checkpoint = *id;
  return item;
}

}  // namespace

Result<std::vector<InventoryItem>> TakeInventory(env::ObjectStore* objects, const Place& place) {
  std::map<std::string, std::vector<base::CheckpointId>> needed_by;
  for (const format::CutReference& cut : place.Cuts()) {  // newest first
    CAIRN_ASSIGN_OR_RETURN(const auto manifest, ReadManifest(objects, place, cut));
    needed_by[ManifestKey(cut.id)].push_back(cut.id);
    for (const StoredObject& object : StoredObjectsOf(*manifest)) {
      needed_by[object.key].push_back(cut.id);
    }
  }
  const base::CheckpointId latest = place.head && place.head->latest_commit
                                        ? place.head->latest_commit->id
                                        : base::CheckpointId();
  std::vector<InventoryItem> items;
  for (const std::string_view prefix : {kNodesPrefix, kViewLogsPrefix}) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                           objects->List(std::string(prefix)));
    for (const env::ObjectInfo& info : found) {
      InventoryItem item = ItemOf(info);
      item.undecided = !item.foreign && item.checkpoint > latest;
      if (const auto needed = needed_by.find(info.key); needed != needed_by.end()) {
        item.needed_by = needed->second;
      }
      items.push_back(std::move(item));
    }
  }
  return items;
}

}  // namespace cairn::checkpoint
