// SPDX-License-Identifier: Apache-2.0
//
// A store over a disk in memory, for the tests of this module and of tests/crash.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cairn/state_store.h"
#include "env/fault_file_system.h"
#include "env/manual_clock.h"
#include "env/memory_file_system.h"
#include "store/core.h"

namespace cairn::store::testing {

/// The disk and the clock outlive every store that is opened on them.
struct StoreWorld {
  env::MemoryFileSystem disk;
  env::FaultFileSystem files{&disk};
  env::ManualClock clock;
  env::SeededRandom random{42};
  std::string uri = "file:///place";

  Result<std::unique_ptr<StateStore>> Open(StateStoreOptions options = StateStoreOptions()) {
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Core> core,
                           Core::Open(uri, std::move(options), {&files, &clock, &random, {}}));
    return StateStore::FromCore(std::move(core));
  }
};

}  // namespace cairn::store::testing
