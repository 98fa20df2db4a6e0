// SPDX-License-Identifier: Apache-2.0
#include "cli/run_plan.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/units.h"
#include "cli/json_line.h"
#include "cli/slot_totals.h"
#include "cli/state_source.h"

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of saved slots, by the saved uid and the slot's name: live are those that the job's TTL
/// keeps.
using Totals = std::map<std::pair<std::string, std::string>, SlotTotals>;

Result<Totals> CountSaved(env::FileSystem* files, const engine::PlannedRestore& planned) {
  CAIRN_ASSIGN_OR_RETURN(
      const auto source,
      OpenStateSource(files, fmt::format("{}@{}", planned.place, planned.checkpoint.value)));
  std::vector<int64_t> shifts(source->slots().size(), 0);
  for (const engine::RestoreItem& item : planned.plan.items) {
    for (size_t i = 0; i < shifts.size(); ++i) {
      const SlotDescriptor& slot = source->slots()[i];
      if (slot.operator_uid == item.saved_as && slot.name == item.slot) {
        shifts[i] = item.deadline_shift_ms;
      }
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<SlotTotals> counted, CountSlots(*source, shifts));
  Totals totals;
  for (size_t i = 0; i < counted.size(); ++i) {
    const SlotDescriptor& slot = source->slots()[i];
    totals[{slot.operator_uid, slot.name}] = counted[i];
  }
  return totals;
}

const SlotTotals* TotalsOf(const engine::RestoreItem& item, const Totals& totals) {
  if (item.kind != "slot") return nullptr;
  const auto found = totals.find({item.saved_as, item.slot});
  return found == totals.end() ? nullptr : &found->second;
}

Json ItemJson(const engine::RestoreItem& item, const Totals& totals) {
  Json line{{"kind", item.kind}};
  if (item.kind != "job") line["name"] = item.name;
  if (item.kind == "slot") line["slot"] = item.slot;
  line["saved_as"] = item.saved_as.empty() ? Json(nullptr) : Json(item.saved_as);
  line["fate"] = engine::FateName(item.fate);
  if (const SlotTotals* of = TotalsOf(item, totals)) {
    line["rows"] = of->rows;
    line["live"] = of->live;
    line["expired"] = of->expired;
    line["bytes"] = of->bytes;
  }
  line["says"] = item.says;
  line["refused"] = item.refusal.empty() ? Json(nullptr) : Json(item.refusal);
  return line;
}

void AddRow(const engine::RestoreItem& item, const Totals& totals, TextTable* table) {
  std::string name = item.kind == "slot" ? item.name + "." + item.slot : item.name;
  if (!item.saved_as.empty() && item.saved_as != item.name) {
    name = fmt::format("{} (was {})", name, item.saved_as);
  }
  const SlotTotals* of = TotalsOf(item, totals);
  table->Row({item.kind, std::move(name),
              item.refusal.empty() ? std::string(engine::FateName(item.fate)) : "REFUSED",
              of == nullptr ? "" : base::FormatCount(of->live),
              of == nullptr ? "" : base::FormatBytes(of->bytes), item.says});
}

Json SummaryJson(const engine::PlannedRestore& planned) {
  return {{"kind", "plan"},
          {"place", planned.place},
          {"checkpoint", planned.checkpoint.value},
          {"target", planned.target},
          {"saved_parallelism", planned.saved_parallelism},
          {"parallelism", planned.parallelism},
          {"would_restore", planned.plan.restorable()}};
}

void PrintHead(const engine::PlannedRestore& planned, Output* out) {
  const bool rescaled = planned.saved_parallelism != planned.parallelism;
  out->Line(fmt::format("checkpoint {} of {} into {}{}", planned.checkpoint.value, planned.place,
                        planned.target == planned.place ? "the same place" : planned.target,
                        rescaled ? fmt::format(", rescaled from {} to {} subtasks",
                                               planned.saved_parallelism, planned.parallelism)
                                 : ""));
}

}  // namespace

Result<ExitCode> PrintRestorePlan(env::FileSystem* files, const engine::JobSpec& spec, bool json,
                                  Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const engine::PlannedRestore planned, engine::PlanJobRestore(spec));
  if (planned.checkpoint.value == 0 && planned.plan.restorable()) {
    if (json) {
      PrintJsonLine(SummaryJson(planned), out);
    } else {
      out->Line(
          fmt::format("no checkpoint at {}: the job would begin from the start", planned.place));
    }
    return ExitCode::kDone;
  }
  Totals totals;
  if (planned.checkpoint.value != 0) {
    CAIRN_ASSIGN_OR_RETURN(totals, CountSaved(files, planned));
  }
  const bool restorable = planned.plan.restorable();
  if (json) {
    for (const engine::RestoreItem& item : planned.plan.items) {
      PrintJsonLine(ItemJson(item, totals), out);
    }
    PrintJsonLine(SummaryJson(planned), out);
    return restorable ? ExitCode::kDone : ExitCode::kNegative;
  }
  if (planned.checkpoint.value != 0) PrintHead(planned, out);
  TextTable table("<<<>><");
  table.Row({"KIND", "NAME", "FATE", "ROWS", "BYTES", "SAYS"});
  for (const engine::RestoreItem& item : planned.plan.items) AddRow(item, totals, &table);
  table.Print(out);
  out->Line(restorable ? "would be restored" : "would be REFUSED:\n  " + planned.plan.Refusals());
  return restorable ? ExitCode::kDone : ExitCode::kNegative;
}

}  // namespace cairn::cli
