// SPDX-License-Identifier: Apache-2.0
#include "connectors/filesystem_source.h"

#include <algorithm>
#include <map>
#include <set>

#include "connectors/block_reader.h"
#include "connectors/column_set.h"
#include "connectors/ndjson_decoder.h"
#include "connectors/parquet_decoder.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;

using OpenFile = std::shared_ptr<const env::RandomAccessFile>;

/// What source and readers share; never changes.
struct Table {
  FilesystemSourceOptions options;
  std::shared_ptr<arrow::Schema> all_columns;
  ColumnSet columns;
  env::FileSystem* files;

  Sampled sampled() const {
    return options.format == FileFormat::kParquet ? Sampled::kTail : Sampled::kHead;
  }
  Result<OpenFile> Open(const std::string& path) const {
    CAIRN_ASSIGN_OR_RETURN(auto file, files->OpenForRead(path));
    return OpenFile(std::move(file));
  }
};

/// Path of every file, by name.
using FileList = std::map<std::string, std::string>;

Result<FileList> ListFiles(const Table& table) {
  const std::string& path = table.options.path;
  auto info = table.files->Stat(path);
  if (!info.ok()) return info.status().WithContext("the source's path");
  FileList list;
  if (!info->is_directory) {
    list[path.substr(path.rfind('/') + 1)] = path;
    return list;
  }
  CAIRN_ASSIGN_OR_RETURN(const auto entries, table.files->ListDirectory(path));
  for (const env::DirectoryEntry& entry : entries) {
    if (entry.is_directory || entry.name.starts_with('_') || entry.name.starts_with('.')) continue;
    list[entry.name] = env::JoinPath(path, entry.name);
  }
  return list;
}

Status Gone(const Table& table, const std::string& file) {
  return Status::NotFound(file + " is gone from " + table.options.path +
                          " and was not read to its end; put it back, or start anew with --fresh");
}

/// Find where the splits of one text file begin, from a place where a row begins.
class RowStarts {
 public:
  RowStarts(const Table& table, const OpenFile& file, const std::string& path, uint64_t row_start)
      : table_(table), reader_(file, path, row_start), row_start_(row_start) {}

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
  const Table& table_;
  BlockReader reader_;
  uint64_t row_start_;
};

/// Find the splits of one file, given those that were saved.
class FileSplits {
 public:
  FileSplits(const Table& table, std::string name, std::string path)
      : table_(table), name_(std::move(name)), path_(std::move(path)) {}

  Status Open() {
    CAIRN_ASSIGN_OR_RETURN(file_, table_.Open(path_));
    CAIRN_ASSIGN_OR_RETURN(now_, Fingerprint(*file_, table_.sampled()));
    return {};
  }

  /// Check a saved split and open it again when the file grew.
  Status Check(uint64_t index, SplitProgress* split) {
    CAIRN_ASSIGN_OR_RETURN(SplitPosition saved, ParseSplitPosition(split->position, split->split));
    CAIRN_RETURN_IF_ERROR(CheckSameFile(*file_, path_, saved, table_.sampled()));
    saved_indices_.insert(index);
    if (table_.options.format == FileFormat::kParquet) return {};
    known_row_start_ = std::max(known_row_start_, saved.at);
    const uint64_t end = SplitStart(index + 1, table_.options.split_bytes);
    if (!split->ended || now_.size <= saved.size || saved.at >= end || saved.at < saved.size) {
      return {};
    }
    CAIRN_RETURN_IF_ERROR(CheckGrownLine(saved.at));
    split->ended = false;
    return {};
  }

  /// Append the splits that were not saved.
  Status AppendNew(std::vector<SplitProgress>* out) {
    if (table_.options.format == FileFormat::kParquet) return AppendRowGroups(out);
    if (saved_indices_.empty()) {
      CAIRN_RETURN_IF_ERROR(CheckColumns());
    }
    if (now_.size == 0) return {};
    RowStarts starts(table_, file_, path_, known_row_start_);
    for (uint64_t index = 0;; ++index) {
      const uint64_t begin = SplitStart(index, table_.options.split_bytes);
      if (begin >= now_.size) return {};
      if (saved_indices_.contains(index)) continue;
      SplitPosition position = now_;
      CAIRN_ASSIGN_OR_RETURN(position.at, starts.Find(begin));
      out->push_back({SplitName(name_, index), ToJson(position), false});
    }
  }

 private:
  Status AppendRowGroups(std::vector<SplitProgress>* out) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t row_groups,
                           CheckParquetFile(file_, path_, *table_.all_columns));
    for (uint64_t index = 0; index < row_groups; ++index) {
      if (saved_indices_.contains(index)) continue;
      out->push_back({SplitName(name_, index), ToJson(now_), false});
    }
    return {};
  }

  Status CheckColumns() {
    if (table_.options.format == FileFormat::kNdjson) {
      return CheckNdjsonKeys(file_, path_, table_.columns);
    }
    CAIRN_ASSIGN_OR_RETURN(const CsvHeader header,
                           ReadCsvHeader(file_, path_, table_.options.csv, table_.columns));
    known_row_start_ = header.first_row;
    return {};
  }

  /// The file was read to its end at `at`, and has grown: the last line must have been ended.
  Status CheckGrownLine(uint64_t at) {
    char around[2];
    if (at == 0) return {};
    CAIRN_RETURN_IF_ERROR(file_->ReadExactly(at - 1, around));
    if (around[0] == '\n' || around[1] == '\n' || around[1] == '\r') return {};
    return Status::InvalidArgument(
        path_ + " grew in the middle of the line that was its last when it was read (byte " +
        std::to_string(at) + "): that row was taken as it stood. Append whole lines");
  }

  const Table& table_;
  std::string name_;
  std::string path_;
  OpenFile file_;
  SplitPosition now_;
  std::set<uint64_t> saved_indices_;
  uint64_t known_row_start_ = 0;
};

class FilesystemReader final : public stream::SourceReader {
 public:
  FilesystemReader(std::shared_ptr<const Table> table, std::vector<SplitProgress> splits)
      : table_(std::move(table)), splits_(std::move(splits)) {}

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    try {
      for (; current_ < splits_.size(); ++current_) {
        SplitProgress& split = splits_[current_];
        if (split.ended) continue;
        if (decoder_ == nullptr) CAIRN_RETURN_IF_ERROR(OpenSplit(split));
        CAIRN_ASSIGN_OR_RETURN(auto batch, decoder_->Next());
        if (batch != nullptr) return batch;
        split.position = PositionNow();
        split.ended = true;
        rows_skipped_ += decoder_->rows_skipped();
        decoder_ = nullptr;
      }
    } catch (const std::bad_alloc&) {
      return Status::ResourceExhausted("no memory to read " + table_->options.path);
    }
    return std::shared_ptr<arrow::RecordBatch>();
  }

  std::vector<SplitProgress> Progress() const override {
    std::vector<SplitProgress> progress = splits_;
    if (decoder_ != nullptr) progress[current_].position = PositionNow();
    return progress;
  }

  uint64_t rows_skipped() const override {
    return rows_skipped_ + (decoder_ == nullptr ? 0 : decoder_->rows_skipped());
  }

 private:
  std::string PositionNow() const {
    SplitPosition position = opened_;
    position.at = decoder_->position();
    return ToJson(position);
  }

  Status OpenSplit(const SplitProgress& split) {
    std::string name;
    uint64_t index = 0;
    CAIRN_RETURN_IF_ERROR(ParseSplitName(split.split, &name, &index));
    if (list_.empty()) {
      CAIRN_ASSIGN_OR_RETURN(list_, ListFiles(*table_));
    }
    const auto found = list_.find(name);
    if (found == list_.end()) return Gone(*table_, name);
    const std::string& path = found->second;
    CAIRN_ASSIGN_OR_RETURN(OpenFile file, table_->Open(path));
    CAIRN_ASSIGN_OR_RETURN(const SplitPosition saved,
                           ParseSplitPosition(split.position, split.split));
    CAIRN_RETURN_IF_ERROR(CheckSameFile(*file, path, saved, table_->sampled()));
    CAIRN_ASSIGN_OR_RETURN(opened_, Fingerprint(*file, table_->sampled()));
    const FilesystemSourceOptions& options = table_->options;
    const uint64_t end = SplitStart(index + 1, options.split_bytes);
    auto decoder = [&]() -> Result<std::unique_ptr<SplitDecoder>> {
      switch (options.format) {
        case FileFormat::kNdjson:
          return OpenNdjsonDecoder(std::move(file), path, options.on_error, table_->columns,
                                   saved.at, end);
        case FileFormat::kCsv:
          return OpenCsvDecoder(std::move(file), path, options.csv, table_->columns, saved.at, end);
        case FileFormat::kParquet:
          return OpenParquetDecoder(std::move(file), path, table_->columns, index, saved.at);
      }
      return Status::Internal("a file format without reader");
    }();
    CAIRN_ASSIGN_OR_RETURN(decoder_, std::move(decoder));
    return {};
  }

  std::shared_ptr<const Table> table_;
  std::vector<SplitProgress> splits_;
  FileList list_;  ///< listed when the first split is opened
  size_t current_ = 0;
  std::unique_ptr<SplitDecoder> decoder_;
  SplitPosition opened_;
  uint64_t rows_skipped_ = 0;
};

class FilesystemSource final : public stream::Source {
 public:
  explicit FilesystemSource(std::shared_ptr<const Table> table) : table_(std::move(table)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return table_->columns.schema; }

  Result<std::vector<SplitProgress>> Discover(const std::vector<SplitProgress>& saved) override {
    CAIRN_ASSIGN_OR_RETURN(const FileList list, ListFiles(*table_));
    std::vector<SplitProgress> result = saved;
    std::map<std::string, std::vector<std::pair<uint64_t, SplitProgress*>>> saved_of_file;
    for (SplitProgress& split : result) {
      std::string name;
      uint64_t index = 0;
      CAIRN_RETURN_IF_ERROR(ParseSplitName(split.split, &name, &index));
      if (list.contains(name)) {
        saved_of_file[name].emplace_back(index, &split);
      } else if (!split.ended) {
        return Gone(*table_, name);
      }
    }
    std::vector<SplitProgress> fresh;
    for (const auto& [name, path] : list) {
      FileSplits splits(*table_, name, path);
      CAIRN_RETURN_IF_ERROR(splits.Open());
      for (const auto& [index, split] : saved_of_file[name]) {
        CAIRN_RETURN_IF_ERROR(splits.Check(index, split));
      }
      CAIRN_RETURN_IF_ERROR(splits.AppendNew(&fresh));
    }
    result.insert(result.end(), fresh.begin(), fresh.end());
    return result;
  }

  Result<std::unique_ptr<stream::SourceReader>> CreateReader(
      std::vector<SplitProgress> splits) override {
    std::unique_ptr<stream::SourceReader> reader =
        std::make_unique<FilesystemReader>(table_, std::move(splits));
    return reader;
  }

  std::string Identity() const override { return table_->options.identity; }

 private:
  std::shared_ptr<const Table> table_;
};

}  // namespace

Result<std::unique_ptr<stream::Source>> MakeFilesystemSource(const stream::TableDefinition& table,
                                                             const std::vector<int>& columns,
                                                             FilesystemSourceOptions options,
                                                             env::FileSystem* files) {
  auto shared = std::make_shared<Table>();
  shared->options = std::move(options);
  shared->files = files;
  shared->all_columns = SchemaOf(table);
  shared->columns.schema = SchemaOf(table, columns);
  for (const stream::ColumnDefinition& column : table.columns) {
    shared->columns.required.push_back(column.name);
  }
  for (const std::shared_ptr<arrow::Field>& field : shared->all_columns->fields()) {
    CAIRN_RETURN_IF_ERROR(ColumnKindOf(*field).status().WithContext("table " + table.name));
  }
  std::unique_ptr<stream::Source> source = std::make_unique<FilesystemSource>(std::move(shared));
  return source;
}

}  // namespace cairn::connectors
