// SPDX-License-Identifier: Apache-2.0
#include "connectors/column_builder.h"

#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/memory_pool.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include "connectors/arrow_status.h"

namespace cairn::connectors {
namespace {

constexpr int64_t kTextSlack = 64;  ///< SetText copies 32 bytes at a time

Result<std::shared_ptr<arrow::ResizableBuffer>> Allocate(int64_t bytes) {
  auto buffer = arrow::AllocateResizableBuffer(bytes);
  if (!buffer.ok()) return FromArrow(buffer.status(), "decoding rows");
  return std::shared_ptr<arrow::ResizableBuffer>(std::move(*buffer));
}

Status ShrinkTo(arrow::ResizableBuffer* buffer, int64_t bytes) {
  // Give the pages back only where most of them are unused: text is reserved for the worst case.
  const bool fit = buffer->capacity() > 4 * bytes + 4096;
  return FromArrow(buffer->Resize(bytes, fit), "decoding rows");
}

}  // namespace

Result<ColumnKind> ColumnKindOf(const arrow::Field& field) {
  switch (field.type()->id()) {
    case arrow::Type::INT64:
      return ColumnKind::kBigint;
    case arrow::Type::INT32:
      return ColumnKind::kInteger;
    case arrow::Type::DOUBLE:
      return ColumnKind::kDouble;
    case arrow::Type::STRING:
      return ColumnKind::kText;
    case arrow::Type::BOOL:
      return ColumnKind::kBoolean;
    case arrow::Type::DATE32:
      return ColumnKind::kDate;
    case arrow::Type::DECIMAL128:
      return ColumnKind::kDecimal;
    case arrow::Type::TIMESTAMP:
      if (static_cast<const arrow::TimestampType&>(*field.type()).unit() ==
          arrow::TimeUnit::MICRO) {
        return ColumnKind::kTimestamp;
      }
      break;
    default:
      break;
  }
  return Status::InvalidArgument("column " + field.name() + " has type " +
                                 field.type()->ToString() +
                                 ", which files cannot hold: use BIGINT, INTEGER, DOUBLE, TEXT, "
                                 "BOOLEAN, TIMESTAMP, DATE or DECIMAL(p,s)");
}

Result<ColumnBuilder> ColumnBuilder::Make(std::shared_ptr<arrow::Field> field) {
  ColumnBuilder builder;
  CAIRN_ASSIGN_OR_RETURN(builder.kind_, ColumnKindOf(*field));
  switch (builder.kind_) {
    case ColumnKind::kText:
    case ColumnKind::kBoolean:
      break;
    case ColumnKind::kInteger:
    case ColumnKind::kDate:
      builder.width_ = 4;
      break;
    case ColumnKind::kDecimal: {
      const auto& type = static_cast<const arrow::Decimal128Type&>(*field->type());
      builder.precision_ = type.precision();
      builder.scale_ = type.scale();
      builder.width_ = 16;
      break;
    }
    default:
      builder.width_ = 8;
  }
  builder.field_ = std::move(field);
  return builder;
}

Status ColumnBuilder::Begin(int64_t rows, int64_t text_bytes) {
  capacity_ = rows;
  validity_buffer_ = nullptr;
  validity_ = nullptr;
  if (kind_ == ColumnKind::kText) {
    CAIRN_ASSIGN_OR_RETURN(offsets_buffer_, Allocate((rows + 1) * 4));
    CAIRN_ASSIGN_OR_RETURN(values_buffer_, Allocate(text_bytes + kTextSlack));
    offsets_ = reinterpret_cast<int32_t*>(offsets_buffer_->mutable_data());
    text_ = reinterpret_cast<char*>(values_buffer_->mutable_data());
    offsets_[0] = 0;
    return {};
  }
  const int64_t bytes = kind_ == ColumnKind::kBoolean ? (rows + 7) / 8 : rows * width_;
  CAIRN_ASSIGN_OR_RETURN(values_buffer_, Allocate(bytes));
  values_ = values_buffer_->mutable_data();
  if (kind_ == ColumnKind::kBoolean) std::memset(values_, 0, static_cast<size_t>(bytes));
  return {};
}

void ColumnBuilder::SetNull(int64_t row) {
  if (validity_ == nullptr) {
    auto buffer = Allocate((capacity_ + 7) / 8);
    if (!buffer.ok()) throw std::bad_alloc();  // caught where the reader's Next begins
    validity_buffer_ = *std::move(buffer);
    validity_ = validity_buffer_->mutable_data();
    std::memset(validity_, 0xFF, static_cast<size_t>(validity_buffer_->size()));
  }
  validity_[row >> 3] &= static_cast<uint8_t>(~(1u << (row & 7)));
  if (kind_ == ColumnKind::kText) {
    offsets_[row + 1] = offsets_[row];
  } else if (kind_ == ColumnKind::kBoolean) {
    values_[row >> 3] &= static_cast<uint8_t>(~(1u << (row & 7)));
  } else {
    std::memset(values_ + row * width_, 0, static_cast<size_t>(width_));
  }
}

TextError ColumnBuilder::SetFromText(int64_t row, std::string_view text) {
  TextError error = nullptr;
  switch (kind_) {
    case ColumnKind::kBigint: {
      int64_t value;
      if ((error = ParseInt64(text, &value)) == nullptr) SetInt64(row, value);
      return error;
    }
    case ColumnKind::kInteger: {
      int32_t value;
      if ((error = ParseInt32(text, &value)) == nullptr) SetInt32(row, value);
      return error;
    }
    case ColumnKind::kDouble: {
      double value;
      if ((error = ParseDouble(text, &value)) == nullptr) SetDouble(row, value);
      return error;
    }
    case ColumnKind::kBoolean: {
      bool value;
      if ((error = ParseBool(text, &value)) == nullptr) SetBool(row, value);
      return error;
    }
    case ColumnKind::kTimestamp: {
      int64_t value;
      if ((error = ParseTimestamp(text, &date_cache_, &value)) == nullptr) SetInt64(row, value);
      return error;
    }
    case ColumnKind::kDate: {
      int32_t value;
      if ((error = ParseDate(text, &value)) == nullptr) SetInt32(row, value);
      return error;
    }
    case ColumnKind::kDecimal: {
      uint8_t value[16];
      if ((error = ParseDecimal(text, precision_, scale_, value)) == nullptr) {
        SetDecimal(row, value);
      }
      return error;
    }
    case ColumnKind::kText:
      SetText(row, text);
      return nullptr;
  }
  return "has a type that no reader knows";
}

Result<std::shared_ptr<arrow::Array>> ColumnBuilder::Finish(int64_t rows) {
  if (validity_buffer_ != nullptr) {
    CAIRN_RETURN_IF_ERROR(ShrinkTo(validity_buffer_.get(), (rows + 7) / 8));
  }
  std::vector<std::shared_ptr<arrow::Buffer>> buffers{validity_buffer_};
  if (kind_ == ColumnKind::kText) {
    CAIRN_RETURN_IF_ERROR(ShrinkTo(values_buffer_.get(), offsets_[rows]));
    CAIRN_RETURN_IF_ERROR(ShrinkTo(offsets_buffer_.get(), (rows + 1) * 4));
    buffers.push_back(std::move(offsets_buffer_));
  } else {
    const int64_t bytes = kind_ == ColumnKind::kBoolean ? (rows + 7) / 8 : rows * width_;
    CAIRN_RETURN_IF_ERROR(ShrinkTo(values_buffer_.get(), bytes));
  }
  buffers.push_back(std::move(values_buffer_));
  const int64_t nulls = validity_buffer_ == nullptr ? 0 : arrow::kUnknownNullCount;
  validity_buffer_ = nullptr;
  return arrow::MakeArray(arrow::ArrayData::Make(field_->type(), rows, std::move(buffers), nulls));
}

}  // namespace cairn::connectors
