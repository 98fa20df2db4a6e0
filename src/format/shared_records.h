// SPDX-License-Identifier: Apache-2.0
//
// The records by which several participants agree on a cut: who gives out ids (allocator), who
// leads and which process lives (lease chain), what is decided (decision head), what is being
// deleted (retention head) and which sinks may hold open transactions (sink witness). What one
// participant and one cut consist of is in participant_records.h.
//
// All are canonical JSON with an exact version: unknown fields, another version and bytes that
// differ from their canonical re-encoding are refused.
//
// Threads: value types and pure functions.
// Format:  docs/formats/shared-records.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "cairn/status.h"
#include "format/assignment.h"

namespace cairn::format {

inline constexpr uint32_t kSharedRecordVersion = 1;  ///< of every record in this file
inline constexpr uint64_t kSharedHeadBytesMax = uint64_t{128} << 10;
inline constexpr uint64_t kRetentionHeadBytesMax = uint64_t{64} << 10;
inline constexpr uint64_t kSinkWitnessBytesMax = uint64_t{64} << 10;
inline constexpr uint64_t kLeaseRecordBytesMax = uint64_t{64} << 10;
inline constexpr uint64_t kLeaseHeadBytesMax = 128;
inline constexpr uint64_t kAllocatorBytesMax = uint64_t{1} << 10;
inline constexpr uint32_t kActiveAttemptsMax = 4;
inline constexpr uint32_t kSharedRetainedMax = 16;
inline constexpr uint32_t kSharedPinsMax = 128;
inline constexpr uint32_t kWitnessSinksMax = 1024;

/// control/allocator.json: the next checkpoint id. Changed by compare-and-swap.
struct IdAllocator {
  base::CheckpointId next_id{1};
  std::string last_allocation_id;  ///< UUID of whoever took next_id - 1; empty before the first
  friend bool operator==(const IdAllocator&, const IdAllocator&) = default;
};
Result<std::string> SerializeIdAllocator(const IdAllocator& allocator);
Result<IdAllocator> ParseIdAllocator(std::string_view bytes);

/// control/…/v<seq:016>.json: one link of a lease's chain. Created once, never changed.
struct LeaseLink {
  std::string kind = "lease";  ///< lease | fence (its owner declared the one before dead)
  LeaderProof proof;           ///< the owner; fencing_token = seq of this link
  uint64_t ttl_ms = 0;
  friend bool operator==(const LeaseLink&, const LeaseLink&) = default;
};
Result<std::string> SerializeLeaseLink(const LeaseLink& link);
Result<LeaseLink> ParseLeaseLink(std::string_view bytes);

/// control/…-head.json: which link counts. Changed by compare-and-swap; a holder that does not
/// change it for its time to live is gone, by the clock of whoever watches.
struct LeaseHead {
  uint64_t seq = 0;
  uint64_t renewals = 0;  ///< of this link
  bool released = false;  ///< given back: the next one need not wait
  friend bool operator==(const LeaseHead&, const LeaseHead&) = default;
};
Result<std::string> SerializeLeaseHead(const LeaseHead& head);
Result<LeaseHead> ParseLeaseHead(std::string_view bytes);

/// An attempt that was admitted and is not decided, or whose abort is not cleaned up.
struct ActiveAttempt {
  base::CheckpointId id;
  std::string attempt_id;          ///< UUID
  base::CheckpointId base_cut;     ///< the committed cut whose chunks it may name; 0 = none
  LeaderProof leader;              ///< who admitted it: nobody else may commit it
  AssignmentFence fence;           ///< its participants, and who owns what
  std::vector<std::string> sinks;  ///< ascending
  uint64_t admitted_ms = 0;
  bool aborted = false;  ///< decided: it stays until its artefacts are sealed and cleaned up
  friend bool operator==(const ActiveAttempt&, const ActiveAttempt&) = default;
};

/// An exact reference to a committed index.
struct IndexReference {
  base::CheckpointId id;
  base::Sha256Digest index_sha256{};
  uint64_t index_length = 0;
  base::Sha256Digest pipeline_sha256{};
  friend bool operator==(const IndexReference&, const IndexReference&) = default;
};

/// The last attempt that reached its end.
struct TerminalOutcome {
  base::CheckpointId id;
  bool committed = false;  ///< JSON "outcome": "commit" | "abort"
  friend bool operator==(const TerminalOutcome&, const TerminalOutcome&) = default;
};

/// Keep a cut from retention, for as long as it is renewed.
struct SharedPin {
  std::string kind;  ///< savepoint | handoff | export
  std::string name;
  std::string owner;  ///< boot UUID of the process that renews it
  base::CheckpointId checkpoint_id;
  uint64_t renew_seq = 0;
  uint64_t ttl_ms = 0;
  friend bool operator==(const SharedPin&, const SharedPin&) = default;
};

/// control/decision-head.json of several participants: the authority. Changed by compare-and-swap.
///
/// Shape:    active_attempts ascend and are newer than latest_commit; retained is newest first, all
///           older than latest_commit and not below floor; pins name latest or retained cuts and
///           ascend by (kind, name); base cuts of active attempts are latest or retained.
struct SharedHead {
  std::string deployment_id;
  uint64_t seq = 1;    ///< grows by one with every change
  LeaderProof leader;  ///< whose changes count: a leader writes itself here before anything else
  std::vector<ActiveAttempt> active_attempts;
  std::optional<TerminalOutcome> latest_terminal;
  std::optional<IndexReference> latest_commit;
  std::vector<IndexReference> retained;
  base::CheckpointId floor;  ///< nothing below may be chosen or built on; never falls
  std::vector<SharedPin> pins;
  friend bool operator==(const SharedHead&, const SharedHead&) = default;

  const ActiveAttempt* FindActive(base::CheckpointId id) const;
  /// Latest or retained; null when the head does not name it.
  const IndexReference* FindCut(base::CheckpointId id) const;
  std::vector<IndexReference> Cuts() const;  ///< latest, then retained
};

/// Check the shape above.
///
/// Errors:   kCorruption, naming the field.
Status ValidateSharedHead(const SharedHead& head);
/// Errors:   kInternal for a head that breaks its shape · kResourceExhausted past the limit.
Result<std::string> SerializeSharedHead(const SharedHead& head);
Result<SharedHead> ParseSharedHead(std::string_view bytes);

/// control/retention-head.json: how far the deletion of one cut has come. Compare-and-swap.
struct RetentionHead {
  enum class Phase : uint8_t { kIdle, kDeleteData, kDeleteMetadata };
  std::string deployment_id;
  uint64_t seq = 1;
  Phase phase = Phase::kIdle;                   ///< JSON: idle | delete_data | delete_metadata
  std::optional<IndexReference> retired;        ///< set exactly when not idle
  std::optional<IndexReference> protected_cut;  ///< the latest cut, verified before; likewise
  friend bool operator==(const RetentionHead&, const RetentionHead&) = default;
};
Result<std::string> SerializeRetentionHead(const RetentionHead& head);
Result<RetentionHead> ParseRetentionHead(std::string_view bytes);

/// control/sink-open/node=<n>.json: the epoch for which sinks of a node may hold transactions.
/// Written before any of them begins one. Compare-and-swap.
struct SinkWitness {
  std::string deployment_id;
  uint64_t seq =
      1;  ///< grows by one with every change: a late swap never finds its condition again
  ProcessIdentity process;
  base::CheckpointId epoch;        ///< 0 = none is open
  std::string attempt_id;          ///< empty when none is open
  std::vector<std::string> sinks;  ///< ascending; empty when none is open
  friend bool operator==(const SinkWitness&, const SinkWitness&) = default;
};
Result<std::string> SerializeSinkWitness(const SinkWitness& witness);
Result<SinkWitness> ParseSinkWitness(std::string_view bytes);

/// savepoints/<name>/COMPLETE: written last, names the index of a savepoint.
Result<std::string> SerializeSavepointComplete(const IndexReference& cut);
Result<IndexReference> ParseSavepointComplete(std::string_view bytes);

}  // namespace cairn::format
