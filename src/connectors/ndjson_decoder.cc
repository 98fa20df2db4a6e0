// SPDX-License-Identifier: Apache-2.0
#include "connectors/ndjson_decoder.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "connectors/block_reader.h"
#include "connectors/json_tokens.h"

namespace cairn::connectors {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kLastRowBytes = 16 * 1024;

bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Read four hex digits at `in`; -1 when there are fewer.
int HexQuad(const char* in, const char* end) {
  if (end - in < 4) return -1;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = HexDigit(in[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

char* PutUtf8(char* out, uint32_t code) {
  if (code < 0x80) {
    *out++ = static_cast<char>(code);
  } else if (code < 0x800) {
    *out++ = static_cast<char>(0xC0 | (code >> 6));
    *out++ = static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out++ = static_cast<char>(0xE0 | (code >> 12));
    *out++ = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *out++ = static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *out++ = static_cast<char>(0xF0 | (code >> 18));
    *out++ = static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    *out++ = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *out++ = static_cast<char>(0x80 | (code & 0x3F));
  }
  return out;
}

/// Read \uXXXX, with its low surrogate, at `in` (behind the 'u'); null = not well formed.
const char* ReadUnicodeEscape(const char* in, const char* end, uint32_t* code) {
  const int high = HexQuad(in, end);
  if (high < 0 || (high >= 0xDC00 && high < 0xE000)) return nullptr;
  in += 4;
  *code = static_cast<uint32_t>(high);
  if (high < 0xD800 || high >= 0xDC00) return in;
  if (end - in < 6 || in[0] != '\\' || in[1] != 'u') return nullptr;
  const int low = HexQuad(in + 2, end);
  if (low < 0xDC00 || low >= 0xE000) return nullptr;
  *code = 0x10000 + ((static_cast<uint32_t>(high) - 0xD800) << 10) +
          (static_cast<uint32_t>(low) - 0xDC00);
  return in + 6;
}

/// Resolve escapes from `text` to `out`, never more bytes than `text` has. -1 = not well formed.
ptrdiff_t Unescape(std::string_view text, char* out) {
  const char* in = text.data();
  const char* const end = in + text.size();
  char* const begin = out;
  while (in != end) {
    if (*in != '\\') {
      *out++ = *in++;
      continue;
    }
    if (++in == end) return -1;
    const char c = *in++;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    if (c == 'u') {
      uint32_t code;
      in = ReadUnicodeEscape(in, end, &code);
      if (in == nullptr) return -1;
      out = PutUtf8(out, code);
    } else if (const size_t at = kNames.find(c); at != std::string_view::npos) {
      *out++ = kBytes[at];
    } else {
      return -1;
    }
  }
  return out - begin;
}

/// True when `text` is a JSON number, as far as its first bytes tell: the parsers see to the rest.
bool LooksLikeNumber(std::string_view text) {
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  if (text.back() < '0' || text.back() > '9') return false;  // "1." is none
  return text.front() != '0' || text.size() == 1 || text[1] < '0' || text[1] > '9';
}

const char* ReasonOf(JsonTokenError error) {
  switch (error) {
    case JsonTokenError::kNotUtf8:
      return "the line is not valid UTF-8";
    case JsonTokenError::kUnclosedString:
      return "a string is not closed on the line";
    default:
      return "a string holds an unescaped control character";
  }
}

class NdjsonDecoder final : public SplitDecoder {
 public:
  NdjsonDecoder(BlockReader reader, OnError on_error, std::shared_ptr<arrow::Schema> schema,
                std::vector<ColumnBuilder> columns, uint64_t end)
      : reader_(std::move(reader)),
        on_error_(on_error),
        schema_(std::move(schema)),
        columns_(std::move(columns)),
        end_(end),
        set_in_row_(columns_.size(), 0) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      column_of_key_[columns_[c].field().name()] = static_cast<int>(c);
    }
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    for (;;) {
      if (cursor_ == text_.size()) {
        CAIRN_ASSIGN_OR_RETURN(const bool more, LoadBlock());
        if (!more) return std::shared_ptr<arrow::RecordBatch>();
      }
      const size_t left = text_.size() - cursor_;
      const int64_t rows_max = std::min<int64_t>(kBatchRows, static_cast<int64_t>(left / 2 + 1));
      CAIRN_RETURN_IF_ERROR(BeginBatch(&columns_, rows_max, static_cast<int64_t>(left)));
      CAIRN_ASSIGN_OR_RETURN(const int64_t rows, DecodeLines(rows_max));
      if (rows > 0) return FinishBatch(schema_, &columns_, rows);
    }
  }

  uint64_t position() const override { return reader_.offset() + cursor_; }
  uint64_t rows_skipped() const override { return rows_skipped_; }

 private:
  /// A key as it stands in the text, with the closing quote, so that one comparison tells equality.
  struct Key {
    uint64_t low = 0;  ///< its first 16 bytes, and which of them count
    uint64_t high = 0;
    uint64_t low_mask = 0;
    uint64_t high_mask = 0;
    std::string rest;
    int column = -1;  ///< -1 = not wanted

    Key() = default;
    Key(std::string text, int of_column) : column(of_column) {
      if (text.size() > 16) rest = text.substr(16);
      const size_t size = std::min<size_t>(text.size(), 16);
      text.resize(16, '\0');
      std::memcpy(&low, text.data(), 8);
      std::memcpy(&high, text.data() + 8, 8);
      low_mask = size >= 8 ? UINT64_MAX : (uint64_t{1} << (8 * size)) - 1;
      high_mask = size >= 16 ? UINT64_MAX : size <= 8 ? 0 : (uint64_t{1} << (8 * (size - 8))) - 1;
    }
    /// Shape:    kTextPadding bytes behind `text` are readable.
    bool Is(const char* text) const {
      uint64_t words[2];
      std::memcpy(words, text, 16);
      return low_mask != 0 && (words[0] & low_mask) == low && (words[1] & high_mask) == high &&
             (rest.empty() || std::memcmp(text + 16, rest.data(), rest.size()) == 0);
    }
  };

  /// Read whole lines and find their tokens; false = the split has ended.
  Result<bool> LoadBlock() {
    reader_.Consume(text_.size());
    text_ = {};
    cursor_ = 0;
    if (reader_.offset() >= end_ || (reader_.at_end() && reader_.bytes().empty())) return false;
    const uint64_t left = end_ - reader_.offset();
    size_t want = static_cast<size_t>(std::min<uint64_t>(kBlockBytes, left + kLastRowBytes));
    want = std::max(want - std::min(want, reader_.bytes().size()), kLastRowBytes);
    for (;;) {
      CAIRN_RETURN_IF_ERROR(reader_.Extend(want));
      if (CutText()) break;
      if (reader_.bytes().size() > kRowBytesMax) {
        CAIRN_ASSIGN_OR_RETURN(const uint64_t line, reader_.LineAt(reader_.offset()));
        return Status::InvalidArgument(reader_.path() + " line " + std::to_string(line) +
                                       ": the line is longer than " +
                                       std::to_string(kRowBytesMax >> 20) + " MiB");
      }
      want = reader_.bytes().size();
    }
    // A line that breaks the tokens of its neighbours: take the block line by line.
    by_line_ = tokens_.Find(text_) != JsonTokenError::kNone;
    if (!by_line_) {
      base_ = 0;
      token_ = tokens_.begin();
    }
    has_escapes_ = std::memchr(text_.data(), '\\', text_.size()) != nullptr;
    return true;
  }

  /// Set text_ to the whole lines in the block that start before the split's end; false = no line
  /// is whole yet.
  bool CutText() {
    const std::string_view bytes = reader_.bytes();
    const uint64_t left = end_ - reader_.offset();
    size_t size = bytes.size();
    size_t line_feed = std::string_view::npos;
    if (left < bytes.size()) line_feed = bytes.find('\n', static_cast<size_t>(left) - 1);
    if (line_feed == std::string_view::npos && !reader_.at_end()) line_feed = bytes.rfind('\n');
    if (line_feed != std::string_view::npos) {
      size = line_feed + 1;
    } else if (!reader_.at_end()) {
      size = 0;
    }
    text_ = bytes.substr(0, size);
    return size != 0;
  }

  /// Decode lines from the cursor until `rows_max` rows or the end of the text.
  Result<int64_t> DecodeLines(int64_t rows_max) {
    int64_t row = 0;
    while (row < rows_max && cursor_ < text_.size()) {
      const char* const line = text_.data() + cursor_;
      const void* found = std::memchr(line, '\n', text_.size() - cursor_);
      const size_t line_end =
          found == nullptr ? text_.size()
                           : static_cast<size_t>(static_cast<const char*>(found) - text_.data());
      const char* problem = DecodeLine(line_end, row);
      if (problem == kBlankLine) {
        problem = nullptr;
      } else if (problem == nullptr) {
        ++row;
      }
      if (problem != nullptr) [[unlikely]] {
        if (on_error_ == OnError::kFail) return LineError(problem);
        ++rows_skipped_;
        while (!by_line_ && token_ != tokens_.end() && *token_ < line_end) ++token_;
      }
      cursor_ = std::min(line_end + 1, text_.size());
    }
    return row;
  }

  Status LineError(const char* problem) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t line, reader_.LineAt(reader_.offset() + cursor_));
    return BadRow(reader_.path(), line, bad_column_ == nullptr ? "" : bad_column_->field().name(),
                  bad_value_, problem);
  }

  /// Decode the line from the cursor to `line_end` as row `row`. Null = done.
  const char* DecodeLine(size_t line_end, int64_t row) {
    bad_column_ = nullptr;
    bad_value_ = {};
    if (by_line_) {
      const std::string_view line = text_.substr(cursor_, line_end - cursor_);
      if (std::all_of(line.begin(), line.end(), IsJsonSpace)) return kBlankLine;
      const JsonTokenError error = tokens_.Find(line);
      if (error != JsonTokenError::kNone) return ReasonOf(error);
      base_ = cursor_;
      token_ = tokens_.begin();
    }
    line_end_ = static_cast<uint32_t>(line_end - base_);
    if (*token_ >= line_end_ || token_ == tokens_.end()) return kBlankLine;
    if (const char* problem = DecodeObject(row); problem != nullptr) return problem;
    if (token_ != tokens_.end() && *token_ < line_end_) return "text follows the JSON object";
    if (set_count_ != columns_.size()) [[unlikely]] {
      for (size_t c = 0; c < columns_.size(); ++c) {
        if (set_in_row_[c] == row_stamp_) continue;
        bad_column_ = &columns_[c];
        if (!columns_[c].nullable()) return "the value is missing and the column is NOT NULL";
        columns_[c].SetNull(row);
      }
    }
    return nullptr;
  }

  const char* DecodeObject(int64_t row) {
    const char* const text = text_.data() + base_;
    ++row_stamp_;
    set_count_ = 0;
    if (text[*token_] != '{') return "a row must be a JSON object";
    ++token_;
    if (text[*token_] == '}' && *token_ < line_end_) {
      ++token_;
      return nullptr;
    }
    for (size_t field = 0;; ++field) {
      if (text[token_[0]] != '"' || *token_ >= line_end_) return "the object is not closed";
      if (text[token_[1]] != ':') return "a key is not followed by ':'";
      int column;
      if (const char* problem = FindColumn(field, text, &column); problem != nullptr) {
        return problem;
      }
      token_ += 2;
      const char* problem = column < 0 ? PassValue(text) : DecodeValue(column, text, row);
      if (problem != nullptr) return problem;
      const char next = text[*token_];
      if (*token_ >= line_end_) return "the object is not closed";
      ++token_;
      if (next == '}') return nullptr;
      if (next != ',') return "a value is not followed by ',' or '}'";
    }
  }

  /// Which column the key at the token names. Rows mostly list their keys in the same order.
  const char* FindColumn(size_t field, const char* text, int* column) {
    const char* const key = text + *token_ + 1;
    if (field < key_order_.size()) {
      const Key& expected = key_order_[field];
      if (expected.Is(key)) [[likely]] {
        *column = expected.column;
        return nullptr;
      }
    }
    std::string_view raw;
    if (!StringAt(text, &raw)) return "a key is not a JSON string";
    std::string name(raw.size(), '\0');
    const ptrdiff_t size = Unescape(raw, name.data());
    if (size < 0) return "a key has a bad escape";
    name.resize(static_cast<size_t>(size));
    const auto found = column_of_key_.find(name);
    *column = found == column_of_key_.end() ? -1 : found->second;
    // Keys longer than the padding behind the text could be compared past its end.
    if (raw.find('\\') == std::string_view::npos && raw.size() < kTextPadding - 2) {
      if (field >= key_order_.size() && field < kKeyOrderMax) key_order_.resize(field + 1);
      if (field < key_order_.size()) key_order_[field] = Key(std::string(raw) + '"', *column);
    }
    return nullptr;
  }

  /// The content, escapes unresolved, of the string at the token.
  bool StringAt(const char* text, std::string_view* raw) const {
    const uint32_t begin = token_[0] + 1;
    uint32_t end = token_[1];
    while (end > begin && IsJsonSpace(text[end - 1])) --end;
    if (end <= begin || text[end - 1] != '"') return false;
    *raw = {text + begin, end - 1 - begin};
    return true;
  }

  /// Go past a value that no column wants.
  const char* PassValue(const char* text) {
    int depth = 0;
    do {
      if (*token_ >= line_end_) return "the object is not closed";
      const char c = text[*token_++];
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (depth < 0 || (depth == 0 && (c == ',' || c == ':'))) return "a value is missing";
    } while (depth > 0);
    return nullptr;
  }

  const char* DecodeValue(int index, const char* text, int64_t row) {
    ColumnBuilder& column = columns_[static_cast<size_t>(index)];
    uint64_t& stamp = set_in_row_[static_cast<size_t>(index)];
    if (stamp != row_stamp_) {
      stamp = row_stamp_;
      ++set_count_;
    }
    const uint32_t begin = token_[0];
    if (begin >= line_end_) return "the object is not closed";
    const char first = text[begin];
    if (first == '"') {
      std::string_view raw;
      if (!StringAt(text, &raw)) return "a string is not closed";
      ++token_;
      return column.kind() == ColumnKind::kText ? DecodeText(&column, raw, row)
                                                : DecodeQuoted(&column, raw, row);
    }
    uint32_t end = token_[1];
    while (end > begin && IsJsonSpace(text[end - 1])) --end;
    const std::string_view raw(text + begin, end - begin);
    ++token_;
    if (column.kind() == ColumnKind::kBigint && first >= '1' && first <= '9') [[likely]] {
      int64_t value;
      if (const TextError error = ParseInt64(raw, &value)) return Bad(column, raw, error);
      column.SetInt64(row, value);
      return nullptr;
    }
    return DecodeBare(&column, raw, row);
  }

  const char* Bad(const ColumnBuilder& column, std::string_view value, const char* reason) {
    bad_column_ = &column;
    bad_value_ = value;
    return reason;
  }

  const char* DecodeText(ColumnBuilder* column, std::string_view raw, int64_t row) {
    if (!has_escapes_ || std::memchr(raw.data(), '\\', raw.size()) == nullptr) [[likely]] {
      column->SetText(row, raw);
      return nullptr;
    }
    const ptrdiff_t size = Unescape(raw, column->StartText(row));
    if (size < 0) return Bad(*column, raw, "has a bad escape");
    column->FinishText(row, static_cast<size_t>(size));
    return nullptr;
  }

  /// A string for a column of another type than TEXT.
  const char* DecodeQuoted(ColumnBuilder* column, std::string_view raw, int64_t row) {
    switch (column->kind()) {
      case ColumnKind::kTimestamp:
      case ColumnKind::kDate:
      case ColumnKind::kDecimal:
        break;
      case ColumnKind::kDouble:
        if (raw == "NaN" || raw == "Infinity" || raw == "-Infinity") break;
        [[fallthrough]];
      default:
        return Bad(*column, raw, "is a string where the column's type is a number or boolean");
    }
    if (const TextError error = column->SetFromText(row, raw)) return Bad(*column, raw, error);
    return nullptr;
  }

  /// A value that is no string: number, true, false, null, or the start of something nested.
  const char* DecodeBare(ColumnBuilder* column, std::string_view raw, int64_t row) {
    if (raw == "null") {
      if (!column->nullable()) return Bad(*column, "", "is null and the column is NOT NULL");
      column->SetNull(row);
      return nullptr;
    }
    switch (column->kind()) {
      case ColumnKind::kText:
      case ColumnKind::kTimestamp:
      case ColumnKind::kDate:
        return Bad(*column, raw, "is not a JSON string");
      case ColumnKind::kBoolean:
        if (raw != "true" && raw != "false") return Bad(*column, raw, "is not true or false");
        break;
      default:
        if (!LooksLikeNumber(raw)) return Bad(*column, raw, "is not a JSON number");
    }
    if (const TextError error = column->SetFromText(row, raw)) return Bad(*column, raw, error);
    return nullptr;
  }

  static constexpr size_t kKeyOrderMax = 1024;
  static constexpr char kBlankLine[] = "";

  BlockReader reader_;
  OnError on_error_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ColumnBuilder> columns_;
  uint64_t end_;
  std::map<std::string, int> column_of_key_;
  std::vector<Key> key_order_;  ///< by place in the row, as the last rows had it

  std::string_view text_;  ///< whole lines of the block
  size_t cursor_ = 0;      ///< start of the next line in text_
  JsonTokens tokens_;
  const uint32_t* token_ = nullptr;
  size_t base_ = 0;  ///< where in text_ the tokens' offsets begin
  uint32_t line_end_ = 0;
  bool by_line_ = false;
  bool has_escapes_ = false;

  std::vector<uint64_t> set_in_row_;  ///< stamp of the last row that set the column
  uint64_t row_stamp_ = 0;
  size_t set_count_ = 0;
  const ColumnBuilder* bad_column_ = nullptr;
  std::string_view bad_value_;
  uint64_t rows_skipped_ = 0;
};

/// The place behind blanks at `at`.
size_t PassBlanks(std::string_view text, size_t at) {
  while (at < text.size() && IsJsonSpace(text[at])) ++at;
  return at;
}

/// The place of the quote that ends the string whose content begins at `at`; npos = not on the
/// line.
size_t EndOfString(std::string_view text, size_t at) {
  for (; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '"') return at;
    if (text[at] == '\\') ++at;
  }
  return std::string_view::npos;
}

/// Take the names out of `missing` that stand as keys in `text`: in quotes, as they are or with
/// escapes, and followed by ':'. Where strings begin is not known, so every quote is tried.
void FindKeys(std::string_view text, std::vector<std::string>* missing) {
  const auto is_key = [text](size_t end) {
    const size_t behind = PassBlanks(text, end + 1);
    return behind < text.size() && text[behind] == ':';
  };
  std::erase_if(*missing, [&](const std::string& name) {
    const std::string quoted = '"' + name + '"';
    for (size_t at = text.find(quoted); at != std::string_view::npos;
         at = text.find(quoted, at + 1)) {
      if (is_key(at + quoted.size() - 1)) return true;
    }
    return false;
  });
  if (missing->empty() || text.find('\\') == std::string_view::npos) return;
  std::string name;
  for (size_t at = text.find('"'); at != std::string_view::npos; at = text.find('"', at + 1)) {
    const size_t end = EndOfString(text, at + 1);
    if (end == std::string_view::npos || !is_key(end)) continue;
    const std::string_view raw = text.substr(at + 1, end - at - 1);
    if (raw.find('\\') == std::string_view::npos) continue;
    name.resize(raw.size());
    const ptrdiff_t size = Unescape(raw, name.data());
    if (size < 0) continue;
    name.resize(static_cast<size_t>(size));
    std::erase(*missing, name);
    if (missing->empty()) return;
  }
}

}  // namespace

Result<uint64_t> FirstNdjsonRow(const env::RandomAccessFile& file) {
  char mark[kByteOrderMark.size()];
  if (file.size() < sizeof(mark)) return uint64_t{0};
  CAIRN_RETURN_IF_ERROR(file.ReadExactly(0, mark));
  return std::string_view(mark, sizeof(mark)) == kByteOrderMark ? sizeof(mark) : uint64_t{0};
}

Status CheckNdjsonKeys(const std::shared_ptr<const env::RandomAccessFile>& file,
                       const std::string& path, const ColumnSet& columns) {
  std::vector<std::string> missing = columns.required;
  // A key may lie over the end of a block, each of its bytes written as an escape of six.
  size_t overlap = 64;
  for (const std::string& name : missing) overlap = std::max(overlap, 6 * name.size() + 64);
  BlockReader reader(file, path, 0);
  bool blank = true;
  while (!missing.empty()) {
    CAIRN_RETURN_IF_ERROR(reader.Extend(kBlockBytes));
    const std::string_view bytes = reader.bytes();
    blank = blank && std::all_of(bytes.begin(), bytes.end(), IsJsonSpace);
    FindKeys(bytes, &missing);
    if (reader.at_end()) break;
    reader.Consume(bytes.size() - std::min(bytes.size(), overlap));
  }
  if (missing.empty() || blank) return {};
  return Status::InvalidArgument(path + " has no column " + missing.front() +
                                 ": no row has such a key");
}

Result<std::unique_ptr<SplitDecoder>> OpenNdjsonDecoder(
    std::shared_ptr<const env::RandomAccessFile> file, const std::string& path, OnError on_error,
    const ColumnSet& columns, uint64_t offset, uint64_t end) {
  CAIRN_ASSIGN_OR_RETURN(auto builders, MakeBuilders(*columns.schema));
  BlockReader reader(std::move(file), path, offset);
  std::unique_ptr<SplitDecoder> decoder = std::make_unique<NdjsonDecoder>(
      std::move(reader), on_error, columns.schema, std::move(builders), end);
  return decoder;
}

}  // namespace cairn::connectors
