// SPDX-License-Identifier: Apache-2.0
//
// What each write costs in syncs: create = bytes + directory; swap = bytes + directory; a streamed
// object = bytes, its name riding on the next create in the same directory; a new directory = one
// sync of its parent. A checkpoint is built of these (docs/protocol/checkpoint.md).
#include "env/local_object_store.h"

#include <algorithm>

#include "base/hash.h"

namespace cairn::env {
namespace {

constexpr std::string_view kTemporaryPrefix = ".cairn-tmp-";
// Files kept open between two ReadRange calls: a restore reads many frames of few objects.
constexpr size_t kOpenFilesMax = 32;

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

}  // namespace

class LocalObjectWriter final : public ObjectWriter {
 public:
  LocalObjectWriter(LocalObjectStore* store, std::string temporary, std::string target,
                    std::unique_ptr<WritableFile> file)
      : store_(store),
        temporary_(std::move(temporary)),
        target_(std::move(target)),
        file_(std::move(file)) {}

  ~LocalObjectWriter() override {
    if (!finished_) {
      file_.reset();
      (void)store_->files_->RemoveFile(temporary_);  // else swept at the next open
    }
  }

  Status Append(std::string_view bytes) override {
    store_->use_.AddBytes(bytes.size());
    return file_->Append(bytes);
  }

  Status Finish() override {
    if (store_->options_.fsync) CAIRN_RETURN_IF_ERROR(store_->SyncFile(file_.get()));
    CAIRN_RETURN_IF_ERROR(file_->Close());
    CAIRN_RETURN_IF_ERROR(store_->files_->Link(temporary_, target_));
    finished_ = true;
    (void)store_->files_->RemoveFile(temporary_);  // else swept at the next open
    return {};
  }

 private:
  LocalObjectStore* store_;
  std::string temporary_;
  std::string target_;
  std::unique_ptr<WritableFile> file_;
  bool finished_ = false;
};

Result<std::unique_ptr<LocalObjectStore>> LocalObjectStore::Open(FileSystem* files,
                                                                 std::string root,
                                                                 LocalObjectStoreOptions options) {
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  std::unique_ptr<LocalObjectStore> store(new LocalObjectStore(files, std::move(root), options));
  if (options.sweep) {
    CAIRN_RETURN_IF_ERROR(store->SweepTemporaryNames(store->root_, false));
    for (const std::string& name : options.sweep_directories) {
      CAIRN_RETURN_IF_ERROR(store->SweepTemporaryNames(JoinPath(store->root_, name), true));
    }
  }
  return store;
}

Status LocalObjectStore::SweepTemporaryNames(const std::string& directory, bool whole_tree) {
  Result<std::vector<DirectoryEntry>> entries = files_->ListDirectory(directory);
  if (!entries.ok()) {
    return entries.status().code() == StatusCode::kNotFound ? Status() : entries.status();
  }
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = JoinPath(directory, entry.name);
    if (entry.is_directory) {
      if (whole_tree) CAIRN_RETURN_IF_ERROR(SweepTemporaryNames(path, true));
    } else if (entry.name.starts_with(kTemporaryPrefix)) {
      CAIRN_RETURN_IF_ERROR(files_->RemoveFile(path));
      ++swept_;
    }
  }
  return {};
}

Status LocalObjectStore::CheckKey(const std::string& key) const {
  size_t at = 0;
  while (at <= key.size()) {
    const size_t slash = std::min(key.find('/', at), key.size());
    const std::string_view part(key.data() + at, slash - at);
    if (part.empty() || part == "." || part == ".." || part.starts_with(kTemporaryPrefix) ||
        part.find('\0') != std::string_view::npos) {
      return Status::InvalidArgument("object key \"" + key + "\" is not a relative path");
    }
    at = slash + 1;
  }
  return {};
}

Status LocalObjectStore::CheckPoison(const std::string& directory) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!poisoned_.contains(directory)) return {};
  return Status::Unavailable("an earlier sync of " + directory +
                             " failed, so what it holds after a power cut is unknown; restart to "
                             "read it again");
}

Result<std::string> LocalObjectStore::PrepareDirectory(const std::string& key) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  const std::string directory = DirectoryOf(JoinPath(root_, key));
  CAIRN_RETURN_IF_ERROR(CheckPoison(directory));
  CAIRN_RETURN_IF_ERROR(EnsureDirectory(directory));
  return directory;
}

// A directory that is already there may be the work of a process that died before its name was
// synced. So the first use of each syncs the parent, whether it had to be made or not.
Status LocalObjectStore::EnsureDirectory(const std::string& directory) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (made_directories_.contains(directory)) return {};
  }
  Status synced;
  if (directory == root_) {
    const bool was_there = files_->Stat(root_).ok();
    CAIRN_RETURN_IF_ERROR(CreateDirectories(files_, root_, options_.fsync));
    // Best effort: the user's own directory may lie in one that we may not open.
    if (was_there && options_.fsync) (void)SyncDirectoryCounted(DirectoryOf(root_));
  } else {
    const std::string parent = DirectoryOf(directory);
    CAIRN_RETURN_IF_ERROR(EnsureDirectory(parent));
    const Status made = files_->CreateDirectory(directory);
    if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
    if (options_.fsync) synced = SyncDirectoryCounted(parent);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (synced.ok()) {
    made_directories_.insert(directory);
  } else {
    poisoned_.insert(directory);  // a second sync could succeed without writing the name
  }
  return synced;
}

Status LocalObjectStore::SyncFile(WritableFile* file) {
  use_.AddSync();
  return file->Sync();
}

Status LocalObjectStore::SyncDirectoryCounted(const std::string& directory) {
  use_.AddSync();
  return files_->SyncDirectory(directory);
}

Status LocalObjectStore::SyncDirectoryOf(const std::string& directory) {
  if (!options_.fsync) return {};
  const Status synced = SyncDirectoryCounted(directory);
  if (synced.ok()) return {};
  std::lock_guard<std::mutex> lock(mutex_);
  poisoned_.insert(directory);
  return Status::Unavailable(std::string(synced.message()) + "; whether the last write in " +
                             directory + " is durable is unknown");
}

std::string LocalObjectStore::TemporaryName(const std::string& directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  return JoinPath(directory, std::string(kTemporaryPrefix) + std::to_string(++temporary_names_));
}

Result<std::unique_ptr<WritableFile>> LocalObjectStore::CreateTemporary(
    const std::string& directory, std::string* path) {
  for (;;) {
    *path = TemporaryName(directory);
    Result<std::unique_ptr<WritableFile>> file = files_->CreateFile(*path);
    // Another process counts on its own, or a dead one has left this name.
    if (file.ok() || file.status().code() != StatusCode::kAlreadyExists) return file;
  }
}

Result<std::string> LocalObjectStore::WriteTemporary(const std::string& directory,
                                                     std::string_view bytes, bool sync) {
  std::string path;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateTemporary(directory, &path));
  use_.AddBytes(bytes.size());
  Status status = file->Append(bytes);
  if (status.ok() && sync) status = SyncFile(file.get());
  if (status.ok()) status = file->Close();
  if (!status.ok()) {
    file.reset();
    (void)files_->RemoveFile(path);  // else swept at the next open
    return status;
  }
  return path;
}

Status LocalObjectStore::PrepareFor(const std::string& key) {
  return PrepareDirectory(key).status();
}

Status LocalObjectStore::CreateIfAbsent(const std::string& key, std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::string directory, PrepareDirectory(key));
  CAIRN_ASSIGN_OR_RETURN(const std::string temporary,
                         WriteTemporary(directory, bytes, options_.fsync));
  const std::string target = JoinPath(root_, key);
  Status linked = files_->Link(temporary, target);
  (void)files_->RemoveFile(temporary);  // else swept at the next open
  if (!linked.ok()) {
    // An answer may be lost after the link was made: what is there decides.
    Result<std::string> there = ReadWholeFile(files_, target, bytes.size());
    if (!there.ok() || *there != bytes) return linked;
  }
  return SyncDirectoryOf(directory);
}

Result<std::string> LocalObjectStore::CompareAndSwap(const std::string& key,
                                                     const std::optional<std::string>& expected,
                                                     std::string_view bytes) {
  std::lock_guard<std::mutex> swap(swap_mutex_);
  CAIRN_ASSIGN_OR_RETURN(const std::string directory, PrepareDirectory(key));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> turn, files_->TakeTurn(directory));
  const std::string target = JoinPath(root_, key);
  Result<std::string> there = ReadWholeFile(files_, target, UINT32_MAX);
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  const bool equal =
      there.ok() ? expected && base::Sha256::HexOf(*there) == *expected : !expected.has_value();
  if (!equal) {
    return Status::Fenced("replace " + target +
                          ": it changed since it was read; another process has written here");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string temporary,
                         WriteTemporary(directory, bytes, options_.fsync));
  if (Status renamed = files_->Rename(temporary, target); !renamed.ok()) {
    (void)files_->RemoveFile(temporary);  // else swept at the next open
    return renamed;
  }
  CAIRN_RETURN_IF_ERROR(SyncDirectoryOf(directory));
  return base::Sha256::HexOf(bytes);
}

Status LocalObjectStore::PutHint(const std::string& key, std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::string directory, PrepareDirectory(key));
  CAIRN_ASSIGN_OR_RETURN(const std::string temporary, WriteTemporary(directory, bytes, false));
  if (Status renamed = files_->Rename(temporary, JoinPath(root_, key)); !renamed.ok()) {
    (void)files_->RemoveFile(temporary);  // else swept at the next open
    return renamed;
  }
  return {};
}

Result<std::unique_ptr<ObjectWriter>> LocalObjectStore::NewWriter(const std::string& key) {
  CAIRN_ASSIGN_OR_RETURN(const std::string directory, PrepareDirectory(key));
  std::string temporary;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                         CreateTemporary(directory, &temporary));
  return std::unique_ptr<ObjectWriter>(
      new LocalObjectWriter(this, temporary, JoinPath(root_, key), std::move(file)));
}

Status LocalObjectStore::SyncName(const std::string& key) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  const std::string directory = DirectoryOf(JoinPath(root_, key));
  CAIRN_RETURN_IF_ERROR(CheckPoison(directory));
  return SyncDirectoryOf(directory);
}

Result<VersionedBytes> LocalObjectStore::Get(const std::string& key, uint64_t max_bytes) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  const std::string path = JoinPath(root_, key);
  CAIRN_RETURN_IF_ERROR(CheckPoison(DirectoryOf(path)));
  CAIRN_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(files_, path, max_bytes));
  std::string version = base::Sha256::HexOf(bytes);
  return VersionedBytes{std::move(bytes), std::move(version)};
}

Result<std::shared_ptr<const RandomAccessFile>> LocalObjectStore::OpenCached(
    const std::string& key) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto found = open_.find(key); found != open_.end()) return found->second;
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                         files_->OpenForRead(JoinPath(root_, key)));
  std::shared_ptr<const RandomAccessFile> shared = std::move(file);
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_.size() >= kOpenFilesMax) open_.clear();  // readers keep theirs by reference
  open_[key] = shared;
  return shared;
}

void LocalObjectStore::Forget(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  open_.erase(key);
}

Status LocalObjectStore::ReadRange(const std::string& key, uint64_t offset, std::span<char> out) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<const RandomAccessFile> file, OpenCached(key));
  return file->ReadExactly(offset, out);
}

Result<ObjectInfo> LocalObjectStore::Head(const std::string& key) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, files_->Stat(JoinPath(root_, key)));
  if (info.is_directory) return Status::NotFound("stat " + JoinPath(root_, key) + ": a directory");
  return ObjectInfo{key, info.size, info.modified_unix_ns / 1'000'000};
}

Status LocalObjectStore::ListBelow(const std::string& key, const std::string& prefix,
                                   std::vector<ObjectInfo>* found) {
  Result<std::vector<DirectoryEntry>> entries =
      files_->ListDirectory(key.empty() ? root_ : JoinPath(root_, key));
  if (!entries.ok()) {
    return entries.status().code() == StatusCode::kNotFound ? Status() : entries.status();
  }
  for (const DirectoryEntry& entry : *entries) {
    if (entry.name.starts_with(kTemporaryPrefix)) continue;
    const std::string child = key.empty() ? entry.name : key + "/" + entry.name;
    if (entry.is_directory) {
      // Descend only where a key with the prefix can lie.
      const size_t common = std::min(child.size(), prefix.size());
      if (child.compare(0, common, prefix, 0, common) == 0) {
        CAIRN_RETURN_IF_ERROR(ListBelow(child, prefix, found));
      }
    } else if (child.starts_with(prefix)) {
      Result<ObjectInfo> info = Head(child);
      if (info.ok()) {
        found->push_back(*std::move(info));
      } else if (info.status().code() != StatusCode::kNotFound) {
        return std::move(info).status();
      }
    }
  }
  return {};
}

Result<std::vector<ObjectInfo>> LocalObjectStore::List(const std::string& prefix) {
  std::vector<ObjectInfo> found;
  CAIRN_RETURN_IF_ERROR(ListBelow("", prefix, &found));
  std::sort(found.begin(), found.end(),
            [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
  return found;
}

Status LocalObjectStore::Delete(const std::string& key) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  Forget(key);
  const std::string path = JoinPath(root_, key);
  const Status removed = files_->RemoveFile(path);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  // A directory goes with its last object. Not those above it: they would have to be made durable
  // again.
  const std::string directory = DirectoryOf(path);
  if (directory.size() > root_.size() && files_->RemoveDirectory(directory).ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    made_directories_.erase(directory);
    poisoned_.erase(directory);
  }
  return {};
}

}  // namespace cairn::env
