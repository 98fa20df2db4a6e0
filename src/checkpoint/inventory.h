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
#include <utility>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

/// One object below nodes/ or view-log/, or one that a retained cut needs and that is not there.
struct InventoryItem {
  std::string key;
  uint64_t bytes = 0;                         ///< of one that is missing: those it should have
  base::CheckpointId checkpoint;              ///< that wrote it
  std::vector<base::CheckpointId> needed_by;  ///< retained cuts, newest first
  bool undecided = false;  ///< of an attempt above the latest cut: its job may be at work
  bool foreign = false;    ///< not a name that Cairn gives
  bool missing = false;    ///< needed and not there
  std::optional<ViewLogSegmentName> segment;  ///< of a view log

  /// True when nobody will ever read it.
  bool IsGarbage() const { return needed_by.empty() && !undecided && !foreign; }
};

/// What a place holds, and what of it cannot be told.
struct Inventory {
  std::vector<InventoryItem> items;  ///< by key
  /// Retained cuts whose manifest is missing or damaged, with why: what they need is not known.
  std::vector<std::pair<base::CheckpointId, Status>> unreadable;

  bool AnyMissing() const;
};

/// List what lies below nodes/ and view-log/ and what should.
///
/// Errors:   kUnavailable · kUnsupportedFormat.
Result<Inventory> TakeInventory(env::ObjectStore* objects, const Place& place);

}  // namespace cairn::checkpoint
