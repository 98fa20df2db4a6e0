// SPDX-License-Identifier: Apache-2.0
//
// SlotMigration: how the saved values of one slot become those that a job's slot reads.
//
// The order of rules, the first that fits decides:
//  1. same codec, version and columns: as they are;
//  2. another version and a registered path: along it, each step once;
//  3. codec "row", version not lower, columns declared on both sides: the additive change of
//     format/row_evolution.h;
//  4. anything else is refused, naming the slot and both declarations.
// Keys never migrate: their encoding decides where a row lies.
//
// Threads: immutable once planned.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/migration.h"
#include "cairn/status.h"
#include "format/manifest.h"
#include "format/row_evolution.h"

namespace cairn::checkpoint {

class SlotMigration {
 public:
  /// Plan what `saved` needs to be read as `wanted`. `migrations` (null = none) outlives the
  /// result.
  ///
  /// Errors:   kInvalidArgument: what cannot be bridged, naming slot and both declarations.
  static Result<SlotMigration> Plan(const format::SlotRecord& saved,
                                    const format::SlotRecord& wanted,
                                    const MigrationRegistry* migrations);

  /// True when saved values are already what the slot reads.
  bool empty() const { return steps_.empty() && !evolution_; }

  /// "as saved", "along 2 registered steps", "by its added columns".
  std::string Describe() const;

  /// Append the converted value of a saved row to `out`. The expiry stamp of a slot with TTL is
  /// kept as it is, and so is the header row of a list or map, which is no value.
  ///
  /// Shape:    `row_key` without group and slot.
  ///
  /// Errors:   kCorruption (a value too short for its stamp, or that does not decode) · what a step
  ///           returned.
  Status Convert(std::string_view row_key, std::string_view value, std::string* out) const;

 private:
  std::vector<const MigrationStep*> steps_;
  std::optional<format::RowEvolution> evolution_;
  size_t stamp_bytes_ = 0;
  bool element_rows_ = false;
};

}  // namespace cairn::checkpoint
