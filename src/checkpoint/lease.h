// SPDX-License-Identifier: Apache-2.0
//
// The lock of a place where files cannot be locked: control/lease.json, changed by compare-and-swap
// and renewed while it is held.
//
// A lease keeps two careful processes apart; it does not protect state. That is the head's
// compare-and-swap: opening a store changes the head, and a former holder that wakes up then fails
// to commit, whatever its clock says.
//
// Threads: a lease renews itself on a thread of its own, unless it is told otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cairn/status.h"
#include "env/clock.h"
#include "env/file_system.h"
#include "env/object_store.h"
#include "env/process.h"

namespace cairn::checkpoint {

/// Something that is done again and again until this is destroyed, which waits for one in progress.
class Repetition {
 public:
  virtual ~Repetition() = default;
};

/// Call `task` every `period_ms` until it returns false.
using Repeat =
    std::function<std::unique_ptr<Repetition>(int64_t period_ms, std::function<bool()> task)>;

struct LeaseOptions {
  int64_t ttl_ms = 10'000;
  int64_t renew_ms = 2'000;
  env::ProcessIdentity holder = env::ThisProcess();
  env::Clock* clock = nullptr;  ///< null = SystemClock()
  Repeat repeat;                ///< how it is renewed; null = on a thread
};

/// Take the lease of the place in `objects`, which outlives it.
///
/// Shape:    taken at once when it is free, was given back, or its holder is a process of this
///           machine that has ended; else once its record has not changed for its whole time to
///           live.
/// Blocks:   up to the holder's time to live.
/// Errors:   kFenced: held by another process, which is named · kCorruption · kUnavailable.
Result<std::unique_ptr<env::FileLock>> AcquireLease(env::ObjectStore* objects,
                                                    LeaseOptions options = {});

}  // namespace cairn::checkpoint
