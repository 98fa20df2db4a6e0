// SPDX-License-Identifier: Apache-2.0
//
// ColumnSpec: the name and type of one column of a slot's key or value. Tables declare it,
// manifests save it, exports read it.
#pragma once

#include <string>

namespace cairn {
inline namespace v0 {

/// One named, typed column of a slot's key or value, for typed exports.
struct ColumnSpec {
  std::string name;
  /// bigint | integer | double | text | boolean | timestamp | date | decimal(p,s) | bytes
  std::string type;
  bool nullable = true;
  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

}  // namespace v0
}  // namespace cairn
