// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_totals.h"

#include "cli/slot_row.h"

namespace cairn::cli {

Result<std::vector<SlotTotals>> CountSlots(const StateSource& source) {
  std::vector<SlotTotals> totals(source.slots().size());
  CAIRN_RETURN_IF_ERROR(source.ScanAll([&](const StateRow& row) -> Status {
    SlotTotals& of = totals[row.slot];
    CAIRN_ASSIGN_OR_RETURN(const SlotRow parts,
                           TakeApart(source.slots()[row.slot], row.user_key, row.value));
    ++of.rows;
    if (!parts.is_header) ++(parts.expired ? of.expired : of.live);
    of.bytes += row.stored_key.size() + row.value.size();
    return {};
  }));
  return totals;
}

}  // namespace cairn::cli
