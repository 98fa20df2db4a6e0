// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/participant.h"

#include <algorithm>
#include <utility>

#include "checkpoint/place.h"
#include "checkpoint/shared/node_key.h"

namespace cairn::checkpoint::shared {
namespace {

std::string NameOf(base::CheckpointId id) { return std::to_string(id.value); }

/// A sink that has seen a newer token than the head that was just read: another leader has come.
/// While the node's lease is held that is no reason to stop, but to look at the head again.
Status LookAgain(const Status& settled) {
  if (settled.code() != StatusCode::kFenced) return settled;
  return Status::Unavailable("another leader took over meanwhile: " +
                             std::string(settled.message()));
}

Status StandsElsewhere(const std::string& why) {
  return Status::Fenced(why + ": recover before the next attempt");
}

}  // namespace

Participant::Participant(const Seams& seams, SharedPlace place, ParticipantOptions options)
    : seams_(seams),
      place_(std::move(place)),
      options_(std::move(options)),
      lease_(seams, ProcessPrefix(options_.self.node), options_.self, options_.lease_ttl_ms) {}

Status Participant::TryStart() { return lease_.TryTake(); }
Status Participant::Renew() { return lease_.Renew(); }
Status Participant::Stop() { return lease_.Release(); }

base::CheckpointId Participant::base_cut() const {
  return base_cut_.value_or(base::CheckpointId());
}

SinkEpoch Participant::EpochOf(base::CheckpointId id, uint64_t token) const {
  return {place_.identity.deployment_id, options_.self.node, id, token};
}

TwoPhaseSink* Participant::FindSink(std::string_view name) const {
  for (TwoPhaseSink* sink : options_.sinks) {
    if (sink->name() == name) return sink;
  }
  return nullptr;
}

SinkLookup Participant::OwnSinks() const {
  return [this](std::string_view name) { return FindSink(name); };
}

// ---- The start of a life -------------------------------------------------------------------

Result<RestoredShare> Participant::Recover(const Assignment& assignment) {
  if (!lease_.held()) return Status::Fenced("the process lease is not held");
  CAIRN_ASSIGN_OR_RETURN(const SeenHead seen, ReadHead(seams_, place_));
  format::SharedHead head = seen.record.value_or(format::SharedHead());
  for (const format::ActiveAttempt& attempt : head.active_attempts) {
    if (attempt.aborted) continue;
    return Status::Unavailable("attempt " + NameOf(attempt.id) +
                               " is undecided: which cut is the latest is not known yet");
  }
  RestoredShare restored;
  const std::vector<KeyGroupRange> owned = assignment.OwnedBy(options_.self.node);
  ManifestPtr base;
  if (head.latest_commit) {
    CAIRN_ASSIGN_OR_RETURN(const auto cut, LoadCut(seams_, place_, *head.latest_commit));
    if (cut->index.pipeline_identity != options_.pipeline_identity) {
      return Status::InvalidArgument("checkpoint " + NameOf(cut->id()) + " is of another pipeline");
    }
    CAIRN_ASSIGN_OR_RETURN(restored, RestoreShare(seams_, place_, *cut, owned));
    if (const auto own = cut->manifests.find(options_.self.node); own != cut->manifests.end()) {
      base = own->second;
      CAIRN_RETURN_IF_ERROR(
          LookAgain(PublishSinks(seams_, place_, *base, head.leader.fencing_token, OwnSinks())));
    }
  }
  CAIRN_RETURN_IF_ERROR(LookAgain(SettleFormerSinks(head)));
  assignment_ = assignment;
  owned_ = owned;
  base_ = std::move(base);
  base_cut_ = restored.cut;
  dirty_.clear();
  MarkOwnedDirty();
  attempt_.reset();
  stage_ = Stage::kNone;
  return restored;
}

/// Groups that this node's share of the base cut does not have must be written.
void Participant::MarkOwnedDirty() {
  for (const KeyGroupRange& range : owned_) {
    for (uint32_t group = range.first; group < range.last; ++group) {
      if (base_ == nullptr || !base_->cluster->Owns(group, group)) {
        dirty_.insert(static_cast<uint16_t>(group));
      }
    }
  }
}

void Participant::AdoptForeignState() {
  base_ = nullptr;
  MarkOwnedDirty();
}

/// Roll back what a seal of this node keeps. False: there is no seal (yet). The leader does the
/// same and then deletes what it is done from: a failure counts only while it is not done.
Result<bool> Participant::CleanUpSeal(base::CheckpointId epoch, uint64_t fencing_token) {
  CAIRN_ASSIGN_OR_RETURN(const SeenNode node, ReadNode(seams_.objects, options_.self.node, epoch));
  const auto* seal = node.record ? std::get_if<format::AbortSeal>(&*node.record) : nullptr;
  if (seal == nullptr) return false;
  if (seal->cleanup_complete) return true;
  Status done = RollBackSinks(seams_, place_, *seal, fencing_token, OwnSinks());
  if (done.ok()) done = MarkCleanedUp(seams_.objects, *seal);
  if (done.ok()) return true;
  CAIRN_ASSIGN_OR_RETURN(const SeenNode now, ReadNode(seams_.objects, options_.self.node, epoch));
  const auto* there = now.record ? std::get_if<format::AbortSeal>(&*now.record) : nullptr;
  if (there == nullptr || there->cleanup_complete) return true;
  return done;
}

/// What aborted attempts and the witness say may be open belongs to a former process of this node.
Status Participant::SettleFormerSinks(const format::SharedHead& head) {
  const uint64_t token = head.leader.fencing_token;
  for (const format::ActiveAttempt& attempt : head.active_attempts) {
    if (attempt.fence.Find(options_.self.node) == nullptr) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool sealed, CleanUpSeal(attempt.id, token));
    if (sealed) continue;
    return Status::Unavailable("attempt " + NameOf(attempt.id) + " is aborted and not sealed yet");
  }
  CAIRN_ASSIGN_OR_RETURN(const Seen<format::SinkWitness> seen, ReadWitness());
  if (!seen.record && options_.sinks.empty()) return {};
  if (!seen.record || seen.record->epoch.value == 0) return ClearWitness();
  const base::CheckpointId epoch = seen.record->epoch;
  const format::IndexReference* cut = head.FindCut(epoch);
  if (cut == nullptr) {
    // An attempt leaves the head only when its sinks are rolled back: without a seal it has left.
    CAIRN_RETURN_IF_ERROR(CleanUpSeal(epoch, token).status());
    return ClearWitness();
  }
  CAIRN_ASSIGN_OR_RETURN(const auto loaded, LoadCut(seams_, place_, *cut));
  const auto own = loaded->manifests.find(options_.self.node);
  if (own == loaded->manifests.end()) {
    return Status::Corruption("the sink witness names checkpoint " + NameOf(epoch) +
                              ", in which this node took no part");
  }
  CAIRN_RETURN_IF_ERROR(PublishSinks(seams_, place_, *own->second, token, OwnSinks()));
  return ClearWitness();
}

// ---- Steps 1 and 2 --------------------------------------------------------------------------

Status Participant::CheckMay(const format::ActiveAttempt& attempt) const {
  if (!lease_.held()) return Status::Fenced("the process lease is not held");
  if (attempt_ && attempt_->id != attempt.id) {
    return Status::InvalidArgument("attempt " + NameOf(attempt_->id) + " is not settled");
  }
  if (!assignment_ || attempt.fence != assignment_->Fence()) {
    return StandsElsewhere("attempt " + NameOf(attempt.id) + " is of another assignment");
  }
  const format::ProcessIdentity* self = attempt.fence.Find(options_.self.node);
  if (self == nullptr || *self != options_.self) {
    return StandsElsewhere("attempt " + NameOf(attempt.id) + " does not name this process");
  }
  if (base_cut_ != attempt.base_cut) {
    return StandsElsewhere("attempt " + NameOf(attempt.id) + " is built on cut " +
                           NameOf(attempt.base_cut) + ", this participant on " +
                           NameOf(base_cut()));
  }
  for (const TwoPhaseSink* sink : options_.sinks) {
    if (!std::binary_search(attempt.sinks.begin(), attempt.sinks.end(), sink->name())) {
      return Status::InvalidArgument("the attempt does not name sink '" + sink->name() + "'");
    }
  }
  return {};
}

Status Participant::WriteIntents() {
  format::SinkIntentRecord record;
  record.checkpoint_id = attempt_->id;
  record.attempt_id = attempt_->attempt_id;
  record.deployment_id = place_.identity.deployment_id;
  record.participant = options_.self;
  for (const PreparedSink& sink : prepared_) record.intents.push_back({sink.name, sink.intent});
  return PutIntents(seams_.objects, record);
}

Status Participant::OpenWitness(base::CheckpointId epoch, const std::string& attempt_id) {
  CAIRN_ASSIGN_OR_RETURN(const Seen<format::SinkWitness> seen, ReadWitness());
  if (seen.record && seen.record->epoch.value != 0 && seen.record->epoch != epoch) {
    return StandsElsewhere("sinks may still hold epoch " + NameOf(seen.record->epoch));
  }
  std::vector<std::string> names;
  for (const PreparedSink& sink : prepared_) names.push_back(sink.name);
  return WriteWitness(seen, epoch, attempt_id, std::move(names));
}

/// Written also when none is open: an opening that is on its way still loses its condition.
Status Participant::ClearWitness() {
  CAIRN_ASSIGN_OR_RETURN(const Seen<format::SinkWitness> seen, ReadWitness());
  return WriteWitness(seen, {}, "", {});
}

Result<Seen<format::SinkWitness>> Participant::ReadWitness() const {
  return ReadSeen(seams_.objects, SinkWitnessKey(options_.self.node), format::kSinkWitnessBytesMax,
                  &format::ParseSinkWitness);
}

Status Participant::WriteWitness(const Seen<format::SinkWitness>& seen, base::CheckpointId epoch,
                                 const std::string& attempt_id, std::vector<std::string> sinks) {
  const format::SinkWitness witness{place_.identity.deployment_id,
                                    seen.record ? seen.record->seq + 1 : 1,
                                    options_.self,
                                    epoch,
                                    attempt_id,
                                    std::move(sinks)};
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeSinkWitness(witness));
  return SwapRecord(seams_.objects, SinkWitnessKey(options_.self.node), seen.version, bytes)
      .status();
}

/// Undo phase one at all sinks, begun or not; `cause` is what the caller is told. A lost answer is
/// no reason: the call is repeated.
Status Participant::UndoSinks(const Status& cause) {
  if (cause.code() == StatusCode::kUnavailable) return cause;
  const SinkEpoch epoch = EpochOf(attempt_->id, attempt_->leader.fencing_token);
  for (const PreparedSink& sink : prepared_) {
    // What fails here is done again from the seal.
    (void)FindSink(sink.name)->Rollback(epoch, {sink.intent, sink.descriptor});
  }
  stage_ = Stage::kNone;
  return cause;
}

Status Participant::Begin(const format::ActiveAttempt& attempt) {
  CAIRN_RETURN_IF_ERROR(CheckMay(attempt));
  if (attempt_ && stage_ != Stage::kNone) return {};
  const SinkEpoch epoch = EpochOf(attempt.id, attempt.leader.fencing_token);
  if (!attempt_) {
    std::vector<PreparedSink> prepared;
    for (TwoPhaseSink* sink : options_.sinks) {
      CAIRN_ASSIGN_OR_RETURN(std::optional<std::string> intent, sink->Intend(epoch));
      prepared.push_back({sink->name(), std::move(intent), std::nullopt});
    }
    std::sort(prepared.begin(), prepared.end(),
              [](const PreparedSink& a, const PreparedSink& b) { return a.name < b.name; });
    prepared_ = std::move(prepared);
    attempt_ = attempt;
    share_.reset();
    encoded_.reset();
  }
  if (!prepared_.empty()) {
    seams_.Reach(ProtocolStep::kIntend, options_.self.node, attempt.id);
    CAIRN_RETURN_IF_ERROR(WriteIntents());
    CAIRN_RETURN_IF_ERROR(OpenWitness(attempt.id, attempt.attempt_id));
    seams_.Reach(ProtocolStep::kSinkBegin, options_.self.node, attempt.id);
    for (const PreparedSink& sink : prepared_) {
      const Status begun = FindSink(sink.name)->Begin(epoch);
      if (!begun.ok()) return UndoSinks(begun);
    }
  }
  stage_ = Stage::kBegun;
  return {};
}

// ---- Steps 3 to 7 ---------------------------------------------------------------------------

Status Participant::CheckBegun() const {
  if (attempt_ && stage_ != Stage::kNone) return {};
  return Status::InvalidArgument("no attempt is begun");
}

Status Participant::Capture(CapturedShare share) {
  CAIRN_RETURN_IF_ERROR(CheckBegun());
  if (stage_ != Stage::kBegun) return Status::InvalidArgument("the share is captured already");
  seams_.Reach(ProtocolStep::kCapture, options_.self.node, attempt_->id);
  dirty_.insert(share.changed.begin(), share.changed.end());
  share_ = std::move(share);
  seams_.Reach(ProtocolStep::kSinkPrepare, options_.self.node, attempt_->id);
  const SinkEpoch epoch = EpochOf(attempt_->id, attempt_->leader.fencing_token);
  for (PreparedSink& sink : prepared_) {
    Result<std::optional<std::string>> descriptor = FindSink(sink.name)->Prepare(epoch);
    if (!descriptor.ok()) return UndoSinks(descriptor.status());
    sink.descriptor = *std::move(descriptor);
  }
  stage_ = Stage::kCaptured;
  return {};
}

Status Participant::Persist() {
  CAIRN_RETURN_IF_ERROR(CheckBegun());
  if (stage_ == Stage::kBegun) return Status::InvalidArgument("no share is captured");
  if (stage_ == Stage::kPersisted) return {};
  if (!encoded_) {
    seams_.Reach(ProtocolStep::kEncode, options_.self.node, attempt_->id);
    if (base_ != nullptr && base_->referenced_chunks.size() + 1 >= options_.rebase_chunks) {
      AdoptForeignState();
    }
    ShareContext context{&place_,
                         &*attempt_,
                         options_.pipeline_identity,
                         options_.source_names,
                         {},
                         options_.self.node,
                         owned_,
                         static_cast<uint64_t>(seams_.clock->UnixMillis()),
                         base_.get()};
    for (const PreparedSink& sink : prepared_) context.sink_names.push_back(sink.name);
    CAIRN_ASSIGN_OR_RETURN(encoded_, EncodeShare(context, *share_, dirty_, prepared_));
  }
  const std::string key = NodeDataKey(options_.self.node, attempt_->id);
  seams_.Reach(ProtocolStep::kData, options_.self.node, attempt_->id);
  if (!encoded_->object.empty()) {
    const Status created = CreateRecord(seams_.objects, key, encoded_->object);
    if (created.code() == StatusCode::kAlreadyExists) {
      return Status::Fenced("another process writes as node " + std::to_string(options_.self.node) +
                            ": " + std::string(created.message()));
    }
    CAIRN_RETURN_IF_ERROR(created);
  }
  seams_.Reach(ProtocolStep::kManifest, options_.self.node, attempt_->id);
  // When it is aborted the object stays: the seal may keep a manifest that names it, and the sinks
  // are rolled back by what lies in it.
  CAIRN_RETURN_IF_ERROR(PutManifest(seams_.objects, encoded_->manifest));
  stage_ = Stage::kPersisted;
  return {};
}

// ---- Steps 10 and 11 ------------------------------------------------------------------------

Result<Outcome> Participant::OutcomeOf(const format::SharedHead& head) const {
  const base::CheckpointId id = attempt_->id;
  if (head.FindCut(id) != nullptr) return Outcome::kCommitted;
  const format::ActiveAttempt* active = head.FindActive(id);
  if (active != nullptr && !active->aborted) return Outcome::kPending;
  const bool newer = head.latest_commit && head.latest_commit->id > id;
  if (active == nullptr && !newer) return Outcome::kAborted;
  CAIRN_ASSIGN_OR_RETURN(const SeenNode node, ReadNode(seams_.objects, options_.self.node, id));
  if (node.record && std::holds_alternative<format::AbortSeal>(*node.record)) {
    return Outcome::kAborted;
  }
  if (active != nullptr) return Outcome::kPending;  // decided, and not sealed yet
  return StandsElsewhere("what became of attempt " + NameOf(id) + " cannot be told any more");
}

Status Participant::PublishOwn(uint64_t fencing_token) {
  const SinkEpoch epoch = EpochOf(attempt_->id, fencing_token);
  Status first;
  for (const PreparedSink& sink : prepared_) {
    const Status published = FindSink(sink.name)->Commit(epoch, sink.descriptor);
    if (first.ok()) first = published;
  }
  return first;
}

Result<Outcome> Participant::Settle() {
  if (!attempt_) return Status::InvalidArgument("no attempt is in progress");
  CAIRN_ASSIGN_OR_RETURN(const SeenHead seen, ReadHead(seams_, place_));
  if (!seen.record) return Status::Corruption("damaged store: the decision head is gone");
  CAIRN_ASSIGN_OR_RETURN(const Outcome outcome, OutcomeOf(*seen.record));
  if (outcome == Outcome::kPending) return outcome;
  if (outcome == Outcome::kCommitted) {
    if (!encoded_) return StandsElsewhere("another process saved this node's share");
    seams_.Reach(ProtocolStep::kSinkCommit, options_.self.node, attempt_->id);
    CAIRN_RETURN_IF_ERROR(LookAgain(PublishOwn(seen.record->leader.fencing_token)));
  } else {
    CAIRN_RETURN_IF_ERROR(
        LookAgain(CleanUpSeal(attempt_->id, seen.record->leader.fencing_token).status()));
  }
  if (!prepared_.empty()) CAIRN_RETURN_IF_ERROR(ClearWitness());
  if (outcome == Outcome::kCommitted) {
    seams_.Reach(ProtocolStep::kAcknowledge, options_.self.node, attempt_->id);
    base_ = std::make_shared<const format::CheckpointManifest>(std::move(encoded_->manifest));
    base_cut_ = attempt_->id;
    dirty_.clear();
  }
  attempt_.reset();
  encoded_.reset();
  share_.reset();
  prepared_.clear();
  stage_ = Stage::kNone;
  return outcome;
}

}  // namespace cairn::checkpoint::shared
