// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copy_cut.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

constexpr uint64_t kCopyBytes = 8 << 20;

/// True when `to` has all bytes of the object: an earlier copy came so far.
Result<bool> IsThere(env::ObjectStore* from, env::ObjectStore* to, const ObjectExtent& object) {
  const Result<env::ObjectInfo> info = to->Head(object.key());
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return false;
    return info.status();
  }
  const auto other = Status::AlreadyExists(object.key() + " is there already, with other bytes");
  if (info->size != object.length) return other;
  std::string ours;
  std::string theirs;
  for (uint64_t at = 0; at < object.length; at += kCopyBytes) {
    const uint64_t size = std::min(kCopyBytes, object.length - at);
    ours.resize(size);
    theirs.resize(size);
    CAIRN_RETURN_IF_ERROR(from->ReadRange(object.key(), at, ours));
    CAIRN_RETURN_IF_ERROR(to->ReadRange(object.key(), at, theirs));
    if (ours != theirs) return other;
  }
  return true;
}

Status CopyObject(env::ObjectStore* from, env::ObjectStore* to, const ObjectExtent& object,
                  const std::function<void(uint64_t)>& copied) {
  CAIRN_ASSIGN_OR_RETURN(const bool there, IsThere(from, to, object));
  if (!there) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<env::ObjectWriter> writer, to->NewWriter(object.key()));
    std::string bytes;
    for (uint64_t at = 0; at < object.length; at += kCopyBytes) {
      bytes.resize(std::min(kCopyBytes, object.length - at));
      Status read = from->ReadRange(object.key(), at, bytes);
      if (read.code() == StatusCode::kNotFound) {
        return Status::Corruption("object " + object.key() + " is missing");
      }
      CAIRN_RETURN_IF_ERROR(read);
      CAIRN_RETURN_IF_ERROR(writer->Append(bytes));
      copied(bytes.size());
    }
    CAIRN_RETURN_IF_ERROR(writer->Finish());
  }
  // No manifest follows in this directory, which would make the name durable.
  return to->SyncName(object.key());
}

format::DecisionHead HeadOfCopy(const Place& place, const format::CutReference& cut) {
  format::DecisionHead head;
  head.deployment_id = place.identity->deployment_id;
  head.latest_commit = cut;
  head.floor = cut.id;
  head.next_id = place.head->next_id;
  return head;
}

/// Refuse a target that holds a cut. One without a head may be what an earlier copy left.
Status RefuseUsed(env::ObjectStore* to) {
  const Result<env::VersionedBytes> head =
      to->Get(std::string(kHeadKey), format::kDecisionHeadBytesMax);
  if (head.ok()) {
    return Status::AlreadyExists("the target holds checkpoints already; copy into an empty place");
  }
  return head.status().code() == StatusCode::kNotFound ? Status() : head.status();
}

}  // namespace

Result<CopyReport> CopyCut(env::ObjectStore* from, const Place& place,
                           const format::CutReference& cut, env::ObjectStore* to,
                           const CopyProgress& progress) {
  CAIRN_RETURN_IF_ERROR(RefuseUsed(to));
  CAIRN_ASSIGN_OR_RETURN(const auto manifest, ReadManifest(from, place, cut));
  CAIRN_ASSIGN_OR_RETURN(const env::VersionedBytes manifest_bytes,
                         from->Get(ManifestKey(cut.id), format::kManifestBytesMax));
  const std::vector<ObjectExtent> objects = ObjectsOf(*manifest);
  CopyReport report;
  uint64_t total = 0;
  for (const ObjectExtent& object : objects) total += object.length;

  format::StoreFormat format = *place.format;
  format.durability = "full";
  CAIRN_ASSIGN_OR_RETURN(const std::string format_bytes, format::SerializeStoreFormat(format));
  CAIRN_ASSIGN_OR_RETURN(const std::string identity_bytes,
                         format::SerializeDeploymentIdentity(*place.identity));
  CAIRN_RETURN_IF_ERROR(CreateRecord(to, std::string(kFormatKey), format_bytes));
  CAIRN_RETURN_IF_ERROR(CreateRecord(to, std::string(kIdentityKey), identity_bytes));
  for (const ObjectExtent& object : objects) {
    CAIRN_RETURN_IF_ERROR(CopyObject(from, to, object, [&](uint64_t bytes) {
      report.bytes += bytes;
      if (progress) progress(report.bytes, total);
    }));
    ++report.objects;
  }
  CAIRN_RETURN_IF_ERROR(CreateRecord(to, ManifestKey(cut.id), manifest_bytes.bytes));
  if (const auto pipeline = from->Get(std::string(kPipelineKey), format::kManifestBytesMax);
      pipeline.ok()) {
    (void)to->PutHint(std::string(kPipelineKey), pipeline->bytes);  // only messages need it
  }
  Place copy;
  copy.format = format;
  copy.identity = place.identity;
  bool in_doubt = false;
  CAIRN_RETURN_IF_ERROR(ReplaceHead(to, HeadOfCopy(place, cut), &copy, &in_doubt));
  return report;
}

}  // namespace cairn::checkpoint
