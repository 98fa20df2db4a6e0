// SPDX-License-Identifier: Apache-2.0
#include "operators/accumulators.h"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/type.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "format/row_codec.h"
#include "operators/arrow_status.h"

namespace cairn::operators {
namespace {

using stream::AggregateFunction;

template <class T>
T At(const char* cell, uint32_t offset) {
  return base::LoadLE<T>(cell + offset);
}

/// 10^38: a decimal of 38 digits is smaller.
constexpr Int128 PowerOfTen(int exponent) {
  Int128 power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

int32_t ScaleOf(const arrow::DataType& type) {
  return type.id() == arrow::Type::DECIMAL128
             ? static_cast<const arrow::Decimal128Type&>(type).scale()
             : 0;
}

std::string DecimalTypeName(int32_t scale) { return "decimal(38," + std::to_string(scale) + ")"; }

}  // namespace

uint32_t AccumulatorLayout::Take(size_t bytes) {
  const uint32_t at = static_cast<uint32_t>(used_bytes_);
  used_bytes_ += bytes;
  return at;
}

std::string AccumulatorLayout::UniqueName(const std::string& name) {
  std::string unique = name;
  for (int n = 2; std::find(names_.begin(), names_.end(), unique) != names_.end(); ++n) {
    unique = name + "_" + std::to_string(n);
  }
  names_.push_back(unique);
  return unique;
}

void AccumulatorLayout::SaveCount(const std::string& name, uint32_t at) {
  saved_columns_.push_back({UniqueName(name), "bigint", false});
  saved_fields_.push_back({at, 8, false, kNone, kNone});
}

Result<AccumulatorLayout> AccumulatorLayout::Make(const arrow::Schema& input,
                                                  const stream::GroupAggregateNode& node,
                                                  bool input_updates) {
  AccumulatorLayout layout;
  for (int key : node.keys) layout.names_.push_back(input.field(key)->name());
  for (const stream::AggregateCall& call : node.calls) {
    CAIRN_RETURN_IF_ERROR(layout.AddCall(input, call, input_updates));
  }
  for (const Call& call : layout.calls_) {
    if (call.function == AggregateFunction::kCountStar) layout.row_count_at_ = call.count_at;
  }
  // A group of an updating input must know when its last row goes.
  if (input_updates && layout.row_count_at_ == kNone) {
    layout.row_count_at_ = layout.Take(8);
    layout.SaveCount("row_count", layout.row_count_at_);
  }
  // One-byte flags come last, so that the numbers before them stay aligned.
  for (size_t i = 0; i < layout.calls_.size(); ++i) {
    Call& call = layout.calls_[i];
    if (call.flag_at != 0) continue;
    call.flag_at = layout.Take(1);
    for (SavedField& field : layout.saved_fields_) {
      if (field.flag_at == kPendingFlag + i) field.flag_at = call.flag_at;
    }
  }
  layout.cell_bytes_ = std::max<size_t>(8, (layout.used_bytes_ + 7) / 8 * 8);
  layout.plain_count_ = layout.calls_.size() == 1 && layout.used_bytes_ == 8 &&
                        layout.calls_[0].function == AggregateFunction::kCountStar;
  return layout;
}

Status AccumulatorLayout::AddCall(const arrow::Schema& input, const stream::AggregateCall& planned,
                                  bool input_updates) {
  Call call{planned.function, planned.column, Number::kInt64, planned.type, {}};
  if (planned.function == AggregateFunction::kCountStar) {
    call.label = "count(*)";
  } else {
    if (planned.column < 0 || planned.column >= input.num_fields()) {
      return Status::Internal("aggregate call over column " + std::to_string(planned.column) +
                              " of " + std::to_string(input.num_fields()));
    }
    call.label = std::string(stream::AggregateFunctionName(planned.function)) + "(" +
                 (planned.distinct ? "DISTINCT " : "") + input.field(planned.column)->name() + ")";
  }
  if (planned.distinct) {
    return Status::InvalidArgument(call.label + " is not supported: DISTINCT in an aggregate");
  }
  Status added;
  switch (planned.function) {
    case AggregateFunction::kCountStar:
    case AggregateFunction::kCount:
      call.count_at = Take(8);
      SaveCount(planned.name, call.count_at);
      if (planned.type->id() != arrow::Type::INT64) {
        added = Status::Internal(call.label + " planned as " + planned.type->ToString());
      }
      break;
    case AggregateFunction::kSum:
    case AggregateFunction::kAvg:
      added = AddSumOrAvg(*input.field(planned.column)->type(), planned, &call, input_updates);
      break;
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      added = AddMinOrMax(*input.field(planned.column), planned, &call, input_updates);
      break;
  }
  CAIRN_RETURN_IF_ERROR(added);
  calls_.push_back(std::move(call));
  return {};
}

Status AccumulatorLayout::AddSumOrAvg(const arrow::DataType& type,
                                      const stream::AggregateCall& planned, Call* call,
                                      bool input_updates) {
  switch (type.id()) {
    case arrow::Type::INT32:
      call->input = Number::kInt32;
      break;
    case arrow::Type::INT64:
      call->input = Number::kInt64;
      break;
    case arrow::Type::DOUBLE:
      call->input = Number::kDouble;
      break;
    case arrow::Type::DECIMAL128:
      call->input = Number::kDecimal;
      break;
    default:
      return Status::InvalidArgument(call->label + " is not supported: the column is of type " +
                                     type.ToString() + ", not a number");
  }
  const bool real = call->input == Number::kDouble;
  const bool average = call->function == AggregateFunction::kAvg;
  const arrow::Type::type out = planned.type->id();
  const bool planned_well =
      average || real
          ? out == arrow::Type::DOUBLE
          : (out == arrow::Type::DECIMAL128 && ScaleOf(*planned.type) == ScaleOf(type)) ||
                (out == arrow::Type::INT64 && call->input != Number::kDecimal);
  if (!planned_well) {
    return Status::Internal(call->label + " planned as " + planned.type->ToString());
  }
  call->scale = static_cast<double>(PowerOfTen(ScaleOf(type)));
  call->value_at = Take(real ? 8 : 16);
  const bool as_bigint = !average && out == arrow::Type::INT64;
  SavedField field{call->value_at, real || as_bigint ? 8U : 16U, as_bigint, kNone, kNone};
  if (average || input_updates) {
    call->count_at = Take(8);
    if (!average) field.count_at = call->count_at;
  } else {
    call->flag_at = 0;  // wanted; placed when all numbers are
    field.flag_at = kPendingFlag + static_cast<uint32_t>(calls_.size());
  }
  const std::string saved_type = real        ? "double"
                                 : as_bigint ? "bigint"
                                             : DecimalTypeName(ScaleOf(type));
  saved_columns_.push_back(
      {UniqueName(average ? planned.name + "_sum" : planned.name), saved_type, field.nullable()});
  saved_fields_.push_back(field);
  if (call->count_at != kNone) SaveCount(planned.name + "_count", call->count_at);
  return {};
}

Status AccumulatorLayout::AddMinOrMax(const arrow::Field& field,
                                      const stream::AggregateCall& planned, Call* call,
                                      bool input_updates) {
  if (input_updates) {
    return Status::InvalidArgument(
        call->label +
        " is not supported over an updating input: when the row that holds it is "
        "retracted, the next one is not known. Aggregate an input that only appends");
  }
  if (!planned.type->Equals(*field.type())) {
    return Status::Internal(call->label + " planned as " + planned.type->ToString());
  }
  uint32_t width = 8;
  switch (field.type()->id()) {
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      call->input = Number::kInt32;
      width = 4;
      break;
    case arrow::Type::INT64:
    case arrow::Type::TIMESTAMP:
      call->input = Number::kInt64;
      break;
    case arrow::Type::DOUBLE:
      call->input = Number::kDouble;
      break;
    case arrow::Type::DECIMAL128:
      call->input = Number::kDecimal;
      width = 16;
      break;
    case arrow::Type::STRING:
      call->input = Number::kText;
      width = 0;
      break;
    default:
      return Status::InvalidArgument(call->label + " is not supported: the column is of type " +
                                     field.type()->ToString());
  }
  call->flag_at = 0;  // wanted; placed when all numbers are
  if (width == 0) {
    call->text_at = static_cast<uint32_t>(texts_++);
  } else {
    call->value_at = Take(8 * ((width + 7) / 8));
  }
  CAIRN_ASSIGN_OR_RETURN(std::string type_name, format::ColumnTypeOf(*field.type()));
  saved_columns_.push_back({UniqueName(planned.name), std::move(type_name), true});
  saved_fields_.push_back({width == 0 ? call->text_at : call->value_at, width, false,
                           kPendingFlag + static_cast<uint32_t>(calls_.size()), kNone});
  return {};
}

int64_t AccumulatorLayout::RowCount(const char* cell) const {
  return At<int64_t>(cell, row_count_at_);
}

AggregateResult AccumulatorLayout::Evaluate(const Call& call, const char* cell,
                                            const std::string* texts) const {
  AggregateResult result;
  switch (call.function) {
    case AggregateFunction::kCountStar:
    case AggregateFunction::kCount:
      result.number = At<int64_t>(cell, call.count_at);
      return result;
    default:
      break;
  }
  const int64_t count = call.count_at != kNone ? At<int64_t>(cell, call.count_at)
                                               : static_cast<int64_t>(cell[call.flag_at]);
  if (count == 0) {
    result.null = true;
    return result;
  }
  const bool whole_sum =
      call.function == AggregateFunction::kSum || call.function == AggregateFunction::kAvg;
  if (call.input == Number::kText) {
    result.text = texts[call.text_at];
  } else if (call.input == Number::kDouble) {
    result.real = At<double>(cell, call.value_at);
  } else if (whole_sum || call.input == Number::kDecimal) {
    result.number = At<Int128>(cell, call.value_at);
  } else if (call.input == Number::kInt32) {
    result.number = At<int32_t>(cell, call.value_at);
  } else {
    result.number = At<int64_t>(cell, call.value_at);
  }
  if (call.function == AggregateFunction::kAvg) {
    const double sum = call.input == Number::kDouble
                           ? result.real
                           : static_cast<double>(result.number) / call.scale;
    result.number = 0;
    result.real = sum / static_cast<double>(count);
  }
  return result;
}

bool AccumulatorLayout::ResultsDiffer(const char* a, const std::string* a_texts, const char* b,
                                      const std::string* b_texts) const {
  for (const Call& call : calls_) {
    const AggregateResult left = Evaluate(call, a, a_texts);
    const AggregateResult right = Evaluate(call, b, b_texts);
    if (left.null != right.null || left.number != right.number || left.text != right.text ||
        std::bit_cast<uint64_t>(left.real) != std::bit_cast<uint64_t>(right.real)) {
      return true;
    }
  }
  return false;
}

template <class T>
AccumulatorLayout::ArrayResult AccumulatorLayout::FixedColumn(const Call& call, Cells cells,
                                                              Texts texts) const {
  const int64_t rows = static_cast<int64_t>(cells.size());
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> values,
                         FromArrow(arrow::AllocateBuffer(rows * static_cast<int64_t>(sizeof(T)))));
  T* out = reinterpret_cast<T*>(values->mutable_data());
  std::shared_ptr<arrow::Buffer> validity;
  int64_t nulls = 0;
  if (call.function == AggregateFunction::kCountStar ||
      call.function == AggregateFunction::kCount) {
    for (int64_t i = 0; i < rows; ++i) {
      out[i] = static_cast<T>(At<int64_t>(cells[static_cast<size_t>(i)], call.count_at));
    }
  } else {
    CAIRN_ASSIGN_OR_RETURN(validity, FromArrow(arrow::AllocateEmptyBitmap(rows)));
    const int32_t precision =
        call.type->id() == arrow::Type::DECIMAL128
            ? static_cast<const arrow::Decimal128Type&>(*call.type).precision()
            : 0;
    const Int128 limit = precision > 0 ? PowerOfTen(precision) : Int128{1} << 63;
    const Int128 lowest = precision > 0 ? 1 - limit : -limit;
    for (int64_t i = 0; i < rows; ++i) {
      const size_t at = static_cast<size_t>(i);
      const AggregateResult result = Evaluate(call, cells[at], texts.empty() ? nullptr : texts[at]);
      if constexpr (std::is_same_v<T, double>) {
        out[i] = result.real;
      } else {
        if (result.number >= limit || result.number < lowest) {
          return Status::InvalidArgument(call.label + " of a group does not fit its type " +
                                         call.type->ToString());
        }
        out[i] = static_cast<T>(result.number);
      }
      nulls += result.null ? 1 : 0;
      if (!result.null) {
        validity->mutable_data()[i >> 3] |= static_cast<uint8_t>(1U << (i & 7));
      }
    }
  }
  return arrow::MakeArray(arrow::ArrayData::Make(
      call.type, rows, {nulls > 0 ? std::move(validity) : nullptr, std::move(values)}, nulls));
}

AccumulatorLayout::ArrayResult AccumulatorLayout::TextColumn(const Call& call, Cells cells,
                                                             Texts texts) const {
  const int64_t rows = static_cast<int64_t>(cells.size());
  int64_t bytes = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    bytes += static_cast<int64_t>(Evaluate(call, cells[i], texts[i]).text.size());
  }
  if (bytes > std::numeric_limits<int32_t>::max()) {
    return Status::ResourceExhausted(call.label + " of one batch holds more than 2 GiB of text");
  }
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> offsets,
                         FromArrow(arrow::AllocateBuffer((rows + 1) * 4)));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> data,
                         FromArrow(arrow::AllocateBuffer(bytes)));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> validity,
                         FromArrow(arrow::AllocateEmptyBitmap(rows)));
  int32_t* ends = reinterpret_cast<int32_t*>(offsets->mutable_data());
  char* out = reinterpret_cast<char*>(data->mutable_data());
  int64_t nulls = 0;
  ends[0] = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const size_t at = static_cast<size_t>(i);
    const AggregateResult result = Evaluate(call, cells[at], texts[at]);
    if (!result.text.empty()) std::memcpy(out + ends[i], result.text.data(), result.text.size());
    ends[i + 1] = ends[i] + static_cast<int32_t>(result.text.size());
    nulls += result.null ? 1 : 0;
    if (!result.null) validity->mutable_data()[i >> 3] |= static_cast<uint8_t>(1U << (i & 7));
  }
  return arrow::MakeArray(arrow::ArrayData::Make(
      call.type, rows,
      {nulls > 0 ? std::move(validity) : nullptr, std::move(offsets), std::move(data)}, nulls));
}

AccumulatorLayout::ArrayResult AccumulatorLayout::ResultColumn(size_t call, Cells cells,
                                                               Texts texts) const {
  const Call& chosen = calls_[call];
  switch (chosen.type->id()) {
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return FixedColumn<int32_t>(chosen, cells, texts);
    case arrow::Type::INT64:
    case arrow::Type::TIMESTAMP:
      return FixedColumn<int64_t>(chosen, cells, texts);
    case arrow::Type::DOUBLE:
      return FixedColumn<double>(chosen, cells, texts);
    case arrow::Type::DECIMAL128:
      return FixedColumn<Int128>(chosen, cells, texts);
    case arrow::Type::STRING:
      return TextColumn(chosen, cells, texts);
    default:
      return Status::Internal(chosen.label + " planned as " + chosen.type->ToString());
  }
}

namespace {

bool FieldPresent(uint32_t none, uint32_t flag_at, uint32_t count_at, const char* cell) {
  if (flag_at != none) return cell[flag_at] != 0;
  return count_at == none || At<int64_t>(cell, count_at) != 0;
}

}  // namespace

size_t AccumulatorLayout::SavedBytes(const char* cell, const std::string* texts) const {
  if (plain_count_) return 8;
  size_t bytes = 0;
  for (const SavedField& field : saved_fields_) {
    bytes += field.nullable() ? 1 : 0;
    if (!FieldPresent(kNone, field.flag_at, field.count_at, cell)) continue;
    bytes += field.width != 0 ? field.width : 4 + texts[field.at].size();
  }
  return bytes;
}

void AccumulatorLayout::Save(const char* cell, const std::string* texts, char* out) const {
  if (plain_count_) {
    std::memcpy(out, cell, 8);
    return;
  }
  for (const SavedField& field : saved_fields_) {
    const bool present = FieldPresent(kNone, field.flag_at, field.count_at, cell);
    if (field.nullable()) *out++ = present ? '\1' : '\0';
    if (!present) continue;
    if (field.width != 0) {
      std::memcpy(out, cell + field.at, field.width);
      out += field.width;
      continue;
    }
    const std::string& text = texts[field.at];
    base::StoreLE<uint32_t>(out, static_cast<uint32_t>(text.size()));
    std::memcpy(out + 4, text.data(), text.size());
    out += 4 + text.size();
  }
}

Status AccumulatorLayout::LoadField(const SavedField& field, base::ByteReader* reader, char* cell,
                                    std::string* texts) const {
  if (field.nullable()) {
    CAIRN_ASSIGN_OR_RETURN(const uint8_t flag, reader->ReadLE<uint8_t>());
    if (flag > 1) return Status::Corruption("null flag " + std::to_string(flag));
    if (field.flag_at != kNone) cell[field.flag_at] = static_cast<char>(flag);
    if (flag == 0) return {};
  }
  if (field.width == 0) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view text, reader->ReadLengthPrefixed());
    texts[field.at].assign(text);
    return {};
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string_view bytes, reader->ReadBytes(field.width));
  std::memcpy(cell + field.at, bytes.data(), bytes.size());
  if (field.widen) {
    const Int128 wide = base::LoadLE<int64_t>(bytes.data());
    std::memcpy(cell + field.at, &wide, sizeof(wide));
  }
  return {};
}

Status AccumulatorLayout::Load(std::string_view saved, char* cell, std::string* texts) const {
  base::ByteReader reader(saved);
  for (size_t i = 0; i < saved_fields_.size(); ++i) {
    if (Status read = LoadField(saved_fields_[i], &reader, cell, texts); !read.ok()) {
      return read.WithContext("column '" + saved_columns_[i].name + "'");
    }
  }
  if (!reader.empty()) {
    return Status::Corruption(std::to_string(reader.rest().size()) +
                              " bytes left after the last column");
  }
  return {};
}

}  // namespace cairn::operators
