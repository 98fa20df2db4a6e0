// SPDX-License-Identifier: Apache-2.0
#include "operators/row_assembler.h"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/coding.h"
#include "operators/arrow_status.h"

namespace cairn::operators {
namespace {

bool BitAt(const uint8_t* bits, int64_t at) { return ((bits[at >> 3] >> (at & 7)) & 1) != 0; }

void SetBit(uint8_t* bits, size_t at) { bits[at >> 3] |= static_cast<uint8_t>(1U << (at & 7)); }

/// Validity of the column being built.
struct Validity {
  std::shared_ptr<arrow::Buffer> bits;
  int64_t nulls = 0;
  std::shared_ptr<arrow::Buffer> Finish() { return nulls > 0 ? std::move(bits) : nullptr; }
};

/// Call value(i, encoded bytes) or row(i, index) for every source that is not null, null(i) for the
/// others. `value` returns where the next column of the encoded row begins.
template <class OnEncoded, class OnRow>
void ForEachSource(const std::vector<RowSource>& sources, bool nullable,
                   const arrow::ArrayData& column, std::vector<const char*>* cursors,
                   Validity* validity, OnEncoded on_encoded, OnRow on_row) {
  const uint8_t* column_bits = column.GetNullCount() > 0 ? column.buffers[0]->data() : nullptr;
  uint8_t* bits = validity->bits->mutable_data();
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].encoded != nullptr) {
      const char*& cursor = (*cursors)[i];
      if (nullable && *cursor++ == 0) {
        ++validity->nulls;
        continue;
      }
      cursor = on_encoded(i, cursor);
    } else {
      const int64_t at = column.offset + sources[i].row;
      if (column_bits != nullptr && !BitAt(column_bits, at)) {
        ++validity->nulls;
        continue;
      }
      on_row(i, at);
    }
    SetBit(bits, i);
  }
}

/// Take for the commonest key: a kernel call costs as much as some hundred rows.
Result<std::shared_ptr<arrow::Array>> GatherInt64(const arrow::ArrayData& column,
                                                  const RowSelection& rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> values,
                         FromArrow(arrow::AllocateBuffer(count * 8)));
  const int64_t* in = column.GetValues<int64_t>(1);
  int64_t* out = reinterpret_cast<int64_t*>(values->mutable_data());
  for (size_t i = 0; i < rows.size(); ++i) out[i] = in[rows[i]];
  return arrow::MakeArray(
      arrow::ArrayData::Make(column.type, count, {nullptr, std::move(values)}, 0));
}

double CanonicalKey(double value) {
  if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  return value == 0 ? 0.0 : value;
}

}  // namespace

Result<std::shared_ptr<arrow::Array>> TakeKeyRows(const std::shared_ptr<arrow::Array>& column,
                                                  const RowSelection& rows) {
  if (column->type_id() == arrow::Type::INT64 && column->null_count() == 0) {
    return GatherInt64(*column->data(), rows);
  }
  CAIRN_ASSIGN_OR_RETURN(auto taken, TakeRows(column, rows));
  if (taken->type_id() == arrow::Type::DOUBLE) {
    // Take made the values' buffer, so it is this function's to write.
    double* values = taken->data()->GetMutableValues<double>(1);
    for (int64_t i = 0; i < taken->length(); ++i) values[i] = CanonicalKey(values[i]);
  }
  return taken;
}

RowAssembler::RowAssembler(std::shared_ptr<arrow::Schema> input,
                           const std::vector<int>& key_columns)
    : input_(std::move(input)), is_key_(static_cast<size_t>(input_->num_fields()), false) {
  for (int column : key_columns) is_key_[static_cast<size_t>(column)] = true;
}

Result<std::vector<std::shared_ptr<arrow::Array>>> RowAssembler::Assemble(
    const arrow::RecordBatch& batch, const std::vector<RowSource>& sources) {
  rows_.resize(sources.size());
  cursors_.resize(sources.size());
  bool all_from_batch = true;
  for (size_t i = 0; i < sources.size(); ++i) {
    rows_[i] = sources[i].row;
    cursors_[i] = sources[i].encoded;
    all_from_batch &= sources[i].encoded == nullptr;
  }
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int c = 0; c < input_->num_fields(); ++c) {
    const std::shared_ptr<arrow::Array> column = batch.column(c);
    Result<std::shared_ptr<arrow::Array>> built =
        is_key_[static_cast<size_t>(c)] ? TakeKeyRows(column, rows_)
        : all_from_batch                ? TakeRows(column, rows_)
                                        : Mixed(*input_->field(c), column, sources);
    if (!built.ok()) {
      return built.status().WithContext("column '" + input_->field(c)->name() + "'");
    }
    columns.push_back(*std::move(built));
  }
  return columns;
}

Result<std::shared_ptr<arrow::Array>> RowAssembler::Mixed(
    const arrow::Field& field, const std::shared_ptr<arrow::Array>& column,
    const std::vector<RowSource>& sources) {
  switch (field.type()->id()) {
    case arrow::Type::BOOL:
      return MixedBool(field, *column->data(), sources);
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return MixedFixed<4>(field, *column->data(), sources);
    case arrow::Type::INT64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DOUBLE:
      return MixedFixed<8>(field, *column->data(), sources);
    case arrow::Type::DECIMAL128:
      return MixedFixed<16>(field, *column->data(), sources);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return MixedText(field, *column->data(), sources);
    default:
      return Status::Internal("rows of type " + field.type()->ToString() + " are not kept");
  }
}

template <size_t kWidth>
Result<std::shared_ptr<arrow::Array>> RowAssembler::MixedFixed(
    const arrow::Field& field, const arrow::ArrayData& column,
    const std::vector<RowSource>& sources) {
  const int64_t count = static_cast<int64_t>(sources.size());
  Validity validity;
  CAIRN_ASSIGN_OR_RETURN(validity.bits, FromArrow(arrow::AllocateEmptyBitmap(count)));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> values,
                         FromArrow(arrow::AllocateBuffer(count * static_cast<int64_t>(kWidth))));
  char* out = reinterpret_cast<char*>(values->mutable_data());
  const char* in = reinterpret_cast<const char*>(column.buffers[1]->data());
  ForEachSource(
      sources, field.nullable(), column, &cursors_, &validity,
      [out](size_t i, const char* encoded) {
        std::memcpy(out + i * kWidth, encoded, kWidth);
        return encoded + kWidth;
      },
      [out, in](size_t i, int64_t at) {
        std::memcpy(out + i * kWidth, in + static_cast<size_t>(at) * kWidth, kWidth);
      });
  const int64_t nulls = validity.nulls;
  return arrow::MakeArray(
      arrow::ArrayData::Make(field.type(), count, {validity.Finish(), std::move(values)}, nulls));
}

Result<std::shared_ptr<arrow::Array>> RowAssembler::MixedBool(
    const arrow::Field& field, const arrow::ArrayData& column,
    const std::vector<RowSource>& sources) {
  const int64_t count = static_cast<int64_t>(sources.size());
  Validity validity;
  CAIRN_ASSIGN_OR_RETURN(validity.bits, FromArrow(arrow::AllocateEmptyBitmap(count)));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> values,
                         FromArrow(arrow::AllocateEmptyBitmap(count)));
  uint8_t* out = values->mutable_data();
  const uint8_t* in = column.buffers[1]->data();
  ForEachSource(
      sources, field.nullable(), column, &cursors_, &validity,
      [out](size_t i, const char* encoded) {
        if (*encoded != 0) SetBit(out, i);
        return encoded + 1;
      },
      [out, in](size_t i, int64_t at) {
        if (BitAt(in, at)) SetBit(out, i);
      });
  const int64_t nulls = validity.nulls;
  return arrow::MakeArray(
      arrow::ArrayData::Make(field.type(), count, {validity.Finish(), std::move(values)}, nulls));
}

Result<std::shared_ptr<arrow::Array>> RowAssembler::MixedText(
    const arrow::Field& field, const arrow::ArrayData& column,
    const std::vector<RowSource>& sources) {
  const int64_t count = static_cast<int64_t>(sources.size());
  Validity validity;
  CAIRN_ASSIGN_OR_RETURN(validity.bits, FromArrow(arrow::AllocateEmptyBitmap(count)));
  const int32_t* in_offsets = reinterpret_cast<const int32_t*>(column.buffers[1]->data());
  const char* in =
      column.buffers[2] ? reinterpret_cast<const char*>(column.buffers[2]->data()) : nullptr;
  texts_.assign(sources.size(), {});
  size_t bytes = 0;
  ForEachSource(
      sources, field.nullable(), column, &cursors_, &validity,
      [&](size_t i, const char* encoded) {
        texts_[i] = {encoded + 4, base::LoadLE<uint32_t>(encoded)};
        bytes += texts_[i].size();
        return encoded + 4 + texts_[i].size();
      },
      [&](size_t i, int64_t at) {
        texts_[i] = {in + in_offsets[at], static_cast<size_t>(in_offsets[at + 1] - in_offsets[at])};
        bytes += texts_[i].size();
      });
  if (bytes > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Status::ResourceExhausted("more than 2 GiB of text in one batch of output");
  }
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> offsets,
                         FromArrow(arrow::AllocateBuffer((count + 1) * 4)));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> data,
                         FromArrow(arrow::AllocateBuffer(static_cast<int64_t>(bytes))));
  int32_t* ends = reinterpret_cast<int32_t*>(offsets->mutable_data());
  char* out = reinterpret_cast<char*>(data->mutable_data());
  int32_t end = 0;
  for (size_t i = 0; i < texts_.size(); ++i) {
    ends[i] = end;
    if (!texts_[i].empty()) std::memcpy(out + end, texts_[i].data(), texts_[i].size());
    end += static_cast<int32_t>(texts_[i].size());
  }
  ends[texts_.size()] = end;
  const int64_t nulls = validity.nulls;
  return arrow::MakeArray(arrow::ArrayData::Make(
      field.type(), count, {validity.Finish(), std::move(offsets), std::move(data)}, nulls));
}

}  // namespace cairn::operators
