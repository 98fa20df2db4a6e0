// SPDX-License-Identifier: Apache-2.0
//
// A planted bug: a connection that writes the decision head whatever there is by now.
//
// Threads: one.
#pragma once

#include <string>

#include "checkpoint/layout.h"
#include "sim_object_store.h"

namespace cairn::sim {

class UnfencedObjectStore final : public SimObjectStore {
 public:
  using SimObjectStore::SimObjectStore;
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override {
    if (key != checkpoint::kHeadKey) return SimObjectStore::CompareAndSwap(key, expected, bytes);
    return network_->Call<Result<std::string>>(
        host_, true, "overwrite", key,
        [bucket = bucket_, writer = writer(), key, bytes = std::string(bytes)] {
          return bucket->Overwrite(writer, key, bytes);
        });
  }
};

}  // namespace cairn::sim
