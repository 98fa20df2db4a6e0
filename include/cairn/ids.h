// SPDX-License-Identifier: Apache-2.0
//
// Strong identifiers of the public interface: two of different kinds never mix in a call.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string_view>

#include "cairn/hash.h"

namespace cairn {
inline namespace v0 {

template <class Tag, class T>
struct StrongId {
  T value = 0;
  constexpr StrongId() = default;
  constexpr explicit StrongId(T v) : value(v) {}
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

/// FNV-1a 64 of an operator's uid; 0 is mapped to 1. Printed as 16 hex digits.
using OperatorId = StrongId<struct OperatorIdTag, uint64_t>;

constexpr OperatorId OperatorIdOf(std::string_view uid) {
  const uint64_t id = Fnv1a64(uid);
  return OperatorId(id == 0 ? 1 : id);
}

}  // namespace v0
}  // namespace cairn

template <class Tag, class T>
struct std::hash<cairn::StrongId<Tag, T>> {
  size_t operator()(const cairn::StrongId<Tag, T>& id) const noexcept {
    return std::hash<T>()(id.value);
  }
};
