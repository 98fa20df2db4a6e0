// SPDX-License-Identifier: Apache-2.0
//
// TableSet: the tables of a byte backend that share one writer and one StateDomain: for every
// operator its slots, its operator state and its raw rows. A sharded backend has several.
//
// Threads:  the writer's, but for what a cut holds.
// Invariants
//  1. Tables are added and never removed: a cut may point to them as long as it holds the set.
//  2. Keyed rows of slots nobody declared are Table<Bytes, std::string>.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/table/byte_slot.h"
#include "cairn/operator_state.h"
#include "cairn/state_backend.h"
#include "cairn/state_domain.h"
#include "format/keys.h"

namespace cairn::backend {

/// Orders slot names as the stored keys that begin with them: 'aa' before 'a', as 'aa|' < 'a|'.
struct SlotOrder {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

/// What is known of a slot before it has a table.
struct SlotDeclaration {
  std::optional<SlotDescriptor> descriptor;
  SlotMaker maker;        ///< null = bytes
  bool expiring = false;  ///< values begin with their expiry time
};
using SlotCatalog = std::map<std::pair<OperatorId, std::string>, SlotDeclaration>;

/// Raw rows, in one group of their own.
using RawTable = BytesSlot;

/// The tables of one operator, as a cut lists them.
struct SlotRef {
  std::string name;
  const StateTable* table = nullptr;
  bool expiring = false;
};
struct OperatorTables {
  OperatorId id;
  std::vector<SlotRef> slots;  ///< in SlotOrder
  const OperatorStateTable* operator_state = nullptr;
  const StateTable* raw = nullptr;
};
using TableList = std::vector<OperatorTables>;  ///< by operator id

class TableSet {
 public:
  /// `options` and `catalog` outlive the set.
  TableSet(const BackendOptions& options, const format::KeyLayout& layout,
           const SlotCatalog* catalog, const std::string& name, bool track_deltas);

  /// Apply one checked entry; `key` is its key taken apart. *rows follows the live rows.
  Status Apply(const WriteEntry& entry, const format::StoredKey& key, int64_t now_ms,
               uint64_t* rows);
  Status Get(OperatorId op, const format::StoredKey& key, int64_t now_ms,
             std::optional<std::string>* value) const;

  /// Take in an operator-state row of another subtask, or its erase.
  Status LoadPeerRow(OperatorId op, uint32_t subtask, uint32_t parallelism, SavedRowKind kind,
                     std::string_view logical_key, std::string_view value);

  /// Operator-state rows as readers see them: own rows hide peers', ascending by logical key.
  std::vector<std::pair<std::string, std::string>> VisibleOperatorRows(OperatorId op) const;

  StateDomain* domain() const { return domain_.get(); }
  std::shared_ptr<const TableList> tables();
  /// The catalog has changed.
  void ForgetList() { tables_.reset(); }

  /// Erase the expired rows of one group of one expiring slot.
  Result<uint64_t> SweepGroup(const SlotRef& slot, OperatorId op, uint32_t group, int64_t now_ms,
                              uint64_t* looked_at);

 private:
  struct Operator {
    std::map<std::string, std::unique_ptr<ByteSlot>, SlotOrder> slots;
    std::unique_ptr<OperatorStateTable> operator_state;
    std::unique_ptr<RawTable> raw;
  };

  ByteSlot* SlotOf(OperatorId op, std::string_view name);
  const ByteSlot* FindSlot(OperatorId op, std::string_view name) const;
  OperatorStateTable* OperatorStateOf(OperatorId op);
  RawTable* RawOf(OperatorId op);
  SlotDescriptor DescriptorOf(OperatorId op, std::string_view name) const;
  bool IsExpiring(OperatorId op, std::string_view name) const;
  Status ApplyKeyed(const WriteEntry& entry, const format::StoredKey& key, int64_t now_ms,
                    uint64_t* rows);
  Status ApplyOperatorState(const WriteEntry& entry, const format::StoredKey& key, uint64_t* rows);
  Status ApplyTo(ByteSlot* slot, const WriteEntry& entry, std::string_view user_key,
                 uint64_t* rows);

  const BackendOptions& options_;
  const format::KeyLayout layout_;
  const SlotCatalog* catalog_;
  std::unique_ptr<StateDomain> domain_;
  std::map<OperatorId, Operator> operators_;
  std::shared_ptr<const TableList> tables_;  ///< null = to be made anew
};

}  // namespace cairn::backend
