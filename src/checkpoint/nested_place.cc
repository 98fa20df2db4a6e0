// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/nested_place.h"

#include "checkpoint/layout.h"
#include "env/object_place.h"
#include "format/store_records.h"

namespace cairn::checkpoint {
namespace {

/// Many programs have a file FORMAT: only one that Cairn can read makes a place.
bool IsPlace(env::FileSystem* files, const std::string& directory) {
  const Result<std::string> bytes =
      env::ReadWholeFile(files, env::JoinPath(directory, kFormatKey), format::kSmallRecordBytesMax);
  return bytes.ok() && format::ParseStoreFormat(*bytes).ok();
}

/// "/a" of "/a/b", "/" of "/a", nothing of "/".
std::optional<std::string> Above(const std::string& canonical) {
  const size_t slash = canonical.rfind('/');
  if (slash == std::string::npos || canonical.size() <= 1) return std::nullopt;
  return slash == 0 ? "/" : canonical.substr(0, slash);
}

}  // namespace

std::optional<std::string> PlaceAround(env::FileSystem* files, const std::string& path) {
  if (path.empty() || env::IsBucket(path)) return std::nullopt;
  for (std::optional<std::string> at = files->CanonicalPath(path); at; at = Above(*at)) {
    if (IsPlace(files, *at)) return at;
  }
  return std::nullopt;
}

Status RefuseNestedPlace(env::FileSystem* files, const std::string& directory) {
  if (directory.empty() || env::IsBucket(directory) || IsPlace(files, directory)) return {};
  if (const auto above = Above(files->CanonicalPath(directory))) {
    if (const auto outer = PlaceAround(files, *above)) {
      return Status::InvalidArgument("the place " + directory + " would lie in the place " +
                                     *outer +
                                     ", which holds nothing but its own checkpoints; choose a "
                                     "directory beside it");
    }
  }
  const auto entries = files->ListDirectory(directory);
  if (!entries.ok()) return {};  // it is not there yet
  for (const env::DirectoryEntry& entry : *entries) {
    const std::string inner = env::JoinPath(directory, entry.name);
    if (!entry.is_directory || !IsPlace(files, inner)) continue;
    return Status::InvalidArgument("the directory " + directory + " holds the place " + inner +
                                   " and cannot be a place itself; choose another directory");
  }
  return {};
}

}  // namespace cairn::checkpoint
