// SPDX-License-Identifier: Apache-2.0
//
// Key groups: which of N groups a key falls in, and which subtask owns a group.
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn {
inline namespace v0 {

/// FNV-1a 64 of `bytes`.
///
/// Cost:     one multiply a byte, serial (about 5 ns for 8 bytes).
/// Source:   docs/formats/keys.md; vectors in src/base/hash_test.cc.
constexpr uint64_t Fnv1a64(std::string_view bytes, uint64_t state = 0xcbf29ce484222325ULL) {
  for (char c : bytes) {
    state ^= static_cast<uint8_t>(c);
    state *= 0x100000001b3ULL;
  }
  return state;
}

/// Default number of key groups of a job.
inline constexpr uint32_t kDefaultKeyGroups = 128;
/// Most key groups a job may have.
inline constexpr uint32_t kMaxKeyGroups = 32768;

/// A contiguous range of key groups: first (inclusive) to last (exclusive).
struct KeyGroupRange {
  uint32_t first = 0;
  uint32_t last = 0;
  constexpr bool Contains(uint32_t group) const { return group >= first && group < last; }
  constexpr uint32_t size() const { return last - first; }
  friend constexpr bool operator==(const KeyGroupRange&, const KeyGroupRange&) = default;
};

/// Key group of an encoded user key under partitioning_abi 1.
constexpr uint32_t KeyGroupOf(std::string_view key_bytes, uint32_t key_groups) {
  return static_cast<uint32_t>(Fnv1a64(key_bytes) % key_groups);
}

/// Subtask that owns `group` at parallelism `p`.
constexpr uint32_t OwnerOfKeyGroup(uint32_t group, uint32_t p, uint32_t key_groups) {
  return static_cast<uint32_t>(static_cast<uint64_t>(group) * p / key_groups);
}

/// Groups owned by subtask `i` of `p`. Empty for some subtasks when p > key_groups.
constexpr KeyGroupRange KeyGroupsOfSubtask(uint32_t i, uint32_t p, uint32_t key_groups) {
  const auto ceil_div = [](uint64_t a, uint64_t b) {
    return static_cast<uint32_t>((a + b - 1) / b);
  };
  return {ceil_div(static_cast<uint64_t>(i) * key_groups, p),
          ceil_div(static_cast<uint64_t>(i + 1) * key_groups, p)};
}

}  // namespace v0
}  // namespace cairn
