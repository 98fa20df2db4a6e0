// SPDX-License-Identifier: Apache-2.0
#include "env/memory_object_store.h"

#include <algorithm>
#include <utility>

namespace cairn::env {

class MemoryObjectStore::Writer final : public ObjectWriter {
 public:
  Writer(MemoryObjectStore* store, std::string key) : store_(store), key_(std::move(key)) {}
  Status Append(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  Status Finish() override {
    std::lock_guard<std::mutex> lock(store_->mutex_);
    if (store_->objects_.contains(key_)) {
      return Status::AlreadyExists("create " + key_ + ": it exists");
    }
    store_->Put(key_, bytes_);
    return {};
  }

 private:
  MemoryObjectStore* store_;
  std::string key_;
  std::string bytes_;
};

MemoryObjectStore::MemoryObjectStore(Clock* clock)
    : clock_(clock != nullptr ? clock : SystemClock()) {}

Result<const MemoryObjectStore::Object*> MemoryObjectStore::Find(const std::string& key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Status::NotFound("read " + key + ": there is no such object");
  return &found->second;
}

uint64_t MemoryObjectStore::Put(const std::string& key, std::string_view bytes) {
  objects_[key] = {std::string(bytes), ++versions_, clock_->UnixMillis()};
  return versions_;
}

Status MemoryObjectStore::CreateIfAbsent(const std::string& key, std::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Result<const Object*> there = Find(key);
  if (there.ok() && (*there)->bytes == bytes) return {};
  if (there.ok()) return Status::AlreadyExists("create " + key + ": it exists with other bytes");
  Put(key, bytes);
  return {};
}

Result<std::string> MemoryObjectStore::CompareAndSwap(const std::string& key,
                                                      const std::optional<std::string>& expected,
                                                      std::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Result<const Object*> there = Find(key);
  const bool equal = there.ok() ? expected && std::to_string((*there)->version) == *expected
                                : !expected.has_value();
  if (!equal) {
    return Status::Fenced("replace " + key +
                          ": it changed since it was read; another process has written here");
  }
  return std::to_string(Put(key, bytes));
}

Status MemoryObjectStore::PutHint(const std::string& key, std::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Put(key, bytes);
  return {};
}

Result<std::unique_ptr<ObjectWriter>> MemoryObjectStore::NewWriter(const std::string& key) {
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(this, key));
}

Result<VersionedBytes> MemoryObjectStore::Get(const std::string& key, uint64_t max_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_ASSIGN_OR_RETURN(const Object* there, Find(key));
  if (there->bytes.size() > max_bytes) {
    return Status::Corruption("read " + key + ": more than " + std::to_string(max_bytes) +
                              " bytes where a record was expected");
  }
  return VersionedBytes{there->bytes, std::to_string(there->version)};
}

Status MemoryObjectStore::ReadRange(const std::string& key, uint64_t offset, std::span<char> out) {
  std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_ASSIGN_OR_RETURN(const Object* there, Find(key));
  if (offset > there->bytes.size() || there->bytes.size() - offset < out.size()) {
    return Status::Corruption("read " + key + ": it ends before byte " +
                              std::to_string(offset + out.size()));
  }
  std::copy_n(there->bytes.data() + offset, out.size(), out.data());
  return {};
}

Result<ObjectInfo> MemoryObjectStore::Head(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_ASSIGN_OR_RETURN(const Object* there, Find(key));
  return ObjectInfo{key, there->bytes.size(), there->modified_unix_ms};
}

Result<std::vector<ObjectInfo>> MemoryObjectStore::List(const std::string& prefix) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ObjectInfo> found;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    found.push_back({at->first, at->second.bytes.size(), at->second.modified_unix_ms});
  }
  return found;
}

Status MemoryObjectStore::Delete(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  objects_.erase(key);
  return {};
}

}  // namespace cairn::env
