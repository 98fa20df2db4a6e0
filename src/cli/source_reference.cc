// SPDX-License-Identifier: Apache-2.0
#include "cli/source_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "backend/snapshot_files.h"
#include "checkpoint/layout.h"
#include "env/object_place.h"

namespace cairn::cli {
namespace {

Result<std::string_view> StripScheme(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos) return text;
  const std::string_view scheme = text.substr(0, colon);
  if (scheme == "file") {
    const std::string_view path = text.substr(colon + 3);
    if (path.empty() || path.front() == '/') return path;
    return Status::InvalidArgument(fmt::format(
        "'{}' names a host. Write file:///absolute/path, or a relative directory without file://",
        text));
  }
  return Status::InvalidArgument(
      fmt::format("'{}' has the unknown scheme '{}'. Name a directory, file://DIR, "
                  "s3://BUCKET/PREFIX or a snapshot "
                  "file",
                  text, scheme));
}

/// A directory of snapshot files that is no place: its newest valid snapshot, or the one with the
/// id asked for. Nothing when it holds none.
Result<std::optional<std::string>> SnapshotIn(env::FileSystem* files, const std::string& directory,
                                              std::optional<base::CheckpointId> id) {
  if (files->Stat(env::JoinPath(directory, checkpoint::kFormatKey)).ok()) {
    return std::optional<std::string>();
  }
  const auto place = backend::SnapshotFiles::ForReading(files, directory, {});
  CAIRN_ASSIGN_OR_RETURN(const auto ids, place.ListAll());
  if (ids.empty()) return std::optional<std::string>();
  CAIRN_ASSIGN_OR_RETURN(const auto latest, place.LatestValid(id ? id->value : UINT64_MAX));
  const uint64_t wanted = id ? id->value : ids.back();
  if (latest && (!id || *latest == wanted)) return std::optional(place.PathOf(*latest));
  const std::string path = place.PathOf(wanted);
  CAIRN_ASSIGN_OR_RETURN(const auto verdict, backend::JudgeSnapshotFile(files, path));
  const std::string message =
      fmt::format("'{}' is {}; {}", path, format::SnapshotVerdictName(verdict),
                  latest ? fmt::format("the newest older valid snapshot is {}", *latest)
                         : std::string("there is no older valid snapshot"));
  return verdict == format::SnapshotVerdict::kMissing ? Status::NotFound(message)
                                                      : Status::Corruption(message);
}

/// Refuse a directory in which no record of a place is, not even a damaged place's.
Status RefuseOtherDirectory(env::FileSystem* files, const std::string& directory) {
  for (const std::string_view name : {checkpoint::kFormatKey, std::string_view("control"),
                                      std::string_view("deployment"), std::string_view("nodes")}) {
    if (files->Stat(env::JoinPath(directory, std::string(name))).ok()) return {};
  }
  return Status::InvalidArgument(fmt::format(
      "'{}' is not a checkpoint: the directory holds neither a place of checkpoints nor "
      "snapshots. `cairn run` makes a place where --checkpoints says, else at "
      "./<job>.cairn",
      directory));
}

/// s3://BUCKET/PREFIX@ID?…, or with @ID at the very end. Whether it is there shows when it is
/// opened.
Result<SourceReference> ResolveBucket(std::string_view text) {
  SourceReference source;
  source.path = text;
  const size_t question = std::min(text.find('?'), text.size());
  for (const size_t end : {text.size(), question}) {
    const size_t at = text.substr(0, end).rfind('@');
    if (at == std::string_view::npos) continue;
    uint64_t id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at + 1, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end || id == 0) continue;
    source.path = std::string(text.substr(0, at)) + std::string(text.substr(end));
    source.id = base::CheckpointId(id);
    break;
  }
  return source;
}

}  // namespace

Result<SourceReference> ResolveSource(env::FileSystem* files, std::string_view text) {
  if (env::IsBucket(text)) return ResolveBucket(text);
  CAIRN_ASSIGN_OR_RETURN(const std::string_view path, StripScheme(text));
  SourceReference source;
  source.path = path;
  if (source.path.empty()) return Status::InvalidArgument("SOURCE is empty. Name a directory");

  // A name with '@' in it that exists is that name.
  Result<env::FileInfo> info = files->Stat(source.path);
  const size_t at = path.rfind('@');
  if (!info.ok() && info.status().code() == StatusCode::kNotFound && at != std::string_view::npos) {
    const std::string_view digits = path.substr(at + 1);
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (error != std::errc() || end != digits.data() + digits.size() || id == 0) {
      return Status::InvalidArgument(
          fmt::format("'{}' is no checkpoint id in '{}'. Write PLACE@ID with a number from `cairn "
                      "checkpoint ls`",
                      digits, text));
    }
    source.path = path.substr(0, at);
    source.id = base::CheckpointId(id);
    info = files->Stat(source.path);
  }
  if (!info.ok()) {
    if (info.status().code() != StatusCode::kNotFound) return std::move(info).status();
    return Status::NotFound(fmt::format("there is no file or directory '{}'", source.path));
  }
  source.is_file = !info->is_directory;
  if (!source.is_file) {
    CAIRN_ASSIGN_OR_RETURN(auto snapshot, SnapshotIn(files, source.path, source.id));
    if (!snapshot) {
      CAIRN_RETURN_IF_ERROR(RefuseOtherDirectory(files, source.path));
      return source;
    }
    source.path = *std::move(snapshot);
    source.id.reset();
    source.is_file = true;
  }
  if (source.is_file && source.id) {
    return Status::InvalidArgument(
        fmt::format("'{}' is a file and has no checkpoint {}. Leave out '@{}'", source.path,
                    source.id->value, source.id->value));
  }
  return source;
}

}  // namespace cairn::cli
