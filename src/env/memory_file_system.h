// SPDX-License-Identifier: Apache-2.0
//
// Files in memory that know what a power cut leaves: only bytes that were synced, under names whose
// directory was synced. What was not synced may survive whole, in part, garbled or not at all.
//
// Threads: any; one lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "env/file_system.h"

namespace cairn::env {

/// What becomes of bytes and names that were not synced.
enum class Unsynced : uint8_t {
  kDrop,    ///< none survives
  kKeep,    ///< all survives: the same as a killed process
  kRandom,  ///< each name by a coin (a renamed file keeps one of its two); each 512-byte sector
            ///< kept, zeroed or garbled
};

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  /// Cut the power: decide what survives. Every call fails until PowerOn, every handle for ever.
  void PowerCut(Unsynced unsynced, uint64_t seed = 0);
  void PowerOn();

  /// Bytes that files may hold in all; a write beyond it is cut short with kResourceExhausted.
  void SetCapacity(uint64_t bytes);

  /// Change one byte of a file where it lies, as a failing disk does.
  Status FlipByte(const std::string& path, uint64_t offset, uint8_t mask = 0x01);
  /// Cut a file to `size` bytes, as a failing disk does.
  Status Truncate(const std::string& path, uint64_t size);
  /// All paths of files there are now, sorted, with their bytes.
  std::map<std::string, std::string> AllFiles() const;
  /// Handles that are open now.
  uint64_t open_handles() const;

  Result<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                      uint64_t offset) override;
  Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) override;
  Status Link(const std::string& source, const std::string& target) override;
  Status Rename(const std::string& source, const std::string& target) override;
  Status RemoveFile(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  Status CreateDirectory(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> ListDirectory(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

 private:
  struct Node;
  struct State;
  class Writable;
  class Readable;
  class HeldLock;
  std::shared_ptr<State> state_;
};

}  // namespace cairn::env
