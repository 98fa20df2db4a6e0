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

/// Whose files and transactions a sink's are.
struct SinkWriterId {
  std::string name;  ///< of one sink of one deployment: unique, and the same after a restart
  uint64_t run = 0;  ///< grows with every start of that deployment; 0 = it has one only
};

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

  /// At start, before any writer, when the run begins with checkpoint `id` of this deployment (0 =
  /// with none): commit its descriptors and remove what any later, undecided attempt left behind.
  ///
  /// Errors:   as Commit · kInvalidArgument when another deployment took this one's place over, or
  ///           rows of a newer checkpoint are published already: they would come again.
  virtual Status Recover(base::CheckpointId id, const std::vector<std::string>& committed) = 0;

  /// What of this sink belongs to the pipeline's identity: JSON text without credentials.
  virtual std::string Identity() const = 0;
};

/// A sink as another deployment had it, from whose checkpoint this run goes on.
class SavedSink {
 public:
  virtual ~SavedSink() = default;

  /// Whether this run may go on from that deployment's checkpoint `id`, and `committed` could be
  /// committed. Writes nothing.
  ///
  /// Errors:   kInvalidArgument when a third deployment took it over, or rows of a newer checkpoint
  ///           are published already: they would come again · as Sink::Commit.
  virtual Status Check(base::CheckpointId id, const std::vector<std::string>& committed) const = 0;

  /// Check, and commit the descriptors of the checkpoint, as that deployment would have itself.
  /// Idempotent.
  ///
  /// Errors:   as Check and Sink::Commit.
  virtual Status Recover(base::CheckpointId id, const std::vector<std::string>& committed) = 0;

  /// From now on that deployment publishes nothing more here, nor does a third one that goes on
  /// from it. Called before this run commits anything of its own. Idempotent. Where nothing is left
  /// of that sink, nothing is made.
  ///
  /// Durable:  yes, on return.
  virtual Status TakeOver() = 0;
};

}  // namespace cairn::stream
