// SPDX-License-Identifier: Apache-2.0
#include "connectors/filesystem_sink.h"

#include <optional>
#include <set>
#include <utility>

#include "connectors/file_encoder.h"
#include "connectors/output_directory.h"

namespace cairn::connectors {
namespace {

std::string_view ExtensionOf(FileFormat format) {
  switch (format) {
    case FileFormat::kNdjson:
      return "ndjson";
    case FileFormat::kCsv:
      return "csv";
    case FileFormat::kParquet:
      break;
  }
  return "parquet";
}

/// What the sink and its writers share.
struct SinkFiles {
  SinkFiles(FilesystemSinkOptions sink_options, std::shared_ptr<arrow::Schema> sink_schema,
            const stream::SinkWriterId& writer, env::FileSystem* files)
      : options(std::move(sink_options)),
        schema(std::move(sink_schema)),
        directory(options.path, writer, files) {}

  const FilesystemSinkOptions options;
  const std::shared_ptr<arrow::Schema> schema;
  OutputDirectory directory;
};

class FilesystemWriter final : public stream::SinkWriter {
 public:
  FilesystemWriter(std::shared_ptr<SinkFiles> sink, uint32_t subtask)
      : sink_(std::move(sink)), subtask_(subtask) {}

  ~FilesystemWriter() override {
    encoder_ = nullptr;
    if (file_ == nullptr) return;
    file_ = nullptr;
    // Never prepared, so no checkpoint names it. Should this fail, the next Recover removes it.
    (void)sink_->directory.files()->RemoveFile(sink_->directory.PathOf(staged_));
  }

  Status Write(const stream::Batch& batch) override {
    CAIRN_RETURN_IF_ERROR(failure_);
    if (batch.num_rows() == 0) return {};
    return Remember(WriteRows(batch));
  }

  Result<std::optional<std::string>> Prepare(base::CheckpointId id) override {
    CAIRN_RETURN_IF_ERROR(failure_);
    if (encoder_ == nullptr) return std::optional<std::string>();
    const Result<PreparedFile> prepared = MakeDurable(id);
    CAIRN_RETURN_IF_ERROR(Remember(prepared.status()));
    return std::optional<std::string>(ToJson(*prepared));
  }

 private:
  /// A file that failed once is not written again: what it holds is unknown.
  Status Remember(Status status) {
    if (!status.ok()) failure_ = status;
    return status;
  }

  Status WriteRows(const stream::Batch& batch) {
    if (!sink_->options.changelog && batch.kinds != nullptr) {
      for (int64_t i = 0; i < batch.num_rows(); ++i) {
        const int64_t row = batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i;
        if (batch.kind(row) == stream::RowKind::kInsert) continue;
        return Status::InvalidArgument(
            "the query updates rows it has written; give the sink table changelog = 'true' to "
            "write every change with its kind in a column \"op\"");
      }
    }
    if (encoder_ == nullptr) CAIRN_RETURN_IF_ERROR(Open());
    CAIRN_RETURN_IF_ERROR(encoder_->Write(batch));
    rows_ += static_cast<uint64_t>(batch.num_rows());
    return {};
  }

  Status Open() {
    OutputDirectory& directory = sink_->directory;
    for (;;) {
      staged_ = directory.StagedName(subtask_, next_file_++);
      auto file = directory.files()->CreateFile(directory.PathOf(staged_));
      if (file.ok()) {
        file_ = *std::move(file);
        break;
      }
      if (file.status().code() != StatusCode::kAlreadyExists) return file.status();
    }
    made_ = directory.Now();
    rows_ = 0;
    CAIRN_RETURN_IF_ERROR(directory.files()->UseDefaultMode(directory.PathOf(staged_)));
    const FilesystemSinkOptions& options = sink_->options;
    if (options.format == FileFormat::kParquet) {
      CAIRN_ASSIGN_OR_RETURN(encoder_, MakeParquetEncoder(options.changelog, options.compression,
                                                          sink_->schema, file_.get()));
      return {};
    }
    RowTextOptions text;
    text.format = options.format == FileFormat::kCsv ? RowTextFormat::kCsv : RowTextFormat::kNdjson;
    text.changelog = options.changelog;
    text.csv = options.csv;
    text.null_text = options.null_text;
    text.header = options.header;
    CAIRN_ASSIGN_OR_RETURN(encoder_, MakeTextEncoder(text, sink_->schema, file_.get()));
    return {};
  }

  Result<PreparedFile> MakeDurable(base::CheckpointId id) {
    CAIRN_RETURN_IF_ERROR(encoder_->Finish());
    CAIRN_RETURN_IF_ERROR(file_->Sync());
    CAIRN_RETURN_IF_ERROR(file_->Close());
    CAIRN_RETURN_IF_ERROR(sink_->directory.EnsureNameDurable(made_));
    PreparedFile prepared;
    prepared.staged = staged_;
    prepared.final = sink_->directory.FinalName(id, subtask_, ExtensionOf(sink_->options.format));
    prepared.rows = rows_;
    prepared.bytes = encoder_->bytes();
    encoder_ = nullptr;
    file_ = nullptr;
    return prepared;
  }

  const std::shared_ptr<SinkFiles> sink_;
  uint32_t subtask_;
  uint64_t next_file_ = 0;
  std::string staged_;
  uint64_t made_ = 0;
  uint64_t rows_ = 0;
  std::unique_ptr<env::WritableFile> file_;
  std::unique_ptr<FileEncoder> encoder_;  // before file_, which it writes to
  Status failure_;
};

class FilesystemSink final : public stream::Sink {
 public:
  explicit FilesystemSink(std::shared_ptr<SinkFiles> sink) : sink_(std::move(sink)) {}

  bool exactly_once() const override { return true; }

  Result<std::unique_ptr<stream::SinkWriter>> CreateWriter(uint32_t subtask) override {
    std::unique_ptr<stream::SinkWriter> writer = std::make_unique<FilesystemWriter>(sink_, subtask);
    return writer;
  }

  Status Commit(const std::vector<std::string>& descriptors) override {
    if (descriptors.empty()) return {};
    CAIRN_RETURN_IF_ERROR(sink_->directory.CheckOwned());
    // Another run may have been about to publish when this one began.
    if (const auto id = std::exchange(begins_at_, std::nullopt)) {
      CAIRN_RETURN_IF_ERROR(sink_->directory.CheckNothingIsNewerThan(*id));
    }
    return sink_->directory.Publish(descriptors);
  }

  Status Recover(base::CheckpointId id, const std::vector<std::string>& committed) override {
    OutputDirectory& directory = sink_->directory;
    begins_at_ = id;
    CAIRN_RETURN_IF_ERROR(directory.CheckNotTakenOver());
    // A directory that is gone with its rows is not made anew, empty.
    CAIRN_RETURN_IF_ERROR(directory.CheckIsWhole(committed));
    CAIRN_RETURN_IF_ERROR(directory.CheckNothingIsNewerThan(id));
    CAIRN_RETURN_IF_ERROR(directory.Make());
    // Then again: from here on no other run begins to publish.
    CAIRN_RETURN_IF_ERROR(directory.Own());
    CAIRN_RETURN_IF_ERROR(directory.CheckNothingIsNewerThan(id));
    CAIRN_RETURN_IF_ERROR(directory.Publish(committed));
    return directory.RemoveStaged();
  }

  std::string Identity() const override { return sink_->options.identity; }

 private:
  const std::shared_ptr<SinkFiles> sink_;
  std::optional<base::CheckpointId> begins_at_;  ///< until the first commit
};

class SavedFilesystemSink final : public stream::SavedSink {
 public:
  SavedFilesystemSink(const std::string& path, const std::string& writer, std::string successor,
                      env::FileSystem* files)
      : directory_(path, {writer, 0}, files), successor_(std::move(successor)) {}

  Status Check(base::CheckpointId id, const std::vector<std::string>& committed) const override {
    CAIRN_RETURN_IF_ERROR(directory_.CheckNotTakenOver(successor_));
    CAIRN_RETURN_IF_ERROR(directory_.CheckNothingIsNewerThan(id));
    return directory_.CheckIsWhole(committed);
  }

  Status Recover(base::CheckpointId id, const std::vector<std::string>& committed) override {
    CAIRN_RETURN_IF_ERROR(Check(id, committed));
    return directory_.Publish(committed);
  }

  Status TakeOver() override { return directory_.TakeOver(successor_); }

 private:
  OutputDirectory directory_;
  const std::string successor_;
};

}  // namespace

Result<std::unique_ptr<stream::Sink>> MakeFilesystemSink(const stream::TableDefinition& table,
                                                         FilesystemSinkOptions options,
                                                         const stream::SinkWriterId& writer,
                                                         env::FileSystem* files) {
  auto shared = std::make_shared<SinkFiles>(std::move(options), SchemaOf(table), writer, files);
  std::set<std::string> names;
  if (shared->options.changelog) names.insert("op");
  for (const std::shared_ptr<arrow::Field>& field : shared->schema->fields()) {
    CAIRN_RETURN_IF_ERROR(ColumnKindOf(*field).status().WithContext("table " + table.name));
    if (!names.insert(field->name()).second) {
      return Status::InvalidArgument("table " + table.name + " has two columns " + field->name() +
                                     (field->name() == "op" ? " (changelog adds one)" : ""));
    }
  }
  if (shared->options.format == FileFormat::kParquet) {
    CAIRN_RETURN_IF_ERROR(CheckParquetCompression(shared->options.compression));
  }
  std::unique_ptr<stream::Sink> sink = std::make_unique<FilesystemSink>(std::move(shared));
  return sink;
}

std::unique_ptr<stream::SavedSink> MakeSavedFilesystemSink(const std::string& path,
                                                           const std::string& writer,
                                                           const std::string& successor,
                                                           env::FileSystem* files) {
  return std::make_unique<SavedFilesystemSink>(path, writer, successor, files);
}

}  // namespace cairn::connectors
