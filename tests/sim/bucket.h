// SPDX-License-Identifier: Apache-2.0
//
// Bucket: what the simulated object store holds. Calls take effect at once and whole, as the server
// of a bucket makes them; what a network does to them is the connection's (sim_object_store.h).
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "env/object_store.h"
#include "world.h"

namespace cairn::sim {

/// Learn of what took effect, at the moment it does.
class BucketWatcher {
 public:
  virtual ~BucketWatcher() = default;
  virtual void OnSwapped(uint32_t writer, const std::string& key, std::string_view bytes) = 0;
  virtual void OnDeleted(uint32_t writer, const std::string& key) = 0;
};

class Bucket {
 public:
  explicit Bucket(World* world) : world_(world) {}
  void set_watcher(BucketWatcher* watcher) { watcher_ = watcher; }

  Status Create(const std::string& key, std::string_view bytes, bool equal_is_success);
  Result<std::string> Swap(uint32_t writer, const std::string& key,
                           const std::optional<std::string>& expected, std::string_view bytes);
  /// Write over whatever there is and tell the watcher: what no conditional write does.
  Result<std::string> Overwrite(uint32_t writer, const std::string& key, std::string_view bytes);
  void Put(const std::string& key, std::string_view bytes);
  Result<env::VersionedBytes> Get(const std::string& key, uint64_t max_bytes) const;
  Status Read(const std::string& key, uint64_t offset, std::span<char> out) const;
  Result<env::ObjectInfo> Head(const std::string& key) const;
  /// Each key as it was up to `stale_us` ago.
  std::vector<env::ObjectInfo> List(const std::string& prefix, int64_t stale_us) const;
  void Delete(uint32_t writer, const std::string& key);

  bool Has(const std::string& key) const { return Find(key) != nullptr; }
  const std::string* Find(const std::string& key) const;

 private:
  struct Object {
    std::string bytes;
    uint64_t version = 0;
    int64_t created_us = 0;
    int64_t deleted_us = -1;  // -1 = it is there
  };
  const Object* Live(const std::string& key) const;

  World* world_;
  BucketWatcher* watcher_ = nullptr;
  uint64_t versions_ = 0;
  std::map<std::string, Object> objects_;
};

}  // namespace cairn::sim
