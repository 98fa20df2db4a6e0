// SPDX-License-Identifier: Apache-2.0
//
// OutputDirectory: what one writer id has in the directory of a filesystem sink. Staged files are
// hidden, published ones are seen by readers, and a note says who goes on from its checkpoints.
//
// ".staged-<writer id>-<run>-<nonce>-<subtask>-<n>"
//                                                 rows that no checkpoint has decided; run and
//                                                 nonce are 16 hex digits
// "part-<checkpoint>-<subtask>-<writer id>.<ext>" published rows
// ".owner-<writer id>"                             holds the run that publishes; an earlier one
// that
//                                                 still runs publishes nothing more
// "_taken-over-<writer id>"                       holds the writer id that goes on from this one's
//                                                 checkpoints; this one publishes nothing more
//
// Threads: any; files of the same name are the caller's to keep apart.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "env/file_system.h"
#include "stream/sink.h"

namespace cairn::connectors {

/// A staged file and the name under which a checkpoint publishes it. Both are names in the
/// directory, which may move.
struct PreparedFile {
  std::string staged;
  std::string final;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

/// The descriptor of a sink: {"staged": name, "final": name, "rows": n, "bytes": n}.
std::string ToJson(const PreparedFile& file);

class OutputDirectory {
 public:
  OutputDirectory(std::string path, const stream::SinkWriterId& writer, env::FileSystem* files);

  env::FileSystem* files() const { return files_; }
  std::string PathOf(const std::string& name) const { return env::JoinPath(path_, name); }

  /// A staged name of this object alone: one of an earlier run must not have the name of one of
  /// this run, or recovery takes it for the rows of a committed checkpoint.
  std::string StagedName(uint32_t subtask, uint64_t number) const;
  std::string FinalName(base::CheckpointId id, uint32_t subtask, std::string_view extension) const;

  /// Make the directory and its parents, if it is not there.
  ///
  /// Errors:   kInvalidArgument when the path is a file.
  Status Make();

  /// A number that grows with every sync; to be passed to EnsureNameDurable.
  uint64_t Now();
  /// Sync the directory unless a good sync started after `made`: the commit of the checkpoint
  /// before mostly was one.
  Status EnsureNameDurable(uint64_t made);

  /// Give the files of descriptors their final names. Idempotent.
  ///
  /// Durable:  yes, on return.
  /// Errors:   kCorruption: a file is gone or has another length · kAlreadyExists: another file has
  ///           its final name.
  Status Publish(const std::vector<std::string>& descriptors);

  /// Make this run the one that publishes: of two, the one that says so later. Needs the directory.
  /// Nothing for a deployment of one run.
  Status Own();
  /// Refuse when another run owns the directory: one of a copy of the place, or of one that was
  /// made from it, which goes on from the same checkpoint and publishes the same rows.
  ///
  /// Errors:   kFenced.
  Status CheckOwned() const;

  /// Whether Publish would find every file. Writes nothing.
  ///
  /// Errors:   as Publish.
  Status CheckIsWhole(const std::vector<std::string>& descriptors) const;

  /// Remove what earlier runs of this writer id have staged. What later ones have stays: a process
  /// that was paused and succeeded takes nothing from its successor.
  Status RemoveStaged();

  /// Refuse when a checkpoint newer than `id` has published here: where the checkpoints lie cannot
  /// say it after a copy of an older one, a head that was rebuilt without the newest, or a copy
  /// that was cut short; the files can.
  ///
  /// Errors:   kInvalidArgument.
  Status CheckNothingIsNewerThan(base::CheckpointId id) const;

  /// Refuse when another than the writer id `successor` goes on from this one's checkpoints.
  ///
  /// Errors:   kInvalidArgument.
  Status CheckNotTakenOver(const std::string& successor = "") const;

  /// Note that writer id `successor` goes on from this one's checkpoints; the first one to do so is
  /// the only one. Idempotent; nothing when the directory is not there.
  ///
  /// Durable:  yes, on return.
  /// Errors:   as CheckNotTakenOver.
  Status TakeOver(const std::string& successor);

 private:
  std::string StagedPrefix() const { return ".staged-" + writer_ + "-"; }
  std::string OwnerPath() const { return PathOf(".owner-" + writer_); }
  std::string NotePath() const { return PathOf("_taken-over-" + writer_); }
  /// What lies in the directory; nothing when it is not made yet.
  Result<std::vector<env::DirectoryEntry>> Entries() const;
  Status Sync();
  enum class Found : uint8_t { kStaged, kPublished, kBoth };
  /// Where the bytes of a file are.
  Result<Found> Find(const PreparedFile& file) const;
  Status PublishOne(const PreparedFile& file);
  Result<bool> SameBytes(const std::string& a, const std::string& b) const;

  const std::string path_;
  const std::string writer_;  ///< the writer id as part of a file's name
  const bool is_only_run_;
  const std::string run_;  ///< sorts as the runs do
  const std::string nonce_;
  env::FileSystem* const files_;

  /// Counts the starts of directory syncs that ended well: a file made before one started has a
  /// durable name.
  std::mutex mutex_;
  uint64_t syncs_started_ = 0;
  uint64_t last_good_sync_ = 0;
};

}  // namespace cairn::connectors
