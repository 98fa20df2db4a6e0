// SPDX-License-Identifier: Apache-2.0
#include "connectors/split_finder.h"

#include <algorithm>
#include <utility>

#include "connectors/block_reader.h"
#include "connectors/csv_decoder.h"
#include "connectors/csv_scanner.h"
#include "connectors/ndjson_decoder.h"
#include "connectors/parquet_decoder.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;

/// Find where the splits of one text file begin, in ascending order.
class RowStarts {
 public:
  RowStarts(const SourceTable& table, const InputFile& file, const std::string& path)
      : table_(table), reader_(file, path, 0) {}

  /// A row begins at `offset`, or the file ends there.
  void Pass(uint64_t offset) { row_start_ = std::max(row_start_, offset); }

  /// The first row that starts at `target` or behind; the file's size when there is none.
  Result<uint64_t> Find(uint64_t target) {
    if (row_start_ >= target) return row_start_;
    const bool csv = table_.options.format == FileFormat::kCsv;
    uint64_t from = row_start_;
    // Without quotes every line feed ends a row: no need to read what is before the target.
    if (!csv) from = std::max(row_start_, target - 1);
    CsvRowFinder finder(table_.options.csv.dialect, from);
    reader_ = BlockReader(reader_.file(), reader_.path(), from);
    while (!reader_.at_end()) {
      CAIRN_RETURN_IF_ERROR(reader_.Extend(kBlockBytes));
      const std::string_view bytes = reader_.bytes();
      if (csv) {
        if (finder.Feed(bytes, target, &row_start_)) return row_start_;
      } else if (const size_t at = bytes.find('\n'); at != std::string_view::npos) {
        return row_start_ = reader_.offset() + at + 1;
      }
      reader_.Consume(bytes.size());
    }
    return row_start_ = reader_.file_size();
  }

 private:
  const SourceTable& table_;
  BlockReader reader_;
  uint64_t row_start_ = 0;
};

/// The splits of one text file.
class TextSplits {
 public:
  TextSplits(const SourceTable& table, std::string name, const SourceFile& source, InputFile file)
      : table_(table),
        name_(std::move(name)),
        source_(source),
        file_(std::move(file)),
        starts_(table, file_, source.path) {}

  Status Find(const SavedSplits& saved, std::vector<SplitProgress>* fresh) {
    for (const auto& [index, split] : saved) CAIRN_RETURN_IF_ERROR(Resume(index, split));
    CAIRN_RETURN_IF_ERROR(PassHeader());
    uint64_t index = 0;
    for (; Start(index) < file_->size(); ++index) {
      if (const auto found = begun_.find(index); found != begun_.end()) {
        starts_.Pass(found->second);
        continue;
      }
      const auto known = saved.find(index);
      if (known == saved.end()) fresh->push_back({SplitName(name_, index), "", false, true});
      CAIRN_RETURN_IF_ERROR(Begin(index, known == saved.end() ? &fresh->back() : known->second));
    }
    // A file of which nothing was read may have become shorter.
    for (auto behind = saved.lower_bound(index); behind != saved.end(); ++behind) {
      if (begun_.contains(behind->first)) continue;
      CAIRN_RETURN_IF_ERROR(Begin(behind->first, behind->second));
    }
    return {};
  }

 private:
  uint64_t Start(uint64_t index) const { return SplitStart(index, table_.options.split_bytes); }

  /// Check what was read of a split, and open the split again when the file has more rows for it.
  Status Resume(uint64_t index, SplitProgress* split) {
    if (split->position.empty()) return {};
    CAIRN_ASSIGN_OR_RETURN(SplitPosition position,
                           ParseSplitPosition(split->position, split->split));
    if (!Begun(position)) return {};
    CAIRN_RETURN_IF_ERROR(CheckSameFile(*file_, source_.path, position, /*of_fixed_size=*/false));
    if (file_->size() > position.size) {
      if (position.at == position.size) CAIRN_RETURN_IF_ERROR(PassLineEnd(&position));
      split->ended =
          split->ended && (position.at >= Start(index + 1) || position.at >= file_->size());
      position.size = file_->size();
    }
    begun_[index] = position.at;
    position.file = source_.identity;
    split->position = ToJson(position);
    return {};
  }

  /// The file was read to its end and has grown: the line that was its last must have been ended.
  /// Go behind its end, which belongs to the row that was read.
  Status PassLineEnd(SplitPosition* position) {
    char around[3] = {'\0', '\0', '\n'};  // as if a line feed followed: a CR may wait for it
    const uint64_t known = std::min<uint64_t>(3, file_->size() - position->at + 1);
    CAIRN_RETURN_IF_ERROR(file_->ReadExactly(position->at - 1, {around, known}));
    if (around[0] == '\n') return {};
    if (around[1] == '\n') {
      position->at += 1;
      return {};
    }
    if (around[0] != '\r' && around[1] == '\r' && around[2] == '\n') {
      position->at += known - 1;
      return {};
    }
    return Status::InvalidArgument(
        source_.path + " grew in the middle of the line that was its last when it was read (byte " +
        std::to_string(position->at) + "): that row was taken as it stood. Append whole lines");
  }

  /// Go to the first row, and check that the file has the table's columns.
  Status PassHeader() {
    if (table_.options.format == FileFormat::kCsv) {
      CAIRN_ASSIGN_OR_RETURN(
          const CsvHeader header,
          ReadCsvHeader(file_, source_.path, table_.options.csv, table_.columns));
      starts_.Pass(header.first_row);
      return {};
    }
    CAIRN_ASSIGN_OR_RETURN(const uint64_t first_row, FirstNdjsonRow(*file_));
    starts_.Pass(first_row);
    if (!begun_.empty()) return {};
    return CheckNdjsonKeys(file_, source_.path, table_.columns);
  }

  /// Look for the first row of a split of which nothing was read.
  Status Begin(uint64_t index, SplitProgress* split) {
    SplitPosition position;
    position.size = file_->size();
    position.file = source_.identity;
    position.at = position.size;
    if (Start(index) < position.size) {
      CAIRN_ASSIGN_OR_RETURN(position.at, starts_.Find(Start(index)));
    }
    if (index != 0) position.from = position.at;
    split->position = ToJson(position);
    split->ended = position.at >= Start(index + 1) || position.at >= position.size;
    return {};
  }

  const SourceTable& table_;
  std::string name_;
  const SourceFile& source_;
  InputFile file_;
  RowStarts starts_;
  std::map<uint64_t, uint64_t> begun_;  ///< by index, where the next row begins
};

Status FindRowGroups(const SourceTable& table, const std::string& name, const SourceFile& source,
                     const InputFile& file, const SavedSplits& saved,
                     std::vector<SplitProgress>* fresh) {
  for (const auto& [index, split] : saved) {
    if (split->position.empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const SplitPosition position,
                           ParseSplitPosition(split->position, split->split));
    CAIRN_RETURN_IF_ERROR(CheckSameFile(*file, source.path, position, /*of_fixed_size=*/true));
  }
  CAIRN_ASSIGN_OR_RETURN(const uint64_t row_groups,
                         CheckParquetFile(file, source.path, *table.all_columns));
  SplitPosition now;
  now.size = file->size();
  now.file = source.identity;
  CAIRN_RETURN_IF_ERROR(SampleParquet(*file, &now));
  for (const auto& [index, split] : saved) {
    SplitPosition position = now;
    if (!split->position.empty()) {
      CAIRN_ASSIGN_OR_RETURN(const SplitPosition before,
                             ParseSplitPosition(split->position, split->split));
      position.at = before.at;
    }
    split->position = ToJson(position);
    split->ended = split->ended || index >= row_groups;
  }
  for (uint64_t index = 0; index < row_groups; ++index) {
    if (!saved.contains(index))
      fresh->push_back({SplitName(name, index), ToJson(now), false, true});
  }
  return {};
}

}  // namespace

Status FindSplits(const SourceTable& table, const std::string& name, const SourceFile& file,
                  const SavedSplits& saved, std::vector<SplitProgress>* fresh) {
  CAIRN_ASSIGN_OR_RETURN(const InputFile input, OpenInput(table, file.path));
  if (table.parquet()) return FindRowGroups(table, name, file, input, saved, fresh);
  return TextSplits(table, name, file, input).Find(saved, fresh);
}

}  // namespace cairn::connectors
