// SPDX-License-Identifier: Apache-2.0
//
// BackendRegistry: from a URI to a state backend. The schemes of this build are registered when it
// is made; an embedder adds its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/state_backend.h"
#include "cairn/status.h"
#include "engine/backend_uri.h"
#include "env/file_system.h"

namespace cairn::engine {

/// A checkpoint that a backend begins with: those of all subtasks that took part in it.
struct BackendRestore {
  std::string uri;  ///< where they lie; empty = the backend's own URI
  uint64_t checkpoint_id = 0;
  uint32_t parallelism = 1;  ///< of the job that wrote it
};

/// What a backend is built from.
struct BackendSpec {
  std::string uri;
  BackendOptions state;
  env::FileSystem* files = nullptr;  ///< null = the machine's
  bool fsync = true;
  std::optional<BackendRestore> restore;
};

using BackendBuilder = std::function<Result<std::unique_ptr<StateBackend>>(
    const BackendUri& uri, const BackendSpec& spec)>;

/// Threads:  Register before the first Build; Build from any.
class BackendRegistry {
 public:
  /// With memory, memory+sharded, file, changelog, changelog+file and disagg-local.
  BackendRegistry();

  /// Add a builder for a scheme with a meaning (KnownSchemes) that has none yet.
  ///
  /// Errors:   kAlreadyExists for a scheme that has a builder · kInvalidArgument for an unknown
  /// one.
  Status Register(std::string_view scheme, BackendBuilder builder);
  bool Has(std::string_view scheme) const;

  /// Build the backend of `spec`, and restore it when it says so.
  ///
  /// Shape:    backends with a directory use DIR/<subtask>. A restore reads the files of every
  ///           subtask of the checkpoint, keeps this subtask's key groups and all operator state,
  ///           and writes nothing where it reads.
  /// Errors:   as ParseUri · kInvalidArgument for a scheme without a builder · what opening and
  ///           restoring returned; a missing participant is kNotFound, never an empty start.
  Result<std::unique_ptr<StateBackend>> Build(const BackendSpec& spec) const;

 private:
  std::map<std::string, BackendBuilder, std::less<>> builders_;
};

}  // namespace cairn::engine
