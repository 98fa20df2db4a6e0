// SPDX-License-Identifier: Apache-2.0
//
// OperatorStateTable: the operator state of one slot of one subtask: logical key -> bytes.
//
// Operator state belongs to a subtask, not to keys. Every row carries the subtask that wrote it and
// the parallelism it wrote at; a restore gives all rows to every subtask, and each sorts them out:
//
// Invariants
//  1. A row is the subtask's own when subtask and parallelism are its own; any other is a peer's
//  and
//     read-only. After a change of parallelism every row is a peer's.
//  2. An own row hides the peers' rows of its logical key.
//  3. A subtask saves its own rows. A row of another parallelism has no writer any more: the
//  subtask
//     that owns the key group of its logical key saves it again, unless its own row hides it. So a
//     row nobody claims is saved exactly once.
//
// Threads:  as Table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/state_table.h"
#include "cairn/table.h"

namespace cairn {
inline namespace v0 {

struct OperatorStateOptions {
  uint32_t subtask = 0;
  uint32_t parallelism = 1;
  uint32_t key_groups = kDefaultKeyGroups;
  uint64_t slot_hash_seed = 0;
};

/// A row as its readers see it.
struct OperatorStateRow {
  std::string_view logical_key;
  std::string_view value;
  uint32_t subtask = 0;
  bool own = false;
};

class OperatorStateTable final : public StateTable {
 public:
  /// Shape:    descriptor.kind is kOperatorValue.
  OperatorStateTable(StateDomain* domain, SlotDescriptor descriptor, OperatorStateOptions options);

  /// Write the own row of `logical_key`. Errors: kResourceExhausted over the memory budget.
  Status Put(std::string_view logical_key, std::string_view value);

  /// Remove the own row; false when there was none. Peers' rows stay.
  bool Erase(std::string_view logical_key);

  /// Remove every row of `logical_key`, the peers' too: for what all subtasks change alike. False
  /// when there was none.
  bool EraseAll(std::string_view logical_key);

  /// The own row's value, else that of the peer's row of the lowest subtask. Valid until the next
  /// change.
  std::optional<std::string_view> Find(std::string_view logical_key) const;

  /// Call `visit` for every row, hidden ones too. It must not change the table.
  void ForEach(const std::function<void(const OperatorStateRow&)>& visit) const;

  const SlotDescriptor& descriptor() const override { return rows_.descriptor(); }
  KeyGroupRange key_groups() const override { return rows_.key_groups(); }
  /// Write the rows this subtask saves, all under group 0. Operator state is always saved whole.
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override;
  /// Empty when nothing changed, else at least one row: tells whether to save again.
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override;
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override;
  /// Rows this subtask saves. Cost: O(rows).
  uint64_t CountRows(const View& view) const override;
  uint64_t MemoryBytes() const override { return rows_.MemoryBytes(); }

 private:
  using Rows = Table<Bytes, std::string>;

  std::string OwnKey(std::string_view logical_key) const;
  bool IsOwn(std::string_view row_key) const;
  bool IsSaved(const View& view, std::string_view row_key) const;

  const OperatorStateOptions options_;
  const KeyGroupRange owned_groups_;
  Rows rows_;  ///< by subtask, parallelism (4 bytes big-endian each) and logical key
};

}  // namespace v0
}  // namespace cairn
