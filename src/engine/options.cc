// SPDX-License-Identifier: Apache-2.0
#include "engine/options.h"

#include <charconv>
#include <limits>
#include <optional>

#include "base/units.h"
#include "cairn/hash.h"
#include "cairn/memory_budget.h"

namespace cairn::engine {
namespace {

Status Bad(std::string_view name, std::string_view value, std::string_view wanted) {
  return Status::InvalidArgument("option " + std::string(name) + " = '" + std::string(value) +
                                 "': " + std::string(wanted));
}

Status SetDuration(std::string_view name, std::string_view value, int64_t least_ms, int64_t* out) {
  const Result<int64_t> parsed = base::ParseDurationMs(value);
  if (!parsed.ok() || *parsed < least_ms) {
    return Bad(name, value,
               "give a whole number with ms, s, m, h or d, at least " + std::to_string(least_ms) +
                   "ms, such as 10s");
  }
  *out = *parsed;
  return {};
}

Status SetNumber(std::string_view name, std::string_view value, uint32_t least, uint32_t most,
                 uint32_t* out) {
  uint32_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < least ||
      parsed > most) {
    return Bad(name, value,
               "give a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  *out = parsed;
  return {};
}

Status SetFlag(std::string_view name, std::string_view value, bool* out) {
  if (value != "true" && value != "false") return Bad(name, value, "give true or false");
  *out = value == "true";
  return {};
}

Status SetBytes(std::string_view name, std::string_view value, uint64_t least, uint64_t* out) {
  const Result<uint64_t> parsed = base::ParseBytes(value);
  if (!parsed.ok() || (*parsed != 0 && *parsed < least)) {
    return Bad(name, value,
               "give 0 (unbounded) or a size of at least " + base::FormatBytes(least) +
                   ", such as 512MiB");
  }
  *out = *parsed;
  return {};
}

Status SetTtl(std::string_view name, std::string_view value, int64_t* out) {
  if (value != "0") return SetDuration(name, value, 1, out);
  *out = 0;
  return {};
}

/// Event time where every source has watermarks, else wall.
constexpr std::string_view kClockOfSources = "auto";

Status SetTtlClock(std::string_view name, std::string_view value, std::optional<TtlClock>* out) {
  *out = TtlClockOf(value);
  if (*out || value == kClockOfSources) return {};
  return Bad(name, value, "give auto, wall, stopped_while_down or event");
}

constexpr uint32_t kMostChunks = 65'536;
constexpr uint32_t kMostUploads = 1024;
constexpr uint64_t kLeastBudget = uint64_t{64} << 20;

struct Entry {
  std::string_view name;
  std::string_view default_text;
  std::string_view meaning;
  Status (*set)(std::string_view name, std::string_view value, Options* options);
};

constexpr Entry kEntries[] = {
    {"checkpoint.interval", "10s", "least time between the starts of two checkpoints",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetDuration(n, v, 100, &o->checkpoint_interval_ms);
     }},
    {"checkpoint.max_concurrent_uploads", "8", "parts of objects on their way to a bucket at once",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetNumber(n, v, 1, kMostUploads, &o->checkpoint_max_concurrent_uploads);
     }},
    {"checkpoint.rebase_chunks", "64", "write a base when a cut would refer to so many objects",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetNumber(n, v, 1, kMostChunks, &o->checkpoint_rebase_chunks);
     }},
    {"checkpoint.retained", "3", "committed checkpoints to keep",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetNumber(n, v, 1, 16, &o->checkpoint_retained);
     }},
    {"checkpoint.timeout", "120s", "give up a checkpoint that is not decided by then",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetDuration(n, v, 100, &o->checkpoint_timeout_ms);
     }},
    {"fs.fsync", "true", "false: checkpoints survive a kill but no power cut",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetFlag(n, v, &o->fs_fsync);
     }},
    {"state.async_snapshots", "true", "false: subtasks wait while a checkpoint is persisted",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetFlag(n, v, &o->state_async_snapshots);
     }},
    {"state.key_groups", "128", "key groups of the job; fixed once it has a checkpoint",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetNumber(n, v, 1, kMaxKeyGroups, &o->state_key_groups);
     }},
    {"state.memory_budget", "half of memory", "limit of all state in memory; 0 = unbounded",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetBytes(n, v, kLeastBudget, &o->state_memory_budget);
     }},
    {"state.ttl", "0", "forget a key of GROUP BY or Top-N so long after its last row; 0 = never",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetTtl(n, v, &o->state_ttl_ms);
     }},
    {"state.ttl_clock", "auto",
     "by which clock: wall, stopped_while_down, event, or auto: event if all sources have it",
     [](std::string_view n, std::string_view v, Options* o) {
       return SetTtlClock(n, v, &o->state_ttl_clock);
     }},
};

}  // namespace

Options::Options() : state_memory_budget(MemoryBudget::DefaultLimit()) {}

std::vector<OptionInfo> KnownOptions() {
  std::vector<OptionInfo> infos;
  for (const Entry& entry : kEntries) {
    infos.push_back(
        {std::string(entry.name), std::string(entry.default_text), std::string(entry.meaning)});
  }
  return infos;
}

Status SetOption(std::string_view name, std::string_view value, Options* options) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.set(name, value, options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Status::InvalidArgument("no option is named '" + std::string(name) +
                                 "'; there are: " + known);
}

}  // namespace cairn::engine
