// SPDX-License-Identifier: Apache-2.0
//
// Snapshot files: a directory of interchange snapshots, each with its sidecar.
//
//   checkpoint-<id>.snap          a canonical stream
//   checkpoint-<id>.snap.meta     its id, length and CRC-32C
//
// A snapshot counts as whole when its sidecar says so. The sidecar is written last and removed
// first, so a crash leaves at worst a snapshot that is `incomplete`, never one that is taken for
// whole.
//
// Threads: pure functions over files.
// Format:  docs/formats/canonical-stream.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "env/file_system.h"
#include "format/canonical_stream.h"

namespace cairn::checkpoint {

/// "checkpoint-7.snap"
std::string SnapshotName(uint64_t id);
/// Nothing for any other name.
std::optional<uint64_t> IdOfSnapshotName(std::string_view name);

/// Write snapshot `id`: the payload, then its sidecar, each under a temporary name, synced,
/// renamed, and the directory synced. An existing one is replaced.
///
/// Durable:  yes, with `sync`.
/// Errors:   what `write` or the file system returned; an older snapshot is then as it was.
Status WriteSnapshotFile(env::FileSystem* files, const std::string& directory, uint64_t id,
                         const std::function<Status(format::ByteSink*)>& write, bool sync = true);

/// Judge the snapshot at `path` by its sidecar; reads all of it, some KiB at a time.
///
/// Errors:   kUnavailable, when a file that is there cannot be read.
Result<format::SnapshotVerdict> JudgeSnapshotFile(env::FileSystem* files, const std::string& path);

/// Ids of the snapshots in a directory, newest first, whole or not.
///
/// Errors:   as FileSystem::ListDirectory.
Result<std::vector<uint64_t>> ListSnapshotFiles(env::FileSystem* files,
                                                const std::string& directory);

/// The newest valid snapshot, with an id of at most `ceiling`; nothing when there is none.
Result<std::optional<uint64_t>> LatestValidSnapshot(env::FileSystem* files,
                                                    const std::string& directory,
                                                    uint64_t ceiling = UINT64_MAX);

/// Remove snapshot `id` and nothing else: the sidecar first. One that is not there is success.
Status RemoveSnapshotFile(env::FileSystem* files, const std::string& directory, uint64_t id);

}  // namespace cairn::checkpoint
