// SPDX-License-Identifier: Apache-2.0
#include "cairn/detail/slot_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cairn {
inline namespace v0 {
namespace detail {

uint64_t SlotHashLong(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn
