// SPDX-License-Identifier: Apache-2.0
//
// Who this process is, so that another one can tell whether it still lives.
//
// Threads: free functions.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::env {

struct ProcessIdentity {
  /// Boot and process-id namespace: ids are comparable only where it is equal. Empty = unknown.
  std::string machine;
  uint64_t id = 0;
  uint64_t started = 0;     ///< clock ticks since boot: ids are given out again
  std::string description;  ///< "process 7 on build-3"
};

ProcessIdentity ThisProcess();

/// True when `process` ran on this machine and is gone for certain. False when that is not known.
bool IsGone(const ProcessIdentity& process);

}  // namespace cairn::env
