// SPDX-License-Identifier: Apache-2.0
//
// The small records beside a whole checkpoint's manifest: state.json (what its state is) and
// sink-status.json (what became of its sinks).
//
// Threads: value types and pure functions.
// Format:  docs/formats/whole-checkpoint.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::format {

inline constexpr uint64_t kSidecarRecordBytesMax = uint64_t{1} << 20;

/// state.json.
struct StateSidecar {
  uint64_t length = 0;
  std::string sha256;  ///< of state.bin, lower hex
  friend bool operator==(const StateSidecar&, const StateSidecar&) = default;
};
Result<std::string> SerializeStateSidecar(const StateSidecar& sidecar);
/// Errors:   kUnsupportedFormat · kCorruption.
Result<StateSidecar> ParseStateSidecar(std::string_view bytes);

enum class SinkCommitState : uint8_t { kPending, kCommitted, kFailed };

struct SinkCommitStatus {
  SinkCommitState state = SinkCommitState::kPending;
  std::string message;  ///< of kFailed
  friend bool operator==(const SinkCommitStatus&, const SinkCommitStatus&) = default;
};
using SinkStatuses = std::map<std::string, SinkCommitStatus>;  ///< by sink

/// sink-status.json.
Result<std::string> SerializeSinkStatuses(const SinkStatuses& statuses);
/// Errors:   kUnsupportedFormat · kCorruption.
Result<SinkStatuses> ParseSinkStatuses(std::string_view bytes);

}  // namespace cairn::format
