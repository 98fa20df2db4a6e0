// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_sweep.h"

#include <algorithm>

namespace cairn {
inline namespace v0 {

size_t StateSweep::Run(std::span<StateTable* const> tables, size_t budget) {
  constexpr size_t kTablesARun = 32;
  size_t done = 0;
  const size_t looks = std::min(tables.size(), kTablesARun);
  for (size_t i = 0; i < looks && done < budget; ++i) {
    // A table that used up the budget is the first of the next call.
    next_ = next_ < tables.size() ? next_ : 0;
    done += tables[next_]->Maintain(budget - done);
    if (done < budget) ++next_;
  }
  return done;
}

}  // namespace v0
}  // namespace cairn
