// SPDX-License-Identifier: Apache-2.0
//
// Names of kinds and clocks, as they are saved.
#include <array>
#include <optional>
#include <string_view>

#include "cairn/state_table.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace {

constexpr std::array<std::string_view, 4> kKindNames = {"keyed_value", "operator_value",
                                                        "keyed_list", "keyed_map"};
constexpr std::array<std::string_view, kTtlClocks> kClockNames = {"event", "wall",
                                                                  "stopped_while_down"};

template <class Enum, size_t n>
std::optional<Enum> Named(const std::array<std::string_view, n>& names, std::string_view name) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view NameOf(SlotKind kind) { return kKindNames[static_cast<size_t>(kind)]; }
std::optional<SlotKind> SlotKindOf(std::string_view name) {
  return Named<SlotKind>(kKindNames, name);
}
std::string_view NameOf(TtlClock clock) { return kClockNames[static_cast<size_t>(clock)]; }
std::optional<TtlClock> TtlClockOf(std::string_view name) {
  return Named<TtlClock>(kClockNames, name);
}

}  // namespace v0
}  // namespace cairn
