// SPDX-License-Identifier: Apache-2.0
//
// RestoreMapping: where the parts of a cut go when the job that restores it is not quite the job
// that saved it. Empty = every part goes to the one of its own name.
// What sinks prepared stays under their saved names: it is published in that job's name.
//
// Threads: a plain value.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/ids.h"

namespace cairn::checkpoint {

struct RestoreMapping {
  /// Saved operators whose state another operator takes; no two give to the same one.
  std::map<base::OperatorId, base::OperatorId> operators;
  /// Saved slots that are given up.
  std::set<std::pair<base::OperatorId, std::string>> left_out_slots;
  /// Saved sources that have another name now; an empty name = given up.
  std::map<std::string, std::string> sources;

  base::OperatorId OperatorFor(base::OperatorId saved) const {
    const auto found = operators.find(saved);
    return found == operators.end() ? saved : found->second;
  }
  bool LeavesOut(base::OperatorId saved, const std::string& slot) const {
    return left_out_slots.contains({saved, slot});
  }
  /// The present name of what was saved under a name; empty = given up.
  static const std::string& NameFor(const std::map<std::string, std::string>& names,
                                    const std::string& saved) {
    const auto found = names.find(saved);
    return found == names.end() ? saved : found->second;
  }
};

}  // namespace cairn::checkpoint
