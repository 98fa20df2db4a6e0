// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/file_system_checkpoint_store.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/hash.h"
#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

constexpr std::string_view kRoot = "checkpoints/";
constexpr std::string_view kDirectoryPrefix = "checkpoint_";
constexpr std::string_view kLatestFile = "checkpoints/latest.txt";
constexpr size_t kLeastDigits = 6;  // more when an id needs them: parsed, never sorted as text
constexpr uint64_t kReadStep = 8 << 20;

std::string DirectoryName(uint64_t id) {
  const std::string digits = std::to_string(id);
  return std::string(kDirectoryPrefix) +
         std::string(kLeastDigits - std::min(kLeastDigits, digits.size()), '0') + digits;
}

std::string KeyOf(uint64_t id, std::string_view file) {
  return std::string(kRoot) + DirectoryName(id) + "/" + std::string(file);
}
std::string ManifestOf(uint64_t id) { return KeyOf(id, "manifest.json"); }
std::string StateOf(uint64_t id) { return KeyOf(id, "state.bin"); }
std::string StateRecordOf(uint64_t id) { return KeyOf(id, "state.json"); }
std::string SinkStatusOf(uint64_t id) { return KeyOf(id, "sink-status.json"); }

/// The id in "checkpoint_000007".
std::optional<uint64_t> IdOfDirectory(std::string_view name) {
  if (!name.starts_with(kDirectoryPrefix)) return std::nullopt;
  name.remove_prefix(kDirectoryPrefix.size());
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size() || id == 0) return std::nullopt;
  return id;
}

/// What lies below checkpoints/, by id: the names of its files.
Result<std::map<uint64_t, std::vector<std::string>>> FilesById(env::ObjectStore* objects) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                         objects->List(std::string(kRoot) + std::string(kDirectoryPrefix)));
  std::map<uint64_t, std::vector<std::string>> by_id;
  for (const env::ObjectInfo& object : found) {
    const std::string_view below = std::string_view(object.key).substr(kRoot.size());
    const size_t slash = below.find('/');
    if (slash == std::string_view::npos) continue;
    const std::optional<uint64_t> id = IdOfDirectory(below.substr(0, slash));
    if (id) by_id[*id].emplace_back(below.substr(slash + 1));
  }
  return by_id;
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// SHA-256 of a whole object of `length` bytes.
Result<std::string> DigestOf(env::ObjectStore* objects, const std::string& key, uint64_t length) {
  base::Sha256 digest;
  std::string bytes;
  for (uint64_t at = 0; at < length; at += kReadStep) {
    bytes.resize(std::min(kReadStep, length - at));
    CAIRN_RETURN_IF_ERROR(objects->ReadRange(key, at, bytes));
    digest.Update(bytes);
  }
  return base::ToHex(digest.Finish());
}

}  // namespace

bool ValidationResult::valid() const {
  return std::none_of(issues.begin(), issues.end(), [](const ValidationIssue& issue) {
    return issue.kind == ValidationIssueKind::kIntegrityFailure;
  });
}

FileSystemCheckpointStore::FileSystemCheckpointStore(env::FileSystem* files, std::string base_dir,
                                                     size_t max_retained, env::Clock* clock)
    : files_(files),
      base_dir_(std::move(base_dir)),
      max_retained_(max_retained),
      clock_(clock != nullptr ? clock : env::SystemClock()),
      vnode_count_(format::kDefaultManifestKeyGroups) {}

FileSystemCheckpointStore& FileSystemCheckpointStore::WithVnodeCount(uint16_t count) {
  vnode_count_ = count;
  return *this;
}

Result<env::LocalObjectStore*> FileSystemCheckpointStore::Reader() {
  if (objects_ == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(
        objects_, env::LocalObjectStore::Open(files_, base_dir_, {.fsync = true, .sweep = false}));
  }
  return objects_.get();
}

Result<env::LocalObjectStore*> FileSystemCheckpointStore::Writer() {
  if (lock_ != nullptr) return objects_.get();
  CAIRN_RETURN_IF_ERROR(env::CreateDirectories(files_, base_dir_, true));
  CAIRN_ASSIGN_OR_RETURN(lock_, files_->Lock(env::JoinPath(base_dir_, kLockName)));
  Result<std::unique_ptr<env::LocalObjectStore>> objects = env::LocalObjectStore::Open(
      files_, base_dir_, {.fsync = true, .sweep = true, .sweep_directories = {"checkpoints"}});
  if (!objects.ok()) {
    lock_.reset();
    return objects.status();
  }
  objects_ = *std::move(objects);
  return objects_.get();
}

Status FileSystemCheckpointStore::SaveStateData(uint64_t id,
                                                const std::vector<std::string_view>& chunks) {
  if (id == 0) return Status::InvalidArgument("checkpoint ids begin at 1");
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Writer());
  format::StateSidecar sidecar;
  base::Sha256 digest;
  // State that an earlier attempt left without a manifest is nobody's.
  if (objects->Head(ManifestOf(id)).status().code() == StatusCode::kNotFound) {
    CAIRN_RETURN_IF_ERROR(objects->Delete(StateRecordOf(id)));
    CAIRN_RETURN_IF_ERROR(objects->Delete(StateOf(id)));
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<env::ObjectWriter> writer,
                         objects->NewWriter(StateOf(id)));
  for (const std::string_view chunk : chunks) {
    CAIRN_RETURN_IF_ERROR(writer->Append(chunk));
    digest.Update(chunk);
    sidecar.length += chunk.size();
  }
  CAIRN_RETURN_IF_ERROR(writer->Finish());
  sidecar.sha256 = base::ToHex(digest.Finish());
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeStateSidecar(sidecar));
  return objects->CreateIfAbsent(StateRecordOf(id), bytes);  // makes both names durable
}

Status FileSystemCheckpointStore::SaveWithState(
    const format::CheckpointManifest& manifest,
    const std::optional<std::vector<std::string_view>>& state) {
  uint64_t length = 0;
  if (state) {
    for (const std::string_view chunk : *state) length += chunk.size();
  }
  if (manifest.node_data.object_length > 0 && manifest.node_data.object_length != length) {
    return Status::InvalidArgument("the manifest names an object of " +
                                   std::to_string(manifest.node_data.object_length) +
                                   " bytes, the state has " + std::to_string(length));
  }
  if (state) CAIRN_RETURN_IF_ERROR(SaveStateData(manifest.checkpoint_id.value, *state));
  return Save(manifest);
}

Status FileSystemCheckpointStore::Save(const format::CheckpointManifest& manifest) {
  if (!manifest.referenced_chunks.empty()) {
    return Status::InvalidArgument(
        "the manifest references older objects; this store keeps whole "
        "checkpoints");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeManifest(manifest));
  const uint64_t id = manifest.checkpoint_id.value;
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Writer());
  if (manifest.node_data.object_length > 0) {
    const Result<env::ObjectInfo> info = objects->Head(StateOf(id));
    if (!info.ok() || info->size != manifest.node_data.object_length) {
      return Status::InvalidArgument("the manifest names an object of " +
                                     std::to_string(manifest.node_data.object_length) +
                                     " bytes that was not saved; save the state first");
    }
  }
  CAIRN_RETURN_IF_ERROR(objects->CreateIfAbsent(ManifestOf(id), bytes));
  CAIRN_RETURN_IF_ERROR(PointLatest(id));
  last_prune_ = max_retained_ == 0 ? Status() : Prune(max_retained_).status();
  return {};
}

Status FileSystemCheckpointStore::PointLatest(uint64_t id) {
  const std::string key(kLatestFile);
  const Result<env::VersionedBytes> there = objects_->Get(key, 1 << 10);
  if (!there.ok() && there.status().code() != StatusCode::kNotFound &&
      there.status().code() != StatusCode::kCorruption) {
    return there.status();
  }
  if (there.ok() && IdOfDirectory(there->bytes).value_or(0) >= id) return {};
  return objects_->PutHint(key, DirectoryName(id));
}

Result<std::optional<std::string>> FileSystemCheckpointStore::ReadManifest(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Reader());
  Result<env::VersionedBytes> found =
      objects->Get(ManifestOf(id), format::kWholeManifestV1BytesMax);
  if (found.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  CAIRN_RETURN_IF_ERROR(found.status());
  return std::optional(std::move(found->bytes));
}

Result<std::optional<format::CheckpointManifest>> FileSystemCheckpointStore::LoadById(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, ReadManifest(id));
  if (!bytes) return std::optional<format::CheckpointManifest>();
  if (format::IsWholeManifestV1(*bytes)) {
    return Status::UnsupportedFormat(ManifestOf(id) + " is of version 1: LoadV1 reads it");
  }
  Result<format::CheckpointManifest> manifest = format::ParseManifest(*bytes);
  if (!manifest.ok()) return manifest.status().WithContext(ManifestOf(id));
  if (manifest->checkpoint_id.value != id) {
    return Status::Corruption(ManifestOf(id) + " is of checkpoint " +
                              std::to_string(manifest->checkpoint_id.value));
  }
  return std::optional(*std::move(manifest));
}

Result<std::optional<format::CheckpointManifest>> FileSystemCheckpointStore::LoadLatest() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ListIds());
  if (ids.empty()) return std::optional<format::CheckpointManifest>();
  return LoadById(ids.back());
}

Result<std::optional<std::string>> FileSystemCheckpointStore::LoadStateData(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Reader());
  std::vector<ValidationIssue> issues;
  CAIRN_RETURN_IF_ERROR(CheckState(id, &issues));
  for (const ValidationIssue& issue : issues) {
    if (issue.kind == ValidationIssueKind::kIntegrityFailure) {
      return Status::Corruption(issue.message);
    }
  }
  const Result<env::ObjectInfo> info = objects->Head(StateOf(id));
  if (info.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  CAIRN_RETURN_IF_ERROR(info.status());
  std::string bytes(info->size, '\0');
  CAIRN_RETURN_IF_ERROR(objects->ReadRange(StateOf(id), 0, bytes));
  return std::optional(std::move(bytes));
}

Result<std::vector<uint64_t>> FileSystemCheckpointStore::ListIds() {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Reader());
  CAIRN_ASSIGN_OR_RETURN(const auto by_id, FilesById(objects));
  std::vector<uint64_t> ids;
  for (const auto& [id, names] : by_id) {
    if (Has(names, "manifest.json")) ids.push_back(id);
  }
  return ids;
}

Result<std::vector<std::pair<uint64_t, uint64_t>>> FileSystemCheckpointStore::List() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ListIds());
  std::vector<std::pair<uint64_t, uint64_t>> listed;
  for (const uint64_t id : ids) {
    const auto manifest = LoadById(id);
    if (manifest.status().code() == StatusCode::kUnavailable) return manifest.status();
    if (manifest.ok() && *manifest) listed.emplace_back(id, (*manifest)->epoch);
    if (manifest.status().code() != StatusCode::kUnsupportedFormat) continue;
    const auto v1 = LoadV1(id);
    if (v1.ok() && *v1) listed.emplace_back(id, (*v1)->epoch);
  }
  return listed;
}

// The manifest goes first: without it the rest is an orphan, which is swept; the other way round a
// crash would leave a checkpoint without its state.
Status FileSystemCheckpointStore::RemoveCheckpoint(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Writer());
  CAIRN_RETURN_IF_ERROR(objects->Delete(ManifestOf(id)));
  for (const std::string& key : {SinkStatusOf(id), StateRecordOf(id), StateOf(id)}) {
    CAIRN_RETURN_IF_ERROR(objects->Delete(key));
  }
  return {};
}

Result<size_t> FileSystemCheckpointStore::Prune(size_t keep_count) {
  CAIRN_RETURN_IF_ERROR(Writer().status());
  CAIRN_ASSIGN_OR_RETURN(auto listed, List());
  // What another program wrote is its own to remove.
  std::erase_if(listed, [&](const auto& one) {
    const auto v1 = LoadV1(one.first);
    return v1.ok() && v1->has_value();
  });
  const size_t keep = std::max<size_t>(keep_count, 1);
  size_t removed = 0;
  for (size_t i = 0; i + keep < listed.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(RemoveCheckpoint(listed[i].first));
    ++removed;
  }
  return removed;
}

Result<size_t> FileSystemCheckpointStore::CleanupOrphans() {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Writer());
  CAIRN_ASSIGN_OR_RETURN(const auto by_id, FilesById(objects));
  size_t removed = 0;
  for (const auto& [id, names] : by_id) {
    if (Has(names, "manifest.json")) continue;
    CAIRN_RETURN_IF_ERROR(RemoveCheckpoint(id));
    ++removed;
  }
  return removed;
}

Status FileSystemCheckpointStore::UpdateManifest(const format::CheckpointManifest& manifest,
                                                 const format::SinkStatuses& sinks) {
  const uint64_t id = manifest.checkpoint_id.value;
  CAIRN_ASSIGN_OR_RETURN(const auto stored, LoadById(id));
  if (!stored) return Status::NotFound("there is no checkpoint " + std::to_string(id));
  if (*stored != manifest) {
    return Status::InvalidArgument("the manifest of checkpoint " + std::to_string(id) +
                                   " is another; only what became of its sinks can be recorded");
  }
  for (const auto& [name, status] : sinks) {
    if (std::binary_search(manifest.sink_names.begin(), manifest.sink_names.end(), name)) continue;
    return Status::InvalidArgument("checkpoint " + std::to_string(id) + " has no sink " + name);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeSinkStatuses(sinks));
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Writer());
  const auto there = objects->Get(SinkStatusOf(id), format::kSidecarRecordBytesMax);
  return objects
      ->CompareAndSwap(SinkStatusOf(id), there.ok() ? std::optional(there->version) : std::nullopt,
                       bytes)
      .status();
}

Result<format::SinkStatuses> FileSystemCheckpointStore::LoadSinkStatuses(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Reader());
  CAIRN_ASSIGN_OR_RETURN(const std::optional<format::WholeManifestV1> v1, LoadV1(id));
  if (v1) return v1->sink_commit_statuses;
  const auto found = objects->Get(SinkStatusOf(id), format::kSidecarRecordBytesMax);
  if (found.status().code() == StatusCode::kNotFound) return format::SinkStatuses();
  CAIRN_RETURN_IF_ERROR(found.status());
  return format::ParseSinkStatuses(found->bytes);
}

Status FileSystemCheckpointStore::CheckState(uint64_t id, std::vector<ValidationIssue>* issues) {
  CAIRN_RETURN_IF_ERROR(Reader().status());
  CAIRN_ASSIGN_OR_RETURN(const std::optional<format::WholeManifestV1> v1, LoadV1(id));
  if (v1) return CheckV1(*v1, issues);
  const auto fail = [&](const std::string& message) {
    issues->push_back({ValidationIssueKind::kIntegrityFailure, message});
    return Status();
  };
  const Result<env::ObjectInfo> info = objects_->Head(StateOf(id));
  const auto record = objects_->Get(StateRecordOf(id), format::kSidecarRecordBytesMax);
  for (const Status& status : {info.status(), record.status()}) {
    if (!status.ok() && status.code() != StatusCode::kNotFound &&
        status.code() != StatusCode::kCorruption) {
      return status;
    }
  }
  if (!info.ok() && !record.ok()) return {};  // it has no state
  if (!info.ok()) return fail(StateOf(id) + " is missing");
  if (!record.ok()) return fail(StateRecordOf(id) + " is missing");
  const Result<format::StateSidecar> sidecar = format::ParseStateSidecar(record->bytes);
  if (!sidecar.ok()) return fail(std::string(sidecar.status().message()));
  if (info->size != sidecar->length) {
    return fail(StateOf(id) + " has " + std::to_string(info->size) + " bytes instead of " +
                std::to_string(sidecar->length));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string digest,
                         DigestOf(objects_.get(), StateOf(id), info->size));
  if (digest != sidecar->sha256) return fail(StateOf(id) + " is damaged: its SHA-256 differs");
  return {};
}

Result<ValidationResult> FileSystemCheckpointStore::ValidateCheckpoint(uint64_t id) {
  ValidationResult result;
  result.checkpoint_id = id;
  const auto fail = [&](std::string message) {
    result.issues.push_back({ValidationIssueKind::kIntegrityFailure, std::move(message)});
  };
  const auto v1 = LoadV1(id);
  if (v1.ok() && *v1) {
    CAIRN_RETURN_IF_ERROR(CheckV1(**v1, &result.issues));
    return result;
  }
  const Status unreadable = v1.status();
  const auto manifest = unreadable.ok() ? LoadById(id) : unreadable;
  if (manifest.status().code() == StatusCode::kUnavailable) return manifest.status();
  if (!manifest.ok()) {
    fail(std::string(manifest.status().message()));
    return result;
  }
  if (!*manifest) {
    fail(ManifestOf(id) + " is missing");
    return result;
  }
  const format::CheckpointManifest& read = **manifest;
  CAIRN_RETURN_IF_ERROR(CheckState(id, &result.issues));
  if (read.node_data.object_length > 0) {
    const Result<env::ObjectInfo> info = objects_->Head(StateOf(id));
    if (!info.ok() || info->size != read.node_data.object_length) {
      fail("the manifest names an object of " + std::to_string(read.node_data.object_length) +
           " bytes; " + StateOf(id) +
           (info.ok() ? " has " + std::to_string(info->size) : std::string(" is missing")));
    }
  }
  if (read.key_groups != vnode_count_) {
    result.issues.push_back({ValidationIssueKind::kManifestWarning,
                             "the manifest is of " + std::to_string(read.key_groups) +
                                 " key groups, this store expects " +
                                 std::to_string(vnode_count_)});
  }
  return result;
}

Result<RecoveryReport> FileSystemCheckpointStore::RecoverLatestValidated(bool rows_may_come_twice) {
  const int64_t began = clock_->MonotonicNanos();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ListIds());
  RecoveryReport report;
  Status published;
  for (auto id = ids.rbegin(); id != ids.rend() && !report.chosen_id; ++id) {
    ++report.examined;
    CAIRN_ASSIGN_OR_RETURN(const ValidationResult result, ValidateCheckpoint(*id));
    if (result.valid()) {
      report.chosen_id = *id;
      continue;
    }
    const auto first =
        std::find_if(result.issues.begin(), result.issues.end(), [](const ValidationIssue& issue) {
          return issue.kind == ValidationIssueKind::kIntegrityFailure;
        });
    report.skipped.emplace_back(*id, first->message);
    const auto sinks = LoadSinkStatuses(*id);
    if (!sinks.ok()) continue;
    for (const auto& [name, status] : *sinks) {
      if (status.state != format::SinkCommitState::kCommitted || !published.ok()) continue;
      published = Status::InvalidArgument(
          "checkpoint " + std::to_string(*id) + " is damaged (" + first->message + ") and sink " +
          name + " has published its rows; from an older checkpoint they would come twice");
    }
  }
  if (report.chosen_id && !published.ok() && !rows_may_come_twice) return published;
  report.elapsed = std::chrono::nanoseconds(clock_->MonotonicNanos() - began);
  return report;
}

}  // namespace cairn::checkpoint
