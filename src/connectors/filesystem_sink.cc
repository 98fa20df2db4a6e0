// SPDX-License-Identifier: Apache-2.0
#include "connectors/filesystem_sink.h"

#include <atomic>
#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/coding.h"
#include "base/hash.h"
#include "connectors/file_encoder.h"
#include "env/clock.h"

namespace cairn::connectors {
namespace {

struct Descriptor {
  std::string staged;
  std::string final;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

std::string ToJson(const Descriptor& descriptor) {
  nlohmann::ordered_json json;
  json["staged"] = descriptor.staged;
  json["final"] = descriptor.final;
  json["rows"] = descriptor.rows;
  json["bytes"] = descriptor.bytes;
  return json.dump();
}

/// The way out when what a checkpoint says was written cannot be had again.
constexpr const char* kStartAnew =
    "a run with another place (--checkpoints) and an empty directory writes all rows again";

/// True for a plain name: a damaged descriptor must not reach outside the directory.
bool IsFileName(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Result<Descriptor> ParseDescriptor(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  Descriptor descriptor;
  const auto name = [&json](const char* key, std::string* out) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return false;
    *out = found->get<std::string>();
    return IsFileName(*out);
  };
  const auto number = [&json](const char* key, uint64_t* out) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_unsigned()) return false;
    *out = found->get<uint64_t>();
    return true;
  };
  if (!json.is_object() || !name("staged", &descriptor.staged) ||
      !name("final", &descriptor.final) || !number("rows", &descriptor.rows) ||
      !number("bytes", &descriptor.bytes) || !descriptor.staged.starts_with(".staged-") ||
      !descriptor.final.starts_with("part-")) {
    return Status::Corruption("a sink descriptor cannot be read: " + text.substr(0, 200));
  }
  return descriptor;
}

/// The writer id as part of a file name: letters, digits, '.', '_' as they are, others as %XX. No
/// '-' is left, so that no id's files begin with another id's prefix.
std::string FileNameOf(const std::string& writer_id) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string name;
  for (const char c : writer_id) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
        c == '.') {
      name += c;
    } else {
      name += '%';
      name += kHex[byte >> 4];
      name += kHex[byte & 0xF];
    }
  }
  return name;
}

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

std::string RunName() {
  std::string bytes;
  base::AppendLE(&bytes, env::SystemRandom()->Next());
  return base::ToHex(bytes);
}

/// What the sink and its writers share.
struct Directory {
  FilesystemSinkOptions options;
  std::shared_ptr<arrow::Schema> schema;
  std::string writer_name;
  env::FileSystem* files;
  /// Of this run alone: a staged file of an earlier run must not have the name of one of this run,
  /// or recovery takes it for the rows of a committed checkpoint.
  std::string run = RunName();

  /// Counts the starts of directory syncs that ended well: a file made before one started has a
  /// durable name.
  std::mutex mutex;
  uint64_t syncs_started = 0;
  uint64_t last_good_sync = 0;

  std::string PathOf(const std::string& name) const { return env::JoinPath(options.path, name); }
  std::string StagedPrefix() const { return ".staged-" + writer_name + "-"; }
  /// Where it is noted who went on from the checkpoints of writer `name`.
  std::string TakenOverPath(const std::string& name) const { return PathOf("_taken-over-" + name); }

  /// A number that grows with every sync; to be passed to EnsureNameDurable.
  uint64_t Now() {
    std::lock_guard<std::mutex> lock(mutex);
    return syncs_started;
  }

  Status Sync() {
    uint64_t number;
    {
      std::lock_guard<std::mutex> lock(mutex);
      number = ++syncs_started;
    }
    CAIRN_RETURN_IF_ERROR(files->SyncDirectory(options.path));
    std::lock_guard<std::mutex> lock(mutex);
    last_good_sync = std::max(last_good_sync, number);
    return {};
  }

  /// Sync the directory unless a good sync started after `made`: the commit of the checkpoint
  /// before mostly was one.
  Status EnsureNameDurable(uint64_t made) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (last_good_sync > made) return {};
    }
    return Sync();
  }
};

class FilesystemWriter final : public stream::SinkWriter {
 public:
  FilesystemWriter(std::shared_ptr<Directory> directory, uint32_t subtask)
      : directory_(std::move(directory)), subtask_(subtask) {}

  ~FilesystemWriter() override {
    encoder_ = nullptr;
    if (file_ == nullptr) return;
    file_ = nullptr;
    // Never prepared, so no checkpoint names it. Should this fail, the next Recover removes it.
    (void)directory_->files->RemoveFile(directory_->PathOf(staged_));
  }

  Status Write(const stream::Batch& batch) override {
    CAIRN_RETURN_IF_ERROR(failure_);
    if (batch.num_rows() == 0) return {};
    return Remember(WriteRows(batch));
  }

  Result<std::optional<std::string>> Prepare(base::CheckpointId id) override {
    CAIRN_RETURN_IF_ERROR(failure_);
    if (encoder_ == nullptr) return std::optional<std::string>();
    Descriptor descriptor;
    CAIRN_RETURN_IF_ERROR(Remember(MakeDurable(id, &descriptor)));
    return std::optional<std::string>(ToJson(descriptor));
  }

 private:
  /// A file that failed once is not written again: what it holds is unknown.
  Status Remember(Status status) {
    if (!status.ok()) failure_ = status;
    return status;
  }

  Status WriteRows(const stream::Batch& batch) {
    if (!directory_->options.changelog && batch.kinds != nullptr) {
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
    for (;;) {
      staged_ = directory_->StagedPrefix() + directory_->run + "-" + std::to_string(subtask_) +
                "-" + std::to_string(next_file_++);
      auto file = directory_->files->CreateFile(directory_->PathOf(staged_));
      if (file.ok()) {
        file_ = *std::move(file);
        break;
      }
      if (file.status().code() != StatusCode::kAlreadyExists) return file.status();
    }
    made_ = directory_->Now();
    rows_ = 0;
    CAIRN_RETURN_IF_ERROR(directory_->files->UseDefaultMode(directory_->PathOf(staged_)));
    const FilesystemSinkOptions& options = directory_->options;
    if (options.format == FileFormat::kParquet) {
      CAIRN_ASSIGN_OR_RETURN(encoder_, MakeParquetEncoder(options.changelog, options.compression,
                                                          directory_->schema, file_.get()));
      return {};
    }
    RowTextOptions text;
    text.format = options.format == FileFormat::kCsv ? RowTextFormat::kCsv : RowTextFormat::kNdjson;
    text.changelog = options.changelog;
    text.csv = options.csv;
    text.null_text = options.null_text;
    text.header = options.header;
    CAIRN_ASSIGN_OR_RETURN(encoder_, MakeTextEncoder(text, directory_->schema, file_.get()));
    return {};
  }

  Status MakeDurable(base::CheckpointId id, Descriptor* descriptor) {
    CAIRN_RETURN_IF_ERROR(encoder_->Finish());
    CAIRN_RETURN_IF_ERROR(file_->Sync());
    CAIRN_RETURN_IF_ERROR(file_->Close());
    CAIRN_RETURN_IF_ERROR(directory_->EnsureNameDurable(made_));
    std::string number = std::to_string(id.value);
    number.insert(0, 20 - std::min<size_t>(20, number.size()), '0');
    descriptor->staged = staged_;
    descriptor->final = "part-" + number + "-" + std::to_string(subtask_) + "-" +
                        directory_->writer_name + "." +
                        std::string(ExtensionOf(directory_->options.format));
    descriptor->rows = rows_;
    descriptor->bytes = encoder_->bytes();
    encoder_ = nullptr;
    file_ = nullptr;
    return {};
  }

  std::shared_ptr<Directory> directory_;
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
  explicit FilesystemSink(std::shared_ptr<Directory> directory)
      : directory_(std::move(directory)) {}

  bool exactly_once() const override { return true; }

  Result<std::unique_ptr<stream::SinkWriter>> CreateWriter(uint32_t subtask) override {
    std::unique_ptr<stream::SinkWriter> writer =
        std::make_unique<FilesystemWriter>(directory_, subtask);
    return writer;
  }

  Status Commit(const std::vector<std::string>& descriptors) override {
    if (descriptors.empty()) return {};
    for (const std::string& text : descriptors) {
      CAIRN_ASSIGN_OR_RETURN(const Descriptor descriptor, ParseDescriptor(text));
      CAIRN_RETURN_IF_ERROR(Publish(descriptor));
    }
    // Also when every file had its name already: a crash may have come before the sync.
    return directory_->Sync();
  }

  void TakeOverFrom(const std::string& writer_id) override { taken_from_ = FileNameOf(writer_id); }

  void BeginAt(base::CheckpointId id) override { begins_at_ = id; }

  Status Recover(const std::vector<std::string>& committed) override {
    CAIRN_RETURN_IF_ERROR(CheckNotTakenOver());
    CAIRN_ASSIGN_OR_RETURN(const std::vector<env::DirectoryEntry> entries, Entries());
    CAIRN_RETURN_IF_ERROR(CheckNothingNewerIsPublished(entries));
    // First, so that a directory that is gone with its rows is not made anew, empty.
    CAIRN_RETURN_IF_ERROR(Commit(committed));
    CAIRN_RETURN_IF_ERROR(MakeDirectory());
    if (!taken_from_.empty()) CAIRN_RETURN_IF_ERROR(TakeOver());
    const std::string prefix = directory_->StagedPrefix();
    for (const env::DirectoryEntry& entry : entries) {
      if (entry.is_directory || !entry.name.starts_with(prefix)) continue;
      const Status removed = directory_->files->RemoveFile(directory_->PathOf(entry.name));
      if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
    }
    return {};
  }

  std::string Identity() const override { return directory_->options.identity; }

 private:
  static Status AlreadyTakenOver(const std::string& path) {
    return Status::InvalidArgument(
        "another run began with --from at a checkpoint of the same job and publishes its rows from "
        "there on; both would publish the same rows. Go on with that run; or, if it published "
        "nothing and never will, remove " +
        path);
  }

  Status CheckNotTakenOver() const {
    const std::string path = directory_->TakenOverPath(directory_->writer_name);
    const Status there = directory_->files->Stat(path).status();
    if (there.code() == StatusCode::kNotFound) return {};
    return there.ok() ? AlreadyTakenOver(path) : there;
  }

  /// What lies in the output directory; nothing when it is not made yet.
  Result<std::vector<env::DirectoryEntry>> Entries() const {
    auto entries = directory_->files->ListDirectory(directory_->options.path);
    if (entries.status().code() == StatusCode::kNotFound) return std::vector<env::DirectoryEntry>();
    return entries;
  }

  /// Where the checkpoints lie cannot say it after a copy of an older one, a head that was rebuilt
  /// without the newest, or a copy that was cut short: the files can.
  Status CheckNothingNewerIsPublished(const std::vector<env::DirectoryEntry>& entries) const {
    if (!begins_at_) return {};
    const std::string& writer = taken_from_.empty() ? directory_->writer_name : taken_from_;
    for (const env::DirectoryEntry& entry : entries) {
      const std::optional<base::CheckpointId> id = PublishedBy(entry.name, writer);
      if (!id || *id <= *begins_at_) continue;
      return Status::InvalidArgument(
          directory_->PathOf(entry.name) + " holds rows that checkpoint " +
          std::to_string(id->value) + " of this job has published, and the run would begin " +
          (begins_at_->value == 0 ? std::string("from the start")
                                  : "at checkpoint " + std::to_string(begins_at_->value)) +
          ": they would be published again. Begin with checkpoint " + std::to_string(id->value) +
          " or a later one; or begin anew in an empty place, with an empty output directory");
    }
    return {};
  }

  /// The checkpoint that published the file `name` of `writer`; nothing for any other file.
  static std::optional<base::CheckpointId> PublishedBy(const std::string& name,
                                                       const std::string& writer) {
    constexpr std::string_view kPart = "part-";
    constexpr size_t kDigits = 20;
    const size_t end = kPart.size() + kDigits;
    if (!name.starts_with(kPart) || name.size() <= end || name[end] != '-') return std::nullopt;
    const size_t subtask_end = name.find('-', end + 1);
    if (subtask_end == std::string::npos ||
        !std::string_view(name).substr(subtask_end + 1).starts_with(writer + ".")) {
      return std::nullopt;
    }
    uint64_t id = 0;
    const char* const digits = name.data() + kPart.size();
    const auto [last, error] = std::from_chars(digits, digits + kDigits, id);
    if (error != std::errc() || last != digits + kDigits) return std::nullopt;
    return base::CheckpointId(id);
  }

  /// Note that this writer goes on from the other's checkpoint; the first one to do so is the only.
  Status TakeOver() {
    env::FileSystem* const files = directory_->files;
    const std::string path = directory_->TakenOverPath(taken_from_);
    const std::string unfinished = path + "-" + directory_->writer_name;
    const Status removed = files->RemoveFile(unfinished);  // of a run that died in here
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
    CAIRN_ASSIGN_OR_RETURN(const auto file, files->CreateFile(unfinished));
    CAIRN_RETURN_IF_ERROR(file->Append(directory_->writer_name));
    CAIRN_RETURN_IF_ERROR(file->Sync());
    CAIRN_RETURN_IF_ERROR(file->Close());
    const Status linked = files->Link(unfinished, path);  // the first one wins
    CAIRN_RETURN_IF_ERROR(files->RemoveFile(unfinished));
    if (linked.code() == StatusCode::kAlreadyExists) {
      CAIRN_ASSIGN_OR_RETURN(const std::string by, env::ReadWholeFile(files, path, 4096));
      return by == directory_->writer_name ? Status() : AlreadyTakenOver(path);
    }
    CAIRN_RETURN_IF_ERROR(linked);
    return directory_->Sync();
  }

  Status Publish(const Descriptor& descriptor) {
    env::FileSystem* const files = directory_->files;
    const std::string staged = directory_->PathOf(descriptor.staged);
    const std::string final = directory_->PathOf(descriptor.final);
    const auto staged_info = files->Stat(staged);
    const auto final_info = files->Stat(final);
    const bool staged_missing =
        !staged_info.ok() && staged_info.status().code() == StatusCode::kNotFound;
    const bool final_missing =
        !final_info.ok() && final_info.status().code() == StatusCode::kNotFound;
    if (!staged_info.ok() && !staged_missing) return staged_info.status();
    if (!final_info.ok() && !final_missing) return final_info.status();
    if (staged_missing && final_missing) {
      return Status::Corruption(
          "committed rows are gone: neither " + final + " nor " + staged + " exists (" +
          std::to_string(descriptor.rows) + " rows). Put " +
          (files->Stat(directory_->options.path).ok() ? "the file" : "the directory") +
          " back; or give the rows up and start anew: " + kStartAnew);
    }
    if (!staged_missing && !final_missing) {
      // Some file systems can leave both names of a rename after a power cut.
      CAIRN_ASSIGN_OR_RETURN(const bool same, SameBytes(staged, final));
      if (same) return files->RemoveFile(staged);
      return Status::AlreadyExists(final +
                                   " exists already and is not of this checkpoint; move it away, "
                                   "its place belongs to " +
                                   staged);
    }
    const uint64_t size = staged_missing ? final_info->size : staged_info->size;
    if (size != descriptor.bytes) {
      return Status::Corruption((staged_missing ? final : staged) + " has " + std::to_string(size) +
                                " bytes, its checkpoint says " + std::to_string(descriptor.bytes) +
                                ". Put the file back as it was; or start anew: " + kStartAnew);
    }
    return staged_missing ? Status() : files->Rename(staged, final);
  }

  Result<bool> SameBytes(const std::string& a, const std::string& b) const {
    CAIRN_ASSIGN_OR_RETURN(const auto first, directory_->files->OpenForRead(a));
    CAIRN_ASSIGN_OR_RETURN(const auto second, directory_->files->OpenForRead(b));
    if (first->size() != second->size()) return false;
    std::string of_first;
    std::string of_second;
    for (uint64_t at = 0; at < first->size(); at += of_first.size()) {
      const uint64_t piece = std::min<uint64_t>(first->size() - at, 1 << 20);
      of_first.resize(piece);
      of_second.resize(piece);
      CAIRN_RETURN_IF_ERROR(first->ReadExactly(at, of_first));
      CAIRN_RETURN_IF_ERROR(second->ReadExactly(at, of_second));
      if (of_first != of_second) return false;
    }
    return true;
  }

  Status MakeDirectory() {
    env::FileSystem* const files = directory_->files;
    const std::string& path = directory_->options.path;
    const auto info = files->Stat(path);
    if (info.ok()) {
      if (info->is_directory) return {};
      return Status::InvalidArgument("the sink's path " + path +
                                     " is a file; it must be a "
                                     "directory or not exist");
    }
    if (info.status().code() != StatusCode::kNotFound) return info.status();
    // Parents that are missing get the default mode as well: they are the user's, not ours.
    std::vector<std::string> made;
    for (std::string at = path; !at.empty() && at != "/" && at != ".";) {
      if (files->Stat(at).ok()) break;
      made.push_back(at);
      const size_t slash = at.find_last_of('/');
      at = slash == std::string::npos ? "" : at.substr(0, slash);
    }
    CAIRN_RETURN_IF_ERROR(env::CreateDirectories(files, path, /*sync=*/true));
    for (const std::string& directory : made) {
      CAIRN_RETURN_IF_ERROR(files->UseDefaultMode(directory));
    }
    return {};
  }

  std::shared_ptr<Directory> directory_;
  std::optional<base::CheckpointId> begins_at_;  ///< nothing = not told
  std::string taken_from_;  ///< writer name of the deployment whose checkpoint this one begins with
};

}  // namespace

Result<std::unique_ptr<stream::Sink>> MakeFilesystemSink(const stream::TableDefinition& table,
                                                         FilesystemSinkOptions options,
                                                         const std::string& writer_id,
                                                         env::FileSystem* files) {
  auto directory = std::make_shared<Directory>();
  directory->options = std::move(options);
  directory->schema = SchemaOf(table);
  directory->writer_name = FileNameOf(writer_id);
  directory->files = files;
  std::set<std::string> names;
  if (directory->options.changelog) names.insert("op");
  for (const std::shared_ptr<arrow::Field>& field : directory->schema->fields()) {
    CAIRN_RETURN_IF_ERROR(ColumnKindOf(*field).status().WithContext("table " + table.name));
    if (!names.insert(field->name()).second) {
      return Status::InvalidArgument("table " + table.name + " has two columns " + field->name() +
                                     (field->name() == "op" ? " (changelog adds one)" : ""));
    }
  }
  if (directory->options.format == FileFormat::kParquet) {
    CAIRN_RETURN_IF_ERROR(CheckParquetCompression(directory->options.compression));
  }
  std::unique_ptr<stream::Sink> sink = std::make_unique<FilesystemSink>(std::move(directory));
  return sink;
}

}  // namespace cairn::connectors
