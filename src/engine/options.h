// SPDX-License-Identifier: Apache-2.0
//
// Options: what `--set NAME=VALUE` and `SET cairn.NAME = value` may change, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "cairn/ttl.h"

namespace cairn::engine {

struct Options {
  int64_t checkpoint_interval_ms = 10'000;
  int64_t checkpoint_timeout_ms = 120'000;
  uint32_t checkpoint_retained = 3;
  uint32_t checkpoint_rebase_chunks = 64;
  uint32_t checkpoint_max_concurrent_uploads = 8;
  uint32_t state_key_groups = 128;
  int64_t state_ttl_ms = 0;  ///< 0 = for ever
  std::optional<TtlClock>
      state_ttl_clock;               ///< nothing = event where every source has it, else wall
  uint64_t state_memory_budget = 0;  ///< bytes; set by Options() to half of memory; 0 = unbounded
  bool state_async_snapshots = true;
  bool fs_fsync = true;

  Options();
};

/// One option as a person reads about it.
struct OptionInfo {
  std::string name;
  std::string default_text;
  std::string meaning;
};

/// Every option, by name.
std::vector<OptionInfo> KnownOptions();

/// Set one option.
///
/// Errors:   kInvalidArgument: an unknown name (lists the known ones) or a value out of bounds
/// (says
///           what may be given).
Status SetOption(std::string_view name, std::string_view value, Options* options);

}  // namespace cairn::engine
