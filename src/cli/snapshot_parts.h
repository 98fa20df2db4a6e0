// SPDX-License-Identifier: Apache-2.0
//
// Parts of split snapshots: `state export --split` writes one for each subtask. A part alone is no
// state: an import takes all of them together, and whatever reads one snapshot refuses it.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cairn/status.h"
#include "env/file_system.h"
#include "format/canonical_stream.h"

namespace cairn::cli {

/// The parts among the inputs of an import.
class SnapshotParts {
 public:
  void Add(const std::string& input, const format::SnapshotPart& part);
  /// Errors:   kInvalidArgument: a snapshot of which not every part was given, exactly once.
  Status CheckWhole() const;

 private:
  /// Inputs by number, of (snapshot, count).
  std::map<std::pair<std::string, uint32_t>, std::map<uint32_t, std::string>> found_;
  std::string twice_;
};

/// Refuse `input` where a whole snapshot is needed.
///
/// Errors:   kInvalidArgument: it is a part.
Status RefusePart(const std::string& input, const std::optional<format::SnapshotPart>& part);

/// Refuse a directory for a split export that holds a part already: two exports of different
/// numbers of parts would be taken for one.
///
/// Errors:   kInvalidArgument, naming the part · those of the file system.
Status RefuseUsedSplit(env::FileSystem* files, const std::string& directory);

}  // namespace cairn::cli
