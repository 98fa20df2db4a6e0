// SPDX-License-Identifier: Apache-2.0
#include "sim_object_store.h"

#include <utility>

namespace cairn::sim {

class SimObjectStore::Upload final : public env::ObjectWriter {
 public:
  Upload(SimObjectStore* store, std::string key) : store_(store), key_(std::move(key)) {}
  // A part is on its way with Finish: nothing of it is visible before.
  Status Append(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  Status Finish() override {
    return store_->network_->Call<Status>(
        store_->host_, true, "finish", key_,
        [bucket = store_->bucket_, key = key_, bytes = std::move(bytes_)] {
          return bucket->Create(key, bytes, false);
        });
  }

 private:
  SimObjectStore* store_;
  std::string key_;
  std::string bytes_;
};

Status SimObjectStore::CreateIfAbsent(const std::string& key, std::string_view bytes) {
  return network_->Call<Status>(host_, true, "create", key,
                                [bucket = bucket_, key, bytes = std::string(bytes)] {
                                  return bucket->Create(key, bytes, true);
                                });
}

Result<std::string> SimObjectStore::CompareAndSwap(const std::string& key,
                                                   const std::optional<std::string>& expected,
                                                   std::string_view bytes) {
  return network_->Call<Result<std::string>>(
      host_, true, "swap", key,
      [bucket = bucket_, writer = writer(), key, expected, bytes = std::string(bytes)] {
        return bucket->Swap(writer, key, expected, bytes);
      });
}

Status SimObjectStore::PutHint(const std::string& key, std::string_view bytes) {
  return network_->Call<Status>(host_, true, "hint", key,
                                [bucket = bucket_, key, bytes = std::string(bytes)] {
                                  bucket->Put(key, bytes);
                                  return Status();
                                });
}

Result<std::unique_ptr<env::ObjectWriter>> SimObjectStore::NewWriter(const std::string& key) {
  return std::unique_ptr<env::ObjectWriter>(std::make_unique<Upload>(this, key));
}

Result<env::VersionedBytes> SimObjectStore::Get(const std::string& key, uint64_t max_bytes) {
  return network_->Call<Result<env::VersionedBytes>>(host_, false, "get", key,
                                                     [&] { return bucket_->Get(key, max_bytes); });
}

Status SimObjectStore::ReadRange(const std::string& key, uint64_t offset, std::span<char> out) {
  return network_->Call<Status>(host_, false, "read", key,
                                [&] { return bucket_->Read(key, offset, out); });
}

Result<env::ObjectInfo> SimObjectStore::Head(const std::string& key) {
  return network_->Call<Result<env::ObjectInfo>>(host_, false, "head", key,
                                                 [&] { return bucket_->Head(key); });
}

Result<std::vector<env::ObjectInfo>> SimObjectStore::List(const std::string& prefix) {
  const int64_t stale_us = host_ == nullptr ? 0 : network_->weather().stale_us;
  if (host_ != nullptr && stale_us > 0) network_->world()->Count(Met::kStaleList);
  return network_->Call<Result<std::vector<env::ObjectInfo>>>(host_, false, "list", prefix, [&] {
    return Result<std::vector<env::ObjectInfo>>(bucket_->List(prefix, stale_us));
  });
}

Status SimObjectStore::Delete(const std::string& key) {
  return network_->Call<Status>(host_, true, "delete", key,
                                [bucket = bucket_, writer = writer(), key] {
                                  bucket->Delete(writer, key);
                                  return Status();
                                });
}

}  // namespace cairn::sim
