// SPDX-License-Identifier: Apache-2.0
//
// What the protocol asks of an exactly-once sink.
//
//   Intend ── Begin ── rows ── Prepare ── (decision) ── Commit
//                │                │
//                └────────────────┴──────────────────── Rollback
//
// Every call but Intend acts on the outside world, may be the last of its process, and may be
// repeated by it or by another one: each must be idempotent for its (deployment, sink, participant,
// epoch).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "cairn/status.h"

namespace cairn::checkpoint::shared {

/// Whose transaction a call is about. A sink remembers the highest fencing token it has seen for a
/// participant and refuses calls with a lower one: they come from a former owner.
struct SinkEpoch {
  std::string deployment_id;
  uint64_t participant_id = 0;
  base::CheckpointId epoch;
  uint64_t fencing_token = 0;
};

/// What is durably known of a transaction that is to be undone.
struct SinkEvidence {
  std::optional<std::string> intent;
  std::optional<std::string> descriptor;  ///< set when it was prepared and a manifest says so
};

/// Write rows of one participant to the outside world, in two phases.
///
/// Threads:  the caller's.
/// Errors:   kFenced: a newer owner was here, or the epoch was rolled back · kUnavailable: the
///           outcome is unknown, the call is repeated.
class TwoPhaseSink {
 public:
  virtual ~TwoPhaseSink() = default;
  virtual const std::string& name() const = 0;

  /// Say what Begin is going to touch, without touching it. Durable before Begin is called.
  virtual Result<std::optional<std::string>> Intend(const SinkEpoch& epoch) = 0;
  virtual Status Begin(const SinkEpoch& epoch) = 0;
  /// Make the rows since the last *committed* epoch ready to be published: rows of epochs that were
  /// rolled back while this process lived are among them.
  virtual Result<std::optional<std::string>> Prepare(const SinkEpoch& epoch) = 0;
  /// Publish what was prepared. Published already is success.
  virtual Status Commit(const SinkEpoch& epoch, const std::optional<std::string>& descriptor) = 0;
  /// Undo the epoch, known or not, and refuse whatever is still to come of it. Must refuse to undo
  /// what was published.
  virtual Status Rollback(const SinkEpoch& epoch, const SinkEvidence& evidence) = 0;
};

}  // namespace cairn::checkpoint::shared
