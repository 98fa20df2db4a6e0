// SPDX-License-Identifier: Apache-2.0
//
// A slot as a table with named, typed columns: its key columns, its value columns and, where one
// saved value holds several ranked rows (Top-N), one row for each of them with its rank.
//
//   key columns…  value columns…                       one row a saved row
//   key columns…  payload columns…  rank  sort_key     one row a ranked row (value codec "topn")
//   key columns…  index | map_key  value columns…      one row an element of a list or map
//
// With a TTL a last column expires_at_ms follows (null = its clock has no time yet). What has
// expired by the clock of the cut, and the headers of lists and maps, are no rows.
//
// A key or value of a codec that has no columns is one column: bigint (int64), text (string), bytes
// (any other). The descriptor rides in the schema's metadata, so that what is exported can be
// imported without a word said twice.
//
// Threads: one.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"

namespace cairn::cli {

/// How the bytes of a key or a value are columns.
struct SideShape {
  enum class Coding : uint8_t { kRow, kText, kBytes };
  Coding coding = Coding::kBytes;
  std::vector<ColumnSpec> columns;
};
SideShape KeyShapeOf(const SlotDescriptor& slot);
SideShape ValueShapeOf(const SlotDescriptor& slot);  ///< of Top-N: of one ranked row

/// True when a saved value is unnested to ranked rows.
bool HoldsRankedRows(const SlotDescriptor& slot);

/// Schema of the typed table, with the slot's descriptor as metadata.
///
/// Errors:   kCorruption for a column type that this version does not know.
Result<std::shared_ptr<arrow::Schema>> TypedSchemaOf(const SlotDescriptor& slot);

/// Collect saved rows into typed record batches.
class TypedSlotDecoder {
 public:
  static Result<TypedSlotDecoder> Make(SlotDescriptor slot);
  TypedSlotDecoder(TypedSlotDecoder&&) noexcept;
  TypedSlotDecoder& operator=(TypedSlotDecoder&&) noexcept;
  ~TypedSlotDecoder();

  const SlotDescriptor& slot() const;
  const std::shared_ptr<arrow::Schema>& schema() const;
  /// How many of the schema's fields are the key's, an element's key (0 or 1), the value's with
  /// rank and sort key, and the deadline (0 or 1).
  size_t key_columns() const;
  size_t element_columns() const;
  size_t value_columns() const;
  size_t expiry_columns() const;

  /// Errors:   kCorruption naming operator, slot, key and codec. It is never taken for absent.
  Status Append(std::string_view user_key, std::string_view value);

  int64_t rows() const;    ///< in the batch being made
  uint64_t bytes() const;  ///< saved bytes in it

  /// Return the rows so far and start anew.
  Result<std::shared_ptr<arrow::RecordBatch>> Finish();

 private:
  struct State;
  explicit TypedSlotDecoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Take a saved row made from a typed table.
using SavedRowVisitor = std::function<Status(std::string_view user_key, std::string_view value)>;

/// Turn typed record batches back into saved rows.
///
/// Shape:    rows of one Top-N key are adjacent and in rank order, as an export has them; so are
/// the
///           elements of one list or map. A list goes on counting behind its highest index.
/// Errors:   kInvalidArgument for columns that are not the slot's, a null where none may be, ranks
///           that do not count from 1, or a key whose ranked rows are not adjacent.
class TypedSlotEncoder {
 public:
  static Result<TypedSlotEncoder> Make(SlotDescriptor slot, SavedRowVisitor visit);
  TypedSlotEncoder(TypedSlotEncoder&&) noexcept;
  TypedSlotEncoder& operator=(TypedSlotEncoder&&) noexcept;
  ~TypedSlotEncoder();

  Status Append(const arrow::RecordBatch& batch);
  /// Hand over the last Top-N partition.
  Status Finish();

 private:
  struct State;
  explicit TypedSlotEncoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::cli
