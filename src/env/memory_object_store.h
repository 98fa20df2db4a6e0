// SPDX-License-Identifier: Apache-2.0
//
// Objects in memory: the smallest store that keeps the promises of ObjectStore. For tests,
// simulations and state that need not outlive its process.
//
// Threads: any; one lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "env/clock.h"
#include "env/object_store.h"

namespace cairn::env {

class MemoryObjectStore final : public ObjectStore {
 public:
  /// `clock` dates the objects; null = SystemClock().
  explicit MemoryObjectStore(Clock* clock = nullptr);

  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override;
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override;
  Status PutHint(const std::string& key, std::string_view bytes) override;
  Result<std::unique_ptr<ObjectWriter>> NewWriter(const std::string& key) override;
  Result<VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override;
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override;
  Result<ObjectInfo> Head(const std::string& key) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;

 private:
  struct Object {
    std::string bytes;
    uint64_t version = 0;
    int64_t modified_unix_ms = 0;
  };
  class Writer;

  Result<const Object*> Find(const std::string& key) const;
  uint64_t Put(const std::string& key, std::string_view bytes);

  Clock* clock_;
  mutable std::mutex mutex_;
  uint64_t versions_ = 0;
  std::map<std::string, Object> objects_;
};

}  // namespace cairn::env
