// SPDX-License-Identifier: Apache-2.0
//
// Sinks: where rows go, in two phases. Prepare makes everything written since the last barrier
// durable but invisible and describes it; after the checkpoint is decided, Commit makes it visible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "stream/batch.h"

namespace cairn::stream {

/// Write the rows of one sink subtask.
///
/// Threads:  its subtask's only.
class SinkWriter {
 public:
  virtual ~SinkWriter() = default;

  /// Take the selected rows of `batch`.
  virtual Status Write(const Batch& batch) = 0;

  /// Phase one at the barrier of checkpoint `id`: make what was written since the last one durable
  /// and invisible. Return its descriptor, or nothing when there were no rows.
  ///
  /// Durable:  yes, on return.
  virtual Result<std::optional<std::string>> Prepare(base::CheckpointId id) = 0;
};

/// One table to write: a factory of writers and the committer of what they prepared.
class Sink {
 public:
  virtual ~Sink() = default;

  /// True when Commit can be repeated and rows of an undecided checkpoint are never seen.
  virtual bool exactly_once() const = 0;

  /// Make the writer of one subtask. Called after Recover.
  virtual Result<std::unique_ptr<SinkWriter>> CreateWriter(uint32_t subtask) = 0;

  /// Make prepared rows visible, in order. Idempotent: a descriptor that is already committed is
  /// success.
  ///
  /// Durable:  yes, on return.
  /// Errors:   kCorruption when prepared rows are gone and were not committed.
  virtual Status Commit(const std::vector<std::string>& descriptors) = 0;

  /// At start, before any writer: commit the descriptors of the recovered checkpoint and remove
  /// what any later, undecided attempt of this job left behind.
  ///
  /// Errors:   as Commit · kInvalidArgument when another deployment took this one's place over, or
  ///           rows of a newer checkpoint are published already.
  virtual Status Recover(const std::vector<std::string>& committed) = 0;

  /// Go on from a checkpoint of another deployment, whose writer id of this sink is given: from
  /// Recover on, that deployment publishes nothing more here, nor does a third one that goes on
  /// from it. Called before Recover.
  virtual void TakeOverFrom(const std::string& writer_id) { (void)writer_id; }

  /// The checkpoint that this run begins with, by the ids of the deployment that made it; 0 = none.
  /// Recover then refuses when rows of a newer one are published here: they would come again.
  /// Called before Recover.
  virtual void BeginAt(base::CheckpointId id) { (void)id; }

  /// What of this sink belongs to the pipeline's identity: JSON text without credentials.
  virtual std::string Identity() const = 0;
};

}  // namespace cairn::stream
