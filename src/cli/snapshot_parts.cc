// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshot_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/snapshot_files.h"

namespace cairn::cli {

void SnapshotParts::Add(const std::string& input, const format::SnapshotPart& part) {
  auto& inputs = found_[{part.snapshot, part.count}];
  if (!inputs.emplace(part.number, input).second && twice_.empty()) {
    twice_ = fmt::format("'{}' and '{}' are both part {} of {} of one snapshot",
                         inputs[part.number], input, part.number, part.count);
  }
}

Status SnapshotParts::CheckWhole() const {
  if (!twice_.empty()) return Status::InvalidArgument(twice_ + ". Give each part once");
  for (const auto& [snapshot, inputs] : found_) {
    if (inputs.size() == snapshot.second) continue;
    std::string missing;
    for (uint32_t number = 1; number <= snapshot.second; ++number) {
      if (!inputs.contains(number))
        missing += (missing.empty() ? "" : ", ") + std::to_string(number);
    }
    return Status::InvalidArgument(fmt::format(
        "'{}' is part {} of {} of a snapshot that was split over subtasks: part {} is "
        "missing, and the state would be incomplete. Give all {} parts",
        inputs.begin()->second, inputs.begin()->first, snapshot.second, missing, snapshot.second));
  }
  return {};
}

Status RefusePart(const std::string& input, const std::optional<format::SnapshotPart>& part) {
  if (!part || part->count <= 1) return {};
  return Status::InvalidArgument(
      fmt::format("'{}' is part {} of {} of a snapshot that was split over subtasks, and no whole "
                  "state. Make a place of all {} parts with `cairn state import PART… --to PLACE`",
                  input, part->number, part->count, part->count));
}

Status RefuseUsedSplit(env::FileSystem* files, const std::string& directory) {
  const auto entries = files->ListDirectory(directory);
  if (entries.status().code() == StatusCode::kNotFound) return {};
  CAIRN_RETURN_IF_ERROR(entries.status());
  for (const env::DirectoryEntry& entry : *entries) {
    const bool number = std::all_of(entry.name.begin(), entry.name.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
    if (!number || !entry.is_directory) continue;
    const auto snapshots =
        backend::SnapshotFiles::ForReading(files, env::JoinPath(directory, entry.name), {});
    CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, snapshots.ListAll());
    if (ids.empty()) continue;
    return Status::InvalidArgument(
        fmt::format("'{}' holds parts of another export, such as '{}', and the new ones would lie "
                    "among them. Choose another directory",
                    directory, snapshots.PathOf(ids.back())));
  }
  return {};
}

}  // namespace cairn::cli
