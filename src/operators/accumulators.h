// SPDX-License-Identifier: Apache-2.0
//
// Accumulators: what a group of GROUP BY keeps for its aggregate calls. All calls of a group share
// one cell of plain bytes, so a state entry is one fixed-size value; only the texts of min and max
// stand beside it.
//
// Threads: a layout is immutable after Make and may be shared.
//
// Invariants
//  1. An all-zero cell without texts is the accumulator of no rows.
//  2. Merging the cells of two parts of the input gives the cell of both, whatever the order (sums
//     of DOUBLE excepted, which round).
//  3. Everything a retraction needs is in the cell when the input updates: counts and sums.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "base/column_spec.h"
#include "cairn/status.h"
#include "stream/batch.h"
#include "stream/plan.h"

namespace cairn::operators {

using Int128 = __int128;

/// Rows of a record batch, each with the group it counts for.
struct GroupedRows {
  const uint32_t* selection = nullptr;  ///< null = row i is i
  const uint32_t* group_of = nullptr;
  const stream::RowKind* kinds = nullptr;  ///< by row; null = all +I
  size_t count = 0;
};

/// Result of one call. `number` holds the bits of every fixed-width result.
struct AggregateResult {
  bool null = false;
  Int128 number = 0;
  double real = 0;
  std::string_view text;
};

class AccumulatorLayout {
 public:
  using ArrayResult = Result<std::shared_ptr<arrow::Array>>;
  using Cells = std::span<const char* const>;
  using Texts = std::span<const std::string* const>;

  /// Plan the cell for the calls of `node` over rows of `input`.
  ///
  /// Errors:   kInvalidArgument for a call that is not supported, saying which and why: DISTINCT,
  ///           a type the function does not take, or min and max over an updating input.
  static Result<AccumulatorLayout> Make(const arrow::Schema& input,
                                        const stream::GroupAggregateNode& node, bool input_updates);

  /// Bytes of a cell (a multiple of 8, 8 at least) and number of texts beside it.
  size_t cell_bytes() const { return cell_bytes_; }
  size_t texts() const { return texts_; }
  /// True when the only content is one count(*): cell = its 8 bytes.
  bool is_plain_count() const { return plain_count_; }

  /// Columns of the saved value (row codec).
  const std::vector<base::ColumnSpec>& saved_columns() const { return saved_columns_; }

  /// Add the rows of `batch` to the cells of their groups; a -U or -D row is taken away. A text
  /// minimum or maximum is kept as a view into `batch`.
  ///
  /// Shape:    cells: cell_bytes() a group; partial_texts: texts() a group.
  /// Errors:   kInvalidArgument when a DECIMAL sum leaves its 38 digits.
  Status Accumulate(const arrow::RecordBatch& batch, const GroupedRows& rows, char* cells,
                    std::string_view* partial_texts) const;

  /// Add what `partial` accumulated to `cell`.
  Status Merge(const char* partial, const std::string_view* partial_texts, char* cell,
               std::string* texts) const;

  /// Rows in the group; only known when the input updates or a call counts all rows.
  bool counts_rows() const { return row_count_at_ != kNone; }
  int64_t RowCount(const char* cell) const;

  /// True when some call gives another result for `b` than for `a`.
  bool ResultsDiffer(const char* a, const std::string* a_texts, const char* b,
                     const std::string* b_texts) const;

  /// Compute the column of call `call` from cells: element i from cells[i] and texts[i].
  ///
  /// Errors:   kInvalidArgument when a sum does not fit the type of its column.
  ArrayResult ResultColumn(size_t call, Cells cells, Texts texts) const;

  /// Bytes of the saved value, and write it.
  size_t SavedBytes(const char* cell, const std::string* texts) const;
  void Save(const char* cell, const std::string* texts, char* out) const;
  /// Read a saved value into a zeroed cell.
  ///
  /// Errors:   kCorruption, naming the column.
  Status Load(std::string_view saved, char* cell, std::string* texts) const;

 private:
  enum class Number : uint8_t { kInt32, kInt64, kDouble, kDecimal, kText };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kPendingFlag = 1U << 31;  ///< plus the call: placed at the end of Make

  struct Call {
    stream::AggregateFunction function;
    int column;
    Number input;
    std::shared_ptr<arrow::DataType> type;
    std::string label;          ///< "sum(price)", for messages
    uint32_t value_at = kNone;  ///< sum, minimum or maximum
    uint32_t count_at = kNone;  ///< number of values
    uint32_t flag_at = kNone;   ///< 1 when there is a value; without a count
    uint32_t text_at = kNone;
    double scale = 1;  ///< avg of DECIMAL divides by it
  };
  struct SavedField {
    uint32_t at;                ///< in the cell, or index of the text
    uint32_t width;             ///< saved; 0 = text
    bool widen;                 ///< saved as 8 bytes, kept as 16
    uint32_t flag_at = kNone;   ///< presence, of a nullable field
    uint32_t count_at = kNone;  ///< presence, of a nullable field
    bool nullable() const { return flag_at != kNone || count_at != kNone; }
  };

  uint32_t Take(size_t bytes);
  Status AddCall(const arrow::Schema& input, const stream::AggregateCall& call, bool input_updates);
  Status AddSumOrAvg(const arrow::DataType& type, const stream::AggregateCall& planned, Call* call,
                     bool input_updates);
  Status AddMinOrMax(const arrow::Field& field, const stream::AggregateCall& planned, Call* call,
                     bool input_updates);
  void SaveCount(const std::string& name, uint32_t at);
  std::string UniqueName(const std::string& name);
  AggregateResult Evaluate(const Call& call, const char* cell, const std::string* texts) const;
  Status AccumulateCall(const Call& call, const arrow::ArrayData& column, const GroupedRows& rows,
                        char* cells, std::string_view* partial_texts) const;
  Status AccumulateSum(const Call& call, const arrow::ArrayData& column, const GroupedRows& rows,
                       char* cells) const;
  void AccumulateExtreme(const Call& call, const arrow::ArrayData& column, const GroupedRows& rows,
                         char* cells, std::string_view* partial_texts) const;
  Status MergeCall(const Call& call, const char* partial, const std::string_view* partial_texts,
                   char* cell, std::string* texts) const;
  Status LoadField(const SavedField& field, base::ByteReader* reader, char* cell,
                   std::string* texts) const;
  template <class T>
  Result<std::shared_ptr<arrow::Array>> FixedColumn(
      const Call& call, std::span<const char* const> cells,
      std::span<const std::string* const> texts) const;
  Result<std::shared_ptr<arrow::Array>> TextColumn(const Call& call,
                                                   std::span<const char* const> cells,
                                                   std::span<const std::string* const> texts) const;

  std::vector<Call> calls_;
  std::vector<SavedField> saved_fields_;
  std::vector<base::ColumnSpec> saved_columns_;
  std::vector<std::string> names_;  // taken by key and value columns
  uint32_t row_count_at_ = kNone;
  size_t used_bytes_ = 0;
  size_t cell_bytes_ = 8;
  size_t texts_ = 0;
  bool plain_count_ = false;
};

}  // namespace cairn::operators
