// SPDX-License-Identifier: Apache-2.0
//
// Reading checkpoints whose manifest is of version 1.
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "checkpoint/file_system_checkpoint_store.h"

namespace cairn::checkpoint {
namespace {

constexpr uint64_t kChecksumStep = 8 << 20;

/// Directories have six digits or more.
std::string SidecarKey(uint64_t id) {
  return fmt::format("checkpoints/checkpoint_{:06}/state.bin", id);
}

/// Go on with `hash` over a whole object; return the digest in hex.
Result<std::string> DigestAfter(base::Sha256 hash, env::ObjectStore* objects, uint64_t id,
                                uint64_t length) {
  std::string bytes;
  for (uint64_t at = 0; at < length; at += kChecksumStep) {
    bytes.resize(std::min(kChecksumStep, length - at));
    CAIRN_RETURN_IF_ERROR(objects->ReadRange(SidecarKey(id), at, bytes));
    hash.Update(bytes);
  }
  return base::ToHex(hash.Finish());
}

/// What is wrong with where an operator's state lies; empty = nothing.
std::string FaultOf(const std::string& name, const format::OperatorStateV1& state,
                    std::optional<uint64_t> sidecar_bytes) {
  if (!state.external) return {};
  if (!sidecar_bytes) return fmt::format("the state of operator '{}': state.bin is missing", name);
  if (state.external_offset <= *sidecar_bytes &&
      state.external_length <= *sidecar_bytes - state.external_offset) {
    return {};
  }
  return fmt::format("the state of operator '{}' is at {}+{} of state.bin, which has {} bytes",
                     name, state.external_offset, state.external_length, *sidecar_bytes);
}

}  // namespace

Result<std::optional<format::WholeManifestV1>> FileSystemCheckpointStore::LoadV1(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, ReadManifest(id));
  if (!bytes || !format::IsWholeManifestV1(*bytes)) {
    return std::optional<format::WholeManifestV1>();
  }
  const std::string context = fmt::format("checkpoint {}", id);
  Result<format::WholeManifestV1> manifest = format::ParseWholeManifestV1(*bytes);
  if (!manifest.ok()) return manifest.status().WithContext(context);
  if (manifest->checkpoint_id != id) {
    return Status::Corruption(
        fmt::format("{}: its manifest is of checkpoint {}", context, manifest->checkpoint_id));
  }
  return std::optional(*std::move(manifest));
}

Result<std::optional<uint64_t>> FileSystemCheckpointStore::SidecarBytes(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(env::LocalObjectStore * objects, Reader());
  const Result<env::ObjectInfo> info = objects->Head(SidecarKey(id));
  if (info.status().code() == StatusCode::kNotFound) return std::optional<uint64_t>();
  CAIRN_RETURN_IF_ERROR(info.status());
  return std::optional(info->size);
}

/// The checksum is over the states in the manifest, or over state.bin, or over the former's and
/// state.bin; earliest writers left out the former.
Status FileSystemCheckpointStore::CheckChecksumV1(const format::WholeManifestV1& manifest,
                                                  std::optional<uint64_t> sidecar_bytes,
                                                  std::vector<ValidationIssue>* issues) {
  if (!manifest.state_checksum) return {};
  const std::optional<std::string> inline_checksum = format::InlineChecksumOf(manifest);
  const uint64_t id = manifest.checkpoint_id;
  std::optional<std::string> expected = inline_checksum;
  if (sidecar_bytes) {
    base::Sha256 hash;
    if (inline_checksum) hash.Update(*inline_checksum);
    CAIRN_ASSIGN_OR_RETURN(expected,
                           DigestAfter(std::move(hash), objects_.get(), id, *sidecar_bytes));
  }
  if (expected == manifest.state_checksum) return {};
  if (inline_checksum && sidecar_bytes) {
    CAIRN_ASSIGN_OR_RETURN(const std::string sidecar_only,
                           DigestAfter(base::Sha256(), objects_.get(), id, *sidecar_bytes));
    if (sidecar_only == *manifest.state_checksum) {
      issues->push_back({ValidationIssueKind::kManifestWarning,
                         "its checksum does not cover the states in the manifest"});
      return {};
    }
  }
  issues->push_back(
      {ValidationIssueKind::kIntegrityFailure,
       fmt::format("checkpoint {}: its state is damaged: state_checksum differs", id)});
  return {};
}

Status FileSystemCheckpointStore::CheckV1(const format::WholeManifestV1& manifest,
                                          std::vector<ValidationIssue>* issues) {
  const auto fail = [&](std::string message) {
    issues->push_back({ValidationIssueKind::kIntegrityFailure, std::move(message)});
  };
  if (manifest.checkpoint_id == 0 || manifest.epoch == 0) fail("its id or its epoch is 0");
  for (std::string& warning : format::WarningsOf(manifest, vnode_count_)) {
    issues->push_back({ValidationIssueKind::kManifestWarning, std::move(warning)});
  }
  CAIRN_ASSIGN_OR_RETURN(const std::optional<uint64_t> sidecar_bytes,
                         SidecarBytes(manifest.checkpoint_id));
  for (const auto& [name, state] : manifest.operator_states) {
    const auto inline_state = format::InlineStateOf(manifest, name);
    if (!inline_state.ok()) fail(std::string(inline_state.status().message()));
    if (std::string fault = FaultOf(name, state, sidecar_bytes); !fault.empty()) {
      fail(std::move(fault));
    }
  }
  return CheckChecksumV1(manifest, sidecar_bytes, issues);
}

Result<std::map<std::string, std::string>> FileSystemCheckpointStore::LoadOperatorStatesV1(
    uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<format::WholeManifestV1> manifest, LoadV1(id));
  if (!manifest) {
    return Status::NotFound(fmt::format("there is no checkpoint {} of version 1", id));
  }
  if (manifest->vnode_count != 0 && manifest->vnode_count != vnode_count_) {
    return Status::InvalidArgument(fmt::format(
        "checkpoint {} is of {} key groups, this store of {}: keyed state would go to the wrong "
        "places; WithVnodeCount({}) reads it",
        id, manifest->vnode_count, vnode_count_, manifest->vnode_count));
  }
  std::vector<ValidationIssue> issues;
  CAIRN_RETURN_IF_ERROR(CheckV1(*manifest, &issues));
  for (const ValidationIssue& issue : issues) {
    if (issue.kind == ValidationIssueKind::kManifestWarning) continue;
    return Status::Corruption(issue.message).WithContext(fmt::format("checkpoint {}", id));
  }
  std::map<std::string, std::string> states;
  for (const auto& [name, state] : manifest->operator_states) {
    if (!state.external) {
      CAIRN_ASSIGN_OR_RETURN(auto bytes, format::InlineStateOf(*manifest, name));
      states[name] = std::move(*bytes);
      continue;
    }
    std::string& bytes = states[name];
    bytes.resize(state.external_length);
    CAIRN_RETURN_IF_ERROR(objects_->ReadRange(SidecarKey(id), state.external_offset, bytes));
  }
  return states;
}

}  // namespace cairn::checkpoint
