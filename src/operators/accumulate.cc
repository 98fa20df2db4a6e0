// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of AccumulatorLayout: rows into cells, and cells into cells. One loop a call and
// batch, so the choice of function and type is made outside of it.
#include <arrow/array/data.h>
#include <arrow/record_batch.h>

#include <cmath>
#include <cstring>

#include "operators/accumulators.h"

namespace cairn::operators {
namespace {

using stream::AggregateFunction;
using stream::RowKind;

template <class T>
void AddTo(char* cell, T amount) {
  base::StoreLE<T>(cell, base::LoadLE<T>(cell) + amount);
}

/// Call fn(row, group, sign) for every row; the shape of the batch is decided once.
template <class Fn>
void ForEachRow(const GroupedRows& rows, Fn fn) {
  if (rows.kinds != nullptr) {
    for (size_t i = 0; i < rows.count; ++i) {
      const uint32_t row = rows.selection ? rows.selection[i] : static_cast<uint32_t>(i);
      const RowKind kind = rows.kinds[row];
      const bool adds = kind == RowKind::kInsert || kind == RowKind::kUpdateAfter;
      fn(row, rows.group_of[i], adds ? 1 : -1);
    }
  } else if (rows.selection != nullptr) {
    for (size_t i = 0; i < rows.count; ++i) fn(rows.selection[i], rows.group_of[i], 1);
  } else {
    for (size_t i = 0; i < rows.count; ++i) fn(static_cast<uint32_t>(i), rows.group_of[i], 1);
  }
}

/// ForEachRow over the rows whose value in `column` is not null.
template <class Fn>
void ForEachValue(const arrow::ArrayData& column, const GroupedRows& rows, Fn fn) {
  if (column.GetNullCount() == 0) {
    ForEachRow(rows, fn);
    return;
  }
  const uint8_t* validity = column.buffers[0]->data();
  const int64_t offset = column.offset;
  ForEachRow(rows, [&](uint32_t row, uint32_t group, int sign) {
    const int64_t at = row + offset;
    if (((validity[at >> 3] >> (at & 7)) & 1) != 0) fn(row, group, sign);
  });
}

std::string_view TextAt(const arrow::ArrayData& column, const int32_t* offsets, uint32_t row) {
  return {reinterpret_cast<const char*>(column.buffers[2] ? column.buffers[2]->data() : nullptr) +
              offsets[row],
          static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

/// Order of SQL: NaN is the greatest DOUBLE.
template <class T>
bool Before(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) return a < b || (!std::isnan(a) && std::isnan(b));
  return a < b;
}

/// Keep the better of the cell's value and `value`.
template <class T>
void KeepBetter(T value, bool smallest, char* cell, uint32_t value_at, uint32_t flag_at) {
  const T held = base::LoadLE<T>(cell + value_at);
  if (cell[flag_at] != 0 && !(smallest ? Before(value, held) : Before(held, value))) return;
  base::StoreLE<T>(cell + value_at, value);
  cell[flag_at] = 1;
}

/// Add `amount` to the Int128 of a cell; false when it leaves 128 bits.
bool AddWide(char* cell, Int128 amount) {
  Int128 sum;
  if (__builtin_add_overflow(base::LoadLE<Int128>(cell), amount, &sum)) return false;
  base::StoreLE<Int128>(cell, sum);
  return true;
}

Status SumTooLarge(const std::string& label) {
  return Status::InvalidArgument(label + " of a group needs more than 38 digits");
}

}  // namespace

Status AccumulatorLayout::Accumulate(const arrow::RecordBatch& batch, const GroupedRows& rows,
                                     char* cells, std::string_view* partial_texts) const {
  const size_t stride = cell_bytes_;
  bool rows_counted = false;
  for (const Call& call : calls_) {
    if (call.function == AggregateFunction::kCountStar) {
      rows_counted |= call.count_at == row_count_at_;
      ForEachRow(rows, [cell = cells + call.count_at, stride](uint32_t, uint32_t group, int sign) {
        AddTo<int64_t>(cell + group * stride, sign);
      });
      continue;
    }
    CAIRN_RETURN_IF_ERROR(
        AccumulateCall(call, *batch.column_data(call.column), rows, cells, partial_texts));
  }
  if (counts_rows() && !rows_counted) {
    ForEachRow(rows, [cell = cells + row_count_at_, stride](uint32_t, uint32_t group, int sign) {
      AddTo<int64_t>(cell + group * stride, sign);
    });
  }
  return {};
}

Status AccumulatorLayout::AccumulateCall(const Call& call, const arrow::ArrayData& column,
                                         const GroupedRows& rows, char* cells,
                                         std::string_view* partial_texts) const {
  const size_t stride = cell_bytes_;
  switch (call.function) {
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      AccumulateExtreme(call, column, rows, cells, partial_texts);
      return {};
    default:
      break;
  }
  if (call.count_at != kNone) {
    ForEachValue(column, rows,
                 [cell = cells + call.count_at, stride](uint32_t, uint32_t group, int sign) {
                   AddTo<int64_t>(cell + group * stride, sign);
                 });
  }
  if (call.function == AggregateFunction::kCount) return {};
  if (call.flag_at != kNone) {
    ForEachValue(column, rows,
                 [cell = cells + call.flag_at, stride](uint32_t, uint32_t group, int) {
                   cell[group * stride] = 1;
                 });
  }
  return AccumulateSum(call, column, rows, cells);
}

Status AccumulatorLayout::AccumulateSum(const Call& call, const arrow::ArrayData& column,
                                        const GroupedRows& rows, char* cells) const {
  const size_t stride = cell_bytes_;
  char* sum = cells + call.value_at;
  const auto add = [&]<class Sum>(Sum, auto value_at) {
    ForEachValue(column, rows, [=](uint32_t row, uint32_t group, int sign) {
      AddTo<Sum>(sum + group * stride, Sum{value_at(row)} * sign);
    });
  };
  switch (call.input) {
    case Number::kInt32:
      add(Int128{}, [values = column.GetValues<int32_t>(1)](uint32_t row) { return values[row]; });
      return {};
    case Number::kInt64:
      add(Int128{}, [values = column.GetValues<int64_t>(1)](uint32_t row) { return values[row]; });
      return {};
    case Number::kDouble:
      add(double{}, [values = column.GetValues<double>(1)](uint32_t row) { return values[row]; });
      return {};
    case Number::kDecimal: {
      bool fits = true;
      const char* values = column.GetValues<char>(1, column.offset * 16);
      ForEachValue(column, rows, [=, &fits](uint32_t row, uint32_t group, int sign) {
        const Int128 value = base::LoadLE<Int128>(values + size_t{row} * 16);
        fits &= AddWide(sum + group * stride, value * sign);
      });
      return fits ? Status() : SumTooLarge(call.label);
    }
    case Number::kText:
      break;
  }
  return Status::Internal(call.label + " over text");
}

void AccumulatorLayout::AccumulateExtreme(const Call& call, const arrow::ArrayData& column,
                                          const GroupedRows& rows, char* cells,
                                          std::string_view* partial_texts) const {
  const size_t stride = cell_bytes_;
  const bool smallest = call.function == AggregateFunction::kMin;
  const auto keep = [&](auto value_at) {
    using T = decltype(value_at(0));
    ForEachValue(column, rows, [=, &call](uint32_t row, uint32_t group, int) {
      KeepBetter<T>(value_at(row), smallest, cells + group * stride, call.value_at, call.flag_at);
    });
  };
  switch (call.input) {
    case Number::kInt32:
      keep([values = column.GetValues<int32_t>(1)](uint32_t row) { return values[row]; });
      return;
    case Number::kInt64:
      keep([values = column.GetValues<int64_t>(1)](uint32_t row) { return values[row]; });
      return;
    case Number::kDouble:
      keep([values = column.GetValues<double>(1)](uint32_t row) { return values[row]; });
      return;
    case Number::kDecimal:
      keep([values = column.GetValues<char>(1, column.offset * 16)](uint32_t row) {
        return base::LoadLE<Int128>(values + size_t{row} * 16);
      });
      return;
    case Number::kText: {
      const int32_t* offsets = column.GetValues<int32_t>(1);
      const size_t texts = texts_;
      ForEachValue(column, rows, [=, &call, &column](uint32_t row, uint32_t group, int) {
        const std::string_view value = TextAt(column, offsets, row);
        std::string_view& held = partial_texts[group * texts + call.text_at];
        char& flag = cells[group * stride + call.flag_at];
        if (flag == 0 || (smallest ? value < held : held < value)) held = value;
        flag = 1;
      });
      return;
    }
  }
}

Status AccumulatorLayout::Merge(const char* partial, const std::string_view* partial_texts,
                                char* cell, std::string* texts) const {
  if (plain_count_) {
    AddTo<int64_t>(cell, base::LoadLE<int64_t>(partial));
    return {};
  }
  bool rows_counted = false;
  for (const Call& call : calls_) {
    rows_counted |= call.count_at == row_count_at_;
    if (call.count_at != kNone) {
      AddTo<int64_t>(cell + call.count_at, base::LoadLE<int64_t>(partial + call.count_at));
    }
    CAIRN_RETURN_IF_ERROR(MergeCall(call, partial, partial_texts, cell, texts));
  }
  if (counts_rows() && !rows_counted) {
    AddTo<int64_t>(cell + row_count_at_, base::LoadLE<int64_t>(partial + row_count_at_));
  }
  return {};
}

Status AccumulatorLayout::MergeCall(const Call& call, const char* partial,
                                    const std::string_view* partial_texts, char* cell,
                                    std::string* texts) const {
  switch (call.function) {
    case AggregateFunction::kCountStar:
    case AggregateFunction::kCount:
      return {};
    case AggregateFunction::kSum:
    case AggregateFunction::kAvg:
      if (call.flag_at != kNone) cell[call.flag_at] |= partial[call.flag_at];
      if (call.input == Number::kDouble) {
        AddTo<double>(cell + call.value_at, base::LoadLE<double>(partial + call.value_at));
        return {};
      }
      return AddWide(cell + call.value_at, base::LoadLE<Int128>(partial + call.value_at))
                 ? Status()
                 : SumTooLarge(call.label);
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      break;
  }
  if (partial[call.flag_at] == 0) return {};
  const bool smallest = call.function == AggregateFunction::kMin;
  const auto keep = [&]<class T>(T value) {
    KeepBetter<T>(value, smallest, cell, call.value_at, call.flag_at);
  };
  const char* value = partial + call.value_at;
  switch (call.input) {
    case Number::kInt32:
      keep(base::LoadLE<int32_t>(value));
      break;
    case Number::kInt64:
      keep(base::LoadLE<int64_t>(value));
      break;
    case Number::kDouble:
      keep(base::LoadLE<double>(value));
      break;
    case Number::kDecimal:
      keep(base::LoadLE<Int128>(value));
      break;
    case Number::kText: {
      const std::string_view text = partial_texts[call.text_at];
      std::string& held = texts[call.text_at];
      if (cell[call.flag_at] == 0 || (smallest ? text < held : held < text)) held.assign(text);
      cell[call.flag_at] = 1;
      break;
    }
  }
  return {};
}

}  // namespace cairn::operators
