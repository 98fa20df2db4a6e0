// SPDX-License-Identifier: Apache-2.0
#include "connectors/csv_decoder.h"

#include <algorithm>

#include "format/utf8.h"

namespace cairn::connectors {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
/// How far behind the end of a split to read for its last row.
constexpr size_t kLastRowBytes = 16 * 1024;

/// Extend `reader` until `scanner` finds a whole row or the file ends. Return the bytes of rows.
Result<size_t> ScanBlock(BlockReader* reader, CsvScanner* scanner, size_t want) {
  for (;;) {
    CAIRN_RETURN_IF_ERROR(reader->Extend(want));
    const size_t scanned = scanner->Scan(reader->bytes(), reader->at_end());
    if (scanned != 0 || reader->at_end()) return scanned;
    if (reader->bytes().size() > kRowBytesMax) {
      CAIRN_ASSIGN_OR_RETURN(const uint64_t line, reader->LineAt(reader->offset()));
      return Status::InvalidArgument(
          reader->path() + " line " + std::to_string(line) + ": the row is longer than " +
          std::to_string(kRowBytesMax >> 20) + " MiB; is a quote not closed?");
    }
    want = reader->bytes().size();
  }
}

std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

class CsvDecoder final : public SplitDecoder {
 public:
  CsvDecoder(BlockReader reader, const CsvOptions& options, std::shared_ptr<arrow::Schema> schema,
             std::vector<ColumnBuilder> columns, std::vector<uint32_t> file_columns,
             uint32_t file_column_count, uint64_t end)
      : reader_(std::move(reader)),
        options_(options),
        schema_(std::move(schema)),
        columns_(std::move(columns)),
        file_columns_(std::move(file_columns)),
        file_column_count_(file_column_count),
        end_(end),
        scanner_(options.dialect, file_column_count) {
    for (const ColumnBuilder& column : columns_) {
      has_text_ = has_text_ || column.kind() == ColumnKind::kText;
    }
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    for (;;) {
      if (next_row_ == scanner_.rows().size()) {
        CAIRN_ASSIGN_OR_RETURN(const bool more, LoadBlock());
        if (!more) return std::shared_ptr<arrow::RecordBatch>();
        continue;
      }
      const size_t first = next_row_;
      size_t last = std::min(first + static_cast<size_t>(kBatchRows), scanner_.rows().size());
      const uint64_t left = end_ > reader_.offset() ? end_ - reader_.offset() : 0;
      while (last > first && scanner_.rows()[last - 1].start >= left) --last;
      if (last == first) {  // the next row belongs to the next split
        CAIRN_RETURN_IF_ERROR(Skip(scanner_.rows()[first].start));
        end_ = 0;
        continue;
      }
      // A row that the file's end leaves open comes alone: what is behind it is not its end, and
      // the position stays before it.
      if (scanner_.rows()[last - 1].unclosed && last - first > 1) --last;
      CAIRN_ASSIGN_OR_RETURN(auto batch, Decode(first, last));
      const CsvRow& last_row = scanner_.rows()[last - 1];
      if (last_row.unclosed) open_row_ = reader_.offset() + last_row.start;
      next_row_ = last;
      if (batch != nullptr) return batch;
    }
  }

  uint64_t position() const override {
    if (open_row_) return *open_row_;
    const size_t behind =
        next_row_ < scanner_.rows().size() ? scanner_.rows()[next_row_].start : scanned_;
    return reader_.offset() + behind;
  }

  uint64_t rows_skipped() const override { return rows_skipped_; }

 private:
  struct Problem {
    size_t row;                   ///< index in chosen_
    const ColumnBuilder* column;  ///< in columns_
    std::string value;
    std::string reason;
  };

  /// Go to byte `size` of the block and forget its rows.
  Status Skip(size_t size) {
    reader_.Consume(size);
    scanned_ = 0;
    scanner_.Scan({}, false);
    next_row_ = 0;
    return {};
  }

  /// Scan the next block; false = the split has ended.
  Result<bool> LoadBlock() {
    CAIRN_RETURN_IF_ERROR(Skip(scanned_));
    if (reader_.offset() >= end_ || (reader_.at_end() && reader_.bytes().empty())) return false;
    const uint64_t left = end_ - reader_.offset();
    size_t want = static_cast<size_t>(std::min<uint64_t>(kBlockBytes, left + kLastRowBytes));
    want -= std::min(want, reader_.bytes().size());
    CAIRN_ASSIGN_OR_RETURN(scanned_,
                           ScanBlock(&reader_, &scanner_, std::max<size_t>(want, kLastRowBytes)));
    if (scanned_ == 0) return false;  // the file ends in a blank remainder
    all_utf8_ = !has_text_ || format::IsUtf8(reader_.bytes().substr(0, scanned_));
    return true;
  }

  /// Decode rows [first, last) of the block; null when all of them were skipped.
  Result<std::shared_ptr<arrow::RecordBatch>> Decode(size_t first, size_t last) {
    chosen_.clear();
    for (size_t i = first; i < last; ++i) {
      const CsvRow& row = scanner_.rows()[i];
      if (row.values == file_column_count_ && !row.unclosed) [[likely]] {
        chosen_.push_back(row);
        continue;
      }
      if (options_.on_error == OnError::kFail) {
        // An earlier row may be bad in another way; the first bad row is the one to name.
        CAIRN_RETURN_IF_ERROR(DecodeChosen().status());
        return RowShapeError(row);
      }
      ++rows_skipped_;
    }
    return DecodeChosen();
  }

  Status RowShapeError(const CsvRow& row) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t line, reader_.LineAt(reader_.offset() + row.start));
    if (row.unclosed) return BadRow(reader_.path(), line, "", "", "a quoted value is not closed");
    return BadRow(reader_.path(), line, "", "",
                  "the row has " + std::to_string(row.values) + " values, the header " +
                      std::to_string(file_column_count_));
  }

  Result<std::shared_ptr<arrow::RecordBatch>> DecodeChosen() {
    while (!chosen_.empty()) {
      const int64_t rows = static_cast<int64_t>(chosen_.size());
      // The last value ends where the last row does; both are in the same block.
      const std::string_view last_value =
          scanner_.RawValue(reader_.bytes(), chosen_.back(), file_column_count_ - 1);
      const char* const begin = reader_.bytes().data() + chosen_.front().start;
      CAIRN_RETURN_IF_ERROR(
          BeginBatch(&columns_, rows, last_value.data() + last_value.size() - begin));
      problems_.clear();
      for (size_t c = 0; c < columns_.size(); ++c) {
        DecodeColumn(&columns_[c], file_columns_[c]);
      }
      if (problems_.empty()) [[likely]] {
        return FinishBatch(schema_, &columns_, rows);
      }
      CAIRN_RETURN_IF_ERROR(HandleProblems());
    }
    return std::shared_ptr<arrow::RecordBatch>();
  }

  /// Fail on the first bad row, or leave all of them out of chosen_.
  Status HandleProblems() {
    std::sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
      return a.row != b.row ? a.row < b.row : a.column < b.column;
    });
    if (options_.on_error == OnError::kFail) {
      const Problem& problem = problems_.front();
      CAIRN_ASSIGN_OR_RETURN(const uint64_t line,
                             reader_.LineAt(reader_.offset() + chosen_[problem.row].start));
      return BadRow(reader_.path(), line, problem.column->field().name(), problem.value,
                    problem.reason);
    }
    size_t kept = 0;
    size_t problem = 0;
    for (size_t row = 0; row < chosen_.size(); ++row) {
      while (problem < problems_.size() && problems_[problem].row < row) ++problem;
      if (problem < problems_.size() && problems_[problem].row == row) {
        ++rows_skipped_;
      } else {
        chosen_[kept++] = chosen_[row];
      }
    }
    chosen_.resize(kept);
    return {};
  }

  void DecodeColumn(ColumnBuilder* column, uint32_t file_column) {
    const std::string_view data = reader_.bytes();
    const char quote = options_.dialect.quote;
    const bool is_text = column->kind() == ColumnKind::kText;
    const bool is_bigint = column->kind() == ColumnKind::kBigint;
    const std::string_view null_text = options_.null_text;
    for (size_t row = 0; row < chosen_.size(); ++row) {
      const std::string_view raw = scanner_.RawValue(data, chosen_[row], file_column);
      const int64_t index = static_cast<int64_t>(row);
      if (!raw.empty() && raw.front() != quote && null_text.empty()) [[likely]] {
        if (is_text && all_utf8_) {
          column->SetText(index, raw);
          continue;
        }
        int64_t value;
        if (is_bigint && ParseInt64(raw, &value) == nullptr) {
          column->SetInt64(index, value);
          continue;
        }
      }
      DecodeValue(column, row, raw);
    }
  }

  /// Every case that DecodeColumn does not take itself.
  void DecodeValue(ColumnBuilder* column, size_t row, std::string_view raw) {
    const bool is_text = column->kind() == ColumnKind::kText;
    const int64_t index = static_cast<int64_t>(row);
    std::string_view value = raw;
    bool null = raw == options_.null_text;
    TextError error = nullptr;
    if (!raw.empty() && raw.front() == options_.dialect.quote) {
      null = false;
      if (!UnquoteCsv(raw, options_.dialect.quote, &scratch_, &value)) {
        error = "has text behind its closing quote";
      }
    }
    if (error == nullptr && !null && !is_text) {
      value = TrimBlanks(value);
      // Programs that quote everything write "" where a number is missing.
      null = value.empty() && options_.null_text.empty();
    }
    if (error == nullptr && null && !column->nullable()) {
      error = "the value is missing and the column is NOT NULL";
    }
    if (error == nullptr && is_text && !null && !all_utf8_ && !format::IsUtf8(value)) {
      error = "the value is not valid UTF-8";
      value = {};
    }
    if (error == nullptr && !null) {
      // Parsers may read a few bytes too far, which an unescaped value in scratch_ allows as well.
      error = column->SetFromText(index, value);
    }
    if (error != nullptr) problems_.push_back({row, column, std::string(value), error});
    if (error != nullptr || null) column->SetNull(index);
  }

  BlockReader reader_;
  CsvOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ColumnBuilder> columns_;
  std::vector<uint32_t> file_columns_;  ///< place of each column in the file
  uint32_t file_column_count_;
  uint64_t end_;
  CsvScanner scanner_;
  size_t scanned_ = 0;                ///< bytes of the block that rows take
  size_t next_row_ = 0;               ///< index in scanner_.rows()
  std::optional<uint64_t> open_row_;  ///< where the skipped last row of an unclosed quote begins
  bool has_text_ = false;
  bool all_utf8_ = true;
  std::vector<CsvRow> chosen_;
  std::vector<Problem> problems_;
  std::string scratch_;
  uint64_t rows_skipped_ = 0;
};

Status CheckHeader(const std::string& path, const CsvHeader& header, const ColumnSet& columns) {
  for (const std::string& name : columns.required) {
    const auto times = std::count(header.names.begin(), header.names.end(), name);
    if (times == 1) continue;
    std::string list;
    for (const std::string& found : header.names) list += (list.empty() ? "" : ", ") + found;
    return Status::InvalidArgument(path +
                                   (times == 0 ? " has no column " : " has twice the column ") +
                                   name + "; its header names: " + list);
  }
  return {};
}

}  // namespace

Result<CsvHeader> ReadCsvHeader(const std::shared_ptr<const env::RandomAccessFile>& file,
                                const std::string& path, const CsvOptions& options,
                                const ColumnSet& columns) {
  CsvHeader header;
  BlockReader reader(file, path, 0);
  CAIRN_RETURN_IF_ERROR(reader.Extend(kLastRowBytes));
  if (reader.bytes().starts_with(kByteOrderMark)) reader.Consume(kByteOrderMark.size());
  header.empty_file = reader.bytes().empty();
  header.first_row = reader.offset();
  if (!options.header) {
    header.names = columns.required;
    return header;
  }
  if (header.empty_file) return header;
  CsvScanner scanner(options.dialect, 0);
  CAIRN_ASSIGN_OR_RETURN(const size_t scanned, ScanBlock(&reader, &scanner, 0));
  if (scanner.rows().empty()) {
    header.empty_file = true;
    header.first_row = reader.offset() + scanned;
    return header;
  }
  const CsvRow& row = scanner.rows().front();
  for (uint32_t c = 0; c < row.values; ++c) {
    std::string_view name = scanner.RawValue(reader.bytes(), row, c);
    std::string scratch;
    if (!name.empty() && name.front() == options.dialect.quote) {
      if (!UnquoteCsv(name, options.dialect.quote, &scratch, &name)) {
        return Status::InvalidArgument(path + ": the header row has a badly quoted name");
      }
    } else {
      name = TrimBlanks(name);
    }
    header.names.emplace_back(name);
  }
  const std::string_view last = scanner.RawValue(reader.bytes(), row, row.values - 1);
  size_t behind = static_cast<size_t>(last.data() + last.size() - reader.bytes().data());
  if (behind < reader.bytes().size() && reader.bytes()[behind] == '\r') ++behind;
  if (behind < reader.bytes().size() && reader.bytes()[behind] == '\n') ++behind;
  header.first_row = reader.offset() + behind;
  CAIRN_RETURN_IF_ERROR(CheckHeader(path, header, columns));
  return header;
}

Result<std::unique_ptr<SplitDecoder>> OpenCsvDecoder(
    std::shared_ptr<const env::RandomAccessFile> file, const std::string& path,
    const CsvOptions& options, const CsvHeader& header, const ColumnSet& columns, uint64_t offset,
    uint64_t end) {
  CAIRN_ASSIGN_OR_RETURN(auto builders, MakeBuilders(*columns.schema));
  std::vector<uint32_t> places;
  for (const std::string& name : columns.schema->field_names()) {
    const auto found = std::find(header.names.begin(), header.names.end(), name);
    places.push_back(static_cast<uint32_t>(found - header.names.begin()));
  }
  BlockReader reader(std::move(file), path, std::max(offset, header.first_row));
  std::unique_ptr<SplitDecoder> decoder = std::make_unique<CsvDecoder>(
      std::move(reader), options, columns.schema, std::move(builders), std::move(places),
      static_cast<uint32_t>(header.names.size()), end);
  return decoder;
}

}  // namespace cairn::connectors
