// SPDX-License-Identifier: Apache-2.0
#include "backend/table/table_cut.h"

#include <algorithm>
#include <map>
#include <set>

#include "backend/write_rules.h"
#include "base/coding.h"

namespace cairn::backend {
namespace {

/// Subtask and parallelism in front of a saved operator-state key.
constexpr size_t kOwnerBytes = 8;

/// True when some key that begins with `prefix` may lie in `range`.
bool MayHold(const ScanRange& range, std::string_view prefix) {
  if (range.last && prefix >= *range.last) return false;
  return range.first <= prefix || std::string_view(range.first).substr(0, prefix.size()) == prefix;
}

}  // namespace

/// What is visited and where its rows go.
struct TableCut::Visit {
  OperatorId op;
  const ScanRange* range = nullptr;              ///< null = all
  const std::vector<uint64_t>* since = nullptr;  ///< null = every live row
  const OperatorRows* operator_rows = nullptr;   ///< null = those that a snapshot saves
  const RowVisitor* out = nullptr;
  /// Raw rows, which have no place of their own in the order of the tables.
  struct RawRow {
    SavedRowKind kind;
    std::string key;
    std::string value;
  };
  std::vector<RawRow> raw;
  size_t raw_next = 0;
  bool ended = false;

  void Pass(const EncodedRow& row) {
    if (!ended && (range == nullptr || range->Contains(row.key))) ended = !(*out)(op, row);
  }
  /// Pass `row` behind the raw rows that come before it.
  void Emit(const EncodedRow& row) {
    EmitRawBefore(&row.key);
    Pass(row);
  }
  void EmitRawBefore(const std::string_view* key) {
    while (!ended && raw_next < raw.size() && (key == nullptr || raw[raw_next].key < *key)) {
      const RawRow& row = raw[raw_next++];
      Pass({row.kind, row.key, row.value});
    }
  }
};

std::vector<uint64_t> TableCut::epochs() const {
  std::vector<uint64_t> epochs;
  for (const SetCut& set : sets_) epochs.push_back(set.view.epoch());
  return epochs;
}

uint64_t TableCut::rows() const {
  uint64_t rows = 0;
  for (const SetCut& set : sets_) {
    for (const OperatorTables& op : *set.tables) {
      for (const SlotRef& slot : op.slots) rows += slot.table->CountRows(set.view);
      if (op.operator_state != nullptr) rows += op.operator_state->CountRows(set.view);
      if (op.raw != nullptr) rows += op.raw->CountRows(set.view);
    }
  }
  return rows;
}

std::vector<OperatorId> TableCut::Operators() const {
  std::set<OperatorId> ids;
  for (const SetCut& set : sets_) {
    for (const OperatorTables& op : *set.tables) ids.insert(op.id);
  }
  return {ids.begin(), ids.end()};
}

const OperatorTables* TableCut::Find(const SetCut& set, OperatorId op) {
  const auto found =
      std::lower_bound(set.tables->begin(), set.tables->end(), op,
                       [](const OperatorTables& tables, OperatorId id) { return tables.id < id; });
  return found == set.tables->end() || found->id != op ? nullptr : &*found;
}

Status TableCut::VisitBase(const RowVisitor& out) const {
  for (const OperatorId op : Operators()) {
    Visit visit;
    visit.op = op;
    visit.out = &out;
    CAIRN_RETURN_IF_ERROR(VisitOperator(&visit));
    if (visit.ended) return {};
  }
  return {};
}

Status TableCut::VisitDelta(const std::vector<uint64_t>& since, const RowVisitor& out) const {
  for (const OperatorId op : Operators()) {
    Visit visit;
    visit.op = op;
    visit.since = &since;
    visit.out = &out;
    CAIRN_RETURN_IF_ERROR(VisitOperator(&visit));
    if (visit.ended) return {};
  }
  return {};
}

Status TableCut::VisitRange(OperatorId op, const ScanRange& range,
                            const OperatorRows& operator_rows, const RowVisitor& out) const {
  Visit visit;
  visit.op = op;
  visit.range = &range;
  visit.operator_rows = &operator_rows;
  visit.out = &out;
  return VisitOperator(&visit);
}

Status TableCut::VisitOperator(Visit* visit) const {
  const OperatorTables* first = Find(sets_[0], visit->op);
  if (first != nullptr && first->raw != nullptr) {
    CAIRN_RETURN_IF_ERROR(
        CollectRaw(*first, visit->since == nullptr ? 0 : (*visit->since)[0], visit));
  }
  CAIRN_RETURN_IF_ERROR(VisitGroups(visit));
  CAIRN_RETURN_IF_ERROR(VisitOperatorState(visit));
  visit->EmitRawBefore(nullptr);
  return {};
}

// The raw rows, all or the changed ones.
Status TableCut::CollectRaw(const OperatorTables& tables, uint64_t since, Visit* visit) const {
  GroupRows rows;
  CAIRN_RETURN_IF_ERROR(visit->since == nullptr
                            ? rows.CollectBase(*tables.raw, sets_[0].view, 0, "")
                            : rows.CollectDelta(*tables.raw, sets_[0].view, since, 0, ""));
  for (size_t i = 0; i < rows.size(); ++i) {
    visit->raw.push_back({rows[i].kind, std::string(rows[i].key), std::string(rows[i].value)});
  }
  return {};
}

Status TableCut::VisitGroups(Visit* visit) const {
  std::vector<const OperatorTables*> tables;
  for (const SetCut& set : sets_) tables.push_back(Find(set, visit->op));
  for (uint32_t group = owned_.first; group < owned_.last && !visit->ended; ++group) {
    const size_t at = group % sets_.size();
    if (tables[at] == nullptr) continue;
    for (const SlotRef& slot : tables[at]->slots) {
      const std::string prefix = layout_.KeyedPrefix(group, slot.name);
      if (visit->range != nullptr && !MayHold(*visit->range, prefix)) continue;
      const uint64_t since = visit->since == nullptr ? 0 : (*visit->since)[at];
      CAIRN_RETURN_IF_ERROR(VisitSlot(sets_[at], slot, group, since, prefix, visit));
      if (visit->ended) break;
    }
  }
  return {};
}

Status TableCut::VisitSlot(const SetCut& set, const SlotRef& slot, uint32_t group, uint64_t since,
                           std::string_view prefix, Visit* visit) const {
  GroupRows rows;
  CAIRN_RETURN_IF_ERROR(visit->since == nullptr
                            ? rows.CollectBase(*slot.table, set.view, group, prefix)
                            : rows.CollectDelta(*slot.table, set.view, since, group, prefix));
  for (size_t i = 0; i < rows.size() && !visit->ended; ++i) {
    EncodedRow row = rows[i];
    if (slot.expiring && row.kind != SavedRowKind::kErase) {
      const Result<bool> expired = IsExpired(row.value, now_ms_);
      if (!expired.ok()) {
        return expired.status().WithContext(DescribeKey(layout_, visit->op, row.key));
      }
      if (*expired) {
        if (visit->since == nullptr) continue;
        // The base may hold an older value that was alive.
        row = {SavedRowKind::kErase, row.key, {}};
      }
    }
    visit->Emit(row);
  }
  return {};
}

// The operator-state rows that this subtask saves, ascending by logical key.
Status TableCut::SavedOperatorRows(const OperatorTables& tables, OperatorRows* saved) const {
  GroupRows rows;
  CAIRN_RETURN_IF_ERROR(rows.CollectBase(*tables.operator_state, sets_[0].view, 0, ""));
  std::map<std::string, std::string, std::less<>> by_key;
  // Rows ascend by their owner: of several peers' rows of one key the lowest subtask's stays, as
  // readers see it.
  for (size_t i = 0; i < rows.size(); ++i) {
    by_key.try_emplace(std::string(rows[i].key.substr(kOwnerBytes)), rows[i].value);
  }
  saved->assign(by_key.begin(), by_key.end());
  return {};
}

Status TableCut::VisitOperatorState(Visit* visit) const {
  const OperatorTables* tables = Find(sets_[0], visit->op);
  if (tables == nullptr || tables->operator_state == nullptr) return {};
  if (visit->since != nullptr) return EmitOperatorDelta(*tables, (*visit->since)[0], visit);
  OperatorRows saved;
  if (visit->operator_rows == nullptr) CAIRN_RETURN_IF_ERROR(SavedOperatorRows(*tables, &saved));
  for (const auto& [logical, value] :
       visit->operator_rows != nullptr ? *visit->operator_rows : saved) {
    std::string key;
    layout_.AppendOperatorState(logical, &key);
    visit->Emit({SavedRowKind::kMaterialised, key, value});
  }
  return {};
}

Status TableCut::EmitOperatorDelta(const OperatorTables& tables, uint64_t since,
                                   Visit* visit) const {
  GroupRows changed;
  CAIRN_RETURN_IF_ERROR(changed.CollectDelta(*tables.operator_state, sets_[0].view, since, 0, ""));
  if (changed.size() == 0) return {};
  OperatorRows saved;
  CAIRN_RETURN_IF_ERROR(SavedOperatorRows(tables, &saved));
  std::set<std::string, std::less<>> keys;
  for (size_t i = 0; i < changed.size(); ++i) keys.emplace(changed[i].key.substr(kOwnerBytes));
  for (const std::string& logical : keys) {
    const auto found = std::lower_bound(
        saved.begin(), saved.end(), logical,
        [](const auto& row, const std::string& wanted) { return row.first < wanted; });
    const bool live = found != saved.end() && found->first == logical;
    std::string key;
    layout_.AppendOperatorState(logical, &key);
    // An own row that was erased may bring a claimed peer's row to light.
    visit->Emit({live ? SavedRowKind::kPut : SavedRowKind::kErase, key,
                 live ? std::string_view(found->second) : std::string_view()});
  }
  return {};
}

}  // namespace cairn::backend
