// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/savepoint.h"

#include <utility>

#include "checkpoint/layout.h"
#include "checkpoint/place.h"

namespace cairn::checkpoint::shared {
namespace {

constexpr std::string_view kCompleteKey = "COMPLETE";

/// One folder of a store as a store. The store outlives it.
class FolderObjects final : public env::ObjectStore {
 public:
  FolderObjects(env::ObjectStore* objects, std::string folder)
      : objects_(objects), folder_(std::move(folder)) {}

  bool is_remote() const override { return objects_->is_remote(); }
  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override {
    return objects_->CreateIfAbsent(folder_ + key, bytes);
  }
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override {
    return objects_->CompareAndSwap(folder_ + key, expected, bytes);
  }
  Status PutHint(const std::string& key, std::string_view bytes) override {
    return objects_->PutHint(folder_ + key, bytes);
  }
  Result<std::unique_ptr<env::ObjectWriter>> NewWriter(const std::string& key) override {
    return objects_->NewWriter(folder_ + key);
  }
  Status PrepareFor(const std::string& key) override { return objects_->PrepareFor(folder_ + key); }
  Status SyncName(const std::string& key) override { return objects_->SyncName(folder_ + key); }
  Result<env::VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override {
    return objects_->Get(folder_ + key, max_bytes);
  }
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override {
    return objects_->ReadRange(folder_ + key, offset, out);
  }
  Result<env::ObjectInfo> Head(const std::string& key) override {
    CAIRN_ASSIGN_OR_RETURN(env::ObjectInfo info, objects_->Head(folder_ + key));
    info.key = key;
    return info;
  }
  Result<std::vector<env::ObjectInfo>> List(const std::string& prefix) override {
    CAIRN_ASSIGN_OR_RETURN(std::vector<env::ObjectInfo> found, objects_->List(folder_ + prefix));
    for (env::ObjectInfo& info : found) info.key.erase(0, folder_.size());
    return found;
  }
  Status Delete(const std::string& key) override { return objects_->Delete(folder_ + key); }

 private:
  env::ObjectStore* const objects_;
  const std::string folder_;
};

/// Copies one cut into a folder.
class SavepointCopy {
 public:
  SavepointCopy(const Seams& seams, const SharedPlace& place, const ClusterCut& cut,
                env::ObjectStore* folder)
      : seams_(seams), place_(place), cut_(cut), folder_(folder) {}

  /// Write a participant's whole share as one object with a manifest that names no other.
  Status CopyParticipant(uint64_t node) {
    const format::CheckpointManifest& saved = *cut_.manifests.at(node);
    const std::vector<KeyGroupRange>& owned = saved.cluster->owned_key_groups;
    std::map<uint16_t, std::string> groups;
    uint64_t entries = 0;
    CAIRN_RETURN_IF_ERROR(ReadGroups(seams_.objects, place_, saved, owned, &groups, &entries));
    std::set<uint16_t> write;
    for (const auto& [group, bytes] : groups) write.insert(group);

    format::ActiveAttempt attempt;
    attempt.id = cut_.id();
    attempt.attempt_id = saved.attempt_id;
    attempt.leader = saved.cluster->leader;
    attempt.fence = saved.cluster->fence;
    const ShareContext context{&place_,
                               &attempt,
                               saved.pipeline_identity,
                               saved.source_names,
                               saved.sink_names,
                               node,
                               owned,
                               saved.timestamp_ms,
                               nullptr};
    CapturedShare share;
    share.read = [&](uint16_t group) -> Result<std::string> { return groups.at(group); };
    share.source_offsets = saved.source_offsets;
    share.channel_progress = saved.channel_progress;
    CAIRN_ASSIGN_OR_RETURN(const EncodedShare encoded, EncodeShare(context, share, write, {}));
    if (!encoded.object.empty()) {
      CAIRN_RETURN_IF_ERROR(CreateRecord(folder_, NodeDataKey(node, cut_.id()), encoded.object));
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeManifest(encoded.manifest));
    CAIRN_RETURN_IF_ERROR(CreateRecord(folder_, NodeManifestKey(node, cut_.id()), bytes));
    index_participants_.push_back({node, bytes.size(), format::checkpoint_sha256(bytes),
                                   encoded.manifest.node_data.object_length,
                                   encoded.manifest.node_data.sha256});
    return {};
  }

  /// The index over the copies, the place's own records, and last what makes them count.
  Status Complete() {
    format::CommittedIndex index = cut_.index;
    index.base_cut = {};
    index.predecessor.reset();
    index.sink_names.clear();  // published long ago
    index.participants = index_participants_;
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeCommittedIndex(index));
    const format::IndexReference reference{cut_.id(), format::checkpoint_sha256(bytes),
                                           bytes.size(), cut_.reference.pipeline_sha256};
    CAIRN_RETURN_IF_ERROR(
        CreateRecord(folder_, IndexKey(reference.id, reference.index_sha256), bytes));
    CAIRN_ASSIGN_OR_RETURN(const std::string format, format::SerializeStoreFormat(place_.format));
    CAIRN_RETURN_IF_ERROR(CreateRecord(folder_, std::string(kFormatKey), format));
    CAIRN_ASSIGN_OR_RETURN(const std::string identity,
                           format::SerializeDeploymentIdentity(place_.identity));
    CAIRN_RETURN_IF_ERROR(CreateRecord(folder_, std::string(kIdentityKey), identity));
    CAIRN_ASSIGN_OR_RETURN(const std::string complete,
                           format::SerializeSavepointComplete(reference));
    return CreateRecord(folder_, std::string(kCompleteKey), complete);
  }

 private:
  const Seams& seams_;
  const SharedPlace& place_;
  const ClusterCut& cut_;
  env::ObjectStore* const folder_;
  std::vector<format::IndexedParticipant> index_participants_;
};

}  // namespace

Status WriteSavepoint(const Seams& seams, const SharedPlace& place, base::CheckpointId id,
                      const SavepointOptions& options) {
  if (options.name.empty() || options.name.find('/') != std::string::npos) {
    return Status::InvalidArgument("'" + options.name + "' is no name of a savepoint");
  }
  format::SharedPin pin{"savepoint", options.name, options.owner, id, 1, options.pin_ttl_ms};
  CAIRN_RETURN_IF_ERROR(PinCut(seams, place, pin));
  CAIRN_ASSIGN_OR_RETURN(const SeenHead seen, ReadHead(seams, place));
  const format::IndexReference* reference = seen.record->FindCut(id);
  if (reference == nullptr) {
    return Status::NotFound("cut " + std::to_string(id.value) + " is not kept any more");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto cut, LoadCut(seams, place, *reference));
  FolderObjects folder(seams.objects, std::string(kSavepointsPrefix) + options.name + "/");
  SavepointCopy copy(seams, place, *cut, &folder);
  for (const auto& [node, manifest] : cut->manifests) {
    ++pin.renew_seq;
    CAIRN_RETURN_IF_ERROR(PinCut(seams, place, pin));
    CAIRN_RETURN_IF_ERROR(copy.CopyParticipant(node));
  }
  CAIRN_RETURN_IF_ERROR(copy.Complete());
  return UnpinCut(seams, place, pin.kind, pin.name);
}

Result<Savepoint> OpenSavepoint(const Seams& seams, const std::string& folder) {
  Savepoint savepoint;
  savepoint.objects = std::make_shared<FolderObjects>(seams.objects, folder);
  savepoint.seams = seams;
  savepoint.seams.objects = savepoint.objects.get();
  CAIRN_ASSIGN_OR_RETURN(const Seen<format::IndexReference> complete,
                         ReadSeen(savepoint.objects.get(), std::string(kCompleteKey),
                                  format::kLeaseRecordBytesMax, &format::ParseSavepointComplete));
  if (!complete.record) return Status::NotFound(folder + " holds no complete savepoint");
  CAIRN_ASSIGN_OR_RETURN(savepoint.place, ReadSharedPlace(savepoint.seams));
  CAIRN_ASSIGN_OR_RETURN(savepoint.cut,
                         LoadCut(savepoint.seams, savepoint.place, *complete.record));
  return savepoint;
}

}  // namespace cairn::checkpoint::shared
