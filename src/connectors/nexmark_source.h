// SPDX-License-Identifier: Apache-2.0
//
// The nexmark source: generated bids, bounded by `events`.
//
// The bids are dealt out in blocks to 32 splits in turn, and a reader takes the lowest block of its
// splits next: whatever the parallelism, event time goes on evenly in all subtasks.
#pragma once

#include <memory>
#include <vector>

#include "cairn/status.h"
#include "env/clock.h"
#include "stream/source.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

struct NexmarkOptions {
  uint64_t events = 0;  ///< how many bids
  uint64_t seed = 1;
  uint64_t rate = 0;     ///< bids a second over all subtasks; 0 = as fast as it can
  std::string identity;  ///< of the source: JSON
};

Result<std::unique_ptr<stream::Source>> MakeNexmarkSource(const stream::TableDefinition& table,
                                                          const std::vector<int>& columns,
                                                          const NexmarkOptions& options,
                                                          env::Clock* clock);

}  // namespace cairn::connectors
