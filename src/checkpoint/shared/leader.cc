// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/leader.h"

#include <algorithm>
#include <utility>

#include "checkpoint/place.h"
#include "checkpoint/shared/node_key.h"

namespace cairn::checkpoint::shared {
namespace {

constexpr uint32_t kRetainedCutsMost = format::kSharedRetainedMax;

Status CheckMembers(const Assignment& assignment, uint32_t key_groups) {
  if (assignment.owners.size() != key_groups) {
    return Status::InvalidArgument("the assignment has " +
                                   std::to_string(assignment.owners.size()) + " owners for " +
                                   std::to_string(key_groups) + " key groups");
  }
  const format::AssignmentFence fence = assignment.Fence();
  if (const Status shape = format::CheckAssignmentFence(fence); !shape.ok()) {
    return Status::InvalidArgument(std::string(shape.message()));
  }
  for (uint64_t owner : assignment.owners) {
    if (fence.Find(owner) != nullptr) continue;
    return Status::InvalidArgument("node " + std::to_string(owner) +
                                   " owns key groups and takes no part");
  }
  return {};
}

Status CheckSuccession(const format::AssignmentFence& before,
                       const format::AssignmentFence& after) {
  if (before == after || after.version > before.version) return {};
  return Status::InvalidArgument(
      "the assignment changed without a new version: participants that go on from memory and "
      "others that restored would meet in one cut");
}

}  // namespace

Leader::Leader(const Seams& seams, SharedPlace place, LeaderOptions options)
    : seams_(seams),
      place_(std::move(place)),
      options_(std::move(options)),
      lease_(seams, std::string(kLeaderPrefix), options_.self, options_.lease_ttl_ms) {}

Status Leader::CheckLeads() const {
  if (leads_ && lease_.held()) return {};
  return Status::Fenced("node " + std::to_string(options_.self.node) + " does not lead");
}

Status Leader::Change(const HeadChange& change) {
  CAIRN_ASSIGN_OR_RETURN(head_, ChangeHead(seams_, place_, &lease_.proof(), change));
  return {};
}

Status Leader::TryLead() {
  if (options_.retained < 1 || options_.retained > kRetainedCutsMost) {
    return Status::InvalidArgument("retained is " + std::to_string(options_.retained) +
                                   "; it may be 1 to 16");
  }
  CAIRN_RETURN_IF_ERROR(lease_.TryTake());
  CAIRN_ASSIGN_OR_RETURN(head_, ClaimHead(seams_, place_, lease_.proof()));
  latest_.reset();
  if (head_.latest_commit) {
    CAIRN_ASSIGN_OR_RETURN(latest_, LoadCut(seams_, place_, *head_.latest_commit));
    if (latest_->index.pipeline_identity != options_.pipeline_identity) {
      return Status::InvalidArgument("the place holds cuts of another pipeline");
    }
    last_fence_ = latest_->index.fence;
  }
  attempt_.reset();
  collected_.clear();
  leads_ = true;
  return {};
}

Status Leader::Renew() {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  const Status renewed = lease_.Renew();
  if (renewed.code() == StatusCode::kFenced) leads_ = false;
  return renewed;
}

Status Leader::Resign() {
  leads_ = false;
  return lease_.Release();
}

Status Leader::FenceProcess(uint64_t node) {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  std::unique_ptr<LeaseChain>& chain = watched_[node];
  if (chain == nullptr) {
    chain = std::make_unique<LeaseChain>(seams_, ProcessPrefix(node), options_.self,
                                         options_.lease_ttl_ms);
  }
  return chain->TryFence();
}

Status Leader::Resolve() {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  CAIRN_RETURN_IF_ERROR(Change([](format::SharedHead*) -> Result<bool> { return false; }));
  const std::vector<format::ActiveAttempt> active = head_.active_attempts;
  Status first;
  for (const format::ActiveAttempt& attempt : active) {
    if (attempt_ && attempt.id == attempt_->id && !attempt.aborted) continue;
    const Status aborted = Abort(attempt.id);
    if (first.ok()) first = aborted;
  }
  return first;
}

Status Leader::CheckAssignment(const Assignment& assignment) const {
  CAIRN_RETURN_IF_ERROR(CheckMembers(assignment, place_.format.key_groups));
  return last_fence_ ? CheckSuccession(*last_fence_, assignment.Fence()) : Status();
}

/// A node that takes no part any more cannot publish its sinks of the last cut itself.
Status Leader::PublishForDeparted(const Assignment& assignment) {
  if (latest_ == nullptr) return {};
  const format::AssignmentFence fence = assignment.Fence();
  for (const auto& [node, manifest] : latest_->manifests) {
    if (fence.Find(node) != nullptr) continue;
    CAIRN_RETURN_IF_ERROR(
        PublishSinks(seams_, place_, *manifest, lease_.proof().fencing_token, options_.sinks));
  }
  return {};
}

Result<format::ActiveAttempt> Leader::Admit(const Assignment& assignment,
                                            std::vector<std::string> sinks) {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  CAIRN_RETURN_IF_ERROR(CheckAssignment(assignment));
  CAIRN_RETURN_IF_ERROR(PublishForDeparted(assignment));
  seams_.Reach(ProtocolStep::kAdmit, options_.self.node, {});
  format::ActiveAttempt attempt;
  CAIRN_ASSIGN_OR_RETURN(attempt.id, AllocateId(seams_));
  attempt.attempt_id = seams_.NewUuid();
  attempt.leader = lease_.proof();
  attempt.fence = assignment.Fence();
  attempt.sinks = std::move(sinks);
  attempt.admitted_ms = static_cast<uint64_t>(seams_.clock->UnixMillis());
  std::sort(attempt.sinks.begin(), attempt.sinks.end());
  CAIRN_RETURN_IF_ERROR(Change([&](format::SharedHead* head) -> Result<bool> {
    if (!head->active_attempts.empty()) {
      return Status::InvalidArgument(
          "attempt " + std::to_string(head->active_attempts.front().id.value) +
          " is not settled: decide or abort it before another one is admitted");
    }
    attempt.base_cut = head->latest_commit ? head->latest_commit->id : base::CheckpointId();
    head->active_attempts.push_back(attempt);
    return true;
  }));
  attempt_ = attempt;
  last_fence_ = attempt.fence;
  collected_.clear();
  return attempt;
}

Status Leader::VerifyManifest(const format::CheckpointManifest& manifest) const {
  const format::ActiveAttempt& attempt = *attempt_;
  const std::string who = "participant " + std::to_string(manifest.participant_id);
  if (!manifest.cluster || manifest.attempt_id != attempt.attempt_id ||
      manifest.cluster->fence != attempt.fence || manifest.cluster->leader != attempt.leader) {
    return Status::Fenced(who + " saved attempt " + std::to_string(attempt.id.value) +
                          " under another attempt, assignment or leader");
  }
  if (manifest.deployment_id != place_.identity.deployment_id ||
      manifest.pipeline_identity != options_.pipeline_identity ||
      manifest.slot_hash != place_.identity.slot_hash) {
    return Status::Corruption(who + " is of another deployment or pipeline");
  }
  if (manifest.base_checkpoint_id != attempt.base_cut) {
    return Status::Corruption(who + " built on cut " +
                              std::to_string(manifest.base_checkpoint_id.value) + ", not on " +
                              std::to_string(attempt.base_cut.value));
  }
  for (const format::PreparedSinkDescriptor& sink : manifest.prepared_sinks) {
    if (!std::binary_search(attempt.sinks.begin(), attempt.sinks.end(), sink.sink_name)) {
      return Status::Corruption(who + " prepared sink '" + sink.sink_name +
                                "', which the attempt does not name");
    }
  }
  CAIRN_RETURN_IF_ERROR(CheckReferences(manifest, latest_.get()));
  for (const ObjectExtent& object : ObjectsOf(manifest)) {
    CAIRN_RETURN_IF_ERROR(CheckNodeData(seams_.objects, object.chunk, object.length));
  }
  return {};
}

Result<std::vector<uint64_t>> Leader::Collect() {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  if (!attempt_) return Status::InvalidArgument("no attempt is in progress");
  std::vector<uint64_t> missing;
  for (const format::ProcessIdentity& participant : attempt_->fence.participants) {
    if (collected_.contains(participant.node)) continue;
    CAIRN_ASSIGN_OR_RETURN(SeenNode seen, ReadNode(seams_.objects, participant.node, attempt_->id));
    if (seen.record && std::holds_alternative<format::AbortSeal>(*seen.record)) {
      return Status::Cancelled("attempt " + std::to_string(attempt_->id.value) + " is sealed");
    }
    auto* manifest = seen.record ? std::get_if<format::CheckpointManifest>(&*seen.record) : nullptr;
    if (manifest == nullptr) {
      missing.push_back(participant.node);
      continue;
    }
    CAIRN_RETURN_IF_ERROR(VerifyManifest(*manifest));
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeManifest(*manifest));
    Collected& collected = collected_[participant.node];
    collected.entry = {participant.node, bytes.size(), format::checkpoint_sha256(bytes),
                       manifest->node_data.object_length, manifest->node_data.sha256};
    collected.manifest = std::make_shared<const format::CheckpointManifest>(std::move(*manifest));
  }
  return missing;
}

Status Leader::MergeSources(format::CommittedIndex* index) const {
  for (const auto& [node, collected] : collected_) {
    for (const auto& [source, checkpoint] : collected.manifest->source_offsets) {
      auto& splits = index->source_offsets[source];
      for (const auto& [split, offset] : checkpoint.offsets) {
        if (splits.emplace(split, offset).second) continue;
        return Status::Corruption("split '" + split + "' of source '" + source +
                                  "' is read by participant " + std::to_string(node) +
                                  " and by another one");
      }
    }
    const auto& progress = collected.manifest->channel_progress;
    index->channel_progress.insert(index->channel_progress.end(), progress.begin(), progress.end());
    for (const format::PreparedSinkDescriptor& sink : collected.manifest->prepared_sinks) {
      index->sink_names.push_back(sink.sink_name);
    }
  }
  std::sort(index->sink_names.begin(), index->sink_names.end());
  index->sink_names.erase(std::unique(index->sink_names.begin(), index->sink_names.end()),
                          index->sink_names.end());
  return {};
}

Status Leader::KeepWatermark(format::CommittedIndex* index) const {
  index->watermark = format::ClassifyWatermark(index->channel_progress);
  if (latest_ == nullptr || !latest_->index.watermark) return {};
  if (index->channel_progress.empty()) index->watermark = latest_->index.watermark;
  if (index->watermark && *index->watermark < *latest_->index.watermark) {
    return Status::Corruption("the watermark went back from " +
                              std::to_string(*latest_->index.watermark) + " to " +
                              std::to_string(*index->watermark));
  }
  return {};
}

Result<format::CommittedIndex> Leader::MakeIndex() const {
  format::CommittedIndex index;
  index.checkpoint_id = attempt_->id;
  index.attempt_id = attempt_->attempt_id;
  index.deployment_id = place_.identity.deployment_id;
  index.pipeline_identity = options_.pipeline_identity;
  index.leader = attempt_->leader;
  index.fence = attempt_->fence;
  index.base_cut = attempt_->base_cut;
  if (latest_ != nullptr) index.predecessor = latest_->reference;
  for (const auto& [node, collected] : collected_) index.participants.push_back(collected.entry);
  CAIRN_RETURN_IF_ERROR(MergeSources(&index));
  CAIRN_RETURN_IF_ERROR(KeepWatermark(&index));
  return index;
}

Result<format::IndexReference> Leader::Decide() {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  if (!attempt_ || collected_.size() != attempt_->fence.participants.size()) {
    return Status::InvalidArgument("manifests are missing: collect them first");
  }
  const base::CheckpointId id = attempt_->id;
  seams_.Reach(ProtocolStep::kIndex, options_.self.node, id);
  auto cut = std::make_shared<ClusterCut>();
  CAIRN_ASSIGN_OR_RETURN(cut->index, MakeIndex());
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeCommittedIndex(cut->index));
  cut->reference = {id, format::checkpoint_sha256(bytes), bytes.size(),
                    options_.pipeline_identity.sha256};
  for (const auto& [node, collected] : collected_) cut->manifests[node] = collected.manifest;
  CAIRN_RETURN_IF_ERROR(
      CreateRecord(seams_.objects, IndexKey(id, cut->reference.index_sha256), bytes));

  seams_.Reach(ProtocolStep::kDecide, options_.self.node, id);
  CAIRN_RETURN_IF_ERROR(Change([&](format::SharedHead* head) -> Result<bool> {
    if (head->latest_commit == cut->reference) return false;  // an answer was lost
    const format::ActiveAttempt* active = head->FindActive(id);
    if (active == nullptr || active->aborted || active->leader != attempt_->leader) {
      return Status::Cancelled("attempt " + std::to_string(id.value) + " was aborted");
    }
    if (head->latest_commit != cut->index.predecessor) {
      return Status::Internal("the latest cut is not the one that the index follows");
    }
    if (head->retained.size() >= kRetainedCutsMost) {
      return Status::ResourceExhausted("16 cuts are kept: retire some before the next one");
    }
    if (head->latest_commit) {
      head->retained.insert(head->retained.begin(), *head->latest_commit);
    }
    head->latest_commit = cut->reference;
    head->latest_terminal = format::TerminalOutcome{id, true};
    std::erase_if(head->active_attempts, [&](const auto& attempt) { return attempt.id == id; });
    return true;
  }));
  latest_ = cut;
  attempt_.reset();
  collected_.clear();
  return latest_->reference;
}

Status Leader::SealAttempt(const format::ActiveAttempt& attempt) {
  Status first;
  for (const format::ProcessIdentity& participant : attempt.fence.participants) {
    format::AbortSeal wanted;
    wanted.checkpoint_id = attempt.id;
    wanted.attempt_id = attempt.attempt_id;
    wanted.deployment_id = place_.identity.deployment_id;
    wanted.participant_id = participant.node;
    wanted.leader = lease_.proof();
    CAIRN_ASSIGN_OR_RETURN(const format::AbortSeal seal,
                           SealNode(seams_.objects, std::move(wanted)));
    if (seal.cleanup_complete) continue;
    Status cleaned =
        RollBackSinks(seams_, place_, seal, lease_.proof().fencing_token, options_.sinks);
    if (cleaned.ok()) cleaned = MarkCleanedUp(seams_.objects, seal);
    if (first.ok()) first = cleaned;
  }
  return first;
}

Status Leader::DeleteArtefacts(const format::ActiveAttempt& attempt) {
  for (const format::ProcessIdentity& participant : attempt.fence.participants) {
    CAIRN_RETURN_IF_ERROR(seams_.objects->Delete(NodeDataKey(participant.node, attempt.id)));
  }
  // The head says that none of these was chosen.
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> candidates,
                         seams_.objects->List(IndexPrefix(attempt.id)));
  for (const env::ObjectInfo& candidate : candidates) {
    CAIRN_RETURN_IF_ERROR(seams_.objects->Delete(candidate.key));
  }
  return {};
}

Status Leader::Abort(base::CheckpointId id) {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  const auto find = [id](format::SharedHead* head) {
    return std::find_if(head->active_attempts.begin(), head->active_attempts.end(),
                        [id](const auto& attempt) { return attempt.id == id; });
  };
  CAIRN_RETURN_IF_ERROR(Change([&](format::SharedHead* head) -> Result<bool> {
    const auto at = find(head);
    if (at == head->active_attempts.end()) {
      if (head->FindCut(id) == nullptr) return false;  // settled before
      return Status::AlreadyExists("attempt " + std::to_string(id.value) + " is committed");
    }
    return !std::exchange(at->aborted, true);
  }));
  if (const format::ActiveAttempt* there = head_.FindActive(id)) {
    const format::ActiveAttempt attempt = *there;
    CAIRN_RETURN_IF_ERROR(SealAttempt(attempt));
    CAIRN_RETURN_IF_ERROR(DeleteArtefacts(attempt));
    CAIRN_RETURN_IF_ERROR(Change([&](format::SharedHead* head) -> Result<bool> {
      const auto at = find(head);
      if (at == head->active_attempts.end()) return false;
      head->active_attempts.erase(at);
      head->latest_terminal = format::TerminalOutcome{id, false};
      return true;
    }));
  }
  if (attempt_ && attempt_->id == id) {
    attempt_.reset();
    collected_.clear();
  }
  return {};
}

Result<RetireOutcome> Leader::Retire() {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  return RetireOneCut(seams_, place_, lease_.proof(), {options_.retained, options_.self.node},
                      &pins_);
}

Result<SweepOutcome> Leader::Sweep() {
  CAIRN_RETURN_IF_ERROR(CheckLeads());
  return SweepOrphans(seams_, place_, options_.orphan_grace_ms);
}

}  // namespace cairn::checkpoint::shared
