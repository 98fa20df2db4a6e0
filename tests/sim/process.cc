// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <algorithm>
#include <utility>

#include "cairn/hash.h"
#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "checkpoint/retention.h"
#include "sim_object_store.h"
#include "sim_repetition.h"
#include "unfenced_object_store.h"

namespace cairn::sim {
namespace {

using checkpoint::CapturedCut;
using checkpoint::PersistedCut;
using checkpoint::testing::ModelTables;
using checkpoint::testing::SlotOf;

constexpr uint32_t kKeyGroups = 8;

const std::vector<state::SlotDescriptor>& Slots() {
  static const std::vector<state::SlotDescriptor>* slots =
      new std::vector<state::SlotDescriptor>{SlotOf("out/count/0")};
  return *slots;
}

bool CanRetry(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kResourceExhausted;
}

}  // namespace

Process::Process(Job* job, Network* network) : job_(job), network_(network) {
  host_.incarnation = ++job->incarnations;
  host_.name = "p" + std::to_string(host_.incarnation);
  options_.pipeline.job = "simulated";
  options_.pipeline.components = {{"source", "in", "{}", false},
                                  {"operator", "out/count/0", "{}", false},
                                  {"sink", "out", "{}", true}};
  options_.key_groups = kKeyGroups;
  options_.retained = job->retained;
  options_.rebase_chunks = job->rebase_chunks;
  options_.rebase_bytes_min = job->rebase_bytes_min;
  options_.clock = job->world->clock();
  options_.random = job->world->random();
}

Status Process::Check(const char* what, Status status) {
  if (status.ok() || host_.dead || job_->world->stopped()) return status;
  job_->world->Note(host_.name, what, status.message(), "failed");
  if (status.message().find("opened again") != std::string_view::npos) {
    job_->world->Count(Met::kInDoubt);
  }
  if (status.code() == StatusCode::kFenced && job_->oracle->IsDeposed(host_.incarnation)) {
    job_->world->Count(Met::kZombieFenced);
  }
  job_->oracle->Failed(host_.incarnation, what, status);
  return status;
}

Process::Subtask& Process::OwnerOf(const std::string& key) {
  const auto p = static_cast<uint32_t>(subtasks_.size());
  return subtasks_[OwnerOfKeyGroup(KeyGroupOf(key, kKeyGroups), p, kKeyGroups)];
}

Status Process::Run(uint32_t attempts) {
  CAIRN_RETURN_IF_ERROR(Check("open", Open()));
  CAIRN_RETURN_IF_ERROR(Check("recover", Recover()));
  for (; attempts > 0 && !host_.dead && !job_->world->stopped(); --attempts) {
    if (job_->attempts_left == 0) break;
    --job_->attempts_left;
    ReadInput();
    network_->Idle(&host_, job_->idle_us);
    if (job_->world->Chance(50)) store_->MaterializeNow();
    CAIRN_RETURN_IF_ERROR(Checkpoint());
  }
  return host_.dead ? Status::Unavailable("killed") : Status();
}

Status Process::Open() {
  if (Has(PlantedBug::kSweepBeforeTakeover)) CAIRN_RETURN_IF_ERROR(SweepUndecided());
  std::unique_ptr<env::ObjectStore> objects;
  if (Has(PlantedBug::kUnfencedHead)) {
    objects = std::make_unique<UnfencedObjectStore>(network_, job_->bucket, &host_);
  } else {
    objects = std::make_unique<SimObjectStore>(network_, job_->bucket, &host_);
  }
  std::unique_ptr<env::FileLock> lease;
  if (job_->lease) {
    CAIRN_ASSIGN_OR_RETURN(lease, TakeLease(objects.get()));
  }
  CAIRN_ASSIGN_OR_RETURN(store_,
                         checkpoint::OpenStore(std::move(objects), std::move(lease), options_));
  job_->oracle->Opened(host_.incarnation);
  return {};
}

Result<std::unique_ptr<env::FileLock>> Process::TakeLease(env::ObjectStore* objects) {
  World* const world = job_->world;
  checkpoint::LeaseOptions options;
  options.holder = {"a machine that is simulated", host_.incarnation, 1, host_.name};
  options.clock = world->clock();
  options.repeat = [world](int64_t period_ms, std::function<bool()> task) {
    return std::make_unique<SimRepetition>(world, period_ms, std::move(task));
  };
  const int64_t begun_us = world->now_us();
  auto lease = checkpoint::AcquireLease(objects, options);
  if (lease.ok() && world->now_us() - begun_us > options.ttl_ms * 1000) {
    world->Count(Met::kLeaseWaited);
  }
  return lease;
}

Status Process::Recover() {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const checkpoint::Cut> cut, store_->Recover());
  const auto p = static_cast<uint32_t>(1 + job_->world->Draw(2));
  for (uint32_t i = 0; i < p; ++i) {
    subtasks_.push_back({std::make_unique<ModelTables>(checkpoint::testing::TablesSpec{
                             Slots(), i, KeyGroupsOfSubtask(i, p, kKeyGroups), kKeyGroups,
                             store_->slot_hash_seed()}),
                         std::nullopt});
  }
  CutContent content;
  if (cut != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(content, Load(*cut));
  }
  job_->oracle->Recovered(host_.incarnation,
                          cut == nullptr ? std::nullopt : std::optional(cut->id()), content);
  offset_ = prepared_until_ = content.offset;
  rows_ = content.rows;
  pieces_ = content.pieces;
  std::set<std::string> listed;
  for (const PreparedPiece& piece : pieces_) listed.insert(piece.descriptor);
  CAIRN_RETURN_IF_ERROR(PublishPieces());
  CAIRN_ASSIGN_OR_RETURN(const base::CheckpointId first, store_->NextId());
  job_->oracle->GaveOut(first);
  return job_->sink->DiscardAllBut(network_, &host_, listed, first);
}

Result<CutContent> Process::Load(const checkpoint::Cut& cut) {
  std::vector<std::vector<state::StateTable*>> tables;
  for (Subtask& subtask : subtasks_) tables.push_back(subtask.tables->tables());
  CAIRN_RETURN_IF_ERROR(checkpoint::LoadState(cut, tables, &executor_).status());
  CutContent content;
  for (Subtask& subtask : subtasks_) {
    (void)subtask.tables->Capture();
    subtask.committed = subtask.tables->EpochOf({});
    content.rows.merge(subtask.tables->Contents(0));
  }
  content.offset = std::stoull(cut.sources()[0].splits[0].position);
  if (!cut.sinks().empty()) content.pieces = cut.sinks()[0].pieces;
  return content;
}

void Process::ReadInput() {
  const uint64_t count = job_->world->Draw(job_->rows_per_checkpoint + 1);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t bits = Fnv1a64(std::to_string(offset_));
    const std::string key = "k" + std::to_string(bits % job_->keys);
    if (bits >> 32 & 1 && rows_.contains(key)) {
      OwnerOf(key).tables->Erase(0, key);
      rows_.erase(key);
    } else {
      rows_[key] = std::to_string(offset_) + std::string(job_->padding, ' ');
      OwnerOf(key).tables->Put(0, key, rows_[key]);
    }
    ++offset_;
  }
}

Status Process::PrepareSink(base::CheckpointId id) {
  if (prepared_until_ == offset_) return {};
  const std::string piece = host_.name + "-" + std::to_string(id.value);
  CAIRN_RETURN_IF_ERROR(
      job_->sink->Prepare(network_, &host_, {id, 0, piece}, prepared_until_, offset_));
  pieces_.push_back({id, 0, piece});
  prepared_until_ = offset_;
  return {};
}

CapturedCut Process::Capture() {
  CapturedCut captured;
  captured.parallelism = static_cast<uint32_t>(subtasks_.size());
  for (uint32_t i = 0; i < subtasks_.size(); ++i) {
    checkpoint::CapturedSubtask one;
    one.subtask = i;
    for (state::StateTable* table : subtasks_[i].tables->tables()) one.tables.push_back(table);
    one.view = subtasks_[i].tables->Capture();
    one.committed_epoch = subtasks_[i].committed;
    subtasks_[i].captured = subtasks_[i].tables->EpochOf(one.view);
    captured.subtasks.push_back(std::move(one));
  }
  checkpoint::SourceOffsets source;
  source.source = "in";
  source.splits.push_back({"0", std::to_string(offset_), false});
  captured.sources.push_back(std::move(source));
  if (!pieces_.empty()) captured.sinks.push_back({"out", pieces_});
  return captured;
}

Status Process::Checkpoint() {
  Result<base::CheckpointId> id = store_->NextId();
  if (!id.ok()) return Check("take an id", id.status());
  job_->oracle->GaveOut(*id);
  const Status decided = Decide(*id);
  if (decided.ok()) return Committed(*id);
  GiveUp();
  return CanRetry(decided) ? Status() : decided;
}

Status Process::Decide(base::CheckpointId id) {
  CAIRN_RETURN_IF_ERROR(Check("prepare", PrepareSink(id)));
  job_->oracle->Captured(id, {offset_, rows_, pieces_});
  if (Has(PlantedBug::kAckBeforePersist)) job_->oracle->Acknowledged(id);
  const Result<PersistedCut> persisted = store_->Persist(id, Capture(), &executor_);
  if (!persisted.ok()) return Check("persist", persisted.status());
  job_->world->Note(host_.name, "persisted", std::to_string(id.value),
                    std::to_string(persisted->rows_new) + " rows, " +
                        std::to_string(persisted->frames_reused) + " frames reused");
  if (job_->world->Chance(job_->abandon)) {
    job_->world->Count(Met::kAbandoned);
    (void)Check("abandon", store_->Abandon(*persisted));
    return Status::Unavailable("given up");
  }
  if (Has(PlantedBug::kPublishBeforeDecision)) CAIRN_RETURN_IF_ERROR(PublishPieces());
  return Check("commit", store_->Commit(*persisted));
}

void Process::GiveUp() {
  if (Has(PlantedBug::kDeltaLostOnAbort)) {
    for (Subtask& subtask : subtasks_) {
      if (subtask.committed) subtask.committed = std::max(*subtask.committed, subtask.captured);
    }
  }
  if (Has(PlantedBug::kPiecesLostOnAbort)) pieces_.clear();
}

Status Process::Committed(base::CheckpointId id) {
  job_->world->Note(host_.name, "committed", std::to_string(id.value), "");
  job_->oracle->Acknowledged(id);
  for (Subtask& subtask : subtasks_) subtask.committed = subtask.captured;
  CAIRN_RETURN_IF_ERROR(Check("publish", PublishPieces()));
  Retire();
  return {};
}

Status Process::PublishPieces() {
  for (const PreparedPiece& piece : pieces_) {
    CAIRN_RETURN_IF_ERROR(job_->sink->Publish(network_, &host_, piece.descriptor));
  }
  pieces_.clear();
  return {};
}

void Process::Retire() {
  if (Has(PlantedBug::kDeleteByListing)) {
    (void)DeleteByListing();
  } else {
    (void)Check("retire", store_->Retire().status());
  }
}

// Two ways to delete that are wrong.
Status Process::DeleteByListing() {
  SimObjectStore objects(network_, job_->bucket, &host_);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<base::CheckpointId> ids,
                         checkpoint::ListCheckpointIds(&objects));
  for (size_t i = 0; i + job_->retained < ids.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(checkpoint::DeleteUndecided(&objects, ids[i]));
  }
  return {};
}

Status Process::SweepUndecided() {
  SimObjectStore objects(network_, job_->bucket, &host_);
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::Place place, checkpoint::ReadPlace(&objects));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<base::CheckpointId> ids,
                         checkpoint::ListCheckpointIds(&objects));
  const std::vector<format::CutReference> cuts = place.Cuts();
  const base::CheckpointId latest = cuts.empty() ? base::CheckpointId() : cuts.front().id;
  for (base::CheckpointId id : ids) {
    if (id > latest) CAIRN_RETURN_IF_ERROR(checkpoint::DeleteUndecided(&objects, id));
  }
  return {};
}

}  // namespace cairn::sim
