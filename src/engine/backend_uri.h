// SPDX-License-Identifier: Apache-2.0
//
// Backend URIs: where working state lives, and by default its checkpoints (docs/running.md).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::engine {

/// A backend URI taken apart and checked against the schemes there are.
struct BackendUri {
  std::string scheme;  ///< aliases resolved
  std::string path;
  std::map<std::string, std::string> parameters;
  std::string text;  ///< as given
};

/// Take SCHEME://PATH?NAME=VALUE&… apart; nothing = memory://, a bare path = file://.
///
/// Errors:   kInvalidArgument: unknown scheme or parameter, listing the known ones; a path that is
///           missing, or given where there is none.
Result<BackendUri> ParseUri(std::string_view uri);

/// Resolve an alias: "forst" is "rocksdb". Others stay.
std::string_view ResolveAlias(std::string_view scheme);

bool IsKnownScheme(std::string_view scheme);

/// "memory://, file://, …": all schemes with a meaning.
std::string KnownSchemes();

/// What a backend URI asks of a job. Every backend of this version keeps a job's tables in memory;
/// they differ in their default checkpoint place and in when a checkpoint writes a new base.
struct Backend {
  std::string scheme;      ///< such as "memory"
  std::string directory;   ///< of file and changelog+file: the default checkpoint place; else empty
  bool changelog = false;  ///< deltas follow a base until they pass max(64 KiB, half of it)
  std::string parameters;  ///< names of those given, for messages: they shape byte backends
};

/// Parse the backend URI of a job: empty or memory:// · memory+sharded:// · file://DIR · a bare
/// path · changelog:// · changelog+file://DIR · disagg-local://.
///
/// Errors:   as ParseUri · kInvalidArgument for a scheme that is known but not in this build (lists
///           those that are).
Result<Backend> ParseBackendUri(std::string_view uri);

/// Parse the URI of a checkpoint place: file://DIR, a bare path or s3://BUCKET/PREFIX. Return the
/// directory, or the s3:// URI as it is.
///
/// Errors:   as ParseBackendUri.
Result<std::string> ParsePlaceUri(std::string_view uri);

/// Where a job keeps its checkpoints. Empty = nowhere.
///
/// Shape:    `checkpoints` is a place, "none", or empty for the backend's own place, else
///           "./<job>.cairn".
/// Errors:   as ParsePlaceUri.
Result<std::string> CheckpointPlaceOf(const Backend& backend, std::string_view checkpoints,
                                      std::string_view job);

}  // namespace cairn::engine
