// SPDX-License-Identifier: Apache-2.0
#include "cli/staged_file.h"

#include <fmt/format.h>

#include "env/clock.h"

namespace cairn::cli {

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

namespace {

Status AlreadyThere(const std::string& path) {
  return Status::AlreadyExists(
      fmt::format("'{}' exists and is not overwritten. Choose another name, or remove it", path));
}

}  // namespace

Result<std::unique_ptr<StagedFile>> StagedFile::Create(env::FileSystem* files,
                                                       const std::string& path) {
  const std::string directory = DirectoryOf(path);
  const Result<env::FileInfo> parent = files->Stat(directory);
  if (!parent.ok() || !parent->is_directory) {
    return Status::InvalidArgument(
        fmt::format("there is no directory '{}' to write '{}' in. Make it first", directory, path));
  }
  if (const Result<env::FileInfo> there = files->Stat(path); there.ok()) {
    if (there->is_directory) {
      return Status::InvalidArgument(fmt::format("'{}' is a directory. Name a file in it", path));
    }
    return AlreadyThere(path);
  }
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  std::string temporary =
      fmt::format("{}/.{}.{:016x}.tmp", directory, name, env::SystemRandom()->Next());
  CAIRN_ASSIGN_OR_RETURN(auto file, files->CreateFile(temporary));
  return std::unique_ptr<StagedFile>(
      new StagedFile(files, path, std::move(temporary), std::move(file)));
}

StagedFile::~StagedFile() {
  if (committed_) return;
  file_.reset();
  // Nothing is left to tell: the file is hidden, and a failed removal only leaves it there.
  (void)files_->RemoveFile(temporary_);
}

Status StagedFile::Append(std::string_view bytes) {
  CAIRN_RETURN_IF_ERROR(file_->Append(bytes));
  bytes_ += bytes.size();
  return {};
}

Status StagedFile::Commit() {
  CAIRN_RETURN_IF_ERROR(file_->Sync());
  CAIRN_RETURN_IF_ERROR(file_->Close());
  // The file system seam makes private files; a result is the user's own.
  CAIRN_RETURN_IF_ERROR(files_->UseDefaultMode(temporary_));
  // A link, unlike a rename, never replaces what another has put there meanwhile; where the file
  // system knows no links the look that Create took has to do.
  Status named = files_->Link(temporary_, path_);
  if (named.code() == StatusCode::kAlreadyExists) return AlreadyThere(path_);
  if (named.ok()) {
    committed_ = true;
    CAIRN_RETURN_IF_ERROR(files_->RemoveFile(temporary_));
  } else {
    CAIRN_RETURN_IF_ERROR(files_->Rename(temporary_, path_));
    committed_ = true;
  }
  return files_->SyncDirectory(DirectoryOf(path_));
}

}  // namespace cairn::cli
