// SPDX-License-Identifier: Apache-2.0
//
// Decoding rows: a row is taken apart whole before any of it is used, so that a malformed one
// leaves no trace.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_decimal.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/builder_time.h>
#include <arrow/memory_pool.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <fmt/format.h>

#include "base/coding.h"
#include "format/arrow_status.h"
#include "format/row_codec.h"
#include "format/utf8.h"

namespace cairn::format {
namespace {

Status Malformed(const ColumnSpec& column, std::string_view what) {
  return Status::Corruption(fmt::format("row does not decode: column '{}' ({}{}) {}", column.name,
                                        column.type, column.nullable ? "" : " not null", what));
}

}  // namespace

Status RowCodec::Split(std::string_view row, std::span<RowField> fields) const {
  const char* at = row.data();
  size_t left = row.size();
  for (size_t c = 0; c < columns_.size(); ++c) {
    RowField& field = fields[c];
    field = RowField();
    if (columns_[c].nullable) {
      if (left < 1) return Malformed(columns_[c], "has no null flag: the row ends early");
      const char flag = *at++;
      --left;
      if (flag != 0 && flag != 1)
        return Malformed(columns_[c], "has a null flag other than 0 and 1");
      field.null = flag == 0;
      if (field.null) continue;
    }
    size_t width = shapes_[c].width();
    if (width == 0) {
      if (left < sizeof(uint32_t))
        return Malformed(columns_[c], "has no length: the row ends early");
      width = base::LoadLE<uint32_t>(at);
      at += sizeof(uint32_t);
      left -= sizeof(uint32_t);
    }
    if (left < width) return Malformed(columns_[c], "is longer than what is left of the row");
    field.bytes = {at, width};
    at += width;
    left -= width;
    if (shapes_[c].type == ColumnType::kBoolean && (field.bytes[0] & ~1) != 0) {
      return Malformed(columns_[c], "is neither 0 nor 1");
    }
  }
  if (left != 0) {
    return Status::Corruption(fmt::format(
        "row does not decode: {} bytes are left after its {} columns", left, columns_.size()));
  }
  return Status();
}

namespace {

template <class Builder, class Value>
arrow::Status AppendFixed(arrow::ArrayBuilder* builder, std::string_view bytes) {
  return static_cast<Builder*>(builder)->Append(base::LoadLE<Value>(bytes.data()));
}

arrow::Status AppendField(ColumnType type, const RowField& field, arrow::ArrayBuilder* builder) {
  if (field.null) return builder->AppendNull();
  switch (type) {
    case ColumnType::kBigint:
      return AppendFixed<arrow::Int64Builder, int64_t>(builder, field.bytes);
    case ColumnType::kInteger:
      return AppendFixed<arrow::Int32Builder, int32_t>(builder, field.bytes);
    case ColumnType::kDouble:
      return AppendFixed<arrow::DoubleBuilder, double>(builder, field.bytes);
    case ColumnType::kBoolean:
      return static_cast<arrow::BooleanBuilder*>(builder)->Append(field.bytes[0] != 0);
    case ColumnType::kTimestamp:
      return AppendFixed<arrow::TimestampBuilder, int64_t>(builder, field.bytes);
    case ColumnType::kDate:
      return AppendFixed<arrow::Date32Builder, int32_t>(builder, field.bytes);
    case ColumnType::kDecimal:
      return static_cast<arrow::Decimal128Builder*>(builder)->Append(
          arrow::Decimal128(reinterpret_cast<const uint8_t*>(field.bytes.data())));
    case ColumnType::kText:
      return static_cast<arrow::StringBuilder*>(builder)->Append(field.bytes);
    case ColumnType::kBytes:
      return static_cast<arrow::BinaryBuilder*>(builder)->Append(field.bytes);
  }
  return arrow::Status::UnknownError("column type");
}

/// Most bytes of text in one Arrow column; one row is at most a u32 long, so the sum cannot
/// overflow.
constexpr int64_t kColumnTextMax = arrow::kBinaryMemoryLimit;

}  // namespace

RowDecoder::RowDecoder() = default;
RowDecoder::RowDecoder(RowDecoder&&) noexcept = default;
RowDecoder& RowDecoder::operator=(RowDecoder&&) noexcept = default;
RowDecoder::~RowDecoder() = default;

Result<RowDecoder> RowDecoder::Make(const RowCodec& codec) {
  RowDecoder decoder;
  decoder.codec_ = &codec;
  decoder.fields_.resize(codec.columns().size());
  for (const ColumnSpec& column : codec.columns()) {
    CAIRN_ASSIGN_OR_RETURN(auto type, ArrowTypeOf(column));
    std::unique_ptr<arrow::ArrayBuilder> builder;
    CAIRN_RETURN_IF_ERROR(
        FromArrow(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder)));
    decoder.builders_.push_back(std::move(builder));
  }
  return decoder;
}

Status RowDecoder::Append(std::string_view row) {
  CAIRN_RETURN_IF_ERROR(codec_->Split(row, fields_));
  for (size_t c = 0; c < fields_.size(); ++c) {
    const ColumnShape& shape = codec_->shapes()[c];
    if (shape.type == ColumnType::kText && !IsUtf8(fields_[c].bytes)) {
      return Malformed(codec_->columns()[c], "is not UTF-8");
    }
    if (shape.type == ColumnType::kDecimal && !fields_[c].null &&
        !arrow::Decimal128(reinterpret_cast<const uint8_t*>(fields_[c].bytes.data()))
             .FitsInPrecision(shape.precision)) {
      return Malformed(codec_->columns()[c], "has more digits than its type");
    }
    if (shape.width() == 0 &&
        static_cast<arrow::BinaryBuilder*>(builders_[c].get())->value_data_length() +
                static_cast<int64_t>(fields_[c].bytes.size()) >
            kColumnTextMax) {
      return Status::ResourceExhausted(
          fmt::format("column '{}' is full after {} rows: finish it and begin another batch",
                      codec_->columns()[c].name, rows_));
    }
  }
  for (size_t c = 0; c < fields_.size(); ++c) {
    CAIRN_RETURN_IF_ERROR(
        FromArrow(AppendField(codec_->shapes()[c].type, fields_[c], builders_[c].get())));
  }
  ++rows_;
  return Status();
}

Status RowDecoder::AppendNulls() {
  for (auto& builder : builders_) CAIRN_RETURN_IF_ERROR(FromArrow(builder->AppendNull()));
  ++rows_;
  return Status();
}

Result<std::vector<std::shared_ptr<arrow::Array>>> RowDecoder::Finish() {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (auto& builder : builders_) {
    std::shared_ptr<arrow::Array> array;
    CAIRN_RETURN_IF_ERROR(FromArrow(builder->Finish(&array)));
    arrays.push_back(std::move(array));
  }
  rows_ = 0;
  return arrays;
}

}  // namespace cairn::format
