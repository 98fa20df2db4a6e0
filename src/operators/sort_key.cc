// SPDX-License-Identifier: Apache-2.0
#include "operators/sort_key.h"

#include <arrow/array/data.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace cairn::operators {
namespace {

template <class T>
T BigEndian(T value) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
  } else {
    return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  }
}

/// Bits that order as the doubles do: -0 equals 0, and every NaN is one value above infinity.
uint64_t OrderedBits(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  const uint64_t bits = value == 0 ? 0 : std::bit_cast<uint64_t>(value);
  return (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
}

class StringOut {
 public:
  explicit StringOut(std::string* out) : out_(out) {}
  void Append(const char* bytes, size_t size) { out_->append(bytes, size); }
  bool full() const { return false; }

 private:
  std::string* out_;
};

/// Take the first 16 bytes and drop the rest.
class PrefixOut {
 public:
  void Append(const char* bytes, size_t size) {
    const size_t kept = std::min(size, kSortPrefixBytes - size_);
    std::memcpy(bytes_ + size_, bytes, kept);
    size_ += kept;
  }
  bool full() const { return size_ == kSortPrefixBytes; }
  SortPrefix prefix() const {
    uint64_t words[2];
    std::memcpy(words, bytes_, sizeof(words));
    return {BigEndian(words[0]), BigEndian(words[1])};
  }

 private:
  char bytes_[kSortPrefixBytes] = {};
  size_t size_ = 0;
};

template <class Out>
void AppendFlipped(const char* bytes, size_t size, bool descending, Out* out) {
  if (!descending) {
    out->Append(bytes, size);
    return;
  }
  for (size_t i = 0; i < size && !out->full(); ++i) {
    const char flipped = static_cast<char>(~bytes[i]);
    out->Append(&flipped, 1);
  }
}

template <class Out, class T>
void AppendWord(T ordered, bool descending, Out* out) {
  ordered = BigEndian(descending ? static_cast<T>(~ordered) : ordered);
  out->Append(reinterpret_cast<const char*>(&ordered), sizeof(ordered));
}

template <class Out>
void AppendText(std::string_view text, bool descending, Out* out) {
  while (!out->full()) {
    const size_t zero = text.find('\0');
    AppendFlipped(text.data(), std::min(zero, text.size()), descending, out);
    if (zero == std::string_view::npos) break;
    AppendFlipped("\0\xff", 2, descending, out);
    text.remove_prefix(zero + 1);
  }
  AppendFlipped("\0\0", 2, descending, out);
}

}  // namespace

SortPrefix SortPrefixOf(std::string_view key) {
  PrefixOut out;
  out.Append(key.data(), key.size());
  return out.prefix();
}

void StoreSortPrefix(SortPrefix prefix, size_t bytes, char* out) {
  const uint64_t words[2] = {BigEndian(prefix.high), BigEndian(prefix.low)};
  std::memcpy(out, words, std::min(bytes, kSortPrefixBytes));
}

size_t SortKeyEncoder::WidthOf(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return 1;
    case Kind::kInt32:
      return 4;
    case Kind::kInt64:
    case Kind::kDouble:
      return 8;
    case Kind::kDecimal128:
      return 16;
    case Kind::kText:
      return 0;
  }
  return 0;
}

Result<SortKeyEncoder> SortKeyEncoder::Make(const arrow::Schema& schema,
                                            const std::vector<stream::SortSpec>& sort) {
  SortKeyEncoder encoder;
  for (const stream::SortSpec& spec : sort) {
    if (spec.column < 0 || spec.column >= schema.num_fields()) {
      return Status::Internal("sort column " + std::to_string(spec.column) + " is not one of the " +
                              std::to_string(schema.num_fields()) + " input columns");
    }
    const arrow::Field& field = *schema.field(spec.column);
    Column column{spec.column, Kind::kInt64, field.nullable(), spec.descending, spec.nulls_first};
    switch (field.type()->id()) {
      case arrow::Type::BOOL:
        column.kind = Kind::kBool;
        break;
      case arrow::Type::INT32:
      case arrow::Type::DATE32:
        column.kind = Kind::kInt32;
        break;
      case arrow::Type::INT64:
      case arrow::Type::TIMESTAMP:
        column.kind = Kind::kInt64;
        break;
      case arrow::Type::DOUBLE:
        column.kind = Kind::kDouble;
        break;
      case arrow::Type::DECIMAL128:
        column.kind = Kind::kDecimal128;
        break;
      case arrow::Type::STRING:
      case arrow::Type::BINARY:
        column.kind = Kind::kText;
        break;
      default:
        return Status::InvalidArgument("cannot order by column '" + field.name() + "' of type " +
                                       field.type()->ToString());
    }
    if (column.kind == Kind::kText) encoder.all_fixed_ = false;
    encoder.fixed_bytes_ += WidthOf(column.kind) + (column.nullable ? 1 : 0);
    encoder.columns_.push_back(column);
  }
  if (!encoder.all_fixed_) encoder.fixed_bytes_ = 0;
  encoder.single_int64_ = encoder.columns_.size() == 1 && encoder.columns_[0].kind == Kind::kInt64;
  if (encoder.single_int64_ && encoder.columns_[0].descending) encoder.flip_ = ~uint64_t{0};
  return encoder;
}

void SortKeyEncoder::Bind(const arrow::RecordBatch& batch) {
  for (Column& column : columns_) {
    const arrow::ArrayData& data = *batch.column_data(column.index);
    column.validity = data.GetNullCount() > 0 ? data.buffers[0]->data() : nullptr;
    column.values = data.buffers[1] ? data.buffers[1]->data() : nullptr;
    column.text = data.buffers.size() > 2 && data.buffers[2] ? data.buffers[2]->data() : nullptr;
    column.offset = data.offset;
  }
}

template <class Out>
void SortKeyEncoder::Encode(const Column& column, int64_t row, Out* out) {
  if (column.nullable) {
    const bool null = IsNull(column, row);
    const char flag = null ? (column.nulls_first ? '\0' : '\2') : '\1';
    out->Append(&flag, 1);
    if (null) {
      static constexpr char kZeros[16] = {};
      out->Append(kZeros, WidthOf(column.kind));
      return;
    }
  }
  const int64_t at = row + column.offset;
  switch (column.kind) {
    case Kind::kBool: {
      const char bit = static_cast<char>((column.values[at >> 3] >> (at & 7)) & 1);
      AppendFlipped(&bit, 1, column.descending, out);
      return;
    }
    case Kind::kInt32: {
      const uint32_t value = reinterpret_cast<const uint32_t*>(column.values)[at];
      AppendWord(value ^ (uint32_t{1} << 31), column.descending, out);
      return;
    }
    case Kind::kInt64: {
      const uint64_t value = reinterpret_cast<const uint64_t*>(column.values)[at];
      AppendWord(value ^ (uint64_t{1} << 63), column.descending, out);
      return;
    }
    case Kind::kDouble: {
      const double value = reinterpret_cast<const double*>(column.values)[at];
      AppendWord(OrderedBits(value), column.descending, out);
      return;
    }
    case Kind::kDecimal128: {
      uint64_t words[2];  // low, high
      std::memcpy(words, column.values + at * 16, sizeof(words));
      AppendWord(words[1] ^ (uint64_t{1} << 63), column.descending, out);
      AppendWord(words[0], column.descending, out);
      return;
    }
    case Kind::kText: {
      const int32_t* offsets = reinterpret_cast<const int32_t*>(column.values) + at;
      const std::string_view text(reinterpret_cast<const char*>(column.text) + offsets[0],
                                  static_cast<size_t>(offsets[1] - offsets[0]));
      AppendText(text, column.descending, out);
      return;
    }
  }
}

SortPrefix SortKeyEncoder::PrefixOfAny(int64_t row) const {
  PrefixOut out;
  for (const Column& column : columns_) {
    Encode(column, row, &out);
    if (out.full()) break;
  }
  return out.prefix();
}

void SortKeyEncoder::AppendKey(int64_t row, std::string* out) const {
  StringOut appender(out);
  for (const Column& column : columns_) Encode(column, row, &appender);
}

}  // namespace cairn::operators
