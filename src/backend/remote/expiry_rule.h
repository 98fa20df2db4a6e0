// SPDX-License-Identifier: Apache-2.0
//
// ExpiryRule: which rows of a remote backend are dead, and so absent from reads, scans and
// checkpoints.
//
// Threads:  a value: whoever reads without the backend's lock takes a copy.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "backend/remote/remote_pool.h"
#include "format/keys.h"

namespace cairn::backend {

class ExpiryRule {
 public:
  explicit ExpiryRule(format::KeyLayout layout) : layout_(layout) {}

  void Declare(OperatorId op, std::string_view slot) { slots_.emplace(op, slot); }
  void set_now_ms(int64_t now_ms) { now_ms_ = now_ms; }
  bool empty() const { return slots_.empty(); }

  /// True when the row is of a declared slot and its time has come.
  ///
  /// Errors:   kCorruption, naming the key, for a value without an expiry time.
  Result<bool> IsDead(StateKeyRef key, std::string_view value) const;

  /// Make a dead value absent.
  Status Hide(StateKeyRef key, PoolValue* value) const;

 private:
  format::KeyLayout layout_;
  std::set<std::pair<OperatorId, std::string>> slots_;
  int64_t now_ms_ = std::numeric_limits<int64_t>::min();  // no time yet: nothing is dead
};

}  // namespace cairn::backend
