// SPDX-License-Identifier: Apache-2.0
#include "cluster_process.h"

#include <algorithm>
#include <utility>

#include "checkpoint/layout.h"
#include "unfenced_object_store.h"

namespace cairn::sim {
namespace {

using checkpoint::shared::Assignment;
using checkpoint::shared::CapturedShare;
using checkpoint::shared::Leader;
using checkpoint::shared::Outcome;
using checkpoint::shared::Participant;
using checkpoint::shared::RestoredShare;
using checkpoint::shared::SharedPlace;

format::PipelineIdentity ClusterPipeline() {
  format::PipelineIdentity identity;
  identity.sha256.fill(0x42);
  return identity;
}

}  // namespace

void Directory::Register(uint64_t node, const std::string& boot, uint64_t turn) {
  boots_[node] = boot;
  ++assignment_.version;
  assignment_.owners.clear();
  assignment_.participants.clear();
  std::vector<uint64_t> nodes;
  for (const auto& [known, its_boot] : boots_) {
    nodes.push_back(known);
    assignment_.participants.push_back({known, its_boot});
  }
  for (uint32_t group = 0; group < kClusterGroups; ++group) {
    assignment_.owners.push_back(
        nodes[(group * nodes.size() / kClusterGroups + turn) % nodes.size()]);
  }
}

bool Directory::IsReady() const {
  return boots_.size() == nodes_ && std::all_of(boots_.begin(), boots_.end(), [&](const auto& one) {
           const auto found = stands_on_.find(one.first);
           return found != stands_on_.end() && found->second == assignment_.version;
         });
}

bool Directory::IsNewest(uint64_t node, const std::string& boot) const {
  const auto found = boots_.find(node);
  return found != boots_.end() && found->second == boot;
}

ClusterProcess::ClusterProcess(ClusterJob* job, Network* network, const std::string& role)
    : job_(job), network_(network) {
  host_.incarnation = ++job->incarnations;
  host_.name = role + "#" + std::to_string(host_.incarnation);
  objects_ = Has(PlantedBug::kUnfencedHead)
                 ? std::make_unique<UnfencedObjectStore>(network, job->bucket, &host_)
                 : std::make_unique<SimObjectStore>(network, job->bucket, &host_);
  seams_.objects = objects_.get();
  seams_.clock = job->world->clock();
  seams_.random = job->world->random();
}

format::ProcessIdentity ClusterProcess::NewIdentity(uint64_t node) {
  return {node, seams_.NewUuid()};
}

void ClusterProcess::Tell(const char* what, const Status& status) {
  if (ended()) return;
  job_->world->Note(host_.name, what, status.ToString(), "failed");
  job_->oracle->Failed(what, status, succeeded());
}

Result<SharedPlace> ClusterProcess::OpenPlace() {
  if (job_->place) return *job_->place;  // it never changes
  Result<SharedPlace> made = Ask("make the place", [&] {
    return checkpoint::shared::MakePlace(seams_, {"simulated", kClusterGroups, 7});
  });
  if (made.ok()) job_->place = *made;
  return made;
}

// ---- Nodes ------------------------------------------------------------------------------------

NodeProcess::NodeProcess(ClusterJob* job, Network* network, uint64_t node)
    : ClusterProcess(job, network, "node" + std::to_string(node)),
      node_(node),
      self_(NewIdentity(node)),
      sink_(network, &host_, job->outside) {}

void NodeProcess::Run() {
  Result<SharedPlace> place = OpenPlace();
  if (!place.ok()) return;
  place_ = *place;
  checkpoint::shared::ParticipantOptions options;
  options.self = self_;
  options.pipeline_identity = ClusterPipeline();
  options.lease_ttl_ms = job_->lease_ttl_ms;
  options.source_names = {"rows"};
  options.sinks = {&sink_};
  options.rebase_chunks = job_->rebase_chunks;
  Participant participant(seams_, *place_, options);
  if (!Start(&participant).ok()) return;
  while (!ended() && job_->directory->IsNewest(node_, self_.boot)) {
    if (!Recover(&participant).ok()) return;
    Status served;
    while (served.ok() && !ended()) {
      // An attempt in progress is seen through, unless nobody is left to decide it.
      if (job_->over() && (participant.attempt() == nullptr || job_->late())) break;
      served = Serve(&participant);
    }
    if (ended() || job_->over()) break;
  }
  if (!ended() && participant.attempt() == nullptr) (void)participant.Stop();
}

/// Wait for the node's lease.
Status NodeProcess::Start(Participant* participant) {
  for (;;) {
    const Status started = participant->TryStart();
    if (started.ok()) break;
    if (ended() || job_->over()) return started;
    network_->Idle(&host_, static_cast<int64_t>(job_->lease_ttl_ms) * 500);
  }
  job_->directory->Register(node_, self_.boot, job_->world->Draw(4));
  return {};
}

Status NodeProcess::Recover(Participant* participant) {
  for (;;) {
    if (ended()) return Status::Unavailable("killed");
    // The lease is what tells a process that it was succeeded.
    CAIRN_RETURN_IF_ERROR(RenewInTime(participant));
    const Assignment assignment = job_->directory->assignment();
    const Result<RestoredShare> restored = participant->Recover(assignment);
    if (!restored.ok()) Tell("recover", restored.status());
    if (restored.ok()) {
      job_->oracle->Recovered(node_, assignment.OwnedBy(node_), *restored);
      stands_on_ = assignment.version;
      if (!succeeded()) job_->directory->Recovered(node_, stands_on_);
      sink_.Forget();
      changed_.clear();
      counts_.clear();
      for (const KeyGroupRange& range : assignment.OwnedBy(node_)) {
        for (uint32_t group = range.first; group < range.last; ++group) {
          counts_[static_cast<uint16_t>(group)] = 0;
        }
      }
      for (const auto& [group, bytes] : restored->groups) counts_[group] = std::stoull(bytes);
      return {};
    }
    // Fenced by a sink: another leader came while it was settled. The lease says whether to stop.
    const StatusCode code = restored.status().code();
    if (code == StatusCode::kFenced) CAIRN_RETURN_IF_ERROR(participant->Renew());
    const bool again = code == StatusCode::kUnavailable || code == StatusCode::kFenced;
    if (!again || job_->over()) return restored.status();
    WaitForNews();
  }
}

Status NodeProcess::Serve(Participant* participant) {
  CAIRN_RETURN_IF_ERROR(RenewInTime(participant));
  if (participant->attempt() != nullptr) return Settle(participant);
  if (job_->directory->assignment().version != stands_on_) {
    return Status::Fenced("another assignment");
  }
  const std::optional<format::ActiveAttempt> attempt = job_->directory->announced();
  if (!attempt || attempt->id <= begun_ || attempt->fence.Find(node_) == nullptr) {
    WaitForNews();
    return {};
  }
  begun_ = attempt->id;
  const Status saved = SaveShare(participant, *attempt);
  if (saved.code() == StatusCode::kFenced && participant->attempt() == nullptr) return saved;
  return {};
}

Status NodeProcess::SaveShare(Participant* participant, const format::ActiveAttempt& attempt) {
  CAIRN_RETURN_IF_ERROR(Ask("begin", [&] { return participant->Begin(attempt); }));
  Work();
  const GroupCounts at_barrier = counts_;
  const CapturedShare share = Share();
  CAIRN_RETURN_IF_ERROR(Ask("capture", [&] { return participant->Capture(share); }));
  job_->oracle->Captured(attempt.id, node_, at_barrier);
  return Ask("persist", [&] { return participant->Persist(); });
}

Status NodeProcess::Settle(Participant* participant) {
  const base::CheckpointId id = participant->attempt()->id;
  const Result<Outcome> outcome = Ask("settle", [&] { return participant->Settle(); });
  if (!outcome.ok()) {
    return outcome.status().code() == StatusCode::kUnavailable ? Status() : outcome.status();
  }
  if (*outcome == Outcome::kPending) {
    // An attempt that got stuck half-way is gone on with: each call may be repeated.
    if (participant->attempt() != nullptr) {
      const Status persisted = participant->Persist();
      if (persisted.code() == StatusCode::kInvalidArgument) Idle();
    }
    if (job_->world->Chance(700)) Work();  // rows flow on behind the barrier
    WaitForNews();
    return {};
  }
  job_->world->Note(host_.name, "settled", std::to_string(id.value),
                    *outcome == Outcome::kCommitted ? "committed" : "aborted");
  if (*outcome == Outcome::kCommitted) {
    job_->oracle->Acknowledged(id);
  } else {
    job_->world->Count(Met::kAbandoned);
    if (Has(PlantedBug::kDeltaLostOnAbort)) changed_.clear();
  }
  return {};
}

void NodeProcess::WaitForNews() {
  for (int idle = 0; idle < 10 && heard_ == job_->directory->news() && !ended(); ++idle) Idle();
  heard_ = job_->directory->news();
}

void NodeProcess::Work() {
  for (auto& [group, count] : counts_) {
    const uint64_t rows = job_->world->Draw(job_->rows_per_group + 1);
    for (uint64_t i = 0; i < rows; ++i) sink_.Write({group, count++});
    if (rows > 0) changed_.insert(group);
  }
}

CapturedShare NodeProcess::Share() {
  CapturedShare share;
  share.read = [view = counts_](uint16_t group) -> Result<std::string> {
    return view.at(group) == 0 ? std::string() : std::to_string(view.at(group));
  };
  share.changed = std::exchange(changed_, {});
  for (const auto& [group, count] : counts_) {
    share.source_offsets["rows"].offsets["g" + std::to_string(group)] = {std::to_string(count),
                                                                         false};
  }
  return share;
}

// ---- Leaders ----------------------------------------------------------------------------------

LeaderProcess::LeaderProcess(ClusterJob* job, Network* network, uint64_t node)
    : ClusterProcess(job, network, "leader" + std::to_string(node)),
      self_(NewIdentity(node)),
      cleaner_(network, &host_, job->outside) {}

void LeaderProcess::Run(bool last) {
  const Result<SharedPlace> place = OpenPlace();
  if (!place.ok()) return;
  checkpoint::shared::LeaderOptions options;
  options.self = self_;
  options.pipeline_identity = ClusterPipeline();
  options.lease_ttl_ms = job_->lease_ttl_ms;
  options.retained = job_->retained;
  options.orphan_grace_ms = 0;
  options.sinks = [this](std::string_view name) -> checkpoint::shared::TwoPhaseSink* {
    return name == cleaner_.name() ? &cleaner_ : nullptr;
  };
  Leader leader(seams_, *place, options);
  if (!Lead(&leader).ok()) return;
  while (!ended() && !job_->over() && leader.leads()) {
    if (RunAttempt(&leader).code() == StatusCode::kFenced) break;
  }
  if (last) {
    for (auto retired = leader.Retire(); retired.ok() && retired->retired.value > 0;) {
      retired = leader.Retire();
    }
    const Status swept = leader.Sweep().status();
    if (!swept.ok()) job_->world->Violate("the last sweep: " + swept.ToString());
  }
  if (!ended() && leader.leads() && job_->world->Chance(500)) (void)leader.Resign();
}

Status LeaderProcess::Lead(Leader* leader) {
  for (;;) {
    const Status taken = leader->TryLead();
    if (taken.ok()) break;
    if (ended() || job_->over()) return taken;
    network_->Idle(&host_, static_cast<int64_t>(job_->lease_ttl_ms) * 500);
  }
  job_->world->Note(host_.name, "leads", "", "");
  job_->directory->Tell();
  return {};
}

Status LeaderProcess::RunAttempt(Leader* leader) {
  CAIRN_RETURN_IF_ERROR(RenewInTime(leader));
  CAIRN_RETURN_IF_ERROR(Ask("resolve", [&] { return leader->Resolve(); }));
  job_->directory->Tell();
  for (int idle = 0; idle < 10 && !job_->directory->IsReady(); ++idle) {
    Idle();
    if (ended()) return Status::Unavailable("killed");
  }
  if (!job_->directory->IsReady()) return {};
  const auto attempt = leader->Admit(job_->directory->assignment(), {cleaner_.name()});
  if (!attempt.ok()) {
    // One whose admission was in doubt, or came late, is resolved before the next one.
    if (attempt.status().code() != StatusCode::kInvalidArgument) Tell("admit", attempt.status());
    return attempt.status();
  }
  job_->oracle->GaveOut(attempt->id);
  job_->directory->Announce(*attempt);
  const Status decided = Decide(leader, attempt->id);
  if (job_->attempts_left > 0) --job_->attempts_left;
  if (!decided.ok()) {
    job_->world->Note(host_.name, "gives up", std::to_string(attempt->id.value), "");
    const Status aborted = Ask("abort", [&] { return leader->Abort(attempt->id); });
    job_->directory->Tell();
    return aborted.code() == StatusCode::kAlreadyExists ? Status() : aborted;
  }
  job_->oracle->Acknowledged(attempt->id);
  job_->directory->Tell();
  return CleanUp(leader);
}

Status LeaderProcess::Decide(Leader* leader, base::CheckpointId id) {
  for (int looks = 0; looks < 60; ++looks) {
    Idle();
    CAIRN_RETURN_IF_ERROR(RenewInTime(leader));
    const auto missing = Ask("collect", [&] { return leader->Collect(); });
    if (!missing.ok()) return missing.status();
    // A node that was succeeded will not save its share any more.
    if (!missing->empty() && leader->head().FindActive(id) != nullptr &&
        leader->head().FindActive(id)->fence != job_->directory->assignment().Fence()) {
      return Status::Unavailable("a node has another process by now");
    }
    if (!missing->empty()) continue;
    if (job_->world->Chance(job_->abandon)) return Status::Unavailable("given up");
    if (Has(PlantedBug::kAckBeforePersist)) job_->oracle->Acknowledged(id);
    return Ask("decide", [&] { return leader->Decide(); }).status();
  }
  return Status::Unavailable("shares are missing");
}

Status LeaderProcess::CleanUp(Leader* leader) {
  if (Has(PlantedBug::kDeleteByListing)) return DeleteByListing();
  const auto retired = Ask("retire", [&] { return leader->Retire(); });
  if (!retired.ok()) return retired.status();
  if (!job_->world->Chance(300)) return {};
  return Ask("sweep", [&] { return leader->Sweep(); }).status();
}

Status LeaderProcess::DeleteByListing() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                         objects_->List(std::string(checkpoint::kNodesPrefix)));
  for (const env::ObjectInfo& info : found) {
    const auto owner = checkpoint::shared::OwnerOfKey(info.key);
    if (owner && owner->id.value + job_->retained <= job_->oracle->latest().value) {
      CAIRN_RETURN_IF_ERROR(objects_->Delete(info.key));
    }
  }
  return {};
}

}  // namespace cairn::sim
