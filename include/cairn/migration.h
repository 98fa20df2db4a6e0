// SPDX-License-Identifier: Apache-2.0
//
// MigrationRegistry: how saved values of one version become values of another.
//
// A slot is saved with the name of its value codec and its version. When a job declares the slot
// with another version, a restore takes every saved value along the shortest path of registered
// steps, each step exactly once, before any operator opens. The next checkpoint is written whole
// and carries the new version, so nothing is ever migrated twice.
//
//   MigrationRegistry migrations;
//   migrations.Register("session", 1, 2, [](std::string_view value) -> Result<std::string> {…});
//
// Without a path, values of declared columns (value codec "row") follow additive changes of their
// columns by themselves: docs/state/schema.md.
//
// Threads: registered by one thread; a registry that is no longer changed is read by any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

/// Turn the encoding of a value at one version into that at another.
///
/// Shape:    sees the value alone: what a slot with TTL keeps of its expiry is kept aside.
/// Errors:   any; the restore fails with it, names operator and slot, and changes nothing.
using MigrationStep = std::function<Result<std::string>(std::string_view value)>;

class MigrationRegistry {
 public:
  /// Add the step that turns values of `codec` at version `from` into those at version `to`.
  ///
  /// Errors:   kInvalidArgument: an empty codec, no function, a version 0, from == to, or a step
  ///           that is there already.
  Status Register(std::string codec, uint32_t from, uint32_t to, MigrationStep step);

  /// The steps of the shortest path; of equally short ones that through the lowest versions.
  ///
  /// Shape:    empty when from == to. The pointers live as long as the registry is not changed.
  /// Errors:   kNotFound, naming codec and versions.
  Result<std::vector<const MigrationStep*>> FindPath(std::string_view codec, uint32_t from,
                                                     uint32_t to) const;

 private:
  using StepsByTarget = std::map<uint32_t, MigrationStep>;
  std::map<std::string, std::map<uint32_t, StepsByTarget>, std::less<>> steps_;
};

}  // namespace v0
}  // namespace cairn
