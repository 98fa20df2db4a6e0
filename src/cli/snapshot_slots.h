// SPDX-License-Identifier: Apache-2.0
//
// What a canonical stream says of slots: the names in its keys, and the version lines.
//
// Threads: pure functions, but for CheckSnapshotSidecar, which reads two files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "env/file_system.h"
#include "format/keys.h"
#include "format/object_schema.h"

namespace cairn::cli {

/// A stored key as slot and user key; an operator-state row without '|' has no slot.
struct SnapshotKey {
  SlotKind kind = SlotKind::kKeyedValue;
  std::string_view slot;
  std::string_view user_key;
};
SnapshotKey SplitSnapshotKey(const format::StoredKey& key);

/// Describe a slot that a snapshot has rows of: opaque keys, and as values the type and version of
/// its line. A line of three fields, which names no slot, speaks for all keyed slots of its
/// operator that have no line of their own, if it is the operator's only such line.
SlotDescriptor SnapshotSlot(OperatorId op, std::string name, SlotKind kind,
                            const std::vector<format::StateVersion>& versions);

/// Check a snapshot against the sidecar beside it. Without one there is nothing to check.
///
/// Errors:   kCorruption · kUnsupportedFormat (a newer sidecar) · kUnavailable.
Status CheckSnapshotSidecar(env::FileSystem* files, const std::string& path);

}  // namespace cairn::cli
