// SPDX-License-Identifier: Apache-2.0
#include "backend/snapshot_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "format/canonical_stream.h"

namespace cairn::backend {
namespace {

using format::SnapshotVerdict;

constexpr uint64_t kSidecarBytesMax = uint64_t{64} << 10;
constexpr size_t kReadBytes = size_t{256} << 10;
constexpr std::string_view kSidecarSuffix = ".meta";
constexpr std::string_view kPartSuffix = ".part";

/// Count and sum the bytes on their way into a file.
class SummingSink final : public format::ByteSink {
 public:
  explicit SummingSink(env::WritableFile* file) : file_(file) {}
  Status Append(std::string_view bytes) override {
    bytes_ += bytes.size();
    crc_ = base::Crc32c(crc_, bytes);
    return file_->Append(bytes);
  }
  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc_; }

 private:
  env::WritableFile* file_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

Status IgnoreMissing(const Status& status) {
  return status.code() == StatusCode::kNotFound ? Status() : status;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Result<std::string> ReadAll(env::FileSystem* files, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const env::FileInfo info, files->Stat(path));
  return env::ReadWholeFile(files, path, info.size);
}

Result<uint32_t> Crc32cOfFile(const env::RandomAccessFile& file, std::string* payload) {
  std::string buffer(std::min<uint64_t>(kReadBytes, file.size()), '\0');
  if (payload != nullptr) payload->reserve(file.size());
  uint32_t crc = 0;
  for (uint64_t at = 0; at < file.size();) {
    const size_t count = std::min<uint64_t>(buffer.size(), file.size() - at);
    CAIRN_RETURN_IF_ERROR(file.ReadExactly(at, {buffer.data(), count}));
    const std::string_view read(buffer.data(), count);
    crc = base::Crc32c(crc, read);
    if (payload != nullptr) payload->append(read);
    at += count;
  }
  return crc;
}

}  // namespace

Result<SnapshotVerdict> JudgeSnapshotFile(env::FileSystem* files, const std::string& path,
                                          std::string* payload) {
  if (payload != nullptr) payload->clear();
  const auto file = files->OpenForRead(path);
  if (!file.ok()) {
    if (file.status().code() == StatusCode::kNotFound) return SnapshotVerdict::kMissing;
    return file.status();
  }
  const auto text = env::ReadWholeFile(files, path + std::string(kSidecarSuffix), kSidecarBytesMax);
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kNotFound) return SnapshotVerdict::kIncomplete;
    if (text.status().code() == StatusCode::kCorruption) return SnapshotVerdict::kCorrupt;
    return text.status();
  }
  const auto sidecar = format::ParseSidecar(*text);
  if (!sidecar.ok()) {
    return sidecar.status().code() == StatusCode::kUnsupportedFormat ? SnapshotVerdict::kUnsupported
                                                                     : SnapshotVerdict::kCorrupt;
  }
  if (sidecar->payload_bytes != (*file)->size()) return SnapshotVerdict::kIncomplete;
  CAIRN_ASSIGN_OR_RETURN(const uint32_t crc, Crc32cOfFile(**file, payload));
  return crc == sidecar->payload_crc32c ? SnapshotVerdict::kValid : SnapshotVerdict::kCorrupt;
}

Result<std::unique_ptr<SnapshotFiles>> SnapshotFiles::Open(env::FileSystem* files,
                                                           std::string directory,
                                                           SnapshotFileOptions options) {
  CAIRN_RETURN_IF_ERROR(env::CreateDirectories(files, directory, options.fsync));
  std::unique_ptr<SnapshotFiles> place(
      new SnapshotFiles(files, std::move(directory), std::move(options)));
  if (place->options_.lock) {
    CAIRN_ASSIGN_OR_RETURN(place->lock_, files->Lock(env::JoinPath(place->directory_, "LOCK")));
  }
  CAIRN_ASSIGN_OR_RETURN(const auto entries, files->ListDirectory(place->directory_));
  for (const env::DirectoryEntry& entry : entries) {
    if (entry.is_directory || !entry.name.ends_with(kPartSuffix)) continue;
    if (!entry.name.starts_with(place->options_.kind + "-")) continue;
    CAIRN_RETURN_IF_ERROR(
        IgnoreMissing(files->RemoveFile(env::JoinPath(place->directory_, entry.name))));
  }
  return place;
}

std::string SnapshotFiles::PathOf(uint64_t id) const {
  return env::JoinPath(directory_, fmt::format("{}-{}{}", options_.kind, id, options_.suffix));
}

std::optional<uint64_t> SnapshotFiles::IdOf(std::string_view name) const {
  const std::string head = options_.kind + "-";
  if (!name.starts_with(head) || !name.ends_with(options_.suffix)) return std::nullopt;
  name.remove_prefix(head.size());
  name.remove_suffix(std::min(name.size(), options_.suffix.size()));
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size() || name.empty()) {
    return std::nullopt;
  }
  return id;
}

// Writes a file under a temporary name, syncs it and gives it its own.
Status SnapshotFiles::WriteNamed(const std::string& path, const WriteBody& body) {
  const std::string part = path + std::string(kPartSuffix);
  CAIRN_RETURN_IF_ERROR(IgnoreMissing(files_->RemoveFile(part)));
  Status status = [&]() -> Status {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<env::WritableFile> file, files_->CreateFile(part));
    SummingSink sink(file.get());
    CAIRN_RETURN_IF_ERROR(body(&sink));
    if (options_.fsync) CAIRN_RETURN_IF_ERROR(file->Sync());
    CAIRN_RETURN_IF_ERROR(file->Close());
    CAIRN_RETURN_IF_ERROR(files_->Rename(part, path));
    return options_.fsync ? files_->SyncDirectory(directory_) : Status();
  }();
  // What stays behind after a failure has a name that nobody reads, and goes at the next open.
  if (!status.ok()) (void)files_->RemoveFile(part).ok();
  return status;
}

Result<uint64_t> SnapshotFiles::Write(uint64_t id, const WriteBody& body) {
  const std::string path = PathOf(id);
  format::SnapshotSidecar sidecar;
  sidecar.checkpoint_id = id;
  // A file of this id that is replaced must not be judged by the old one's sidecar.
  CAIRN_RETURN_IF_ERROR(IgnoreMissing(files_->RemoveFile(path + std::string(kSidecarSuffix))));
  CAIRN_RETURN_IF_ERROR(WriteNamed(path, [&](format::ByteSink* sink) -> Status {
    auto* summing = static_cast<SummingSink*>(sink);
    CAIRN_RETURN_IF_ERROR(body(sink));
    sidecar.payload_bytes = summing->bytes();
    sidecar.payload_crc32c = summing->crc();
    return {};
  }));
  CAIRN_RETURN_IF_ERROR(WriteNamed(path + std::string(kSidecarSuffix), [&](format::ByteSink* sink) {
    return sink->Append(format::SerializeSidecar(sidecar));
  }));
  return sidecar.payload_bytes;
}

// The verdict where a sidecar may be missing.
Result<SnapshotVerdict> SnapshotFiles::Judge(const std::string& path, std::string* payload) const {
  CAIRN_ASSIGN_OR_RETURN(const SnapshotVerdict verdict, JudgeSnapshotFile(files_, path, payload));
  if (options_.sidecar_needed || verdict != SnapshotVerdict::kIncomplete) return verdict;
  if (files_->Stat(path + std::string(kSidecarSuffix)).ok()) return verdict;
  if (payload != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(*payload, ReadAll(files_, path));
  }
  return SnapshotVerdict::kValid;
}

bool SnapshotFiles::IsValid(const std::string& path) const {
  const Result<SnapshotVerdict> verdict = Judge(path, nullptr);
  return verdict.ok() && *verdict == SnapshotVerdict::kValid;
}

// "; the newest older valid one is 7" for messages.
std::string SnapshotFiles::OlderThan(const std::string& path) const {
  const std::string directory = DirectoryOf(path);
  const std::optional<uint64_t> id = IdOf(std::string_view(path).substr(path.rfind('/') + 1));
  const Result<std::vector<uint64_t>> ids = ListIn(directory);
  if (id && ids.ok()) {
    for (auto at = ids->rbegin(); at != ids->rend(); ++at) {
      if (*at >= *id) continue;
      const std::string older =
          env::JoinPath(directory, fmt::format("{}-{}{}", options_.kind, *at, options_.suffix));
      if (IsValid(older)) return fmt::format("; the newest older valid one is {}", *at);
    }
  }
  return "; there is no older valid one";
}

Result<std::string> SnapshotFiles::Read(const std::string& path) const {
  std::string payload;
  CAIRN_ASSIGN_OR_RETURN(const SnapshotVerdict verdict, Judge(path, &payload));
  if (verdict == SnapshotVerdict::kValid) return payload;
  const std::string message =
      path + " is " + std::string(format::SnapshotVerdictName(verdict)) + OlderThan(path);
  if (verdict == SnapshotVerdict::kMissing) return Status::NotFound(message);
  if (verdict == SnapshotVerdict::kUnsupported) return Status::UnsupportedFormat(message);
  return Status::Corruption(message);
}

Result<std::vector<uint64_t>> SnapshotFiles::ListIn(const std::string& directory) const {
  CAIRN_ASSIGN_OR_RETURN(const auto entries, files_->ListDirectory(directory));
  std::vector<uint64_t> ids;
  for (const env::DirectoryEntry& entry : entries) {
    if (entry.is_directory) continue;
    if (const std::optional<uint64_t> id = IdOf(entry.name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<std::vector<uint64_t>> SnapshotFiles::ListAll() const { return ListIn(directory_); }

Result<std::vector<uint64_t>> SnapshotFiles::ListValid() const {
  CAIRN_ASSIGN_OR_RETURN(std::vector<uint64_t> ids, ListAll());
  std::erase_if(ids, [&](uint64_t id) { return !IsValid(PathOf(id)); });
  return ids;
}

Result<std::optional<uint64_t>> SnapshotFiles::LatestValid(uint64_t ceiling) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ListAll());
  for (auto at = ids.rbegin(); at != ids.rend(); ++at) {
    if (*at > ceiling) continue;
    CAIRN_ASSIGN_OR_RETURN(const SnapshotVerdict verdict, Judge(PathOf(*at), nullptr));
    if (verdict == SnapshotVerdict::kValid) return std::optional<uint64_t>(*at);
  }
  return std::optional<uint64_t>();
}

Status SnapshotFiles::Purge(uint64_t id) {
  const std::string path = PathOf(id);
  CAIRN_RETURN_IF_ERROR(IgnoreMissing(files_->RemoveFile(path + std::string(kSidecarSuffix))));
  CAIRN_RETURN_IF_ERROR(IgnoreMissing(files_->RemoveFile(path)));
  return options_.fsync ? files_->SyncDirectory(directory_) : Status();
}

}  // namespace cairn::backend
