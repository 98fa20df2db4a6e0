// SPDX-License-Identifier: Apache-2.0
#include "connectors/row_text.h"

#include <arrow/array/data.h>
#include <arrow/record_batch.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <bit>
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace cairn::connectors {
namespace {

constexpr size_t kSlack = 64;  ///< texts are copied 32 bytes at a time

/// Copy `text` to `out` up to the first byte that is below 0x20 or equals `a` or `b`, and return
/// how many bytes that are. Up to 31 bytes behind may be written as well.
///
/// Shape:    32 readable bytes are not needed behind `text`.
size_t CopyPlain(std::string_view text, char a, char b, char* out) {
  size_t done = 0;
#ifdef __AVX2__
  const __m256i first = _mm256_set1_epi8(a);
  const __m256i second = _mm256_set1_epi8(b);
  const __m256i control = _mm256_set1_epi8(0x1F);
  for (; done + 32 <= text.size(); done += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text.data() + done));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + done), bytes);
    const __m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, control), bytes);
    const __m256i found = _mm256_or_si256(
        low, _mm256_or_si256(_mm256_cmpeq_epi8(bytes, first), _mm256_cmpeq_epi8(bytes, second)));
    const auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(found));
    if (mask != 0) return done + static_cast<size_t>(std::countr_zero(mask));
  }
#endif
  for (; done + 8 <= text.size(); done += 8) {
    uint64_t bytes;
    std::memcpy(&bytes, text.data() + done, 8);
    std::memcpy(out + done, &bytes, 8);
    constexpr uint64_t kOnes = 0x0101010101010101ULL;
    constexpr uint64_t kHigh = 0x8080808080808080ULL;
    const uint64_t is_a = bytes ^ (kOnes * static_cast<unsigned char>(a));
    const uint64_t is_b = bytes ^ (kOnes * static_cast<unsigned char>(b));
    const uint64_t found = ((bytes - kOnes * 0x20) & ~bytes & kHigh) |
                           ((is_a - kOnes) & ~is_a & kHigh) | ((is_b - kOnes) & ~is_b & kHigh);
    // Borrows make only bytes above a real find suspect, so the lowest one is exact.
    if (found != 0) return done + static_cast<size_t>(std::countr_zero(found)) / 8;
  }
  for (; done < text.size(); ++done) {
    const char c = text[done];
    if (static_cast<unsigned char>(c) < 0x20 || c == a || c == b) return done;
    out[done] = c;
  }
  return done;
}

char* PutEscaped(char c, char* out) {
  constexpr char kHex[] = "0123456789abcdef";
  *out++ = '\\';
  switch (c) {
    case '"':
    case '\\':
      *out++ = c;
      return out;
    case '\n':
      *out++ = 'n';
      return out;
    case '\r':
      *out++ = 'r';
      return out;
    case '\t':
      *out++ = 't';
      return out;
    default:
      std::memcpy(out, "u00", 3);
      out[3] = kHex[(c >> 4) & 0xF];
      out[4] = kHex[c & 0xF];
      return out + 5;
  }
}

/// Write `text` as a JSON string; `out` has room for 6 * size + kSlack.
char* PutJsonString(std::string_view text, char* out) {
  *out++ = '"';
  for (;;) {
    const size_t plain = CopyPlain(text, '"', '\\', out);
    out += plain;
    if (plain == text.size()) break;
    out = PutEscaped(text[plain], out);
    text.remove_prefix(plain + 1);
  }
  *out++ = '"';
  return out;
}

/// Write `text` as a CSV value; `out` has room for 2 * size + kSlack.
char* PutCsvString(std::string_view text, const CsvDialect& dialect, std::string_view null_text,
                   char* out) {
  const size_t plain = CopyPlain(text, dialect.quote, dialect.delimiter, out);
  if (plain == text.size() && text != null_text) return out + plain;
  // A control character other than a line end needs no quotes; they do no harm either.
  *out++ = dialect.quote;
  for (const char c : text) {
    if (c == dialect.quote) *out++ = c;
    *out++ = c;
  }
  *out++ = dialect.quote;
  return out;
}

std::string JsonName(const std::string& name) {
  std::string text(6 * name.size() + kSlack, '\0');
  text.resize(static_cast<size_t>(PutJsonString(name, text.data()) - text.data()));
  return text;
}

}  // namespace

void TextBuffer::Grow(size_t more) {
  const size_t capacity = std::max(size_ + more, 2 * capacity_);
  std::unique_ptr<char[]> data(new char[capacity]);
  if (size_ != 0) std::memcpy(data.get(), data_.get(), size_);
  data_ = std::move(data);
  capacity_ = capacity;
}

void TextBuffer::Append(std::string_view text) {
  std::memcpy(Room(text.size()), text.data(), text.size());
  size_ += text.size();
}

Result<RowText> RowText::Make(RowTextOptions options, std::shared_ptr<arrow::Schema> schema) {
  RowText text;
  text.options_ = std::move(options);
  for (const std::shared_ptr<arrow::Field>& field : schema->fields()) {
    Column column;
    CAIRN_ASSIGN_OR_RETURN(column.kind, ColumnKindOf(*field));
    if (column.kind == ColumnKind::kDecimal) {
      column.scale = static_cast<const arrow::Decimal128Type&>(*field->type()).scale();
    }
    const bool first = text.columns_.empty() && !text.options_.changelog;
    column.prefix = (first ? "{" : ",") + JsonName(field->name()) + ":";
    text.columns_.push_back(std::move(column));
  }
  text.schema_ = std::move(schema);
  return text;
}

void RowText::AppendHeader(TextBuffer* out) const {
  if (options_.format == RowTextFormat::kNdjson || !options_.header) return;
  const bool csv = options_.format == RowTextFormat::kCsv;
  const char between = csv ? options_.csv.delimiter : '\t';
  bool first = true;
  const auto put = [&](const std::string& name) {
    char* at = out->Room(2 * name.size() + kSlack);
    if (!first) *at++ = between;
    first = false;
    if (csv) {
      at = PutCsvString(name, options_.csv, "", at);
    } else {
      std::memcpy(at, name.data(), name.size());
      at += name.size();
    }
    out->SetEnd(at);
  };
  if (options_.changelog) put("op");
  for (const std::string& name : schema_->field_names()) put(name);
  out->Append("\n");
}

Status RowText::Bind(const arrow::RecordBatch& rows) {
  if (rows.schema() != bound_schema_) {
    bool same = rows.num_columns() == schema_->num_fields();
    for (int c = 0; same && c < rows.num_columns(); ++c) {
      same = rows.column(c)->type()->Equals(*schema_->field(c)->type());
    }
    if (!same) {
      return Status::InvalidArgument("a sink of columns (" + schema_->ToString() +
                                     ") was given rows of (" + rows.schema()->ToString() + ")");
    }
    bound_schema_ = rows.schema();
  }
  for (size_t c = 0; c < columns_.size(); ++c) {
    const arrow::ArrayData& data = *rows.column_data(static_cast<int>(c));
    Column& column = columns_[c];
    column.bit_offset = data.offset;
    column.validity = data.MayHaveNulls() && data.buffers[0] ? data.buffers[0]->data() : nullptr;
    column.offsets = nullptr;
    switch (column.kind) {
      case ColumnKind::kText:
        column.offsets = data.GetValues<int32_t>(1);
        column.values = data.buffers[2] ? data.buffers[2]->data() : nullptr;
        break;
      case ColumnKind::kBoolean:
        column.values = data.buffers[1]->data();
        break;
      case ColumnKind::kInteger:
      case ColumnKind::kDate:
        column.values = data.buffers[1]->data() + data.offset * 4;
        break;
      case ColumnKind::kDecimal:
        column.values = data.buffers[1]->data() + data.offset * 16;
        break;
      default:
        column.values = data.buffers[1]->data() + data.offset * 8;
    }
  }
  return {};
}

Status RowText::Append(const stream::Batch& batch, TextBuffer* out) {
  CAIRN_RETURN_IF_ERROR(Bind(*batch.rows));
  const int64_t count = batch.num_rows();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i;
    out->SetEnd(PutRow(row, batch.kind(row), out));
  }
  return {};
}

char* RowText::PutRow(int64_t row, stream::RowKind kind, TextBuffer* out) {
  char* at = out->Room(2 * kSlack);
  const std::string_view op = stream::RowKindText(kind);
  const bool json = options_.format == RowTextFormat::kNdjson;
  const char between = options_.format == RowTextFormat::kCsv ? options_.csv.delimiter : '\t';
  if (options_.changelog) {
    if (json) {
      std::memcpy(at, "{\"op\":\"", 7);
      std::memcpy(at + 7, op.data(), 2);
      at[9] = '"';
      at += 10;
    } else {
      std::memcpy(at, op.data(), 2);
      at += 2;
    }
  } else if (json && columns_.empty()) {
    *at++ = '{';
  }
  bool first = !options_.changelog;
  for (const Column& column : columns_) {
    out->SetEnd(at);
    at = out->Room(column.prefix.size() + 2 * kTextMax);
    if (json) {
      std::memcpy(at, column.prefix.data(), column.prefix.size());
      at = PutJsonValue(column, row, at + column.prefix.size(), out);
    } else {
      if (!first) *at++ = between;
      first = false;
      at = PutCsvValue(column, row, at, out);
    }
  }
  if (json) *at++ = '}';
  *at++ = '\n';
  return at;
}

char* RowText::PutPlain(const Column& column, int64_t row, char* at) {
  switch (column.kind) {
    case ColumnKind::kBigint:
      return PutInt64(reinterpret_cast<const int64_t*>(column.values)[row], at);
    case ColumnKind::kInteger:
      return PutInt64(reinterpret_cast<const int32_t*>(column.values)[row], at);
    case ColumnKind::kDouble:
      return PutDouble(reinterpret_cast<const double*>(column.values)[row], at);
    case ColumnKind::kTimestamp:
      return PutTimestamp(reinterpret_cast<const int64_t*>(column.values)[row], at);
    case ColumnKind::kDate:
      return PutDate(reinterpret_cast<const int32_t*>(column.values)[row], at);
    case ColumnKind::kDecimal:
      return PutDecimal(column.values + row * 16, column.scale, at);
    case ColumnKind::kBoolean: {
      const bool value = arrow::bit_util::GetBit(column.values, column.bit_offset + row);
      std::memcpy(at, value ? "true" : "false", 5);
      return at + (value ? 4 : 5);
    }
    case ColumnKind::kText:
      break;
  }
  return at;
}

char* RowText::PutJsonValue(const Column& column, int64_t row, char* at, TextBuffer* out) {
  if (column.validity != nullptr &&
      !arrow::bit_util::GetBit(column.validity, column.bit_offset + row)) {
    std::memcpy(at, "null", 4);
    return at + 4;
  }
  switch (column.kind) {
    case ColumnKind::kText: {
      const int32_t begin = column.offsets[row];
      const size_t size = static_cast<size_t>(column.offsets[row + 1] - begin);
      out->SetEnd(at);
      at = out->Room(6 * size + 2 * kSlack);
      return PutJsonString({reinterpret_cast<const char*>(column.values) + begin, size}, at);
    }
    case ColumnKind::kTimestamp:
    case ColumnKind::kDate:
      *at = '"';
      at = PutPlain(column, row, at + 1);
      *at = '"';
      return at + 1;
    case ColumnKind::kDouble: {
      char* const end = PutDouble(reinterpret_cast<const double*>(column.values)[row], at + 1);
      if (end[-1] > '9') {  // NaN and Infinity are no JSON numbers
        *at = '"';
        *end = '"';
        return end + 1;
      }
      std::memmove(at, at + 1, static_cast<size_t>(end - at - 1));
      return end - 1;
    }
    default:
      return PutPlain(column, row, at);
  }
}

char* RowText::PutCsvValue(const Column& column, int64_t row, char* at, TextBuffer* out) {
  const bool table = options_.format == RowTextFormat::kTable;
  if (column.validity != nullptr &&
      !arrow::bit_util::GetBit(column.validity, column.bit_offset + row)) {
    const std::string_view null_text = table ? std::string_view("NULL") : options_.null_text;
    out->SetEnd(at);
    at = out->Room(null_text.size() + 2 * kSlack);
    std::memcpy(at, null_text.data(), null_text.size());
    return at + null_text.size();
  }
  if (column.kind != ColumnKind::kText) return PutPlain(column, row, at);
  const int32_t begin = column.offsets[row];
  const size_t size = static_cast<size_t>(column.offsets[row + 1] - begin);
  const std::string_view text(reinterpret_cast<const char*>(column.values) + begin, size);
  out->SetEnd(at);
  at = out->Room(2 * size + 2 * kSlack);
  if (!table) return PutCsvString(text, options_.csv, options_.null_text, at);
  for (const char c : text) *at++ = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return at;
}

}  // namespace cairn::connectors
