// SPDX-License-Identifier: Apache-2.0
//
// Version 1 of the manifest of whole checkpoints, as its first implementation wrote it into
// directories: read, never written. Cairn's own manifest is format/manifest.h.
//
// It is read as its writer read it: every field but the first four has a default, fields that are
// not known are passed over. What would lose rows if it were passed over is refused: a checkpoint
// that holds changes to another one, or events in flight.
//
// Threads: value types and pure functions.
// Format:  docs/formats/whole-checkpoint.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "cairn/status.h"
#include "format/checkpoint_sidecars.h"

namespace cairn::format {

/// Inline state makes these manifests large.
inline constexpr uint64_t kWholeManifestV1BytesMax = uint64_t{256} << 20;

/// A connector's offsets: `partition-0` → `1234`, `lsn` → `0/16B3748`.
struct ConnectorOffsetsV1 {
  std::map<std::string, std::string> offsets;
  uint64_t epoch = 0;
  std::map<std::string, std::string> metadata;
  friend bool operator==(const ConnectorOffsetsV1&, const ConnectorOffsetsV1&) = default;
};

/// Where the state of an operator is: in the manifest as base64, or a range of state.bin.
struct OperatorStateV1 {
  std::optional<std::string> state_b64;
  bool external = false;
  uint64_t external_offset = 0;
  uint64_t external_length = 0;
  friend bool operator==(const OperatorStateV1&, const OperatorStateV1&) = default;
};

struct WholeManifestV1 {
  uint32_t version = 1;
  uint64_t checkpoint_id = 0;
  uint64_t epoch = 0;  ///< may differ from the id
  uint64_t timestamp_ms = 0;
  std::map<std::string, ConnectorOffsetsV1> source_offsets;
  std::map<std::string, uint64_t> sink_epochs;
  SinkStatuses sink_commit_statuses;
  std::map<std::string, ConnectorOffsetsV1> table_offsets;
  std::map<std::string, OperatorStateV1> operator_states;
  std::optional<std::string> table_store_checkpoint_path;
  std::optional<int64_t> watermark;
  std::map<std::string, int64_t> source_watermarks;
  std::vector<std::string> source_names;
  std::vector<std::string> sink_names;
  std::optional<uint64_t> pipeline_hash;  ///< of a map in no order: informs, proves nothing
  uint16_t vnode_count = 0;               ///< 0 = absent: a writer that did not say
  std::optional<std::string> state_checksum;
  friend bool operator==(const WholeManifestV1&, const WholeManifestV1&) = default;

  /// True when some operator's state is in state.bin.
  bool NeedsSidecar() const;
};

/// True for a JSON object with a version and an id, and without what only Cairn's own manifests
/// have.
bool IsWholeManifestV1(std::string_view bytes);

/// Errors:   kCorruption: no JSON, a mandatory field missing, a field of another type ·
///           kUnsupportedFormat: another version than 0 and 1, or what cannot be read alone.
Result<WholeManifestV1> ParseWholeManifestV1(std::string_view bytes);

/// What disagrees in a manifest or with the number of key groups expected. None of it is damage.
std::vector<std::string> WarningsOf(const WholeManifestV1& manifest, uint16_t expected_vnodes);

/// The state of `name` that is in the manifest; nothing when it is in state.bin or there is none.
///
/// Errors:   kCorruption, naming the operator: its base64 is damaged. Never an empty state.
Result<std::optional<std::string>> InlineStateOf(const WholeManifestV1& manifest,
                                                 const std::string& name);

/// The checksum of the states that are in the manifest, in hex; nothing when there are none.
std::optional<std::string> InlineChecksumOf(const WholeManifestV1& manifest);

/// Decode standard base64 with its padding; nothing for anything else.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace cairn::format
