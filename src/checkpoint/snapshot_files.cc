// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot_files.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"

namespace cairn::checkpoint {
namespace {

constexpr std::string_view kNamePrefix = "checkpoint-";
constexpr std::string_view kNameSuffix = ".snap";
constexpr std::string_view kMetaSuffix = ".meta";
constexpr std::string_view kPartSuffix = ".part";
constexpr uint64_t kSidecarBytesMax = uint64_t{64} << 10;
constexpr size_t kReadBytes = size_t{256} << 10;

/// Bytes on their way to a file, counted and summed.
class SummedFile final : public format::ByteSink {
 public:
  explicit SummedFile(env::WritableFile* file) : file_(file) {}
  Status Append(std::string_view bytes) override {
    sidecar_.payload_bytes += bytes.size();
    sidecar_.payload_crc32c = base::Crc32c(sidecar_.payload_crc32c, bytes);
    return file_->Append(bytes);
  }
  const format::SnapshotSidecar& sidecar() const { return sidecar_; }

 private:
  env::WritableFile* file_;
  format::SnapshotSidecar sidecar_;
};

Status RemoveIfThere(env::FileSystem* files, const std::string& path) {
  Status removed = files->RemoveFile(path);
  return removed.code() == StatusCode::kNotFound ? Status() : removed;
}

/// Write `path` whole or not at all.
Status Publish(env::FileSystem* files, const std::string& directory, const std::string& path,
               const std::function<Status(env::WritableFile*)>& write, bool sync) {
  const std::string part = path + std::string(kPartSuffix);
  CAIRN_RETURN_IF_ERROR(RemoveIfThere(files, part));  // of an earlier crash
  CAIRN_ASSIGN_OR_RETURN(const auto file, files->CreateFile(part));
  Status written = write(file.get());
  if (written.ok() && sync) written = file->Sync();
  if (written.ok()) written = file->Close();
  if (written.ok()) written = files->Rename(part, path);
  if (!written.ok()) {
    (void)files->RemoveFile(part);  // the failure is what counts
    return written;
  }
  return sync ? files->SyncDirectory(directory) : Status();
}

Result<uint32_t> Crc32cOfFile(const env::RandomAccessFile& file) {
  std::string buffer(std::min<uint64_t>(kReadBytes, file.size()), '\0');
  uint32_t crc = 0;
  for (uint64_t at = 0; at < file.size();) {
    const size_t count = std::min<uint64_t>(buffer.size(), file.size() - at);
    CAIRN_RETURN_IF_ERROR(file.ReadExactly(at, {buffer.data(), count}));
    crc = base::Crc32c(crc, std::string_view(buffer.data(), count));
    at += count;
  }
  return crc;
}

}  // namespace

std::string SnapshotName(uint64_t id) {
  return std::string(kNamePrefix) + std::to_string(id) + std::string(kNameSuffix);
}

std::optional<uint64_t> IdOfSnapshotName(std::string_view name) {
  if (!name.starts_with(kNamePrefix) || !name.ends_with(kNameSuffix)) return std::nullopt;
  name.remove_prefix(kNamePrefix.size());
  name.remove_suffix(std::min(kNameSuffix.size(), name.size()));
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return id;
}

Status WriteSnapshotFile(env::FileSystem* files, const std::string& directory, uint64_t id,
                         const std::function<Status(format::ByteSink*)>& write, bool sync) {
  const std::string path = env::JoinPath(directory, SnapshotName(id));
  const std::string meta = path + std::string(kMetaSuffix);
  // A sidecar that speaks of the payload to be replaced must not outlive it.
  CAIRN_RETURN_IF_ERROR(RemoveIfThere(files, meta));
  format::SnapshotSidecar sidecar;
  CAIRN_RETURN_IF_ERROR(Publish(
      files, directory, path,
      [&](env::WritableFile* file) -> Status {
        SummedFile summed(file);
        CAIRN_RETURN_IF_ERROR(write(&summed));
        sidecar = summed.sidecar();
        return {};
      },
      sync));
  sidecar.checkpoint_id = id;
  return Publish(
      files, directory, meta,
      [&](env::WritableFile* file) { return file->Append(format::SerializeSidecar(sidecar)); },
      sync);
}

Result<format::SnapshotVerdict> JudgeSnapshotFile(env::FileSystem* files, const std::string& path) {
  using format::SnapshotVerdict;
  const auto payload = files->OpenForRead(path);
  if (!payload.ok()) {
    if (payload.status().code() == StatusCode::kNotFound) return SnapshotVerdict::kMissing;
    return payload.status();
  }
  const auto text = env::ReadWholeFile(files, path + std::string(kMetaSuffix), kSidecarBytesMax);
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
  if (sidecar->payload_bytes != (*payload)->size()) return SnapshotVerdict::kIncomplete;
  CAIRN_ASSIGN_OR_RETURN(const uint32_t crc, Crc32cOfFile(**payload));
  return crc == sidecar->payload_crc32c ? SnapshotVerdict::kValid : SnapshotVerdict::kCorrupt;
}

Result<std::vector<uint64_t>> ListSnapshotFiles(env::FileSystem* files,
                                                const std::string& directory) {
  CAIRN_ASSIGN_OR_RETURN(const auto entries, files->ListDirectory(directory));
  std::vector<uint64_t> ids;
  for (const env::DirectoryEntry& entry : entries) {
    const auto id = IdOfSnapshotName(entry.name);
    if (id && !entry.is_directory) ids.push_back(*id);
  }
  std::sort(ids.rbegin(), ids.rend());
  return ids;
}

Result<std::optional<uint64_t>> LatestValidSnapshot(env::FileSystem* files,
                                                    const std::string& directory,
                                                    uint64_t ceiling) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ListSnapshotFiles(files, directory));
  for (const uint64_t id : ids) {
    if (id > ceiling) continue;
    CAIRN_ASSIGN_OR_RETURN(const format::SnapshotVerdict verdict,
                           JudgeSnapshotFile(files, env::JoinPath(directory, SnapshotName(id))));
    if (verdict == format::SnapshotVerdict::kValid) return std::optional<uint64_t>(id);
  }
  return std::optional<uint64_t>();
}

Status RemoveSnapshotFile(env::FileSystem* files, const std::string& directory, uint64_t id) {
  const std::string path = env::JoinPath(directory, SnapshotName(id));
  CAIRN_RETURN_IF_ERROR(RemoveIfThere(files, path + std::string(kMetaSuffix)));
  return RemoveIfThere(files, path);
}

}  // namespace cairn::checkpoint
