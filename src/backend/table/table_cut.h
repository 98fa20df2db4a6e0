// SPDX-License-Identifier: Apache-2.0
//
// TableCut: one moment of all table sets of a byte backend, read in the order of the stored keys.
//
// Threads:  any; one call at a time a cut.
// Invariants
//  1. It shows no later change, and its clock stands: what was alive stays in it.
//  2. The order is that of the stored keys: groups, in each the slots, in each the user keys; then
//     operator state. Equal states give equal rows in equal order, however they are sharded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/table/group_rows.h"
#include "backend/table/table_set.h"
#include "cairn/state_backend.h"
#include "cairn/view.h"
#include "format/keys.h"

namespace cairn::backend {

/// One table set in a cut.
struct SetCut {
  std::shared_ptr<TableSet> set;  ///< keeps the tables
  std::shared_ptr<const TableList> tables;
  View view;
};

/// Called for each row; false ends the visit.
using RowVisitor = std::function<bool(OperatorId op, const EncodedRow& row)>;

class TableCut {
 public:
  using OperatorRows = std::vector<std::pair<std::string, std::string>>;

  /// Shape:    group g lies in sets[g % sets.size()]; raw rows and operator state in sets[0].
  TableCut(std::vector<SetCut> sets, const format::KeyLayout& layout, KeyGroupRange owned,
           int64_t now_ms)
      : sets_(std::move(sets)), layout_(layout), owned_(owned), now_ms_(now_ms) {}

  /// Visit every row that a snapshot holds, operators ascending.
  Status VisitBase(const RowVisitor& visit) const;

  /// Visit every row changed after `since` (an epoch for each set): kPut or kErase.
  Status VisitDelta(const std::vector<uint64_t>& since, const RowVisitor& visit) const;

  /// Visit the rows of one operator in `range`; `operator_rows` are its visible operator-state
  /// rows.
  Status VisitRange(OperatorId op, const ScanRange& range, const OperatorRows& operator_rows,
                    const RowVisitor& visit) const;

  /// The epochs of the sets' views.
  std::vector<uint64_t> epochs() const;
  uint64_t rows() const;

 private:
  struct Visit;
  std::vector<OperatorId> Operators() const;
  static const OperatorTables* Find(const SetCut& set, OperatorId op);
  Status VisitOperator(Visit* visit) const;
  Status VisitGroups(Visit* visit) const;
  Status VisitSlot(const SetCut& set, const SlotRef& slot, uint32_t group, uint64_t since,
                   std::string_view prefix, Visit* visit) const;
  Status CollectRaw(const OperatorTables& tables, uint64_t since, Visit* visit) const;
  Status SavedOperatorRows(const OperatorTables& tables, OperatorRows* rows) const;
  Status VisitOperatorState(Visit* visit) const;
  Status EmitOperatorDelta(const OperatorTables& tables, uint64_t since, Visit* visit) const;

  std::vector<SetCut> sets_;
  format::KeyLayout layout_;
  KeyGroupRange owned_;
  int64_t now_ms_;
};

}  // namespace cairn::backend
