// SPDX-License-Identifier: Apache-2.0
#include "engine/foreign_cut.h"

#include <charconv>
#include <utility>

#include "checkpoint/damage_advice.h"
#include "checkpoint/inspect.h"
#include "checkpoint/lease.h"
#include "checkpoint/loaded_cut.h"
#include "checkpoint/pipeline.h"
#include "checkpoint/saved_pipeline.h"
#include "engine/backend_uri.h"
#include "env/object_place.h"

namespace cairn::engine {
namespace {

std::optional<base::CheckpointId> ParseId(std::string_view text) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return base::CheckpointId(id);
}

}  // namespace

Result<Origin> ParseOrigin(std::string_view from) {
  Origin origin;
  if (from.empty()) return origin;
  origin.id = ParseId(from);
  if (origin.id.has_value()) return origin;
  std::string_view place = from;
  if (const size_t at = from.rfind('@'); at != std::string_view::npos) {
    origin.id = ParseId(from.substr(at + 1));
    if (origin.id.has_value()) place = from.substr(0, at);
  }
  CAIRN_ASSIGN_OR_RETURN(origin.place, ParsePlaceUri(place));
  return origin;
}

Result<format::CutReference> ChooseCut(const checkpoint::Place& place, const Origin& origin) {
  Result<format::CutReference> cut = checkpoint::ChooseRestorable(place, origin.id);
  if (!cut.ok()) return cut.status().WithContext(origin.place);
  return cut;
}

Result<std::unique_ptr<ForeignCut>> ForeignCut::Open(env::FileSystem* files, const Origin& origin,
                                                     const PreparedJob& job,
                                                     const RestoreConsent& consent) {
  std::unique_ptr<ForeignCut> foreign(new ForeignCut());
  CAIRN_ASSIGN_OR_RETURN(foreign->objects_, env::OpenObjects(files, origin.place));
  CAIRN_RETURN_IF_ERROR(foreign->TakeLock(files, origin));
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::Place place, checkpoint::OpenPlace(files, origin.place));
  CAIRN_ASSIGN_OR_RETURN(const format::CutReference reference, ChooseCut(place, origin));
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const format::CheckpointManifest> manifest,
                         checkpoint::ReadManifest(foreign->objects_.get(), place, reference));
  const uint32_t key_groups = job.options.state_key_groups;
  CAIRN_ASSIGN_OR_RETURN(const format::PipelineIdentity identity,
                         checkpoint::IdentityOf(job.built.pipeline, key_groups));
  foreign->saved_ = job.built.pipeline;
  if (manifest->pipeline_identity != identity || !consent.empty()) {
    CAIRN_ASSIGN_OR_RETURN(
        foreign->saved_,
        checkpoint::PipelineOfManifest(foreign->objects_.get(), place, *manifest, origin.place));
    CAIRN_ASSIGN_OR_RETURN(const std::vector<SlotDescriptor> slots, SlotsOf(job));
    CAIRN_ASSIGN_OR_RETURN(
        foreign->plan_,
        PlanRestore(foreign->saved_, *manifest, job.built.pipeline, slots, key_groups, consent));
    if (!foreign->plan_.restorable()) {
      return Status::InvalidArgument(
          "checkpoint " + std::to_string(reference.id.value) + " of " + origin.place +
          " is of another version of this job and cannot be restored as it is:\n  " +
          foreign->plan_.Refusals() + "\n--plan shows the whole of it and runs nothing");
    }
  }
  auto cut = checkpoint::LoadedCut::Open(foreign->objects_.get(), manifest, nullptr,
                                         foreign->plan_.mapping);
  if (!cut.ok()) {
    return checkpoint::AdviseOnCut(cut.status(), foreign->objects_.get(), place, reference.id);
  }
  foreign->cut_ = *std::move(cut);
  foreign->place_ = origin.place;
  foreign->deployment_id_ = place.identity->deployment_id;
  return foreign;
}

Status ForeignCut::TakeLock(env::FileSystem* files, const Origin& origin) {
  Result<std::unique_ptr<env::FileLock>> lock = LockOf(files, origin.place);
  if (lock.ok()) {
    lock_ = *std::move(lock);
    return {};
  }
  if (lock.status().code() == StatusCode::kFenced) {
    return lock.status().WithContext("the job of " + origin.place +
                                     " runs; stop it before another goes on from its checkpoint");
  }
  return {};  // where nothing may be written, no job runs
}

Result<std::unique_ptr<env::FileLock>> ForeignCut::LockOf(env::FileSystem* files,
                                                          const std::string& place) {
  if (env::IsBucket(place)) return checkpoint::AcquireLease(objects_.get());
  const std::string path = env::JoinPath(place, "LOCK");
  CAIRN_RETURN_IF_ERROR(files->Stat(path).status());  // none: a copy, on which no job ever ran
  return files->Lock(path);
}

}  // namespace cairn::engine
