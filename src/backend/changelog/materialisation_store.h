// SPDX-License-Identifier: Apache-2.0
//
// MaterialisationStore: where a changelog keeps its bases when they are not inside its snapshots.
//
// Threads:  any, one call at a time.
// Invariants
//  1. A handle is a name within the store, so that store and snapshots can be moved together.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/snapshot_files.h"
#include "cairn/status.h"

namespace cairn::backend {

class MaterialisationStore {
 public:
  virtual ~MaterialisationStore() = default;

  /// A base that is kept.
  struct Kept {
    std::string handle;
    uint64_t bytes = 0;
  };

  /// Keep what `body` writes, as the base of checkpoint `id`. Never replaces another.
  virtual Result<Kept> Put(uint64_t id, const WriteBody& body) = 0;
  /// Errors: kNotFound · kCorruption, naming the handle.
  virtual Result<std::string> Get(std::string_view handle) = 0;
  /// Handles of all there are, whole or not.
  virtual Result<std::vector<std::string>> List() = 0;
  /// What is not there is no error.
  virtual Status Remove(std::string_view handle) = 0;
};

/// Files mat-<id>.bin of a directory, with a sidecar each.
class FileMaterialisationStore final : public MaterialisationStore {
 public:
  static Result<std::unique_ptr<FileMaterialisationStore>> Open(env::FileSystem* files,
                                                                std::string directory, bool fsync);

  Result<Kept> Put(uint64_t id, const WriteBody& body) override;
  /// A handle with directories in front is looked up by its last part.
  Result<std::string> Get(std::string_view handle) override;
  Result<std::vector<std::string>> List() override;
  Status Remove(std::string_view handle) override;

 private:
  explicit FileMaterialisationStore(std::unique_ptr<SnapshotFiles> files)
      : files_(std::move(files)) {}
  std::unique_ptr<SnapshotFiles> files_;
};

/// Read the materialisation `handle` in `directory`, which is not opened and not changed. One
/// without a sidecar, as other programs write it, is taken as it is.
///
/// Errors:   as MaterialisationStore::Get.
Result<std::string> ReadMaterialisation(env::FileSystem* files, const std::string& directory,
                                        std::string_view handle);

}  // namespace cairn::backend
