// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/place.h"

#include <charconv>

#include "checkpoint/layout.h"
#include "checkpoint/place.h"

namespace cairn::checkpoint::shared {
namespace {

constexpr size_t kCheckpointDigits = 20;  // as many as 2^64 needs: names sort as the numbers do
constexpr int kSwapAttempts = 4;

std::string PaddedId(base::CheckpointId id) {
  const std::string digits = std::to_string(id.value);
  return std::string(kCheckpointDigits - digits.size(), '0') + digits;
}

/// Take a number off the front of `text`.
std::optional<uint64_t> TakeNumber(std::string_view* text) {
  uint64_t value = 0;
  const auto [at, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(at - text->data()));
  return value;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

Status CheckShared(const format::StoreFormat& format) {
  if (format.profile == "shared") return {};
  return Status::InvalidArgument(
      "the place is one of a single process; several participants need a place of their own");
}

template <class Record>
Result<std::optional<Record>> ReadOnce(env::ObjectStore* objects, std::string_view key,
                                       Result<Record> (*parse)(std::string_view)) {
  CAIRN_ASSIGN_OR_RETURN(Seen<Record> seen,
                         ReadSeen(objects, std::string(key), format::kSmallRecordBytesMax, parse));
  return std::move(seen.record);
}

}  // namespace

std::string_view ProtocolStepName(ProtocolStep step) {
  static constexpr std::string_view kNames[] = {
      "admit",    "intend", "sink-begin", "capture",     "sink-prepare", "encode", "data",
      "manifest", "index",  "decide",     "sink-commit", "acknowledge",  "retire"};
  return kNames[static_cast<size_t>(step)];
}

std::string ProcessPrefix(uint64_t node) {
  return "control/process/node=" + std::to_string(node) + "/";
}

std::string SinkWitnessKey(uint64_t node) {
  return "control/sink-open/node=" + std::to_string(node) + ".json";
}

std::string NodeDirectory(uint64_t node, base::CheckpointId id) {
  return std::string(kNodesPrefix) + std::to_string(node) + "/checkpoints/" + PaddedId(id);
}

std::string NodeDataKey(uint64_t node, base::CheckpointId id) {
  return NodeDirectory(node, id) + "/state.arrow";
}

std::string NodeManifestKey(uint64_t node, base::CheckpointId id) {
  return NodeDirectory(node, id) + "/manifest.json";
}

std::string IndexPrefix(base::CheckpointId id) {
  return std::string(kCommittedPrefix) + PaddedId(id) + "/";
}

std::string IndexKey(base::CheckpointId id, const base::Sha256Digest& sha256) {
  return IndexPrefix(id) + base::ToHex(sha256) + ".json";
}

std::optional<KeyOwner> OwnerOfKey(std::string_view key) {
  KeyOwner owner;
  if (TakePrefix(kNodesPrefix, &key)) {
    const std::optional<uint64_t> node = TakeNumber(&key);
    if (!node || !TakePrefix("/checkpoints/", &key)) return std::nullopt;
    owner.node = *node;
  } else if (!TakePrefix(kCommittedPrefix, &key)) {
    return std::nullopt;
  }
  const std::optional<uint64_t> id = TakeNumber(&key);
  if (!id || !key.starts_with('/')) return std::nullopt;
  owner.id = base::CheckpointId(*id);
  return owner;
}

Result<SharedPlace> MakePlace(const Seams& seams, const PlaceOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(
      std::optional<format::StoreFormat> format,
      ReadOnce<format::StoreFormat>(seams.objects, kFormatKey, &format::ParseStoreFormat));
  if (!format) {
    format::StoreFormat made;
    made.profile = "shared";
    made.key_groups = options.key_groups;
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeStoreFormat(made));
    CAIRN_RETURN_IF_ERROR(CreateRecord(seams.objects, std::string(kFormatKey), bytes));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::optional<format::DeploymentIdentity> identity,
                         ReadOnce<format::DeploymentIdentity>(seams.objects, kIdentityKey,
                                                              &format::ParseDeploymentIdentity));
  if (!identity) {
    format::DeploymentIdentity made;
    made.deployment_id = seams.NewUuid();
    made.created_ms = static_cast<uint64_t>(seams.clock->UnixMillis());
    made.pipeline_name = options.pipeline_name;
    made.slot_hash.seed = options.slot_hash_seed.value_or(seams.random->Next());
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeDeploymentIdentity(made));
    const Status created = CreateRecord(seams.objects, std::string(kIdentityKey), bytes);
    // Another process made it at the same moment: its identity is ours.
    if (!created.ok() && created.code() != StatusCode::kAlreadyExists) return created;
  }
  CAIRN_ASSIGN_OR_RETURN(SharedPlace place, ReadSharedPlace(seams));
  if (place.format.key_groups != options.key_groups) {
    return Status::InvalidArgument(
        "the place was made for " + std::to_string(place.format.key_groups) +
        " key groups, this job asks for " + std::to_string(options.key_groups));
  }
  return place;
}

Result<SharedPlace> ReadSharedPlace(const Seams& seams) {
  CAIRN_ASSIGN_OR_RETURN(
      std::optional<format::StoreFormat> format,
      ReadOnce<format::StoreFormat>(seams.objects, kFormatKey, &format::ParseStoreFormat));
  CAIRN_ASSIGN_OR_RETURN(std::optional<format::DeploymentIdentity> identity,
                         ReadOnce<format::DeploymentIdentity>(seams.objects, kIdentityKey,
                                                              &format::ParseDeploymentIdentity));
  if (!format && !identity) return Status::NotFound("there is no checkpoint place");
  if (!format) return Status::Corruption("damaged store: FORMAT is missing");
  CAIRN_RETURN_IF_ERROR(CheckShared(*format));
  if (!identity) {
    return Status::Corruption("damaged store: " + std::string(kIdentityKey) + " is missing");
  }
  return SharedPlace{*std::move(format), *std::move(identity)};
}

Result<std::string> SwapRecord(env::ObjectStore* objects, const std::string& key,
                               const std::optional<std::string>& expected, std::string_view bytes) {
  std::optional<std::string> from = expected;
  Status failed;
  for (int attempt = 0; attempt < kSwapAttempts; ++attempt) {
    Result<std::string> version = objects->CompareAndSwap(key, from, bytes);
    if (version.ok()) return version;
    failed = version.status();
    if (failed.code() != StatusCode::kFenced && failed.code() != StatusCode::kUnavailable) {
      return failed;
    }
    // It may have been done, or refused without a cause. Only what is there now can say.
    Result<env::VersionedBytes> there = objects->Get(key, format::kManifestBytesMax * 2);
    if (there.status().code() == StatusCode::kNotFound) {
      if (expected) return Status::Fenced("replace " + key + ": it was deleted");
      from.reset();
      continue;
    }
    if (!there.ok()) {
      return Status::Unavailable(
          std::string(failed.message()) +
          "; and what became of it cannot be read back: " + std::string(there.status().message()));
    }
    // Ours may be there and not durable yet: it is written over itself.
    if (there->bytes != bytes && (!expected || there->version != *expected)) {
      return Status::Fenced("replace " + key + ": it changed since it was read");
    }
    from = there->version;
  }
  return failed.code() == StatusCode::kFenced ? Status::Unavailable(std::string(failed.message()))
                                              : failed;
}

}  // namespace cairn::checkpoint::shared
