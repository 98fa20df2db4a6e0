// SPDX-License-Identifier: Apache-2.0
//
// Objects as files below one directory: create-if-absent by link, compare-and-swap by rename.
//
// Invariants
//  1. A key's file is complete at every moment: bytes are written and synced under a temporary name
//     (`.cairn-tmp-…` in the same directory) before the key names them.
//  2. A directory whose sync failed is poisoned: the outcome of what was done in it is unknown, so
//     every later call there fails until the store is opened again.
//  3. Compare-and-swap is atomic within this process; the holder of the place's lock is the only
//     process that writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "env/file_system.h"
#include "env/object_store.h"

namespace cairn::env {

struct LocalObjectStoreOptions {
  /// False: nothing is synced; a power cut may lose or mix anything.
  bool fsync = true;
  /// Sweep temporary names at open: only for the holder of the place's lock.
  bool sweep = true;
  /// Directories directly below the root whose trees are swept, beside the root's own names. Others
  /// may be anybody's: a place can be made in a directory that holds much else.
  std::vector<std::string> sweep_directories;
};

class LocalObjectStore final : public ObjectStore {
 public:
  /// Open the objects below `root`, which need not exist yet. `files` outlives the store.
  ///
  /// Blocks:   on listing `root` when asked to sweep.
  static Result<std::unique_ptr<LocalObjectStore>> Open(FileSystem* files, std::string root,
                                                        LocalObjectStoreOptions options);

  StoreUse use() const override { return use_.Read(); }
  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override;
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override;
  Status PutHint(const std::string& key, std::string_view bytes) override;
  Result<std::unique_ptr<ObjectWriter>> NewWriter(const std::string& key) override;
  Status PrepareFor(const std::string& key) override;
  Status SyncName(const std::string& key) override;
  Result<VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override;
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override;
  Result<ObjectInfo> Head(const std::string& key) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;

  /// Temporary names that opening removed.
  uint64_t swept() const { return swept_; }

 private:
  friend class LocalObjectWriter;

  LocalObjectStore(FileSystem* files, std::string root, LocalObjectStoreOptions options)
      : files_(files), root_(std::move(root)), options_(options) {}

  Status CheckKey(const std::string& key) const;
  Status CheckPoison(const std::string& directory) const;
  Result<std::string> PrepareDirectory(const std::string& key);
  Status EnsureDirectory(const std::string& directory);
  Status SyncFile(WritableFile* file);
  Status SyncDirectoryCounted(const std::string& directory);
  Status SyncDirectoryOf(const std::string& directory);
  std::string TemporaryName(const std::string& directory);
  Result<std::unique_ptr<WritableFile>> CreateTemporary(const std::string& directory,
                                                        std::string* path);
  Result<std::string> WriteTemporary(const std::string& directory, std::string_view bytes,
                                     bool sync);
  Status SweepTemporaryNames(const std::string& directory, bool whole_tree);
  Status ListBelow(const std::string& key, const std::string& prefix,
                   std::vector<ObjectInfo>* found);
  Result<std::shared_ptr<const RandomAccessFile>> OpenCached(const std::string& key);
  void Forget(const std::string& key);

  FileSystem* files_;
  std::string root_;
  LocalObjectStoreOptions options_;
  StoreUseCounter use_;
  uint64_t swept_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  uint64_t temporary_names_ = 0;
  std::set<std::string> made_directories_;
  std::set<std::string> poisoned_;
  std::map<std::string, std::shared_ptr<const RandomAccessFile>> open_;  // of ReadRange
  std::mutex swap_mutex_;                                                // one swap at a time
};

}  // namespace cairn::env
