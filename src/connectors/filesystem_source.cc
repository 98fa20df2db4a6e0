// SPDX-License-Identifier: Apache-2.0
#include "connectors/filesystem_source.h"

#include <map>
#include <set>
#include <utility>

#include "connectors/column_set.h"
#include "connectors/ndjson_decoder.h"
#include "connectors/parquet_decoder.h"
#include "connectors/source_files.h"
#include "connectors/split_finder.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;

Status Gone(const SourceTable& table, const std::string& file) {
  return Status::NotFound(file + " is gone from " + table.options.path +
                          " and was not read to its end; put it back, or start anew with another "
                          "place (--checkpoints)");
}

/// Read splits one after another.
class FilesystemReader final : public stream::SourceReader {
 public:
  explicit FilesystemReader(std::shared_ptr<const SourceTable> table) : table_(std::move(table)) {}

  Status Add(SplitProgress progress) {
    Split split;
    split.progress = std::move(progress);
    if (!split.progress.ended) {
      const std::string& name = split.progress.split;
      CAIRN_RETURN_IF_ERROR(ParseSplitName(name, &split.file, &split.index));
      CAIRN_ASSIGN_OR_RETURN(split.position, ParseSplitPosition(split.progress.position, name));
      if (!Begun(split.position)) split.progress.position.clear();
    }
    splits_.push_back(std::move(split));
    return {};
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    try {
      for (; current_ < splits_.size(); ++current_) {
        Split& split = splits_[current_];
        if (split.progress.ended) continue;
        if (decoder_ == nullptr) CAIRN_RETURN_IF_ERROR(OpenSplit(split));
        CAIRN_ASSIGN_OR_RETURN(auto batch, decoder_->Next());
        CAIRN_RETURN_IF_ERROR(NotePosition(&split));
        if (batch != nullptr) return batch;
        split.progress.position = ToJson(split.position);
        split.progress.ended = true;
        rows_skipped_ += decoder_->rows_skipped();
        decoder_ = nullptr;
        input_ = nullptr;
      }
    } catch (const std::bad_alloc&) {
      return Status::ResourceExhausted("no memory to read " + table_->options.path);
    }
    return std::shared_ptr<arrow::RecordBatch>();
  }

  std::vector<SplitProgress> Progress() const override {
    std::vector<SplitProgress> progress;
    for (const Split& split : splits_) progress.push_back(split.progress);
    if (decoder_ != nullptr && Begun(splits_[current_].position)) {
      progress[current_].position = ToJson(splits_[current_].position);
    }
    return progress;
  }

  uint64_t rows_skipped() const override {
    return rows_skipped_ + (decoder_ == nullptr ? 0 : decoder_->rows_skipped());
  }

 private:
  struct Split {
    SplitProgress progress;  ///< its position is empty until something was read
    std::string file;
    uint64_t index = 0;
    SplitPosition position;
  };

  /// Take the decoder's position, with samples of what was read up to it.
  Status NotePosition(Split* split) const {
    SplitPosition now = split->position;
    now.at = decoder_->position();
    if (!table_->parquet()) CAIRN_RETURN_IF_ERROR(SampleText(*input_, header_size_, &now));
    split->position = std::move(now);
    return {};
  }

  Status OpenSplit(const Split& split) {
    if (list_.empty()) {
      CAIRN_ASSIGN_OR_RETURN(list_, ListFiles(*table_));
    }
    const auto found = list_.find(split.file);
    if (found == list_.end()) return Gone(*table_, split.file);
    const std::string& path = found->second.path;
    // Only up to the size that all splits of the file were found with: else one would take a last
    // line for whole that another sees grow.
    const uint64_t limit = table_->parquet() ? UINT64_MAX : split.position.size;
    CAIRN_ASSIGN_OR_RETURN(input_, OpenInput(*table_, path, limit));
    CAIRN_RETURN_IF_ERROR(CheckSameFile(*input_, path, split.position, table_->parquet()));
    CAIRN_ASSIGN_OR_RETURN(decoder_, OpenDecoder(split, path));
    return {};
  }

  Result<std::unique_ptr<SplitDecoder>> OpenDecoder(const Split& split, const std::string& path) {
    const FilesystemSourceOptions& options = table_->options;
    const uint64_t at = split.position.at;
    const uint64_t end = SplitStart(split.index + 1, options.split_bytes);
    switch (options.format) {
      case FileFormat::kNdjson: {
        CAIRN_ASSIGN_OR_RETURN(header_size_, FirstNdjsonRow(*input_));
        return OpenNdjsonDecoder(input_, path, options.on_error, table_->columns, at, end);
      }
      case FileFormat::kCsv: {
        CAIRN_ASSIGN_OR_RETURN(const CsvHeader header,
                               ReadCsvHeader(input_, path, options.csv, table_->columns));
        header_size_ = header.first_row;
        return OpenCsvDecoder(input_, path, options.csv, header, table_->columns, at, end);
      }
      case FileFormat::kParquet:
        return OpenParquetDecoder(input_, path, table_->columns, split.index, at);
    }
    return Status::Internal("a file format without reader");
  }

  std::shared_ptr<const SourceTable> table_;
  std::vector<Split> splits_;
  FileList list_;  ///< listed when the first split is opened
  size_t current_ = 0;
  InputFile input_;
  uint64_t header_size_ = 0;  ///< bytes of input_ before its first row: they say what rows mean
  std::unique_ptr<SplitDecoder> decoder_;
  uint64_t rows_skipped_ = 0;
};

/// The saved splits of one file.
struct SavedFile {
  SavedSplits splits;
  std::string identity;  ///< empty = nothing was read, or the system does not tell
  bool ended = true;
  std::string name_now;  ///< empty = gone
};

/// Saved files by the names they had.
using SavedFiles = std::map<std::string, SavedFile>;

Result<SavedFiles> GroupByFile(std::vector<SplitProgress>* saved) {
  SavedFiles files;
  for (SplitProgress& split : *saved) {
    std::string name;
    uint64_t index = 0;
    CAIRN_RETURN_IF_ERROR(ParseSplitName(split.split, &name, &index));
    SavedFile& file = files[name];
    file.splits[index] = &split;
    file.ended = file.ended && split.ended;
    if (!file.identity.empty() || split.position.empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const SplitPosition position,
                           ParseSplitPosition(split.position, split.split));
    file.identity = position.file;
  }
  return files;
}

/// Find what name each saved file has now: the one where its identity is, else its old name unless
/// that is another saved file's now. A file that was renamed, by a log rotation for example, is
/// not read again, and what took its name is new.
void FindNames(const FileList& list, SavedFiles* saved) {
  std::set<std::string> taken;
  const auto take = [&taken](const std::string& name, SavedFile* file) {
    if (file->name_now.empty() && taken.insert(name).second) file->name_now = name;
  };
  std::multimap<std::string, std::string> names;  // by identity: links share one
  for (const auto& [name, file] : list) {
    if (!file.identity.empty()) names.emplace(file.identity, name);
  }
  for (auto& [name, file] : *saved) {
    const auto found = list.find(name);
    if (found != list.end() && !file.identity.empty() && file.identity == found->second.identity) {
      take(name, &file);
    }
  }
  for (auto& [name, file] : *saved) {
    const auto [first, last] = names.equal_range(file.identity);
    for (auto found = first; found != last; ++found) take(found->second, &file);
  }
  for (auto& [name, file] : *saved) {
    if (list.contains(name)) take(name, &file);
  }
}

/// In the order of file names and, within a file, of its rows. Each reader reads what it gets in
/// that order, which watermarks rely on.
Result<std::vector<SplitProgress>> InFileOrder(std::vector<SplitProgress> splits) {
  std::map<std::pair<std::string, uint64_t>, SplitProgress> ordered;
  for (SplitProgress& split : splits) {
    std::pair<std::string, uint64_t> place;
    CAIRN_RETURN_IF_ERROR(ParseSplitName(split.split, &place.first, &place.second));
    ordered[std::move(place)] = std::move(split);
  }
  splits.clear();
  for (auto& [place, split] : ordered) splits.push_back(std::move(split));
  return splits;
}

class FilesystemSource final : public stream::Source {
 public:
  explicit FilesystemSource(std::shared_ptr<const SourceTable> table) : table_(std::move(table)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return table_->columns.schema; }

  Result<std::vector<SplitProgress>> Discover(const std::vector<SplitProgress>& saved) override {
    std::vector<SplitProgress> result = saved;
    CAIRN_ASSIGN_OR_RETURN(SavedFiles files, GroupByFile(&result));
    CAIRN_ASSIGN_OR_RETURN(const FileList list, ListInput(files));
    FindNames(list, &files);
    std::map<std::string, const SavedSplits*> saved_now;
    for (const auto& [name, file] : files) {
      if (file.name_now.empty() && !file.ended) return Gone(*table_, name);
      if (!file.name_now.empty()) saved_now[file.name_now] = &file.splits;
    }
    for (const auto& [name, file] : files) {
      // What is known of a file that is gone goes when another has its name.
      const bool dropped = file.name_now.empty() && saved_now.contains(name);
      for (const auto& [index, split] : file.splits) {
        if (!file.name_now.empty()) split->split = SplitName(file.name_now, index);
        if (dropped) split->split.clear();
      }
    }
    std::vector<SplitProgress> fresh;
    for (const auto& [name, file] : list) {
      const auto found = saved_now.find(name);
      const SavedSplits none;
      CAIRN_RETURN_IF_ERROR(FindSplits(*table_, name, file,
                                       found == saved_now.end() ? none : *found->second, &fresh));
    }
    std::erase_if(result, [](const SplitProgress& split) { return split.split.empty(); });
    result.insert(result.end(), fresh.begin(), fresh.end());
    return InFileOrder(std::move(result));
  }

  Result<std::unique_ptr<stream::SourceReader>> CreateReader(
      std::vector<SplitProgress> splits) override {
    auto reader = std::make_unique<FilesystemReader>(table_);
    for (SplitProgress& split : splits) CAIRN_RETURN_IF_ERROR(reader->Add(std::move(split)));
    return std::unique_ptr<stream::SourceReader>(std::move(reader));
  }

  std::string Identity() const override { return table_->options.identity; }

 private:
  /// List the files. That the one file the path named was read to its end and is gone is no error.
  Result<FileList> ListInput(const SavedFiles& saved) const {
    Result<FileList> list = ListFiles(*table_);
    if (list.status().code() != StatusCode::kNotFound || saved.size() != 1) return list;
    const auto& [name, file] = *saved.begin();
    if (name != FileNameOfPath(table_->options.path)) return list;
    return FileList();
  }

  std::shared_ptr<const SourceTable> table_;
};

}  // namespace

Result<std::unique_ptr<stream::Source>> MakeFilesystemSource(const stream::TableDefinition& table,
                                                             const std::vector<int>& columns,
                                                             FilesystemSourceOptions options,
                                                             env::FileSystem* files) {
  auto shared = std::make_shared<SourceTable>();
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
