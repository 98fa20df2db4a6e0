// SPDX-License-Identifier: Apache-2.0
//
// SnapshotFiles: a directory of snapshot files, each with a text sidecar that tells whether it is
// whole: <kind>-<id>.snap and <kind>-<id>.snap.meta (docs/formats/canonical-stream.md).
//
// Threads:  any; two writes of one id must not overlap.
// Invariants
//  1. A file appears under its name whole and synced, its sidecar after it. A crash between the two
//     leaves a file that reads as incomplete.
//  2. Names that end in .part are never read; opening removes them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "env/file_system.h"
#include "format/canonical_stream.h"
#include "format/object.h"

namespace cairn::backend {

struct SnapshotFileOptions {
  std::string kind = "checkpoint";  ///< in the name: <kind>-<id><suffix>
  std::string suffix = ".snap";
  bool fsync = true;
  bool lock = false;           ///< keep other processes out of the directory
  bool sidecar_needed = true;  ///< false: a file without one is taken as it is, as others write it
};

/// Write a file: called with where its bytes go.
using WriteBody = std::function<Status(format::ByteSink* sink)>;

/// Judge the snapshot at `path` by its sidecar; reads all of it, some KiB at a time. With `payload`
/// the bytes are kept there, as far as they were read.
///
/// Errors:   kUnavailable, when a file that is there cannot be read.
Result<format::SnapshotVerdict> JudgeSnapshotFile(env::FileSystem* files, const std::string& path,
                                                  std::string* payload = nullptr);

class SnapshotFiles {
 public:
  /// Make the directory and remove what a crash left half written. `files` outlives this.
  ///
  /// Errors:   kFenced when another process has it open · what the file system returned.
  static Result<std::unique_ptr<SnapshotFiles>> Open(env::FileSystem* files, std::string directory,
                                                     SnapshotFileOptions options);

  /// The directory as it is, for Read and the lists only: nothing is made, locked or removed.
  static SnapshotFiles ForReading(env::FileSystem* files, std::string directory,
                                  SnapshotFileOptions options) {
    return SnapshotFiles(files, std::move(directory), std::move(options));
  }

  std::string PathOf(uint64_t id) const;
  const std::string& directory() const { return directory_; }

  /// Write or replace the file of `id` and its sidecar; returns the file's bytes.
  ///
  /// Durable:  yes, when fsync is on.
  Result<uint64_t> Write(uint64_t id, const WriteBody& body);

  /// Read the file at `path`, of this directory or another's, and check it against its sidecar.
  ///
  /// Errors:   kNotFound · kCorruption (incomplete or damaged) · kUnsupportedFormat; each names the
  ///           path and the newest older valid id beside it, or says there is none.
  Result<std::string> Read(const std::string& path) const;

  /// Ids of the valid files, ascending.
  Result<std::vector<uint64_t>> ListValid() const;
  /// Ids of all files, valid or not, ascending.
  Result<std::vector<uint64_t>> ListAll() const;
  /// The newest valid id of at most `ceiling`. Errors: kUnavailable for one that cannot be read.
  Result<std::optional<uint64_t>> LatestValid(uint64_t ceiling) const;

  /// Remove the file and its sidecar, the sidecar first; what is not there is no error.
  Status Purge(uint64_t id);

 private:
  SnapshotFiles(env::FileSystem* files, std::string directory, SnapshotFileOptions options)
      : files_(files), directory_(std::move(directory)), options_(std::move(options)) {}
  std::optional<uint64_t> IdOf(std::string_view name) const;
  Result<std::vector<uint64_t>> ListIn(const std::string& directory) const;
  Status WriteNamed(const std::string& path, const WriteBody& body);
  Result<format::SnapshotVerdict> Judge(const std::string& path, std::string* payload) const;
  bool IsValid(const std::string& path) const;
  std::string OlderThan(const std::string& path) const;

  env::FileSystem* files_;
  std::unique_ptr<env::FileLock> lock_;
  const std::string directory_;
  const SnapshotFileOptions options_;
};

}  // namespace cairn::backend
