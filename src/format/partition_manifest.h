// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a checkpoint that is stored as one object an operator's partition: what
// ObjectStoreCheckpointer (src/checkpoint) writes, version 2 of its line. The engine's own manifest
// is format/manifest.h.
//
// Threads: value types and pure functions.
// Format:  docs/formats/partition-manifest.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn::format {

inline constexpr uint32_t kPartitionManifestVersion = 2;
inline constexpr uint64_t kPartitionManifestBytesMax = uint64_t{16} << 20;

/// One stored snapshot or delta of an operator's partition.
struct PartitionSnapshotEntry {
  uint32_t partition_id = 0;
  bool is_delta = false;
  std::string path;  ///< key of its object
  uint64_t size_bytes = 0;
  std::optional<std::string> sha256;  ///< lower hex; written always, absent in older ones
  friend bool operator==(const PartitionSnapshotEntry&, const PartitionSnapshotEntry&) = default;
};

struct OperatorSnapshotEntry {
  std::vector<PartitionSnapshotEntry> partitions;  ///< by (partition_id, is_delta)
  uint64_t total_bytes = 0;
  friend bool operator==(const OperatorSnapshotEntry&, const OperatorSnapshotEntry&) = default;
};

struct SourceOffsetEntry {
  std::string source_type;
  std::map<std::string, std::string> offsets;
  uint64_t epoch = 0;
  friend bool operator==(const SourceOffsetEntry&, const SourceOffsetEntry&) = default;
};

struct CheckpointManifestV2 {
  std::string checkpoint_id;  ///< UUIDv7: ids sort by time
  uint64_t epoch = 0;
  uint64_t timestamp_ms = 0;
  std::map<std::string, OperatorSnapshotEntry> operators;
  std::map<std::string, SourceOffsetEntry> source_offsets;
  std::optional<std::string> parent_id;  ///< the checkpoint that its deltas build on
  std::optional<int64_t> watermark;
  uint64_t total_size_bytes = 0;
  friend bool operator==(const CheckpointManifestV2&, const CheckpointManifestV2&) = default;
};

/// Errors:   kInvalidArgument: an id that is no UUID, totals that are not those of the entries,
/// text
///           that is not UTF-8 · kResourceExhausted.
Result<std::string> SerializePartitionManifest(const CheckpointManifestV2& manifest);

/// Shape:    any layout of the JSON, and what earlier writers left out or wrote as null; unknown
///           fields are refused.
/// Errors:   kUnsupportedFormat · kCorruption.
Result<CheckpointManifestV2> ParsePartitionManifest(std::string_view bytes);

}  // namespace cairn::format
