// SPDX-License-Identifier: Apache-2.0
//
// Syncs of one checkpoint in a directory, at most six: the new directory's name in its parent, the
// object's bytes, the manifest's bytes, the directory (both names), the head's bytes, control/.
#include "checkpoint/store.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "checkpoint/cut_writer.h"
#include "checkpoint/damage_advice.h"
#include "checkpoint/layout.h"
#include "checkpoint/loaded_cut.h"
#include "checkpoint/pipeline.h"
#include "checkpoint/place.h"
#include "checkpoint/plan.h"
#include "checkpoint/retention.h"
#include "checkpoint/view_log_objects.h"
#include "format/store_records.h"

namespace cairn::checkpoint {
namespace {

using ManifestPtr = std::shared_ptr<const format::CheckpointManifest>;

constexpr uint64_t kPipelineBytesMax = 16 << 20;
constexpr uint32_t kRetainedMax = 16;
// Blocks of ids tried when the answer to taking one is lost.
constexpr int kReserveAttempts = 3;

/// A cut between Persist and Commit.
struct PendingCut {
  format::CutReference reference;
  ManifestPtr manifest;
};

class Store final : public CheckpointStore {
 public:
  Store(std::unique_ptr<env::ObjectStore> objects, std::unique_ptr<env::FileLock> lock,
        StoreOptions options)
      : objects_(std::move(objects)),
        lock_(std::move(lock)),
        options_(std::move(options)),
        retention_(objects_.get()) {
    if (options_.clock == nullptr) options_.clock = env::SystemClock();
    if (options_.random == nullptr) options_.random = env::SystemRandom();
  }

  Status Open();

  Result<std::shared_ptr<const Cut>> Recover() override;
  Result<std::shared_ptr<const Cut>> RecoverAt(base::CheckpointId id) override;
  Result<base::CheckpointId> NextId() override;
  Result<PersistedCut> Persist(base::CheckpointId id, const CapturedCut& captured,
                               Executor* executor) override;
  Status Commit(const PersistedCut& persisted) override;
  Status Abandon(const PersistedCut& persisted) override;
  Result<RetireReport> Retire() override;
  void MaterializeNow() override { materialize_next_.store(true, std::memory_order_release); }

  base::CheckpointId latest_commit() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return place_.head->latest_commit ? place_.head->latest_commit->id : base::CheckpointId();
  }
  uint64_t slot_hash_seed() const override { return deployment_.slot_hash.seed; }
  const std::string& deployment_id() const override { return deployment_.deployment_id; }
  base::CheckpointId first_id() const override { return first_id_; }
  env::StoreUse use() const override { return objects_->use(); }
  uint64_t expected_bytes() const override { return expected_bytes_; }
  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  Status CheckOptions() const;
  Status CheckFormat(const format::StoreFormat& format);
  Status CheckPipeline(const format::CheckpointManifest& manifest) const;
  Status MakePlace();
  Status ReadCuts();
  Status SweepLeftovers();
  Status ReserveIds();
  Status ReplaceHeadLocked(const format::DecisionHead& head);
  void WritePipelineHint();
  Status NoteOrigin();
  void Reach(Step step) const {
    if (options_.observer) options_.observer(step);
  }
  Status CheckUsable() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return latched_;
  }
  Result<std::shared_ptr<const Cut>> OpenCut(const format::CutReference& reference);
  Status CheckId(base::CheckpointId id) const;
  Result<PersistedCut> WriteCut(base::CheckpointId id, const CapturedCut& captured,
                                bool materialize, Executor* executor);
  bool HasExactlyOnceOutput(const CapturedCut& captured) const;
  format::DecisionHead HeadWith(const format::CutReference& cut) const;
  std::string NewUuid() const { return env::NewUuid(options_.clock, options_.random); }
  Result<WrittenViewLogs> WriteLogs(base::CheckpointId id, const CapturedCut& captured,
                                    Executor* executor);
  /// Remove what an attempt left that was not committed; what cannot go now goes later.
  void Discard(base::CheckpointId id) {
    if (!DeleteUndecided(objects_.get(), id).ok()) retention_.Nominate(id);
    for (const std::string& key : attempt_segments_) {
      if (!objects_->Delete(key).ok()) retention_.NominateObject(key);
    }
  }

  std::unique_ptr<env::ObjectStore> objects_;
  std::unique_ptr<env::FileLock> lock_;  // after the objects: a lease is given back through them
  StoreOptions options_;
  ManifestFrame deployment_;
  std::vector<std::string> notes_;
  format::RowBufferPool buffers_;
  std::atomic<bool> materialize_next_{false};
  std::atomic<uint64_t> expected_bytes_{0};

  // Of the thread that runs checkpoints.
  Retention retention_;
  bool base_chosen_ = false;
  ManifestPtr base_;  // null = no committed cut
  std::optional<PendingCut> pending_;
  base::CheckpointId last_attempt_;
  std::vector<std::string> attempt_segments_;  // of view logs, that the last attempt may have made

  mutable std::mutex mutex_;  // guards what follows
  Place place_;
  uint64_t next_id_ = 0;
  base::CheckpointId first_id_;
  uint64_t reserved_until_ = 0;
  Status latched_;
};

Status Store::CheckOptions() const {
  if (options_.retained < 1 || options_.retained > kRetainedMax) {
    return Status::InvalidArgument("checkpoint.retained is " + std::to_string(options_.retained) +
                                   "; it may be 1 to " + std::to_string(kRetainedMax));
  }
  return format::KeyLayout::ForKeyGroups(options_.key_groups).status();
}

Status Store::CheckFormat(const format::StoreFormat& format) {
  if (format.key_groups != options_.key_groups) {
    return Status::InvalidArgument("the place was made for " + std::to_string(format.key_groups) +
                                   " key groups, this job asks for " +
                                   std::to_string(options_.key_groups) +
                                   "; set state.key_groups back or choose another place");
  }
  if (!options_.fsync && format.durability == "full") {
    return Status::InvalidArgument(
        "the place was made with fsync; fs.fsync = false needs a place of its own");
  }
  if (format.durability == "none") {
    notes_.push_back("the place is marked durability: none; a power cut may damage it");
  }
  return {};
}

Status Store::CheckPipeline(const format::CheckpointManifest& manifest) const {
  if (manifest.pipeline_identity == deployment_.pipeline_identity) return {};
  std::string difference;
  Result<env::VersionedBytes> saved = objects_->Get(std::string(kPipelineKey), kPipelineBytesMax);
  if (saved.ok()) difference = DifferenceOf(saved->bytes, options_.pipeline);
  if (difference.empty()) difference = "what differs is not on record";
  return Status::InvalidArgument("checkpoint " + std::to_string(manifest.checkpoint_id.value) +
                                 " is of pipeline \"" + place_.identity->pipeline_name +
                                 "\", not of this one: " + difference +
                                 "; run that job here, or choose another place for this one");
}

Status Store::MakePlace() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!place_.format) {
    format::StoreFormat format;
    format.durability = options_.fsync ? "full" : "none";
    format.key_groups = options_.key_groups;
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeStoreFormat(format));
    CAIRN_RETURN_IF_ERROR(CreateRecord(objects_.get(), std::string(kFormatKey), bytes));
    place_.format = format;
  }
  if (!place_.identity) {
    format::DeploymentIdentity identity;
    identity.deployment_id = options_.deployment_id.empty() ? NewUuid() : options_.deployment_id;
    identity.created_ms = static_cast<uint64_t>(options_.clock->UnixMillis());
    identity.pipeline_name = options_.pipeline.job;
    identity.slot_hash.seed =
        options_.slot_hash_seed ? *options_.slot_hash_seed : options_.random->Next();
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeDeploymentIdentity(identity));
    CAIRN_RETURN_IF_ERROR(CreateRecord(objects_.get(), std::string(kIdentityKey), bytes));
    place_.identity = identity;
  }
  format::DecisionHead head;
  head.deployment_id = place_.identity->deployment_id;
  next_id_ = head.next_id.value;
  head.next_id.value += format::kCheckpointIdBlock;
  reserved_until_ = head.next_id.value;
  const Status made = ReplaceHeadLocked(head);
  return !made.ok() && place_.head == head ? ReserveIds() : made;
}

Status Store::ReadCuts() {
  for (const format::CutReference& cut : place_.Cuts()) {
    Result<ManifestPtr> manifest = TryManifest(objects_.get(), place_, cut);
    if (manifest.ok()) {
      retention_.Add(**manifest);
      // The newest readable cut says whose place this is, before anything is written here.
      if (deployment_.deployment_id.empty()) {
        deployment_.deployment_id = place_.identity->deployment_id;
        CAIRN_RETURN_IF_ERROR(CheckPipeline(**manifest));
      }
    } else if (manifest.status().code() == StatusCode::kCorruption) {
      notes_.push_back("retained checkpoint " + std::to_string(cut.id.value) +
                       " cannot be read: " + std::string(manifest.status().message()));
      retention_.AddUnreadable(cut.id, manifest.status());
    } else {
      return manifest.status();
    }
  }
  return {};
}

// A directory is no cut of its own right. Above the latest commit it is an attempt that was never
// decided. Below, it is what an interrupted deletion or a failed attempt left, or an object that
// retained cuts reference: the books decide.
Status Store::SweepLeftovers() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<base::CheckpointId> ids,
                         ListCheckpointIds(objects_.get()));
  const base::CheckpointId latest =
      place_.head->latest_commit ? place_.head->latest_commit->id : base::CheckpointId();
  for (base::CheckpointId id : ids) {
    // Of a process that has succeeded this one meanwhile: it may have been decided since.
    if (id.value >= next_id_) continue;
    if (id > latest) {
      CAIRN_RETURN_IF_ERROR(DeleteUndecided(objects_.get(), id));
      notes_.push_back("removed the unfinished checkpoint " + std::to_string(id.value));
    } else {
      retention_.Nominate(id);
    }
  }
  // One that cannot be looked for costs space, which is no reason not to start.
  const Result<uint64_t> ended = objects_->EndUnfinished(
      std::string(kCheckpointsPrefix), UploadsOfEarlierIds(base::CheckpointId(next_id_)));
  if (ended.ok() && *ended > 0) {
    notes_.push_back("ended " + std::to_string(*ended) + " unfinished uploads");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<ListedSegment> segments,
                         ListViewLogSegments(objects_.get()));
  for (const ListedSegment& segment : segments) {
    // Of a process that has succeeded this one meanwhile: it may have been decided since.
    if (segment.origin.value >= next_id_) continue;
    if (segment.origin > latest) {
      CAIRN_RETURN_IF_ERROR(objects_->Delete(segment.key));
    } else {
      retention_.NominateObject(segment.key);
    }
  }
  return {};
}

Status Store::ReserveIds() {
  Status reserved;
  for (int attempt = 0; attempt < kReserveAttempts; ++attempt) {
    format::DecisionHead head = *place_.head;
    const uint64_t first = head.next_id.value;
    ++head.seq;
    head.next_id.value += format::kCheckpointIdBlock;
    reserved = ReplaceHeadLocked(head);
    if (reserved.ok()) {
      next_id_ = first;
      reserved_until_ = head.next_id.value;
    }
    // Equal bytes may be another process's, and so the block: only the one behind it can be ours.
    if (reserved.ok() || place_.head != head) break;
  }
  return reserved;
}

Status Store::ReplaceHeadLocked(const format::DecisionHead& head) {
  bool in_doubt = false;
  Status replaced = ReplaceHead(objects_.get(), head, &place_, &in_doubt);
  if (in_doubt || replaced.code() == StatusCode::kFenced) {
    latched_ = replaced.WithContext("the store must be opened again");
  }
  return replaced;
}

void Store::WritePipelineHint() {
  Result<std::string> text = DescribePipeline(options_.pipeline);
  if (!text.ok()) return;
  Result<env::VersionedBytes> saved = objects_->Get(std::string(kPipelineKey), kPipelineBytesMax);
  if (saved.ok() && saved->bytes == *text) return;
  (void)objects_->PutHint(std::string(kPipelineKey), *text);  // only messages need it
}

/// Until there is a cut, only this note tells that the job did not begin from the start.
Status Store::NoteOrigin() {
  if (place_.head->latest_commit) return {};
  if (options_.origin.empty()) return RefuseLostOrigin(objects_.get());
  const std::string key(kOriginKey);
  const Result<env::VersionedBytes> there = objects_->Get(key, format::kSmallRecordBytesMax);
  if (there.ok() && there->bytes == options_.origin) return {};
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  const auto version = there.ok() ? std::optional<std::string>(there->version) : std::nullopt;
  return objects_->CompareAndSwap(key, version, options_.origin).status();
}

Status Store::Open() {
  CAIRN_RETURN_IF_ERROR(CheckOptions());
  CAIRN_ASSIGN_OR_RETURN(deployment_.pipeline_identity,
                         IdentityOf(options_.pipeline, options_.key_groups));
  CAIRN_ASSIGN_OR_RETURN(place_, ReadPlace(objects_.get()));
  if (place_.format) CAIRN_RETURN_IF_ERROR(CheckFormat(*place_.format));
  if (place_.head && place_.head->latest_commit && options_.fresh) {
    return Status::InvalidArgument("--fresh: the place already holds checkpoint " +
                                   std::to_string(place_.head->latest_commit->id.value) +
                                   "; choose an empty place, or run without --fresh to resume");
  }
  if (place_.head) {
    CAIRN_RETURN_IF_ERROR(ReadCuts());
    {
      // Also makes what was read durable: an earlier process may have died between rename and sync.
      // And the turning point of a takeover: from here on no earlier process can commit, so what it
      // has not decided is nobody's and may be swept. Swept before, it could still be committed.
      std::lock_guard<std::mutex> lock(mutex_);
      CAIRN_RETURN_IF_ERROR(ReserveIds());
    }
    CAIRN_RETURN_IF_ERROR(SweepLeftovers());
  } else {
    CAIRN_RETURN_IF_ERROR(MakePlace());
  }
  deployment_.deployment_id = place_.identity->deployment_id;
  deployment_.slot_hash = place_.identity->slot_hash;
  deployment_.key_groups = options_.key_groups;
  first_id_ = base::CheckpointId(next_id_);
  for (const PipelineComponent& component : options_.pipeline.components) {
    if (component.kind == "source") deployment_.source_names.push_back(component.name);
    if (component.kind == "sink") deployment_.sink_names.push_back(component.name);
  }
  std::sort(deployment_.source_names.begin(), deployment_.source_names.end());
  std::sort(deployment_.sink_names.begin(), deployment_.sink_names.end());
  WritePipelineHint();
  return NoteOrigin();
}

Result<std::shared_ptr<const Cut>> Store::OpenCut(const format::CutReference& reference) {
  CAIRN_ASSIGN_OR_RETURN(ManifestPtr manifest, ReadManifest(objects_.get(), place_, reference));
  CAIRN_RETURN_IF_ERROR(CheckPipeline(*manifest));
  Result<std::shared_ptr<const LoadedCut>> cut =
      LoadedCut::Open(objects_.get(), manifest, options_.migrations.get());
  if (!cut.ok()) return AdviseOnCut(cut.status(), objects_.get(), place_, reference.id);
  base_ = std::move(manifest);
  base_chosen_ = true;
  return std::shared_ptr<const Cut>(*std::move(cut));
}

Result<std::shared_ptr<const Cut>> Store::Recover() {
  CAIRN_RETURN_IF_ERROR(CheckUsable());
  if (!place_.head->latest_commit) {
    base_chosen_ = true;
    return std::shared_ptr<const Cut>();
  }
  return OpenCut(*place_.head->latest_commit);
}

Result<std::shared_ptr<const Cut>> Store::RecoverAt(base::CheckpointId id) {
  CAIRN_RETURN_IF_ERROR(CheckUsable());
  CAIRN_ASSIGN_OR_RETURN(const format::CutReference wanted, ChooseRestorable(place_, id));
  return OpenCut(wanted);
}

Result<base::CheckpointId> Store::NextId() {
  std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_RETURN_IF_ERROR(latched_);
  if (next_id_ == reserved_until_) CAIRN_RETURN_IF_ERROR(ReserveIds());
  return base::CheckpointId(next_id_++);
}

Status Store::CheckId(base::CheckpointId id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_RETURN_IF_ERROR(latched_);
  if (!base_chosen_) {
    return Status::Internal("Persist before Recover: what the place holds would be forgotten");
  }
  if (id.value >= next_id_ || id <= last_attempt_) {
    return Status::Internal("checkpoint id " + std::to_string(id.value) +
                            " was not given out, or was used before");
  }
  return {};
}

bool Store::HasExactlyOnceOutput(const CapturedCut& captured) const {
  for (const PreparedSink& sink : captured.sinks) {
    if (sink.pieces.empty()) continue;
    for (const PipelineComponent& component : options_.pipeline.components) {
      if (component.kind == "sink" && component.name == sink.sink && component.exactly_once) {
        return true;
      }
    }
  }
  return false;
}

Result<WrittenViewLogs> Store::WriteLogs(base::CheckpointId id, const CapturedCut& captured,
                                         Executor* executor) {
  ViewLogPlanOptions options;
  options.segment_bytes = options_.view_log_segment_bytes;
  if (options_.view_log_segment_limit != 0) options.segment_limit = options_.view_log_segment_limit;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<ViewLogPlan> plans,
                         PlanViewLogs(captured, base_.get(), options));
  return WriteViewLogs(objects_.get(), plans, options, id, executor, &attempt_segments_);
}

Result<PersistedCut> Store::WriteCut(base::CheckpointId id, const CapturedCut& captured,
                                     bool materialize, Executor* executor) {
  Reach(Step::kPersist);
  const Attempt attempt{id, NewUuid(), static_cast<uint64_t>(options_.clock->UnixMillis()),
                        base_.get()};
  CAIRN_ASSIGN_OR_RETURN(const CutPlan plan,
                         PlanCut(captured, base_.get(),
                                 {options_.rebase_chunks, options_.rebase_bytes_min, materialize}));
  expected_bytes_ = ExpectedBytes(plan, base_.get());
  CAIRN_ASSIGN_OR_RETURN(
      const WrittenObject written,
      WriteObject(objects_.get(), captured, plan, deployment_, attempt, &buffers_, executor));
  CAIRN_ASSIGN_OR_RETURN(const WrittenViewLogs logs, WriteLogs(id, captured, executor));
  CAIRN_ASSIGN_OR_RETURN(format::CheckpointManifest manifest,
                         MakeManifest(captured, plan, deployment_, attempt, written, logs.logs));
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeManifest(manifest));
  Reach(Step::kManifest);
  CAIRN_RETURN_IF_ERROR(CreateRecord(objects_.get(), ManifestKey(id), bytes));

  PersistedCut persisted;
  persisted.id = id;
  persisted.manifest_sha256 = base::Sha256::HexOf(bytes);
  persisted.manifest_length = bytes.size();
  persisted.has_object = written.summary.has_value();
  persisted.view_log_rows_new = logs.rows_new;
  persisted.view_log_segments_new = logs.segments_new;
  persisted.view_log_bytes_new = logs.bytes_new;
  persisted.problems = logs.problems;
  for (const format::StateFrame& frame : manifest.state_frames) {
    const bool is_new = frame.chunk == manifest.node_data.chunk;
    (is_new ? persisted.bytes_new : persisted.bytes_reused) += frame.range.length;
    ++(is_new ? persisted.frames_new : persisted.frames_reused);
    if (is_new) persisted.rows_new += frame.entry_count;
  }
  PendingCut pending;
  pending.reference.id = id;
  pending.reference.manifest_sha256 = base::Sha256::Of(bytes);
  pending.reference.manifest_length = bytes.size();
  pending.reference.exactly_once_output = HasExactlyOnceOutput(captured);
  pending.manifest = std::make_shared<const format::CheckpointManifest>(std::move(manifest));
  pending_ = std::move(pending);
  return persisted;
}

Result<PersistedCut> Store::Persist(base::CheckpointId id, const CapturedCut& captured,
                                    Executor* executor) {
  CAIRN_RETURN_IF_ERROR(CheckId(id));
  if (pending_) {
    return Status::Internal("checkpoint " + std::to_string(pending_->reference.id.value) +
                            " is neither committed nor given up");
  }
  last_attempt_ = id;
  attempt_segments_.clear();
  const bool materialize = materialize_next_.exchange(false, std::memory_order_acq_rel);
  Result<PersistedCut> persisted = WriteCut(id, captured, materialize, executor);
  if (!persisted.ok()) {
    if (materialize) MaterializeNow();
    Discard(id);
    return persisted.status().WithContext("checkpoint " + std::to_string(id.value));
  }
  return persisted;
}

format::DecisionHead Store::HeadWith(const format::CutReference& cut) const {
  format::DecisionHead head = *place_.head;
  ++head.seq;
  if (head.latest_commit) head.retained.insert(head.retained.begin(), *head.latest_commit);
  head.latest_commit = cut;
  // Pinned cuts stay, beyond the number kept.
  std::vector<format::CutReference> kept;
  for (size_t i = 0; i < head.retained.size(); ++i) {
    const bool pinned = std::any_of(
        head.pins.begin(), head.pins.end(),
        [&](const format::HeadPin& pin) { return pin.checkpoint_id == head.retained[i].id; });
    if (i + 1 < options_.retained || pinned) kept.push_back(head.retained[i]);
  }
  head.retained = std::move(kept);
  const base::CheckpointId oldest = head.retained.empty() ? cut.id : head.retained.back().id;
  head.floor = std::max(head.floor, oldest);
  return head;
}

Status Store::Commit(const PersistedCut& persisted) {
  if (!pending_ || pending_->reference.id != persisted.id) {
    return Status::Internal("checkpoint " + std::to_string(persisted.id.value) +
                            " is not the one that was persisted last");
  }
  Reach(Step::kHead);
  std::vector<format::CutReference> before;
  std::vector<format::CutReference> after;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    CAIRN_RETURN_IF_ERROR(latched_);
    before = place_.Cuts();
    const Status replaced = ReplaceHeadLocked(HeadWith(pending_->reference));
    if (!replaced.ok()) {
      // In doubt, the cut may be the latest one: then nothing of it may be removed.
      if (latched_.ok()) Discard(persisted.id);
      pending_.reset();
      return replaced.WithContext("checkpoint " + std::to_string(persisted.id.value));
    }
    after = place_.Cuts();
  }
  base_ = pending_->manifest;
  pending_.reset();
  retention_.Add(*base_);
  // Those of a merge that failed halfway are in no manifest.
  for (std::string& key : attempt_segments_) retention_.NominateObject(std::move(key));
  attempt_segments_.clear();
  for (const format::CutReference& cut : before) {
    if (std::find(after.begin(), after.end(), cut) == after.end()) retention_.Drop(cut.id);
  }
  // A hint for people; its loss or age harms nothing.
  (void)objects_->PutHint(std::string(kLatestKey), CheckpointDirectory(persisted.id) + "\n");
  return {};
}

Status Store::Abandon(const PersistedCut& persisted) {
  if (!pending_ || pending_->reference.id != persisted.id) {
    return Status::Internal("checkpoint " + std::to_string(persisted.id.value) +
                            " is not the one that was persisted last");
  }
  pending_.reset();
  Discard(persisted.id);
  return {};
}

Result<RetireReport> Store::Retire() {
  CAIRN_RETURN_IF_ERROR(CheckUsable());
  Reach(Step::kRetire);
  RetireReport report;
  const Status run = retention_.Run(&report);
  Reach(Step::kBetween);
  if (!run.ok()) return run.WithContext("retention");
  return report;
}

}  // namespace

std::string_view StepName(Step step) {
  switch (step) {
    case Step::kBetween:
      return "between";
    case Step::kCapture:
      return "capture";
    case Step::kPersist:
      return "persist";
    case Step::kManifest:
      return "manifest";
    case Step::kHead:
      return "head";
    case Step::kSinkCommit:
      return "sink-commit";
    case Step::kRetire:
      return "retire";
  }
  return "unknown";
}

Result<std::unique_ptr<CheckpointStore>> OpenStore(std::unique_ptr<env::ObjectStore> objects,
                                                   std::unique_ptr<env::FileLock> lock,
                                                   StoreOptions options) {
  auto store = std::make_unique<Store>(std::move(objects), std::move(lock), std::move(options));
  CAIRN_RETURN_IF_ERROR(store->Open());
  return std::unique_ptr<CheckpointStore>(std::move(store));
}

}  // namespace cairn::checkpoint
