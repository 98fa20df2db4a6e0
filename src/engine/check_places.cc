// SPDX-License-Identifier: Apache-2.0
#include "engine/check_places.h"

#include <optional>

#include "checkpoint/nested_place.h"

namespace cairn::engine {
namespace {

/// Where a table's files are; empty = it has none.
std::string PathOf(const stream::TableDefinition& table) {
  if (table.connector != "filesystem") return {};
  const auto found = table.options.find("path");
  return found == table.options.end() ? std::string() : found->second;
}

/// True when `path` is `directory` or lies within it; both canonical.
bool Within(const std::string& path, const std::string& directory) {
  if (!path.starts_with(directory)) return false;
  return path.size() == directory.size() || directory == "/" || path[directory.size()] == '/';
}

Status CheckAgainstPlace(const stream::TableDefinition& table, const std::string& place,
                         env::FileSystem* files) {
  const std::string path = PathOf(table);
  if (path.empty()) return {};
  if (place.empty() || !Within(files->CanonicalPath(path), files->CanonicalPath(place))) {
    const std::optional<std::string> other = checkpoint::PlaceAround(files, path);
    if (!other) return {};
    return Status::InvalidArgument("table " + table.name + ": the path " + path +
                                   " lies in the checkpoint place " + *other +
                                   " of another job; choose another directory");
  }
  return Status::InvalidArgument("table " + table.name + ": the path " + path +
                                 " lies in the checkpoint place " + place +
                                 ", which holds nothing but checkpoints; choose another directory");
}

Status CheckPair(const stream::TableDefinition& source, const stream::TableDefinition& sink,
                 env::FileSystem* files) {
  const std::string from = PathOf(source);
  const std::string to = PathOf(sink);
  if (from.empty() || to.empty()) return {};
  // One file is no directory that new files could appear in.
  const auto info = files->Stat(from);
  if (info.ok() && !info->is_directory) return {};
  const std::string read = files->CanonicalPath(from);
  const std::string written = files->CanonicalPath(to);
  if (!Within(read, written) && !Within(written, read)) return {};
  return Status::InvalidArgument(
      "table " + source.name + " reads " + from + " and table " + sink.name + " writes " + to +
      (read == written ? ", the same directory: the job would read its own output"
                       : ": one directory lies within the other") +
      ". Give each a directory of its own");
}

}  // namespace

Status CheckPlaces(const stream::LogicalPlan& plan, const std::string& place,
                   env::FileSystem* files) {
  CAIRN_RETURN_IF_ERROR(checkpoint::RefuseNestedPlace(files, place));
  for (const stream::Pipeline& pipeline : plan.pipelines) {
    CAIRN_RETURN_IF_ERROR(CheckAgainstPlace(pipeline.scan.table, place, files));
    CAIRN_RETURN_IF_ERROR(CheckAgainstPlace(pipeline.sink, place, files));
    // Also what another statement of the job writes.
    for (const stream::Pipeline& other : plan.pipelines) {
      CAIRN_RETURN_IF_ERROR(CheckPair(pipeline.scan.table, other.sink, files));
    }
  }
  return {};
}

}  // namespace cairn::engine
