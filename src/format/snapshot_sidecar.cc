// SPDX-License-Identifier: Apache-2.0
//
// The text beside a snapshot file.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/hash.h"
#include "format/canonical_stream.h"

namespace cairn::format {
namespace {

constexpr std::string_view kVersionName = "clink_checkpoint_meta";

template <class T>
bool ParseNumber(std::string_view text, std::optional<T>* value) {
  T number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return false;
  *value = number;
  return true;
}

}  // namespace

std::string SerializeSidecar(const SnapshotSidecar& sidecar) {
  return fmt::format("{}={}\ncheckpoint_id={}\npayload_bytes={}\npayload_crc32c={}\n", kVersionName,
                     kSidecarVersion, sidecar.checkpoint_id, sidecar.payload_bytes,
                     sidecar.payload_crc32c);
}

SnapshotSidecar SidecarOf(uint64_t checkpoint_id, std::string_view payload) {
  return {checkpoint_id, payload.size(), base::Crc32c(0, payload)};
}

Result<SnapshotSidecar> ParseSidecar(std::string_view text) {
  std::optional<uint32_t> version, crc;
  std::optional<uint64_t> id, bytes;
  const auto bad = [](std::string_view line) {
    return Status::Corruption(fmt::format("sidecar line '{}' does not parse", line));
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return bad(text);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return bad(line);
    const std::string_view name = line.substr(0, equals), value = line.substr(equals + 1);
    bool parsed = true;
    if (name == kVersionName) {
      parsed = ParseNumber(value, &version);
    } else if (name == "checkpoint_id") {
      parsed = ParseNumber(value, &id);
    } else if (name == "payload_bytes") {
      parsed = ParseNumber(value, &bytes);
    } else if (name == "payload_crc32c") {
      parsed = ParseNumber(value, &crc);
    }
    if (!parsed) return bad(line);
  }
  if (!version || *version == 0) return Status::Corruption("sidecar has no version");
  if (*version > kSidecarVersion) {
    return Status::UnsupportedFormat(
        fmt::format("sidecar has version {}, this build reads {}", *version, kSidecarVersion));
  }
  if (!id || !bytes || !crc) return Status::Corruption("sidecar lacks id, length or CRC");
  return SnapshotSidecar{*id, *bytes, *crc};
}

std::string_view SnapshotVerdictName(SnapshotVerdict verdict) {
  switch (verdict) {
    case SnapshotVerdict::kValid:
      return "valid";
    case SnapshotVerdict::kMissing:
      return "missing";
    case SnapshotVerdict::kIncomplete:
      return "incomplete";
    case SnapshotVerdict::kCorrupt:
      return "corrupt";
    case SnapshotVerdict::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

SnapshotVerdict JudgeSnapshot(const std::string_view* payload, const std::string_view* sidecar) {
  if (payload == nullptr) return SnapshotVerdict::kMissing;
  if (sidecar == nullptr) return SnapshotVerdict::kIncomplete;
  const auto parsed = ParseSidecar(*sidecar);
  if (!parsed.ok()) {
    return parsed.status().code() == StatusCode::kUnsupportedFormat ? SnapshotVerdict::kUnsupported
                                                                    : SnapshotVerdict::kCorrupt;
  }
  if (parsed->payload_bytes != payload->size()) return SnapshotVerdict::kIncomplete;
  return parsed->payload_crc32c == base::Crc32c(0, *payload) ? SnapshotVerdict::kValid
                                                             : SnapshotVerdict::kCorrupt;
}

}  // namespace cairn::format
