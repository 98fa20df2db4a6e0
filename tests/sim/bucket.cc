// SPDX-License-Identifier: Apache-2.0
#include "bucket.h"

#include <algorithm>

namespace cairn::sim {

const Bucket::Object* Bucket::Live(const std::string& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() || found->second.deleted_us >= 0 ? nullptr : &found->second;
}

const std::string* Bucket::Find(const std::string& key) const {
  const Object* there = Live(key);
  return there == nullptr ? nullptr : &there->bytes;
}

void Bucket::Put(const std::string& key, std::string_view bytes) {
  const Object* there = Live(key);
  const int64_t created_us = there != nullptr ? there->created_us : world_->now_us();
  objects_[key] = {std::string(bytes), ++versions_, created_us, -1};
}

Status Bucket::Create(const std::string& key, std::string_view bytes, bool equal_is_success) {
  if (const Object* there = Live(key); there != nullptr) {
    if (equal_is_success && there->bytes == bytes) return {};
    return Status::AlreadyExists("create " + key + ": it exists");
  }
  Put(key, bytes);
  return {};
}

Result<std::string> Bucket::Swap(uint32_t writer, const std::string& key,
                                 const std::optional<std::string>& expected,
                                 std::string_view bytes) {
  const Object* there = Live(key);
  const bool equal = there == nullptr ? !expected.has_value()
                                      : expected && *expected == std::to_string(there->version);
  if (!equal) return Status::Fenced("replace " + key + ": it changed since it was read");
  return Overwrite(writer, key, bytes);
}

Result<std::string> Bucket::Overwrite(uint32_t writer, const std::string& key,
                                      std::string_view bytes) {
  Put(key, bytes);
  if (watcher_ != nullptr) watcher_->OnSwapped(writer, key, bytes);
  return std::to_string(versions_);
}

Result<env::VersionedBytes> Bucket::Get(const std::string& key, uint64_t max_bytes) const {
  const Object* there = Live(key);
  if (there == nullptr) return Status::NotFound("read " + key + ": there is no such object");
  if (there->bytes.size() > max_bytes) return Status::Corruption("read " + key + ": too long");
  return env::VersionedBytes{there->bytes, std::to_string(there->version)};
}

Status Bucket::Read(const std::string& key, uint64_t offset, std::span<char> out) const {
  const Object* there = Live(key);
  if (there == nullptr) return Status::NotFound("read " + key + ": there is no such object");
  if (offset > there->bytes.size() || there->bytes.size() - offset < out.size()) {
    return Status::Corruption("read " + key + ": it ends before");
  }
  std::copy_n(there->bytes.data() + offset, out.size(), out.data());
  return {};
}

Result<env::ObjectInfo> Bucket::Head(const std::string& key) const {
  const Object* there = Live(key);
  if (there == nullptr) return Status::NotFound("read " + key + ": there is no such object");
  return env::ObjectInfo{key, there->bytes.size(), 0};
}

std::vector<env::ObjectInfo> Bucket::List(const std::string& prefix, int64_t stale_us) const {
  std::vector<env::ObjectInfo> found;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    const int64_t as_of =
        world_->now_us() -
        (stale_us > 0 ? static_cast<int64_t>(world_->Draw(static_cast<uint64_t>(stale_us))) : 0);
    const Object& object = at->second;
    const bool gone = object.deleted_us >= 0 && object.deleted_us <= as_of;
    if (object.created_us > as_of || gone) continue;
    found.push_back({at->first, object.bytes.size(), 0});
  }
  return found;
}

void Bucket::Delete(uint32_t writer, const std::string& key) {
  if (Live(key) == nullptr) return;
  objects_[key].deleted_us = world_->now_us();
  if (watcher_ != nullptr) watcher_->OnDeleted(writer, key);
}

}  // namespace cairn::sim
