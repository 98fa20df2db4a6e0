// SPDX-License-Identifier: Apache-2.0
//
// disagg-local://: the remote backend over pools in this process. It runs all of the disaggregated
// code without a network; its checkpoints end with the process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/state_backend.h"

namespace cairn::backend {

struct DisaggLocalOptions {
  BackendOptions state;
  std::string uri = "disagg-local://";
  std::optional<size_t> io_threads;
  std::optional<uint64_t> hot_max_bytes;  ///< 0 = bounded by the budget alone
};

/// Open the backend of one subtask. Each has a location of its own, so a restore never writes where
/// others read.
///
/// Errors:   kInvalidArgument for no threads or a number of key groups there cannot be.
Result<std::unique_ptr<StateBackend>> OpenDisaggLocal(const DisaggLocalOptions& options);

/// Find what all subtasks of the job `name` saved as checkpoint `id`, for Restore.
///
/// Errors:   kNotFound when one of the `parallelism` participants has none.
Result<std::vector<RestorePart>> FindDisaggLocal(const std::string& name, uint64_t id,
                                                 uint32_t parallelism);

}  // namespace cairn::backend
