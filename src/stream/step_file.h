// SPDX-License-Identifier: Apache-2.0
//
// StepFile: a test seam (docs/testing.md). One byte at the start of a file says in which step of a
// checkpoint the process is; the mapping outlives a SIGKILL.
#pragma once

#include <atomic>
#include <string>

#include "cairn/status.h"
#include "checkpoint/store.h"

namespace cairn::stream {

/// Threads:  Set by any.
class StepFile {
 public:
  /// Record nothing.
  StepFile() = default;
  /// Map the first byte of an existing file.
  ///
  /// Errors:   kInvalidArgument when it cannot be mapped or is empty.
  static Result<StepFile> Open(const std::string& path);
  /// Map the file that CAIRN_STEP_FILE names; nothing when it is unset.
  static Result<StepFile> FromEnvironment();

  StepFile(StepFile&& other) noexcept;
  StepFile& operator=(StepFile&& other) noexcept;
  ~StepFile();

  void Set(checkpoint::Step step) {
    if (byte_ == nullptr) return;
    std::atomic_ref<unsigned char>(*byte_).store(static_cast<unsigned char>(step),
                                                 std::memory_order_relaxed);
  }

 private:
  unsigned char* byte_ = nullptr;
};

}  // namespace cairn::stream
