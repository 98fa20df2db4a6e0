// SPDX-License-Identifier: Apache-2.0
//
// Wrap a file system, count its calls and make chosen ones fail.
//
// A fault loop runs the same work with the fault at call 0, 1, 2, … until a run meets none:
//
//   for (uint64_t n = 0;; ++n) {
//     faults.Arm({.call = n, .kind = FaultKind::kFail});
//     … work, reopen, check …
//     if (!faults.fired()) break;
//   }
//
// Threads: any; one lock around the plan, none around the wrapped calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "env/file_system.h"

namespace cairn::env {

enum class FaultKind : uint8_t {
  kNone,
  kFail,        ///< kUnavailable, nothing done
  kFailAfter,   ///< kUnavailable, though it was done: a lost answer
  kShortWrite,  ///< an append writes half its bytes, then fails; other calls as kFail
  kNoSpace,     ///< kResourceExhausted, nothing done
  kCallback,    ///< done and reported; then `after` runs (cut the power there)
};

struct FaultPlan {
  uint64_t call = 0;  ///< the first is 0
  FaultKind kind = FaultKind::kNone;
  bool for_ever = false;  ///< every later call fails too
  std::function<void()> after;
};

class FaultFileSystem final : public FileSystem {
 public:
  /// `files` outlives this and every handle made here.
  explicit FaultFileSystem(FileSystem* files);
  ~FaultFileSystem() override;

  /// Set the plan, begin counting at 0 and forget the trace.
  void Arm(FaultPlan plan);
  void Disarm() { Arm({}); }

  uint64_t calls() const;
  /// True when the planned call came.
  bool fired() const;
  /// "append state.arrow", "fsync state.arrow", "rename decision-head.json", … since Arm.
  std::vector<std::string> trace() const;
  /// Calls of the trace that begin with `prefix`.
  uint64_t Count(std::string_view prefix) const;

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
  Status UseDefaultMode(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> ListDirectory(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
  std::string CanonicalPath(const std::string& path) override {
    return files_->CanonicalPath(path);
  }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> TakeTurn(const std::string& path) override {
    return files_->TakeTurn(path);
  }

 private:
  struct Plan;
  class Writable;
  class Readable;
  FileSystem* files_;
  std::shared_ptr<Plan> plan_;
};

}  // namespace cairn::env
