// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_totals.h"

#include "cli/slot_row.h"

namespace cairn::cli {

namespace {

bool IsDead(const SlotDescriptor& slot, const SlotRow& row, int64_t shift_ms) {
  if (row.expired || shift_ms == 0 || !row.expires_at_ms || !slot.ttl_time_ms) return row.expired;
  return *row.expires_at_ms + shift_ms <= *slot.ttl_time_ms;
}

}  // namespace

Result<std::vector<SlotTotals>> CountSlots(const StateSource& source,
                                           const std::vector<int64_t>& deadline_shifts) {
  std::vector<SlotTotals> totals(source.slots().size());
  CAIRN_RETURN_IF_ERROR(source.ScanAll([&](const StateRow& row) -> Status {
    SlotTotals& of = totals[row.slot];
    const SlotDescriptor& slot = source.slots()[row.slot];
    CAIRN_ASSIGN_OR_RETURN(const SlotRow parts, TakeApart(slot, row.user_key, row.value));
    ++of.rows;
    const int64_t shift_ms = deadline_shifts.empty() ? 0 : deadline_shifts[row.slot];
    if (!parts.is_header) ++(IsDead(slot, parts, shift_ms) ? of.expired : of.live);
    of.bytes += row.stored_key.size() + row.value.size();
    return {};
  }));
  return totals;
}

}  // namespace cairn::cli
