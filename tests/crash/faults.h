// SPDX-License-Identifier: Apache-2.0
//
// The faults of a disk that the fault loops go through.
#pragma once

#include <optional>

#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::checkpoint::testing {

/// A kind of fault, and what becomes of unsynced bytes when it cuts the power.
struct Fault {
  const char* name;
  env::FaultKind kind;
  bool for_ever = false;
  std::optional<env::Unsynced> cut;
};

inline const Fault kFaults[] = {
    {"fails once", env::FaultKind::kFail, false, {}},
    {"fails for ever", env::FaultKind::kFail, true, {}},
    {"loses its answer", env::FaultKind::kFailAfter, false, {}},
    {"loses its answer for ever", env::FaultKind::kFailAfter, true, {}},
    {"writes short", env::FaultKind::kShortWrite, false, {}},
    {"finds no space for ever", env::FaultKind::kNoSpace, true, {}},
    {"loses power, unsynced dropped", env::FaultKind::kCallback, false, env::Unsynced::kDrop},
    {"loses power, unsynced kept", env::FaultKind::kCallback, false, env::Unsynced::kKeep},
    {"loses power, unsynced at random", env::FaultKind::kCallback, false, env::Unsynced::kRandom},
};

}  // namespace cairn::checkpoint::testing
