// SPDX-License-Identifier: Apache-2.0
//
// Strong identifiers: two of different kinds never mix in a call.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cairn/hash.h"

namespace cairn::base {

template <class Tag, class T>
struct StrongId {
  T value = 0;
  constexpr StrongId() = default;
  constexpr explicit StrongId(T v) : value(v) {}
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

/// Number of a checkpoint. Starts at 1, grows, is never reused; 0 = none.
using CheckpointId = StrongId<struct CheckpointIdTag, uint64_t>;

/// FNV-1a 64 of an operator's uid; 0 is mapped to 1. Printed as 16 hex digits.
using OperatorId = StrongId<struct OperatorIdTag, uint64_t>;

constexpr OperatorId OperatorIdOf(std::string_view uid) {
  const uint64_t id = Fnv1a64(uid);
  return OperatorId(id == 0 ? 1 : id);
}

/// Print an operator id as 16 lower-case hex digits, as JSON carries it.
std::string ToHex16(OperatorId id);

/// Parse 16 hex digits; false on anything else.
bool ParseHex16(std::string_view text, OperatorId* id);

/// A UUIDv7: time-ordered, so ids sort by creation. `random` supplies 74 random bits.
///
/// Shape:    36 characters, canonical lower-case text form.
std::string MakeUuidV7(uint64_t unix_ms, uint64_t random_high, uint64_t random_low);

/// True for a canonical, non-nil UUID in text form.
bool IsCanonicalUuid(std::string_view text);

}  // namespace cairn::base

template <class Tag, class T>
struct std::hash<cairn::base::StrongId<Tag, T>> {
  size_t operator()(const cairn::base::StrongId<Tag, T>& id) const noexcept {
    return std::hash<T>()(id.value);
  }
};
