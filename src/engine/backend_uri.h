// SPDX-License-Identifier: Apache-2.0
//
// Backend URIs: where working state lives, and by default its checkpoints (docs/running.md).
#pragma once

#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::engine {

/// What a backend URI asks for. Every backend of this version keeps its tables in memory; they
/// differ in their default checkpoint place.
struct Backend {
  std::string scheme;     ///< "memory" or "file"
  std::string directory;  ///< of file: the default checkpoint place; else empty
};

/// Parse a backend URI: empty or memory:// · file://DIR · a bare path.
///
/// Errors:   kInvalidArgument: unknown scheme or parameter (lists the known ones), a scheme that is
///           known but not in this build (lists those that are), a missing directory.
Result<Backend> ParseBackendUri(std::string_view uri);

/// Parse the URI of a checkpoint place: file://DIR or a bare path. Return the directory.
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
