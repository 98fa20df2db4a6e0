// SPDX-License-Identifier: Apache-2.0
//
// Encoding rows.
//
// A batch is written column by column, so that a column's type is looked at once. Where all rows
// have one size (fixed-width columns without nulls in this batch: the usual key) positions are
// multiples and nothing else is kept; otherwise a first pass finds each row's size and a second
// writes at a cursor per row. FNV-1a is a serial chain of multiplies, so rows are hashed four at a
// time: the chains of four rows fill the multiplier, which one row leaves idle for three quarters
// of the time.
#include "format/row_codec.h"

#include <arrow/array.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/coding.h"
#include "cairn/hash.h"

namespace cairn::format {
namespace {

constexpr uint64_t kFnvBasis = 0xcbf29ce484222325ULL;
constexpr uint64_t kFnvPrime = 0x100000001b3ULL;

uint64_t KeyBits(double value) {
  if (std::isnan(value)) return 0x7ff8000000000000ULL;
  return std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
}

/// Copy a text, which is short more often than not: without a call up to 32 bytes.
inline void CopyText(const char* from, size_t length, char* to) {
  if (length > 32) {
    std::memcpy(to, from, length);
  } else if (length >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + length - 16, from + length - 16, 16);
  } else if (length >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + length - 8, from + length - 8, 8);
  } else if (length >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + length - 4, from + length - 4, 4);
  } else {
    for (size_t i = 0; i < length; ++i) to[i] = from[i];
  }
}

/// Where an Arrow array keeps the values of one column, its offset applied.
struct ColumnView {
  ColumnType type = ColumnType::kBytes;
  size_t width = 0;
  bool nullable = false;   // by the spec: rows carry a flag
  bool has_nulls = false;  // in this array
  bool normalise = false;  // doubles of keys
  const uint8_t* validity = nullptr;
  int64_t bit_offset = 0;
  const char* values = nullptr;  // fixed width; bits of a boolean
  const int32_t* offsets = nullptr;
  const char* text = nullptr;

  bool IsNull(int64_t row) const {
    return has_nulls && !arrow::bit_util::GetBit(validity, bit_offset + row);
  }
  size_t ValueBytes(int64_t row) const {
    return width != 0 ? width : sizeof(uint32_t) + static_cast<size_t>(Length(row));
  }
  uint32_t Length(int64_t row) const {
    return static_cast<uint32_t>(offsets[row + 1] - offsets[row]);
  }
  /// Write the value (not the flag) and return the byte after it.
  char* Write(int64_t row, char* out) const {
    if (width == 8 && normalise) {
      double value;
      std::memcpy(&value, values + row * 8, 8);
      base::StoreLE(out, KeyBits(value));
      return out + 8;
    }
    if (type == ColumnType::kBoolean) {
      *out = arrow::bit_util::GetBit(reinterpret_cast<const uint8_t*>(values), bit_offset + row);
      return out + 1;
    }
    if (width != 0) {
      std::memcpy(out, values + row * static_cast<int64_t>(width), width);
      return out + width;
    }
    return WriteText(row, out);
  }
  char* WriteText(int64_t row, char* out) const {
    const uint32_t length = Length(row);
    base::StoreLE(out, length);
    CopyText(text + offsets[row], length, out + sizeof(length));
    return out + sizeof(length) + length;
  }
};

arrow::Type::type ArrowIdOf(ColumnType type) {
  switch (type) {
    case ColumnType::kBigint:
      return arrow::Type::INT64;
    case ColumnType::kInteger:
      return arrow::Type::INT32;
    case ColumnType::kDouble:
      return arrow::Type::DOUBLE;
    case ColumnType::kBoolean:
      return arrow::Type::BOOL;
    case ColumnType::kTimestamp:
      return arrow::Type::TIMESTAMP;
    case ColumnType::kDate:
      return arrow::Type::DATE32;
    case ColumnType::kDecimal:
      return arrow::Type::DECIMAL128;
    case ColumnType::kText:
      return arrow::Type::STRING;
    case ColumnType::kBytes:
      return arrow::Type::BINARY;
  }
  return arrow::Type::NA;
}

bool TypeFits(const ColumnShape& shape, const arrow::DataType& type) {
  if (type.id() != ArrowIdOf(shape.type)) return false;
  if (shape.type == ColumnType::kTimestamp) {
    return static_cast<const arrow::TimestampType&>(type).unit() == arrow::TimeUnit::MICRO;
  }
  if (shape.type == ColumnType::kDecimal) {
    return static_cast<const arrow::Decimal128Type&>(type).scale() == shape.scale;
  }
  return true;
}

Result<ColumnView> ViewOf(const RowCodec& codec, size_t index, const arrow::Array& array) {
  const ColumnShape& shape = codec.shapes()[index];
  const ColumnSpec& spec = codec.columns()[index];
  if (!TypeFits(shape, *array.type())) {
    return Status::InvalidArgument(
        fmt::format("column '{}' is {} and cannot hold an Arrow {} array", spec.name, spec.type,
                    array.type()->ToString()));
  }
  const arrow::ArrayData& data = *array.data();
  ColumnView view;
  view.type = shape.type;
  view.width = shape.width();
  view.nullable = spec.nullable;
  view.has_nulls = array.null_count() > 0;
  view.normalise = codec.use() == RowUse::kKey && shape.type == ColumnType::kDouble;
  view.validity = data.buffers[0] ? data.buffers[0]->data() : nullptr;
  view.bit_offset = data.offset;
  const char* first = data.buffers[1] ? reinterpret_cast<const char*>(data.buffers[1]->data()) : "";
  if (view.width == 0) {
    static constexpr int32_t kNoOffsets[1] = {0};
    view.offsets = data.buffers[1] && data.buffers[1]->size() > 0
                       ? reinterpret_cast<const int32_t*>(first) + data.offset
                       : kNoOffsets;
    view.text = data.buffers[2] ? reinterpret_cast<const char*>(data.buffers[2]->data()) : "";
  } else if (view.type == ColumnType::kBoolean) {
    view.values = first;
  } else {
    view.values = first + data.offset * static_cast<int64_t>(view.width);
  }
  return view;
}

Status NullRefused(const ColumnSpec& spec, int64_t row) {
  return Status::InvalidArgument(
      fmt::format("column '{}' is NOT NULL, but row {} has a null in it", spec.name, row));
}

/// The rows to encode: all, or a selection.
struct RowSet {
  const uint32_t* selected = nullptr;
  size_t count = 0;
  size_t operator[](size_t k) const { return selected == nullptr ? k : selected[k]; }
};

template <size_t kWidth>
void WriteFixed(const ColumnView& column, RowSet rows, size_t row_bytes, char* out) {
  if (rows.selected == nullptr) {
    for (size_t k = 0; k < rows.count; ++k) {
      std::memcpy(out + k * row_bytes, column.values + k * kWidth, kWidth);
    }
    return;
  }
  for (size_t k = 0; k < rows.count; ++k) {
    std::memcpy(out + k * row_bytes, column.values + rows.selected[k] * kWidth, kWidth);
  }
}

/// Write a column without nulls into rows of equal size.
void WriteFixedColumn(const ColumnView& column, RowSet rows, size_t row_bytes, char* out) {
  if (column.nullable) {
    for (size_t k = 0; k < rows.count; ++k) out[k * row_bytes] = 1;
    ++out;
  }
  if (column.normalise || column.type == ColumnType::kBoolean) {
    for (size_t k = 0; k < rows.count; ++k) {
      column.Write(static_cast<int64_t>(rows[k]), out + k * row_bytes);
    }
    return;
  }
  switch (column.width) {
    case 4:
      return WriteFixed<4>(column, rows, row_bytes, out);
    case 8:
      return WriteFixed<8>(column, rows, row_bytes, out);
    default:
      return WriteFixed<16>(column, rows, row_bytes, out);
  }
}

/// Set offsets[0..array_rows] from the encoded rows' sizes: size(k) of rows[k], 0 of all others.
template <class Size>
void FillOffsets(RowSet rows, size_t array_rows, Size size, uint32_t* offsets) {
  uint32_t at = 0;
  size_t next = 0;
  for (size_t k = 0; k < rows.count; ++k) {
    const size_t row = rows[k];
    while (next <= row) offsets[next++] = at;
    at += size(k);
  }
  while (next <= array_rows) offsets[next++] = at;
}

/// FNV-1a of four byte strings at once.
void Hash4(const char* const* rows, const uint32_t* lengths, uint64_t* out) {
  uint64_t a = kFnvBasis, b = kFnvBasis, c = kFnvBasis, d = kFnvBasis;
  const uint32_t common =
      std::min(std::min(lengths[0], lengths[1]), std::min(lengths[2], lengths[3]));
  for (uint32_t i = 0; i < common; ++i) {
    a = (a ^ static_cast<uint8_t>(rows[0][i])) * kFnvPrime;
    b = (b ^ static_cast<uint8_t>(rows[1][i])) * kFnvPrime;
    c = (c ^ static_cast<uint8_t>(rows[2][i])) * kFnvPrime;
    d = (d ^ static_cast<uint8_t>(rows[3][i])) * kFnvPrime;
  }
  const uint64_t states[4] = {a, b, c, d};
  for (int r = 0; r < 4; ++r) {
    out[r] = Fnv1a64({rows[r] + common, lengths[r] - common}, states[r]);
  }
}

/// FNV-1a of rows of `row_bytes` each that lie back to back; kConstant = row_bytes, or 0.
template <size_t kConstant>
void HashPackedFixed(const char* data, size_t row_bytes, RowSet rows, uint64_t* hashes) {
  const size_t bytes = kConstant != 0 ? kConstant : row_bytes;
  size_t k = 0;
  for (; k + 4 <= rows.count; k += 4) {
    const auto* p = reinterpret_cast<const uint8_t*>(data) + k * bytes;
    uint64_t a = kFnvBasis, b = kFnvBasis, c = kFnvBasis, d = kFnvBasis;
    for (size_t i = 0; i < bytes; ++i) {
      a = (a ^ p[i]) * kFnvPrime;
      b = (b ^ p[bytes + i]) * kFnvPrime;
      c = (c ^ p[2 * bytes + i]) * kFnvPrime;
      d = (d ^ p[3 * bytes + i]) * kFnvPrime;
    }
    hashes[rows[k]] = a;
    hashes[rows[k + 1]] = b;
    hashes[rows[k + 2]] = c;
    hashes[rows[k + 3]] = d;
  }
  for (; k < rows.count; ++k) hashes[rows[k]] = Fnv1a64({data + k * bytes, bytes});
}

void HashRows(const char* data, const uint32_t* offsets, RowSet rows, uint64_t* hashes) {
  size_t k = 0;
  for (; k + 4 <= rows.count; k += 4) {
    const char* at[4];
    uint32_t lengths[4];
    uint64_t out[4];
    for (size_t r = 0; r < 4; ++r) {
      const size_t row = rows[k + r];
      at[r] = data + offsets[row];
      lengths[r] = offsets[row + 1] - offsets[row];
    }
    Hash4(at, lengths, out);
    for (size_t r = 0; r < 4; ++r) hashes[rows[k + r]] = out[r];
  }
  for (; k < rows.count; ++k) {
    const size_t row = rows[k];
    hashes[row] = Fnv1a64({data + offsets[row], offsets[row + 1] - offsets[row]});
  }
}

/// The buffers that Encode fills.
struct EncodeTarget {
  std::vector<uint32_t>* offsets;
  std::vector<char>* data;
  std::vector<uint64_t>* hashes;
};

Status TooManyBytes(uint64_t bytes) {
  return Status::InvalidArgument(fmt::format(
      "{} bytes of encoded rows in one batch: make batches smaller (at most 2 GiB)", bytes));
}

constexpr uint64_t kEncodedBytesMax = std::numeric_limits<int32_t>::max();

/// Encode rows that all take `row_bytes`.
Status EncodeFixed(std::span<const ColumnView> columns, RowSet rows, size_t array_rows,
                   size_t row_bytes, EncodeTarget target) {
  const uint64_t bytes = uint64_t{row_bytes} * rows.count;
  if (bytes > kEncodedBytesMax) return TooManyBytes(bytes);
  target.data->resize(bytes);
  char* out = target.data->data();
  for (const ColumnView& column : columns) {
    WriteFixedColumn(column, rows, row_bytes, out);
    out += column.width + (column.nullable ? 1 : 0);
  }
  uint32_t* offsets = target.offsets->data();
  if (rows.selected == nullptr) {
    for (size_t i = 0; i <= array_rows; ++i) offsets[i] = static_cast<uint32_t>(i * row_bytes);
  } else {
    FillOffsets(
        rows, array_rows, [&](size_t) { return static_cast<uint32_t>(row_bytes); }, offsets);
  }
  if (target.hashes == nullptr) return Status();
  const char* data = target.data->data();
  if (row_bytes == 8) {
    HashPackedFixed<8>(data, row_bytes, rows, target.hashes->data());
  } else if (row_bytes == 9) {
    HashPackedFixed<9>(data, row_bytes, rows, target.hashes->data());
  } else {
    HashPackedFixed<0>(data, row_bytes, rows, target.hashes->data());
  }
  return Status();
}

/// Add the sizes of a column's fields to the rows' sizes.
void AddSizes(const ColumnView& column, RowSet rows, std::vector<uint32_t>* sizes) {
  const uint32_t flag = column.nullable ? 1 : 0;
  uint32_t* out = sizes->data();
  if (column.width != 0 && !column.has_nulls) {
    const uint32_t size = flag + static_cast<uint32_t>(column.width);
    for (size_t k = 0; k < rows.count; ++k) out[k] += size;
    return;
  }
  for (size_t k = 0; k < rows.count; ++k) {
    const auto row = static_cast<int64_t>(rows[k]);
    out[k] += flag + (column.IsNull(row) ? 0 : static_cast<uint32_t>(column.ValueBytes(row)));
  }
}

/// Write a column's fields at the rows' cursors and move these on.
template <bool kText>
void WriteAtCursors(const ColumnView& column, RowSet rows, char* data, uint32_t* cursor) {
  for (size_t k = 0; k < rows.count; ++k) {
    const auto row = static_cast<int64_t>(rows[k]);
    char* out = data + cursor[k];
    const bool null = column.IsNull(row);
    if (column.nullable) *out++ = null ? 0 : 1;
    if (!null) out = kText ? column.WriteText(row, out) : column.Write(row, out);
    cursor[k] = static_cast<uint32_t>(out - data);
  }
}

/// Encode rows of varying size.
Status EncodeVarying(std::span<const ColumnView> columns, RowSet rows, size_t array_rows,
                     EncodeTarget target) {
  std::vector<uint32_t> cursor(rows.count, 0);
  for (const ColumnView& column : columns) AddSizes(column, rows, &cursor);
  uint64_t bytes = 0;
  for (const uint32_t size : cursor) bytes += size;
  if (bytes > kEncodedBytesMax) return TooManyBytes(bytes);
  uint32_t* offsets = target.offsets->data();
  FillOffsets(rows, array_rows, [&](size_t k) { return cursor[k]; }, offsets);
  for (size_t k = 0; k < rows.count; ++k) cursor[k] = offsets[rows[k]];
  target.data->resize(bytes);
  char* data = target.data->data();
  for (const ColumnView& column : columns) {
    if (column.width == 0) {
      WriteAtCursors<true>(column, rows, data, cursor.data());
    } else {
      WriteAtCursors<false>(column, rows, data, cursor.data());
    }
  }
  if (target.hashes != nullptr) HashRows(data, offsets, rows, target.hashes->data());
  return Status();
}

Status RefuseNulls(const RowCodec& codec, std::span<const ColumnView> columns, RowSet rows) {
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].nullable || !columns[c].has_nulls) continue;
    for (size_t k = 0; k < rows.count; ++k) {
      const auto row = static_cast<int64_t>(rows[k]);
      if (columns[c].IsNull(row)) return NullRefused(codec.columns()[c], row);
    }
  }
  return Status();
}

Result<std::vector<ColumnView>> ViewsOf(const RowCodec& codec,
                                        std::span<const std::shared_ptr<arrow::Array>> arrays) {
  if (arrays.size() != codec.columns().size()) {
    return Status::InvalidArgument(fmt::format("{} arrays given for rows of {} columns",
                                               arrays.size(), codec.columns().size()));
  }
  std::vector<ColumnView> views;
  views.reserve(arrays.size());
  for (size_t c = 0; c < arrays.size(); ++c) {
    if (arrays[c]->length() != arrays[0]->length()) {
      return Status::InvalidArgument(fmt::format("column '{}' has {} rows, the first column {}",
                                                 codec.columns()[c].name, arrays[c]->length(),
                                                 arrays[0]->length()));
    }
    CAIRN_ASSIGN_OR_RETURN(ColumnView view, ViewOf(codec, c, *arrays[c]));
    views.push_back(view);
  }
  return views;
}

}  // namespace

Result<RowCodec> RowCodec::Make(std::vector<ColumnSpec> columns, RowUse use) {
  RowCodec codec;
  codec.use_ = use;
  bool fixed = !columns.empty();
  size_t row_bytes = 0;
  for (const ColumnSpec& column : columns) {
    auto shape = ParseColumnType(column.type);
    if (!shape.ok()) return shape.status().WithContext(fmt::format("column '{}'", column.name));
    fixed = fixed && !column.nullable && shape->width() != 0;
    row_bytes += shape->width();
    codec.shapes_.push_back(*shape);
  }
  codec.columns_ = std::move(columns);
  codec.fixed_row_bytes_ = fixed ? row_bytes : 0;
  return codec;
}

Status RowCodec::Encode(std::span<const std::shared_ptr<arrow::Array>> arrays,
                        const std::vector<uint32_t>* selection, std::vector<uint32_t>* offsets,
                        std::vector<char>* data, std::vector<uint64_t>* hashes) const {
  if (arrays.empty()) return Status::InvalidArgument("a row needs one column at least");
  CAIRN_ASSIGN_OR_RETURN(std::vector<ColumnView> columns, ViewsOf(*this, arrays));
  const auto array_rows = static_cast<size_t>(arrays[0]->length());
  RowSet rows{nullptr, array_rows};
  if (selection != nullptr) rows = {selection->data(), selection->size()};
  CAIRN_RETURN_IF_ERROR(RefuseNulls(*this, columns, rows));
  offsets->resize(array_rows + 1);
  if (hashes != nullptr) {
    if (selection != nullptr) {
      hashes->assign(array_rows, 0);
    } else {
      hashes->resize(array_rows);
    }
  }
  if (rows.count == 0) {
    std::fill(offsets->begin(), offsets->end(), 0);
    data->clear();
    return Status();
  }
  bool fixed = true;
  size_t row_bytes = 0;
  for (const ColumnView& column : columns) {
    fixed = fixed && column.width != 0 && !column.has_nulls;
    row_bytes += column.width + (column.nullable ? 1 : 0);
  }
  const EncodeTarget target{offsets, data, hashes};
  return fixed ? EncodeFixed(columns, rows, array_rows, row_bytes, target)
               : EncodeVarying(columns, rows, array_rows, target);
}

struct RowEncoder::Column : ColumnView {};

RowEncoder::RowEncoder() = default;
RowEncoder::RowEncoder(RowEncoder&&) noexcept = default;
RowEncoder& RowEncoder::operator=(RowEncoder&&) noexcept = default;
RowEncoder::~RowEncoder() = default;

Result<RowEncoder> RowEncoder::Bind(const RowCodec& codec,
                                    std::vector<std::shared_ptr<arrow::Array>> arrays) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<ColumnView> views, ViewsOf(codec, arrays));
  RowEncoder encoder;
  encoder.codec_ = &codec;
  encoder.arrays_ = std::move(arrays);
  for (const ColumnView& view : views) encoder.columns_.push_back(Column{view});
  return encoder;
}

Status RowEncoder::Append(int64_t row, std::string* out) const {
  size_t bytes = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const bool null = columns_[c].IsNull(row);
    if (null && !columns_[c].nullable) return NullRefused(codec_->columns()[c], row);
    bytes += (columns_[c].nullable ? 1 : 0) + (null ? 0 : columns_[c].ValueBytes(row));
  }
  const size_t before = out->size();
  out->resize(before + bytes);
  char* at = out->data() + before;
  for (const Column& column : columns_) {
    const bool null = column.IsNull(row);
    if (column.nullable) *at++ = null ? 0 : 1;
    if (!null) at = column.Write(row, at);
  }
  return Status();
}

}  // namespace cairn::format
