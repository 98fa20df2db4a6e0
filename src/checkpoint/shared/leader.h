// SPDX-License-Identifier: Apache-2.0
//
// The leader of several participants: admits an attempt, waits for every participant's manifest,
// decides, or aborts and cleans up.
//
//   Leader leader(seams, place, options);
//   while (!leader.TryLead().ok()) …wait…;      the lease, then the head
//   leader.Resolve();                           what former leaders left
//   loop { attempt = leader.Admit(assignment, sinks);       step 0
//          …participants work…;  missing = leader.Collect();
//          leader.Decide()  or  leader.Abort(attempt.id);   8, 9
//          leader.Retire(); leader.Sweep(); leader.Renew(); }   12
//
// Invariants
//  1. Only the leader whose fencing token admitted an attempt may commit it; any later one may only
//     abort it.
//  2. An abort begins with a swap of the head. Only when it is durable is anything sealed, rolled
//     back or deleted: a commit in doubt can therefore never be half undone.
//  3. An attempt leaves the head only when its artefacts are sealed and its sinks rolled back.
//
// Threads: one at a time. Every call may be repeated after an error; none goes back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/shared/cluster_cut.h"
#include "checkpoint/shared/decision.h"
#include "checkpoint/shared/lease_chain.h"
#include "checkpoint/shared/retire.h"
#include "checkpoint/shared/share.h"
#include "checkpoint/shared/sink_cleanup.h"

namespace cairn::checkpoint::shared {

struct LeaderOptions {
  format::ProcessIdentity self;
  format::PipelineIdentity pipeline_identity;
  uint64_t lease_ttl_ms = 10'000;
  /// Committed cuts kept, 1..16.
  uint32_t retained = 3;
  /// Objects that nobody names go only when they are older.
  int64_t orphan_grace_ms = 3'600'000;
  /// Finds the sink of a name, to roll back or publish on behalf of a participant; may be empty.
  SinkLookup sinks;
};

class Leader {
 public:
  Leader(const Seams& seams, SharedPlace place, LeaderOptions options);

  /// Take the lease and write this leader into the head. Call again until it succeeds.
  ///
  /// Errors:   kFenced: another one leads · kUnavailable · kCorruption.
  Status TryLead();
  bool leads() const { return leads_; }
  /// Show that this leader lives.
  ///
  /// Errors:   kFenced: it leads no more.
  Status Renew();
  /// Give the lead back.
  Status Resign();

  /// Abort, seal and clean up every attempt that is in the head and not this leader's own, and
  /// those of its own that it was told to abort.
  ///
  /// Errors:   kUnavailable: also when a sink that may hold a transaction has nobody to roll it
  ///           back; then the attempt stays · kFenced.
  Status Resolve();

  /// Step 0. Take an id and enter the attempt into the head.
  ///
  /// Errors:   kInvalidArgument: an attempt is active, the assignment is malformed, or it changed
  ///           without a new version · kFenced · kUnavailable: burnt or in doubt; Resolve, then
  ///           admit anew.
  Result<format::ActiveAttempt> Admit(const Assignment& assignment, std::vector<std::string> sinks);

  /// Read and verify the manifests of the attempt that are there. Returns the nodes still missing.
  ///
  /// Errors:   kCorruption, kFenced: a manifest is not this attempt's; abort · kCancelled: sealed ·
  ///           kUnavailable.
  Result<std::vector<uint64_t>> Collect();

  /// Steps 8 and 9. Create the committed index and swap the head: the commit point.
  ///
  /// Errors:   kInvalidArgument: manifests are missing · kCancelled: aborted meanwhile · kFenced ·
  ///           kUnavailable: IN DOUBT. The cut may be committed; call again to find out, and do not
  ///           tell a sink anything before.
  Result<format::IndexReference> Decide();

  /// Give an attempt up: head, seals, sinks, objects, head. May be called again until it is done.
  ///
  /// Errors:   kAlreadyExists: it is committed · as Resolve.
  Status Abort(base::CheckpointId id);

  /// Step 12. Retire one cut beyond `retained`, or go on with one begun. Nothing to do is success.
  Result<RetireOutcome> Retire();
  /// Delete objects that nobody names any more, found by listing and old enough.
  Result<SweepOutcome> Sweep();

  /// Declare the process of a node gone, once its lease has not changed for its time to live.
  ///
  /// Errors:   kFenced: it lives, or has not been watched for long enough; call again.
  Status FenceProcess(uint64_t node);

  /// The head as last read or written.
  const format::SharedHead& head() const { return head_; }
  const format::LeaderProof& proof() const { return lease_.proof(); }

 private:
  Status CheckLeads() const;
  Status CheckAssignment(const Assignment& assignment) const;
  Status VerifyManifest(const format::CheckpointManifest& manifest) const;
  Result<format::CommittedIndex> MakeIndex() const;
  Status MergeSources(format::CommittedIndex* index) const;
  Status KeepWatermark(format::CommittedIndex* index) const;
  Status SealAttempt(const format::ActiveAttempt& attempt);
  Status DeleteArtefacts(const format::ActiveAttempt& attempt);
  Status PublishForDeparted(const Assignment& assignment);
  Status Change(const HeadChange& change);

  const Seams seams_;
  const SharedPlace place_;
  const LeaderOptions options_;
  LeaseChain lease_;
  std::map<uint64_t, std::unique_ptr<LeaseChain>> watched_;  // processes
  bool leads_ = false;
  format::SharedHead head_;
  std::shared_ptr<const ClusterCut> latest_;  // the cut that attempts are built on; may be null

  /// A verified manifest of the attempt in progress.
  struct Collected {
    format::IndexedParticipant entry;
    ManifestPtr manifest;
  };
  std::optional<format::ActiveAttempt> attempt_;
  std::map<uint64_t, Collected> collected_;
  std::optional<format::AssignmentFence> last_fence_;
  PinWatch pins_;
};

}  // namespace cairn::checkpoint::shared
