// SPDX-License-Identifier: Apache-2.0
//
// SimObjectStore: one process's connection to the simulated bucket; without a host, the bucket as
// it is.
//
// Threads: one; every call is a point at which another actor may run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bucket.h"
#include "env/object_store.h"
#include "network.h"

namespace cairn::sim {

class SimObjectStore : public env::ObjectStore {
 public:
  SimObjectStore(Network* network, Bucket* bucket, Host* host)
      : network_(network), bucket_(bucket), host_(host) {}

  bool may_write_late() const override { return true; }
  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override;
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override;
  Status PutHint(const std::string& key, std::string_view bytes) override;
  Result<std::unique_ptr<env::ObjectWriter>> NewWriter(const std::string& key) override;
  Result<env::VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override;
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override;
  Result<env::ObjectInfo> Head(const std::string& key) override;
  Result<std::vector<env::ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;

 protected:
  class Upload;
  uint32_t writer() const { return host_ == nullptr ? 0 : host_->incarnation; }
  Network* network_;
  Bucket* bucket_;
  Host* host_;
};

}  // namespace cairn::sim
