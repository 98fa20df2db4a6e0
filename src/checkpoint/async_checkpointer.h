// SPDX-License-Identifier: Apache-2.0
//
// AsyncCheckpointer: the calls of ObjectStoreCheckpointer as coroutines, for a runner that must not
// wait for a bucket. Each makes the blocking call on an I/O thread and comes back on the runner's.
//
//   Result<format::CheckpointManifestV2> manifest = co_await checkpointer.LoadManifest(id);
//
// Threads:  tasks belong to the runner; what a call needs, it owns, so the caller's may go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/async_io.h"
#include "cairn/async_task.h"
#include "cairn/status.h"
#include "checkpoint/object_store_checkpointer.h"
#include "format/partition_manifest.h"

namespace cairn::checkpoint {

/// A PartitionSnapshot with bytes of its own.
struct OwnedPartitionSnapshot {
  std::string op;
  uint32_t partition = 0;
  bool is_delta = false;
  std::string data;
};

class AsyncCheckpointer {
 public:
  using Entries = std::vector<std::pair<std::string, format::PartitionSnapshotEntry>>;

  /// `calls` and `io` outlive it and its tasks. Without a scheduler a call is made where it is
  /// awaited.
  AsyncCheckpointer(ObjectStoreCheckpointer* calls, IoExecutor* io,
                    std::shared_ptr<ResumeScheduler> scheduler)
      : calls_(calls), io_(io), scheduler_(std::move(scheduler)) {}

  // Shape, Errors: as the calls of ObjectStoreCheckpointer; also kCancelled at shutdown.

  AsyncTask<Result<Entries>> SavePartitionsConcurrent(
      std::string id, std::vector<OwnedPartitionSnapshot> snapshots) const {
    return Run<Result<Entries>>([calls = calls_, id = std::move(id), owned = std::move(snapshots)] {
      std::vector<PartitionSnapshot> borrowed;
      for (const OwnedPartitionSnapshot& one : owned) {
        borrowed.push_back({one.op, one.partition, one.is_delta, one.data});
      }
      return calls->SavePartitionsConcurrent(id, borrowed);
    });
  }
  AsyncTask<Result<std::string>> SaveSnapshot(std::string id, std::string op, uint32_t partition,
                                              std::string data) const {
    return Run<Result<std::string>>(
        [calls = calls_, id = std::move(id), op = std::move(op), partition,
         data = std::move(data)] { return calls->SaveSnapshot(id, op, partition, data); });
  }
  AsyncTask<Result<std::string>> SaveDelta(std::string id, std::string op, uint32_t partition,
                                           std::string data) const {
    return Run<Result<std::string>>(
        [calls = calls_, id = std::move(id), op = std::move(op), partition,
         data = std::move(data)] { return calls->SaveDelta(id, op, partition, data); });
  }
  AsyncTask<Status> SaveManifest(format::CheckpointManifestV2 manifest) const {
    return Run<Status>(
        [calls = calls_, manifest = std::move(manifest)] { return calls->SaveManifest(manifest); });
  }
  AsyncTask<Result<format::CheckpointManifestV2>> LoadManifest(std::string id) const {
    return Run<Result<format::CheckpointManifestV2>>(
        [calls = calls_, id = std::move(id)] { return calls->LoadManifest(id); });
  }
  AsyncTask<Result<std::string>> LoadArtifact(std::string path) const {
    return Run<Result<std::string>>(
        [calls = calls_, path = std::move(path)] { return calls->LoadArtifact(path); });
  }
  AsyncTask<Result<std::string>> LoadVerified(format::PartitionSnapshotEntry entry) const {
    return Run<Result<std::string>>(
        [calls = calls_, entry = std::move(entry)] { return calls->LoadVerified(entry); });
  }
  AsyncTask<Status> UpdateLatest(std::string id) const {
    return Run<Status>([calls = calls_, id = std::move(id)] { return calls->UpdateLatest(id); });
  }
  AsyncTask<Result<std::optional<std::string>>> ReadLatest() const {
    return Run<Result<std::optional<std::string>>>(
        [calls = calls_] { return calls->ReadLatest(); });
  }
  AsyncTask<Result<std::vector<std::string>>> ListCheckpoints() const {
    return Run<Result<std::vector<std::string>>>(
        [calls = calls_] { return calls->ListCheckpoints(); });
  }
  AsyncTask<Status> DeleteCheckpoint(std::string id) const {
    return Run<Status>(
        [calls = calls_, id = std::move(id)] { return calls->DeleteCheckpoint(id); });
  }

 private:
  template <class Outcome, class Call>
  AsyncTask<Outcome> Run(Call call) const {
    return Await<Outcome>(io_, scheduler_, std::move(call));
  }
  template <class Outcome, class Call>
  static AsyncTask<Outcome> Await(IoExecutor* io, std::shared_ptr<ResumeScheduler> scheduler,
                                  Call call) {
    IoRead read(io, std::move(scheduler), kNoDeadline, std::move(call));
    co_return co_await read;
  }

  ObjectStoreCheckpointer* calls_;
  IoExecutor* io_;
  std::shared_ptr<ResumeScheduler> scheduler_;
};

}  // namespace cairn::checkpoint
