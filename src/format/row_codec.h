// SPDX-License-Identifier: Apache-2.0
//
// The row codec: columns of a row as one byte string. User keys, accumulator rows and Top-N
// payloads are all written with it.
//
//   row    = field of column 0, of column 1, ...
//   field  = [flag: 0 null | 1 value]   only of a nullable column; a null has no more bytes
//            value
//   value  = little-endian fixed width, or u32 LE length and that many bytes (text, bytes)
//
// So a row of one BIGINT NOT NULL column is exactly its 8 bytes. Rows are equal exactly when their
// bytes are; their byte order means nothing.
//
// Threads: codecs are immutable; an encoder or decoder belongs to one thread.
// Format:  docs/formats/row-codec.md.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/column_spec.h"
#include "cairn/status.h"

namespace cairn::format {

using base::ColumnSpec;

enum class ColumnType : uint8_t {
  kBigint,     ///< int64
  kInteger,    ///< int32
  kDouble,     ///< float64
  kBoolean,    ///< one byte 0 or 1
  kTimestamp,  ///< int64 microseconds since the epoch
  kDate,       ///< int32 days since the epoch
  kDecimal,    ///< 16 bytes two's complement
  kText,       ///< u32 length, UTF-8
  kBytes,      ///< u32 length, any bytes
};

/// A ColumnSpec.type understood.
struct ColumnShape {
  ColumnType type = ColumnType::kBytes;
  int32_t precision = 0;  ///< decimal only
  int32_t scale = 0;      ///< decimal only
  /// Bytes of a value; 0 = length-prefixed.
  size_t width() const;
};

/// Errors:   kInvalidArgument for an unknown type name, which it lists.
Result<ColumnShape> ParseColumnType(std::string_view type);

/// The Arrow type that holds a column's values, and the column type of an Arrow type.
///
/// Errors:   kInvalidArgument for a type the other side does not have.
Result<std::shared_ptr<arrow::DataType>> ArrowTypeOf(const ColumnSpec& column);
Result<std::string> ColumnTypeOf(const arrow::DataType& type);

/// Describe fields of a schema as columns; `fields` empty = all of them, in order. A name that was
/// there before gets "_2", "_3", ...: columns of a slot are told apart by name.
Result<std::vector<ColumnSpec>> ColumnSpecsOf(const arrow::Schema& schema,
                                              std::span<const int> fields = {});
/// The Arrow schema of columns.
Result<std::shared_ptr<arrow::Schema>> ArrowSchemaOf(std::span<const ColumnSpec> columns);

/// One field of an encoded row. `bytes` excludes flag and length.
struct RowField {
  bool null = false;
  std::string_view bytes;
};

/// What the rows are used for.
enum class RowUse : uint8_t {
  kValue,  ///< keep every bit
  kKey,    ///< make equal values equal bytes: -0.0 becomes 0.0, every NaN the same NaN
};

/// The layout of rows of fixed columns.
class RowCodec {
 public:
  RowCodec() = default;

  /// Errors:   kInvalidArgument for an unknown column type.
  static Result<RowCodec> Make(std::vector<ColumnSpec> columns, RowUse use = RowUse::kValue);

  const std::vector<ColumnSpec>& columns() const { return columns_; }
  const std::vector<ColumnShape>& shapes() const { return shapes_; }
  RowUse use() const { return use_; }
  /// Bytes of every row when they do not vary, else 0.
  size_t fixed_row_bytes() const { return fixed_row_bytes_; }

  /// Encode rows of `arrays` (one a column, of equal length and of the columns' Arrow types).
  ///
  /// Shape:    offsets gets length+1 entries, hashes length (FNV-1a 64 of each row's bytes) unless
  ///           it is null; both index by array row. `selection` ascends; null = all rows. A row
  ///           that is not selected has no bytes and hash 0. Earlier content is replaced.
  /// Errors:   kInvalidArgument for a null in a NOT NULL column, an array of another type or
  /// length,
  ///           or more than 2 GiB of rows; names the column.
  /// Cost:     one BIGINT NOT NULL column about 5 ns a row, hash included; one short text about 10.
  Status Encode(std::span<const std::shared_ptr<arrow::Array>> arrays,
                const std::vector<uint32_t>* selection, std::vector<uint32_t>* offsets,
                std::vector<char>* data, std::vector<uint64_t>* hashes) const;

  /// Take a row apart.
  ///
  /// Shape:    fields.size() == columns().size(); the views point into `row`.
  /// Errors:   kCorruption when a flag is neither 0 nor 1, a boolean neither 0 nor 1, text is not
  ///           UTF-8, the row ends early or bytes are left over; names the column.
  Status Split(std::string_view row, std::span<RowField> fields) const;

 private:
  std::vector<ColumnSpec> columns_;
  std::vector<ColumnShape> shapes_;
  RowUse use_ = RowUse::kValue;
  size_t fixed_row_bytes_ = 0;
};

/// Append rows of bound arrays one at a time: for operators that pick rows as they go.
///
/// Threads:  one. Holds the arrays it was bound to.
class RowEncoder {
 public:
  /// Errors:   as RowCodec::Encode, but nulls are found by Append.
  static Result<RowEncoder> Bind(const RowCodec& codec,
                                 std::vector<std::shared_ptr<arrow::Array>> arrays);
  RowEncoder(RowEncoder&&) noexcept;
  RowEncoder& operator=(RowEncoder&&) noexcept;
  ~RowEncoder();

  /// Append the bytes of one row to `out`.
  ///
  /// Errors:   kInvalidArgument for a null in a NOT NULL column; `out` is unchanged then.
  Status Append(int64_t row, std::string* out) const;

 private:
  struct Column;
  RowEncoder();
  const RowCodec* codec_ = nullptr;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;
  std::vector<Column> columns_;
};

/// Collect encoded rows into typed Arrow columns.
///
/// Threads:  one.
class RowDecoder {
 public:
  /// `codec` must outlive the decoder.
  static Result<RowDecoder> Make(const RowCodec& codec);
  RowDecoder(RowDecoder&&) noexcept;
  RowDecoder& operator=(RowDecoder&&) noexcept;
  ~RowDecoder();

  /// Append one row to every column. A row that is refused leaves all columns as they were.
  ///
  /// Errors:   kCorruption as RowCodec::Split; kResourceExhausted past Arrow's 2 GiB a column.
  Status Append(std::string_view row);
  /// Append a null to every column, nullable or not (the missing side of an outer join).
  Status AppendNulls();

  int64_t rows() const { return rows_; }

  /// Return the columns so far and start anew.
  Result<std::vector<std::shared_ptr<arrow::Array>>> Finish();

 private:
  RowDecoder();
  const RowCodec* codec_ = nullptr;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
  std::vector<RowField> fields_;
  int64_t rows_ = 0;
};

/// Write the fields of a row by hand, in column order: accumulators, counters.
inline void AppendNullField(std::string* out) { out->push_back('\0'); }
template <class T>
void AppendFixedField(T value, bool nullable, std::string* out) {
  if (nullable) out->push_back('\1');
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}
inline void AppendBytesField(std::string_view value, bool nullable, std::string* out) {
  AppendFixedField(static_cast<uint32_t>(value.size()), nullable, out);
  out->append(value);
}

}  // namespace cairn::format
