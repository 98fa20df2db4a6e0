// SPDX-License-Identifier: Apache-2.0
//
// One participant: the process of a node. It owns its node's lease, saves its share of each attempt
// and publishes its sinks after the decision.
//
//   Participant participant(seams, place, options);
//   while (!participant.TryStart().ok()) …wait…;          the node's process lease
//   restored = participant.Recover(assignment);            state and offsets of the latest cut
//   loop { participant.Begin(attempt);                     1, 2
//          …rows up to the barrier…
//          participant.Capture(share);                     3, 4
//          participant.Persist();                          5, 6, 7: durable, then acknowledge
//          participant.Settle() until it is not kPending;  10, 11
//          participant.Renew(); }
//
// Invariants
//  1. Intents and witness are durable before a sink begins.
//  2. Nothing is acknowledged before Persist returned.
//  3. What changed stays dirty until an attempt that wrote it commits: an abort loses no change.
//  4. A sink publishes only after the decision was read from the head.
//
// Threads: one at a time. Every call may be repeated after kUnavailable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/shared/cluster_cut.h"
#include "checkpoint/shared/decision.h"
#include "checkpoint/shared/lease_chain.h"
#include "checkpoint/shared/share.h"
#include "checkpoint/shared/sink_cleanup.h"

namespace cairn::checkpoint::shared {

struct ParticipantOptions {
  format::ProcessIdentity self;
  format::PipelineIdentity pipeline_identity;
  uint64_t lease_ttl_ms = 10'000;
  std::vector<std::string> source_names;  ///< ascending
  std::vector<TwoPhaseSink*> sinks;       ///< this node's own; may be empty
  /// Write everything when a share would refer to this many older objects.
  uint32_t rebase_chunks = 64;
};

/// What became of an attempt.
enum class Outcome : uint8_t { kPending, kCommitted, kAborted };

class Participant {
 public:
  Participant(const Seams& seams, SharedPlace place, ParticipantOptions options);

  /// Take the node's process lease. Call again until it succeeds.
  ///
  /// Errors:   kFenced: another process is this node · kUnavailable.
  Status TryStart();
  /// Errors:   kFenced: another process is this node now: stop.
  Status Renew();
  Status Stop();  ///< give the lease back

  /// Restore this node's groups of the latest cut (nothing when there is none), settle its sinks,
  /// and go on from there. Has to be called at the start, after a change of the assignment, and
  /// after an attempt that another process of this node took part in.
  ///
  /// Errors:   kUnavailable: also while an attempt is undecided, whose outcome would change what is
  ///           restored; ask again · kCorruption: anything of the cut is missing or damaged ·
  ///           kInvalidArgument: a cut of another pipeline.
  Result<RestoredShare> Recover(const Assignment& assignment);

  /// Take over state that was not restored from this place (a savepoint's, an import's): the next
  /// share writes all of it and refers to nothing older.
  void AdoptForeignState();

  /// Steps 1 and 2. Intents, witness, and every sink begins.
  ///
  /// Errors:   kFenced: built on another cut or assignment than this participant stands on: Recover
  ///           · kCancelled: aborted already · what a sink returned, after all were rolled back.
  Status Begin(const format::ActiveAttempt& attempt);

  /// Steps 3 and 4. Take the share, and every sink prepares.
  ///
  /// Errors:   what a sink returned; the first, after every sink of the attempt was rolled back.
  Status Capture(CapturedShare share);

  /// Steps 5 to 7. Encode, create the object, then the manifest.
  ///
  /// Durable:  when it returns OK. Not decided.
  /// Errors:   kCancelled: the attempt was aborted · kFenced: another process writes as this node ·
  ///           kUnavailable: unknown; call again.
  Status Persist();

  /// Steps 10 and 11. Look for the decision; publish or roll back accordingly.
  ///
  /// Errors:   kUnavailable: call again · kFenced: the attempt cannot be found: Recover.
  Result<Outcome> Settle();

  const format::ActiveAttempt* attempt() const { return attempt_ ? &*attempt_ : nullptr; }
  /// Groups that the next share writes.
  const std::set<uint16_t>& dirty() const { return dirty_; }
  base::CheckpointId base_cut() const;
  const format::LeaderProof& proof() const { return lease_.proof(); }

 private:
  Status CheckMay(const format::ActiveAttempt& attempt) const;
  SinkEpoch EpochOf(base::CheckpointId id, uint64_t token) const;
  TwoPhaseSink* FindSink(std::string_view name) const;
  SinkLookup OwnSinks() const;
  Status WriteIntents();
  Status OpenWitness(base::CheckpointId epoch, const std::string& attempt_id);
  Status ClearWitness();
  Result<Seen<format::SinkWitness>> ReadWitness() const;
  Status WriteWitness(const Seen<format::SinkWitness>& seen, base::CheckpointId epoch,
                      const std::string& attempt_id, std::vector<std::string> sinks);
  Result<bool> CleanUpSeal(base::CheckpointId epoch, uint64_t fencing_token);
  Status SettleFormerSinks(const format::SharedHead& head);
  Status UndoSinks(const Status& cause);
  Status CheckBegun() const;
  Result<Outcome> OutcomeOf(const format::SharedHead& head) const;
  Status PublishOwn(uint64_t fencing_token);
  void MarkOwnedDirty();

  const Seams seams_;
  const SharedPlace place_;
  const ParticipantOptions options_;
  LeaseChain lease_;

  std::optional<Assignment> assignment_;
  std::vector<KeyGroupRange> owned_;
  std::optional<base::CheckpointId> base_cut_;  // set by Recover; 0 = none
  ManifestPtr base_;                            // this node's manifest of the base cut; may be null
  std::set<uint16_t> dirty_;

  // The attempt in progress.
  enum class Stage : uint8_t { kNone, kBegun, kCaptured, kPersisted };
  Stage stage_ = Stage::kNone;
  std::optional<format::ActiveAttempt> attempt_;
  std::vector<PreparedSink> prepared_;
  std::optional<CapturedShare> share_;
  std::optional<EncodedShare> encoded_;
};

}  // namespace cairn::checkpoint::shared
