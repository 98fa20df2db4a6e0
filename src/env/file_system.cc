// SPDX-License-Identifier: Apache-2.0
#include "env/file_system.h"

#include <filesystem>

namespace cairn::env {

std::string FileSystem::CanonicalPath(const std::string& path) {
  std::string canonical = (std::filesystem::path("/") / path).lexically_normal().string();
  if (canonical.size() > 1 && canonical.back() == '/') canonical.pop_back();
  return canonical;
}

Result<std::string> ReadWholeFile(FileSystem* files, const std::string& path, uint64_t max_bytes) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, files->OpenForRead(path));
  if (file->size() > max_bytes) {
    return Status::Corruption("read " + path + ": " + std::to_string(file->size()) +
                              " bytes, at most " + std::to_string(max_bytes) + " are expected");
  }
  std::string bytes(file->size(), '\0');
  CAIRN_RETURN_IF_ERROR(file->ReadExactly(0, bytes));
  return bytes;
}

Status CreateDirectories(FileSystem* files, const std::string& path, bool sync) {
  // Fast path first: most calls find everything there.
  if (Result<FileInfo> found = files->Stat(path); found.ok()) {
    if (found->is_directory) return {};
    return Status::AlreadyExists("mkdir " + path + ": a file has that name");
  } else if (found.status().code() != StatusCode::kNotFound) {
    return std::move(found).status();
  }
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  if (parent != "." && parent != "/") {
    CAIRN_RETURN_IF_ERROR(CreateDirectories(files, parent, sync));
  }
  const Status made = files->CreateDirectory(path);
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  if (sync) return files->SyncDirectory(parent);
  return {};
}

std::string JoinPath(std::string_view a, std::string_view b) {
  while (a.size() > 1 && a.back() == '/') a.remove_suffix(1);
  while (!b.empty() && b.front() == '/') b.remove_prefix(1);
  if (a.empty()) return std::string(b);
  std::string joined(a);
  if (joined.back() != '/') joined += '/';
  joined += b;
  return joined;
}

}  // namespace cairn::env
