// SPDX-License-Identifier: Apache-2.0
//
// The seam to files. Everything Cairn reads or writes on a disk goes through it, so that tests can
// fail any call, cut the power after it and look at what is left.
//
// Implementations: PosixFileSystem(), MemoryFileSystem (models what survives a power cut),
// FaultFileSystem (wraps another and fails chosen calls).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn::env {

/// Append bytes to a file that this handle created.
///
/// Threads:  one.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(std::string_view bytes) = 0;
  /// Make all appended bytes durable. After a failure the file must be abandoned, never re-synced.
  virtual Status Sync() = 0;
  virtual Status Close() = 0;
};

/// Read a file at any offset.
///
/// Threads:  any.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  /// Fill `out` from `offset`. kCorruption when the file ends before.
  virtual Status ReadExactly(uint64_t offset, std::span<char> out) const = 0;
  virtual uint64_t size() const = 0;
};

/// An exclusive lock, given back on destruction.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  uint64_t size = 0;
};

struct FileInfo {
  bool is_directory = false;
  uint64_t size = 0;
  int64_t modified_unix_ns = 0;
  /// What a file or directory keeps when it is renamed and no other has, not even one that is made
  /// after it was removed. Empty = the system does not tell.
  std::string identity;
};

/// Make, read and change files and directories.
///
/// Threads:  any.
/// Errors:   kNotFound · kAlreadyExists · kResourceExhausted (disk or quota full) · kUnavailable
///           (any other I/O fault); messages name the call, the path and the system's reason.
/// Durable:  a new name only after SyncDirectory of its parent; bytes only after Sync.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Create a new file, mode 0600. kAlreadyExists when the name is taken.
  virtual Result<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) = 0;
  /// Open an existing file to append at `offset`, cutting off what is behind it.
  virtual Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              uint64_t offset) = 0;
  virtual Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) = 0;

  /// Give `target` the file of `source`. kAlreadyExists when `target` exists.
  virtual Status Link(const std::string& source, const std::string& target) = 0;
  /// Give the file of `source` the name `target`, replacing what is there.
  virtual Status Rename(const std::string& source, const std::string& target) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  virtual Status RemoveDirectory(const std::string& path) = 0;
  /// Create one directory, mode 0700. kAlreadyExists when the name is taken.
  virtual Status CreateDirectory(const std::string& path) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  /// Give a file or directory the mode that programs give by default (0666 or 0777 less the
  /// process's umask): for output that others are to read. Systems without modes do nothing.
  virtual Status UseDefaultMode(const std::string& path) {
    (void)path;
    return {};
  }

  /// List names, sorted, without "." and "..".
  virtual Result<std::vector<DirectoryEntry>> ListDirectory(const std::string& path) = 0;
  virtual Result<FileInfo> Stat(const std::string& path) = 0;

  /// `path` as one of its spellings that is the same for all: absolute, without "." and "..", links
  /// followed as far as there are files.
  virtual std::string CanonicalPath(const std::string& path);

  /// Take the exclusive lock `path` without waiting. kFenced names the holder's process id.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
  /// Wait for the turn of this process among those that ask for directory `path`. Null where no
  /// other process can ask.
  virtual Result<std::unique_ptr<FileLock>> TakeTurn(const std::string& path) {
    (void)path;
    return std::unique_ptr<FileLock>();
  }
};

/// The machine's own file system. Lives for ever.
FileSystem* PosixFileSystem();

/// Read a whole file of at most `max_bytes`; kCorruption above that.
Result<std::string> ReadWholeFile(FileSystem* files, const std::string& path, uint64_t max_bytes);

/// Create `path` and its missing parents; with `sync`, make each new name durable.
Status CreateDirectories(FileSystem* files, const std::string& path, bool sync);

/// Join two path parts with exactly one '/'.
std::string JoinPath(std::string_view a, std::string_view b);

}  // namespace cairn::env
