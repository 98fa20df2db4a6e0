// SPDX-License-Identifier: Apache-2.0
//
// Collection: what the box of a list or map holds.
//
// Threads: a value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cairn/status.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace detail {

template <class Elements>
struct Collection {
  Elements elements;
  uint64_t next_index = 0;
  int64_t entered_ms = kNoTime;  ///< not in the index
  uint32_t generation = 0;       ///< 0 = not yet known to the slot
  uint32_t hollow_epoch = 0;     ///< in which it lost its last element
};

template <class Elements>
struct CollectionCodec {
  size_t EncodedSize(const Collection<Elements>&) const { return 0; }
  void Encode(const Collection<Elements>&, char*) const {}
  Result<Collection<Elements>> Decode(std::string_view) const { return Collection<Elements>(); }
  size_t MemoryBytes(const Collection<Elements>& value) const { return value.elements.own_bytes(); }
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
