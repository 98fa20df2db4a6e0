// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inventory.h"

#include <algorithm>
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

/// What retained cuts need of one object.
struct Need {
  uint64_t bytes = 0;
  std::vector<base::CheckpointId> cuts;
};

}  // namespace

bool Inventory::AnyMissing() const {
  return std::any_of(items.begin(), items.end(),
                     [](const InventoryItem& item) { return item.missing; });
}

Result<Inventory> TakeInventory(env::ObjectStore* objects, const Place& place) {
  Inventory inventory;
  std::map<std::string, Need> needs;
  const auto need = [&](const std::string& key, uint64_t bytes, base::CheckpointId cut) {
    Need& of_key = needs[key];
    of_key.bytes = bytes;
    of_key.cuts.push_back(cut);
  };
  for (const format::CutReference& cut : place.Cuts()) {  // newest first
    need(ManifestKey(cut.id), cut.manifest_length, cut.id);
    const auto manifest = TryManifest(objects, place, cut);
    if (!manifest.ok()) {
      if (manifest.status().code() != StatusCode::kCorruption) return manifest.status();
      inventory.unreadable.emplace_back(cut.id, manifest.status());
      continue;
    }
    for (const StoredObject& object : StoredObjectsOf(**manifest)) {
      need(object.key, object.length, cut.id);
    }
  }
  const base::CheckpointId latest = place.head && place.head->latest_commit
                                        ? place.head->latest_commit->id
                                        : base::CheckpointId();
  for (const std::string_view prefix : {kNodesPrefix, kViewLogsPrefix}) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                           objects->List(std::string(prefix)));
    for (const env::ObjectInfo& info : found) {
      InventoryItem item = ItemOf(info);
      item.undecided = !item.foreign && item.checkpoint > latest;
      if (const auto needed = needs.find(info.key); needed != needs.end()) {
        item.needed_by = std::move(needed->second.cuts);
        needs.erase(needed);
      }
      inventory.items.push_back(std::move(item));
    }
  }
  for (auto& [key, needed] : needs) {
    InventoryItem item = ItemOf({key, needed.bytes, 0});
    item.missing = true;
    item.needed_by = std::move(needed.cuts);
    inventory.items.push_back(std::move(item));
  }
  std::sort(inventory.items.begin(), inventory.items.end(),
            [](const InventoryItem& a, const InventoryItem& b) { return a.key < b.key; });
  return inventory;
}

}  // namespace cairn::checkpoint
