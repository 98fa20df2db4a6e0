// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/object_store_checkpointer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <tuple>

#include "base/hash.h"
#include "base/ids.h"
#include "checkpoint/executor.h"

namespace cairn::checkpoint {
namespace {

constexpr uint64_t kLatestBytesMax = 1 << 10;
constexpr int kLatestAttempts = 100;
constexpr size_t kUuidCharacters = 36;

Status CheckOperatorName(std::string_view op) {
  const bool bad = op.empty() || op == "." || op == ".." ||
                   op.find('/') != std::string_view::npos ||
                   op.find('\0') != std::string_view::npos;
  if (!bad) return {};
  return Status::InvalidArgument("operator name '" + std::string(op) +
                                 "' cannot be part of an object's path");
}

/// Read a whole object.
Result<std::string> ReadAll(env::ObjectStore* store, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const env::ObjectInfo info, store->Head(path));
  std::string bytes(info.size, '\0');
  CAIRN_RETURN_IF_ERROR(store->ReadRange(path, 0, bytes));
  return bytes;
}

}  // namespace

std::string CheckpointPaths::Artifact(std::string_view id, std::string_view op, uint32_t partition,
                                      bool is_delta) const {
  return Checkpoint(id) + "operators/" + std::string(op) + "/partition-" +
         std::to_string(partition) + (is_delta ? ".delta" : ".snap");
}

ObjectStoreCheckpointer::ObjectStoreCheckpointer(env::ObjectStore* store, CheckpointPaths paths,
                                                 size_t max_concurrent_uploads)
    : store_(store),
      paths_(std::move(paths)),
      max_concurrent_uploads_(std::max<size_t>(max_concurrent_uploads, 1)) {}

Status ObjectStoreCheckpointer::CheckId(std::string_view id) const {
  if (base::IsCanonicalUuid(id)) return {};
  return Status::InvalidArgument("'" + std::string(id) + "' is no checkpoint id: a UUID is");
}

Status ObjectStoreCheckpointer::CheckManifestIsThere(std::string_view id) const {
  const Status there = store_->Head(paths_.Manifest(id)).status();
  if (there.code() != StatusCode::kNotFound) return there;
  return store_->Head(paths_.SlashlessManifest(id)).ok() ? Status() : there;
}

Result<std::string> ObjectStoreCheckpointer::Save(std::string_view id, std::string_view op,
                                                  uint32_t partition, bool is_delta,
                                                  std::string_view data, bool* created) {
  *created = false;
  CAIRN_RETURN_IF_ERROR(CheckId(id));
  CAIRN_RETURN_IF_ERROR(CheckOperatorName(op));
  std::string path = paths_.Artifact(id, op, partition, is_delta);
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<env::ObjectWriter> writer, store_->NewWriter(path));
  CAIRN_RETURN_IF_ERROR(writer->Append(data));
  const Status finished = writer->Finish();
  if (finished.ok()) {
    *created = true;
    CAIRN_RETURN_IF_ERROR(store_->SyncName(path));
    return path;
  }
  if (finished.code() != StatusCode::kAlreadyExists) return finished;
  CAIRN_ASSIGN_OR_RETURN(const std::string there, ReadAll(store_, path));
  if (there != data) return Status::AlreadyExists(path + " is there already, with other bytes");
  return path;
}

Result<std::string> ObjectStoreCheckpointer::SaveSnapshot(std::string_view id, std::string_view op,
                                                          uint32_t partition,
                                                          std::string_view data) {
  bool created = false;
  return Save(id, op, partition, false, data, &created);
}

Result<std::string> ObjectStoreCheckpointer::SaveDelta(std::string_view id, std::string_view op,
                                                       uint32_t partition, std::string_view data) {
  bool created = false;
  return Save(id, op, partition, true, data, &created);
}

Result<std::vector<std::pair<std::string, format::PartitionSnapshotEntry>>>
ObjectStoreCheckpointer::SavePartitionsConcurrent(std::string_view id,
                                                  const std::vector<PartitionSnapshot>& snapshots) {
  std::vector<std::pair<std::string, format::PartitionSnapshotEntry>> entries(snapshots.size());
  std::vector<uint8_t> created(snapshots.size(), 0);
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first;
  ThreadsExecutor executor(max_concurrent_uploads_);
  executor.Run(snapshots.size(), [&](size_t i) {
    if (failed.load(std::memory_order_relaxed)) return;
    const PartitionSnapshot& one = snapshots[i];
    bool is_new = false;
    Result<std::string> path = Save(id, one.op, one.partition, one.is_delta, one.data, &is_new);
    created[i] = is_new;
    if (!path.ok()) {
      failed.store(true, std::memory_order_relaxed);
      std::lock_guard<std::mutex> lock(mutex);
      if (first.ok()) first = path.status();
      return;
    }
    entries[i] = {one.op,
                  {one.partition, one.is_delta, *std::move(path), one.data.size(),
                   base::Sha256::HexOf(one.data)}};
  });
  if (!first.ok()) {
    std::string left;
    for (size_t i = 0; i < snapshots.size(); ++i) {
      if (created[i] == 0) continue;
      const std::string path =
          paths_.Artifact(id, snapshots[i].op, snapshots[i].partition, snapshots[i].is_delta);
      if (!store_->Delete(path).ok()) left += (left.empty() ? "; left behind: " : ", ") + path;
    }
    return Status(first.code(), std::string(first.message()) + left);
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.partition_id, a.second.is_delta) <
           std::tie(b.first, b.second.partition_id, b.second.is_delta);
  });
  return entries;
}

Status ObjectStoreCheckpointer::SaveManifest(const format::CheckpointManifestV2& manifest) {
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializePartitionManifest(manifest));
  for (const auto& [name, op] : manifest.operators) {
    for (const format::PartitionSnapshotEntry& entry : op.partitions) {
      const Result<env::ObjectInfo> info = store_->Head(entry.path);
      CAIRN_RETURN_IF_ERROR(info.status());
      if (info->size == entry.size_bytes) continue;
      return Status::InvalidArgument(entry.path + " has " + std::to_string(info->size) +
                                     " bytes, the manifest says " +
                                     std::to_string(entry.size_bytes));
    }
  }
  if (manifest.parent_id) {
    CAIRN_RETURN_IF_ERROR(CheckManifestIsThere(*manifest.parent_id));
  }
  return store_->CreateIfAbsent(paths_.Manifest(manifest.checkpoint_id), bytes);
}

Result<format::CheckpointManifestV2> ObjectStoreCheckpointer::LoadManifest(std::string_view id) {
  CAIRN_RETURN_IF_ERROR(CheckId(id));
  std::string directory = paths_.Checkpoint(id);
  Result<env::VersionedBytes> found =
      store_->Get(paths_.Manifest(id), format::kPartitionManifestBytesMax);
  if (found.status().code() == StatusCode::kNotFound) {
    Result<env::VersionedBytes> slashless =
        store_->Get(paths_.SlashlessManifest(id), format::kPartitionManifestBytesMax);
    if (slashless.status().code() != StatusCode::kNotFound) {
      found = std::move(slashless);
      directory = paths_.AnyPrefix(id);
    }
  }
  CAIRN_RETURN_IF_ERROR(found.status());
  CAIRN_ASSIGN_OR_RETURN(format::CheckpointManifestV2 manifest,
                         format::ParsePartitionManifest(found->bytes));
  if (manifest.checkpoint_id != id) {
    return Status::Corruption(paths_.Manifest(id) + " is of checkpoint " + manifest.checkpoint_id);
  }
  // Earlier writers also named objects from the checkpoint's own directory on.
  for (auto& [name, op] : manifest.operators) {
    for (format::PartitionSnapshotEntry& entry : op.partitions) {
      if (entry.path.starts_with("operators/")) entry.path = directory + entry.path;
    }
  }
  return manifest;
}

Result<std::string> ObjectStoreCheckpointer::LoadArtifact(std::string_view path) {
  const std::string root = paths_.base + "/";
  if (!path.starts_with(root) || path.find("..") != std::string_view::npos) {
    return Status::InvalidArgument("'" + std::string(path) + "' is no path below " + root);
  }
  return ReadAll(store_, std::string(path));
}

Result<std::string> ObjectStoreCheckpointer::LoadVerified(
    const format::PartitionSnapshotEntry& entry) {
  Result<std::string> bytes = LoadArtifact(entry.path);
  if (bytes.status().code() == StatusCode::kNotFound) {
    return Status::Corruption(entry.path + " is missing though a manifest names it");
  }
  CAIRN_RETURN_IF_ERROR(bytes.status());
  if (bytes->size() != entry.size_bytes) {
    return Status::Corruption(entry.path + " has " + std::to_string(bytes->size()) +
                              " bytes, the manifest says " + std::to_string(entry.size_bytes));
  }
  if (entry.sha256 && base::Sha256::HexOf(*bytes) != *entry.sha256) {
    return Status::Corruption(entry.path + " is damaged: its SHA-256 is not the manifest's " +
                              *entry.sha256);
  }
  return bytes;
}

Status ObjectStoreCheckpointer::UpdateLatest(std::string_view id) {
  CAIRN_RETURN_IF_ERROR(CheckId(id));
  CAIRN_RETURN_IF_ERROR(CheckManifestIsThere(id));
  for (int attempt = 0; attempt < kLatestAttempts; ++attempt) {
    const Result<env::VersionedBytes> there = store_->Get(paths_.Latest(), kLatestBytesMax);
    if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
    // Ids sort by time. What is no id was written by nobody who keeps this order.
    if (there.ok() && base::IsCanonicalUuid(there->bytes) && there->bytes >= id) return {};
    const Status swapped =
        store_
            ->CompareAndSwap(paths_.Latest(),
                             there.ok() ? std::optional(there->version) : std::nullopt, id)
            .status();
    if (swapped.code() != StatusCode::kFenced) return swapped;
  }
  return Status::Unavailable(paths_.Latest() + " is changed by others all the time");
}

Result<std::optional<std::string>> ObjectStoreCheckpointer::ReadLatest() {
  Result<env::VersionedBytes> there = store_->Get(paths_.Latest(), kLatestBytesMax);
  if (there.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  CAIRN_RETURN_IF_ERROR(there.status());
  if (!base::IsCanonicalUuid(there->bytes)) {
    return Status::Corruption(paths_.Latest() + " holds no checkpoint id");
  }
  const Status named = CheckManifestIsThere(there->bytes);
  if (named.code() == StatusCode::kNotFound) {
    return Status::Corruption(paths_.Latest() + " names checkpoint " + there->bytes +
                              ", whose manifest is missing; ListCheckpoints says which are there");
  }
  CAIRN_RETURN_IF_ERROR(named);
  return std::optional(std::move(there->bytes));
}

Result<std::vector<std::string>> ObjectStoreCheckpointer::ListCheckpoints() {
  const std::string root = paths_.base + "/";
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found, store_->List(root));
  std::vector<std::string> ids;
  for (const env::ObjectInfo& object : found) {
    const std::string_view below = std::string_view(object.key).substr(root.size());
    const std::string_view id = below.substr(0, kUuidCharacters);
    const std::string_view name = below.substr(id.size());
    if (!base::IsCanonicalUuid(id)) continue;
    if (name == "/manifest.json" || name == "manifest.json") ids.emplace_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Status ObjectStoreCheckpointer::DeleteCheckpoint(std::string_view id) {
  CAIRN_RETURN_IF_ERROR(CheckId(id));
  const Result<env::VersionedBytes> latest = store_->Get(paths_.Latest(), kLatestBytesMax);
  if (latest.ok() && latest->bytes == id) {
    return Status::InvalidArgument(paths_.Latest() + " names checkpoint " + std::string(id) +
                                   "; point it at a newer one first");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListCheckpoints());
  for (const std::string& other : ids) {
    if (other == id) continue;
    CAIRN_ASSIGN_OR_RETURN(const format::CheckpointManifestV2 manifest, LoadManifest(other));
    if (manifest.parent_id == id) {
      return Status::InvalidArgument("checkpoint " + other + " holds deltas of checkpoint " +
                                     std::string(id) + "; delete it first");
    }
  }
  CAIRN_RETURN_IF_ERROR(store_->Delete(paths_.Manifest(id)));
  CAIRN_RETURN_IF_ERROR(store_->Delete(paths_.SlashlessManifest(id)));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> objects,
                         store_->List(paths_.AnyPrefix(id)));
  for (const env::ObjectInfo& object : objects) {
    CAIRN_RETURN_IF_ERROR(store_->Delete(object.key));
  }
  return {};
}

}  // namespace cairn::checkpoint
