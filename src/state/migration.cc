// SPDX-License-Identifier: Apache-2.0
#include "cairn/migration.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace cairn {
inline namespace v0 {

Status MigrationRegistry::Register(std::string codec, uint32_t from, uint32_t to,
                                   MigrationStep step) {
  const std::string what = "migration of " + codec + " from version " + std::to_string(from) +
                           " to " + std::to_string(to);
  if (codec.empty()) return Status::InvalidArgument(what + ": name the codec");
  if (!step) return Status::InvalidArgument(what + " has no function");
  if (from == 0 || to == 0) return Status::InvalidArgument(what + ": versions count from 1");
  if (from == to) return Status::InvalidArgument(what + ": the versions are the same");
  if (!steps_[std::move(codec)][from].try_emplace(to, std::move(step)).second) {
    return Status::InvalidArgument(what + " is registered already");
  }
  return {};
}

Result<std::vector<const MigrationStep*>> MigrationRegistry::FindPath(std::string_view codec,
                                                                      uint32_t from,
                                                                      uint32_t to) const {
  std::vector<const MigrationStep*> path;
  if (from == to) return path;
  const auto of_codec = steps_.find(codec);
  std::map<uint32_t, uint32_t> came_from{{from, from}};
  std::deque<uint32_t> frontier{from};
  while (of_codec != steps_.end() && !frontier.empty() && !came_from.contains(to)) {
    const uint32_t at = frontier.front();
    frontier.pop_front();
    const auto leaving = of_codec->second.find(at);
    if (leaving == of_codec->second.end()) continue;
    for (const auto& [next, step] : leaving->second) {
      if (came_from.try_emplace(next, at).second) frontier.push_back(next);
    }
  }
  if (!came_from.contains(to)) {
    return Status::NotFound("no migration of " + std::string(codec) + " leads from version " +
                            std::to_string(from) + " to version " + std::to_string(to));
  }
  for (uint32_t at = to; at != from; at = came_from.at(at)) {
    path.push_back(&of_codec->second.at(came_from.at(at)).at(at));
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace v0
}  // namespace cairn
