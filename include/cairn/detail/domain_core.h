// SPDX-License-Identifier: Apache-2.0
//
// What a StateDomain holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cairn/state_domain.h"

namespace cairn {
inline namespace v0 {
namespace detail {

struct ViewNode {
  std::atomic<uint64_t> handles{1};
  uint64_t epoch = 0;
  DomainCore* core = nullptr;
  std::vector<std::shared_ptr<const void>> cuts;
};

class DomainCore {
 public:
  std::atomic<uint64_t> references{1};
  uint64_t epoch = 1;
  uint64_t committed = 0;
  std::vector<std::function<std::shared_ptr<const void>()>> copy;
  std::mutex mutex;
  std::multimap<uint64_t, ViewNode*> open;
  void Drop() {
    if (references.fetch_sub(1) == 1) delete this;
  }
};

uint64_t SlotHashOf(std::string_view bytes, uint64_t seed);

}  // namespace detail
}  // namespace v0
}  // namespace cairn
