// SPDX-License-Identifier: Apache-2.0
//
// Inventory: every object of a place, and which cuts need it. What `checkpoint why` prints and what
// `checkpoint gc` goes by.
//
// Threads: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

/// One object below nodes/ or view-log/.
struct InventoryItem {
  std::string key;
  uint64_t bytes = 0;
  base::CheckpointId checkpoint;              ///< that wrote it
  std::vector<base::CheckpointId> needed_by;  ///< retained cuts, newest first
  bool undecided = false;  ///< of an attempt above the latest cut: its job may be at work
  bool foreign = false;    ///< not a name that Cairn gives
  std::optional<ViewLogSegmentName> segment;  ///< of a view log

  /// True when nobody will ever read it.
  bool IsGarbage() const { return needed_by.empty() && !undecided && !foreign; }
};

/// List what lies below nodes/ and view-log/, by key.
///
/// Errors:   kCorruption: a retained manifest is missing or damaged, so nothing can be said ·
///           kUnavailable.
Result<std::vector<InventoryItem>> TakeInventory(env::ObjectStore* objects, const Place& place);

}  // namespace cairn::checkpoint
