// SPDX-License-Identifier: Apache-2.0
//
// A table with its types erased: what checkpoint, export, query and restore need of it. Table
// (cairn/table.h) and OperatorStateTable (cairn/operator_state.h) implement it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/column_spec.h"
#include "cairn/hash.h"
#include "cairn/ids.h"
#include "cairn/saved_rows.h"
#include "cairn/status.h"
#include "cairn/ttl.h"
#include "cairn/view.h"

namespace cairn {
inline namespace v0 {

/// kKeyedList and kKeyedMap save a row an element (docs/state/kinds.md).
enum class SlotKind : uint8_t { kKeyedValue, kOperatorValue, kKeyedList, kKeyedMap };

inline constexpr bool IsKeyed(SlotKind kind) { return kind != SlotKind::kOperatorValue; }
inline constexpr bool HasElementRows(SlotKind kind) {
  return kind == SlotKind::kKeyedList || kind == SlotKind::kKeyedMap;
}
/// "keyed_value", "operator_value", "keyed_list", "keyed_map": what manifests call a kind.
std::string_view NameOf(SlotKind kind);
std::optional<SlotKind> SlotKindOf(std::string_view name);

/// Name a slot and say how its bytes are read: saved in the manifest, needed by every reader.
struct SlotDescriptor {
  OperatorId operator_id;
  std::string operator_uid;
  std::string name;  ///< without '|', '\n' and NUL
  SlotKind kind = SlotKind::kKeyedValue;
  std::string key_codec;                  ///< e.g. "row", "int64", "bytes"
  std::string value_codec;                ///< e.g. "row", "topn", "int64", "bytes"
  uint32_t version = 1;                   ///< of the value's encoding
  std::vector<ColumnSpec> key_columns;    ///< empty = opaque
  std::vector<ColumnSpec> value_columns;  ///< empty = opaque
  bool frame_per_group = false;           ///< one frame a key group (Top-N)
  std::string element_key_codec;          ///< of a map's keys; empty = opaque
  TtlConfig ttl{};                        ///< of rows or elements; disabled = no deadlines saved
  // Of a saved slot with a TTL: what its clock showed at the cut, and the first time it ever
  // showed.
  std::optional<int64_t> ttl_time_ms{};
  std::optional<int64_t> ttl_first_ms{};
};

/// Count what a restore loaded, for the receipt.
struct LoadCounts {
  uint64_t rows = 0;     ///< rows applied
  uint64_t skipped = 0;  ///< rows of groups outside this table's range
};

/// A table of one slot of one subtask, seen without its types.
class StateTable {
 public:
  virtual ~StateTable() = default;

  virtual const SlotDescriptor& descriptor() const = 0;

  /// Key groups whose rows the table holds. An operator-state table has the one group 0.
  virtual KeyGroupRange key_groups() const = 0;

  /// Write the rows of `range` as `view` sees them: every live row as kMaterialised.
  ///
  /// Shape:    groups ascending, those without rows left out; rows of a group ascend by (slot hash,
  ///           user key bytes), so equal states give equal bytes.
  /// Threads:  any, beside the writer and other readers, while `view` is open.
  /// Errors:   what the codec or the sink returned, naming operator, slot and key.
  /// Cost:     about 5 ns a row plus its bytes.
  virtual Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const = 0;

  /// Write the rows changed after epoch `since` as `view` sees them: kPut, or kErase with no value.
  /// An erase of a key that did not exist at `since` either may be among them.
  ///
  /// Shape, Threads, Errors: as EncodeBase.
  /// Cost:     O(segments + segments changed).
  virtual Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                             SavedRowSink* sink) const = 0;

  /// Tell how the rows that Load will be given were saved, when not as descriptor() says: with
  /// another TTL, with one, or without. Called before Load; default: the descriptor's own way.
  ///
  /// Errors:   kInvalidArgument when the table cannot read rows saved that way.
  virtual Status ExpectSaved(const SlotDescriptor& saved);

  /// Apply saved rows in order. A row of a group outside key_groups() is skipped and counted.
  ///
  /// Shape:    keys carry `key_prefix_bytes` before the user key; the group is given by the first
  ///           `group_prefix_bytes` of them: one byte, or two big-endian ones with more than 128
  ///           groups.
  /// Threads:  the writer's, before the first view.
  /// Errors:   kCorruption when a key or value does not decode, a key lies in the wrong group or a
  ///           materialised row names a key that is there already, naming operator, slot and key ·
  ///           kResourceExhausted over the memory budget.
  /// Cost:     about 20 ns a row in saved order, whose keys need no search; else a search more.
  virtual Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
                      LoadCounts* counts) = 0;

  /// Sweep expired rows and give memory back, in about `budget` steps of one row each; returns the
  /// steps taken, 0 when there was nothing to do. Call it between batches.
  ///
  /// Threads:  the writer's.
  virtual size_t Maintain(size_t budget);

  /// Live rows in `view`: exact.
  virtual uint64_t CountRows(const View& view) const = 0;

  /// Bytes the table's newest state takes; what only older views still see is not among them.
  virtual uint64_t MemoryBytes() const = 0;
};

}  // namespace v0
}  // namespace cairn
