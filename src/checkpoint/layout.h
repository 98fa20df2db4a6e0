// SPDX-License-Identifier: Apache-2.0
//
// Where things lie in a checkpoint place: the same keys in a directory and in a bucket.
//
//   FORMAT                                            what the place is; created once
//   LOCK                                              held by the writer (in a directory)
//   control/lease.json                                held by the writer (in a bucket)
//   deployment/identity.json                          whose it is; created once
//   deployment/pipeline.json                          hint: the pipeline in words, for messages
//   deployment/origin.txt                             PLACE@ID that --from named; of use until the
//                                                     first cut
//   control/decision-head.json                        which cuts count; compare-and-swap
//   control/latest.txt                                hint: the latest cut's directory
//   nodes/1/checkpoints/<id:020>/state.arrow          frames; none when nothing changed
//   nodes/1/checkpoints/<id:020>/manifest.json        written after it
//   view-log/<view>/<generation>/<partition>/<origin:020>/<first:020>-<end:020>-<sha256>.arrow
//                                                     a segment of a view log: written before the
//                                                     manifest of checkpoint <origin>
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "format/manifest.h"

namespace cairn::checkpoint {

inline constexpr std::string_view kFormatKey = "FORMAT";
inline constexpr std::string_view kLockName = "LOCK";
inline constexpr std::string_view kIdentityKey = "deployment/identity.json";
inline constexpr std::string_view kPipelineKey = "deployment/pipeline.json";
inline constexpr std::string_view kOriginKey = "deployment/origin.txt";
inline constexpr std::string_view kHeadKey = "control/decision-head.json";
inline constexpr std::string_view kLeaseKey = "control/lease.json";
inline constexpr std::string_view kLatestKey = "control/latest.txt";
inline constexpr std::string_view kNodesPrefix = "nodes/";
inline constexpr std::string_view kCheckpointsPrefix = "nodes/1/checkpoints/";
inline constexpr std::string_view kViewLogsPrefix = "view-log/";

/// "nodes/1/checkpoints/00000000000000000007"
std::string CheckpointDirectory(base::CheckpointId id);
std::string StateObjectKey(base::CheckpointId id);
std::string ManifestKey(base::CheckpointId id);

/// Read the id back from any key below kCheckpointsPrefix; nothing for a foreign name.
std::optional<base::CheckpointId> IdOfKey(std::string_view key);

/// Where a segment of `log` lies. Bytes of the view's name other than letters, digits, '_' and '-'
/// are written as %XX.
///
/// Shape:    names its origin, so that no attempt takes up an object that another one wrote and
///           that may be about to go.
std::string ViewLogSegmentKey(const format::ViewLog& log, const format::ViewLogSegment& segment);

/// What the name of a segment says.
struct ViewLogSegmentName {
  std::string view;
  std::string generation;
  uint32_t partition = 0;
  base::CheckpointId origin;
  uint64_t first = 0;
  uint64_t end = 0;
  std::string sha256;  ///< in hex
};
/// Read a key below kViewLogsPrefix; nothing for a name that ViewLogSegmentKey does not make.
std::optional<ViewLogSegmentName> ParseViewLogSegmentKey(std::string_view key);

}  // namespace cairn::checkpoint
