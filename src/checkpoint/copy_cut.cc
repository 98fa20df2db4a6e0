// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copy_cut.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

constexpr uint64_t kCopyBytes = 8 << 20;

/// Checks the frames that lie in one object, as its bytes pass by.
class PassingFrames {
 public:
  PassingFrames(const format::CheckpointManifest& manifest, const std::string& key) {
    const auto lies_here = [&](const format::StateChunkId& chunk) {
      return StateObjectKey(chunk.checkpoint_id) == key;
    };
    for (const format::StateFrame& frame : manifest.state_frames) {
      if (lies_here(frame.chunk)) frames_.push_back({frame.range, frame.crc32c});
    }
    if (manifest.prepared_sink_frame && lies_here(manifest.node_data.chunk)) {
      frames_.push_back(
          {manifest.prepared_sink_frame->range, manifest.prepared_sink_frame->crc32c});
    }
    std::sort(frames_.begin(), frames_.end(),
              [](const Frame& a, const Frame& b) { return a.range.offset < b.range.offset; });
  }

  Status Take(std::string_view bytes) {
    while (!bytes.empty() && next_ < frames_.size()) {
      const Frame& frame = frames_[next_];
      const bool inside = at_ >= frame.range.offset;
      const uint64_t until = frame.range.offset + (inside ? frame.range.length : 0);
      const std::string_view part = bytes.substr(0, std::min<uint64_t>(bytes.size(), until - at_));
      if (inside) crc_ = base::Crc32c(crc_, part);
      at_ += part.size();
      bytes.remove_prefix(part.size());
      if (!inside || at_ < until) continue;
      if (crc_ != frame.crc32c) {
        return Status::Corruption("the frame at " + std::to_string(frame.range.offset) +
                                  " is damaged: its CRC-32C differs");
      }
      crc_ = 0;
      ++next_;
    }
    at_ += bytes.size();
    return {};
  }

 private:
  struct Frame {
    format::ByteRange range;
    uint32_t crc32c = 0;
  };
  std::vector<Frame> frames_;  // by offset
  size_t next_ = 0;
  uint64_t at_ = 0;
  uint32_t crc_ = 0;  // of the next frame, as far as it has passed
};

/// True when `to` has all bytes of the object: an earlier copy came so far.
Result<bool> IsThere(env::ObjectRanges* from, env::ObjectStore* to, const StoredObject& object) {
  const Result<env::ObjectInfo> info = to->Head(object.key);
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return false;
    return info.status();
  }
  const auto other = Status::AlreadyExists(object.key + " is there already, with other bytes");
  if (info->size != object.length) return other;
  std::string ours;
  std::string theirs;
  for (uint64_t at = 0; at < object.length; at += kCopyBytes) {
    const uint64_t size = std::min(kCopyBytes, object.length - at);
    ours.resize(size);
    theirs.resize(size);
    CAIRN_RETURN_IF_ERROR(from->ReadRange(object.key, at, ours));
    CAIRN_RETURN_IF_ERROR(to->ReadRange(object.key, at, theirs));
    if (ours != theirs) return other;
  }
  return true;
}

Status CopyObject(env::ObjectRanges* from, env::ObjectStore* to,
                  const format::CheckpointManifest& manifest, const StoredObject& object,
                  const std::function<void(uint64_t)>& copied) {
  CAIRN_ASSIGN_OR_RETURN(const bool there, IsThere(from, to, object));
  if (!there) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<env::ObjectWriter> writer,
                           to->NewLargeWriter(object.key, object.length));
    PassingFrames frames(manifest, object.key);
    std::string bytes;
    for (uint64_t at = 0; at < object.length; at += kCopyBytes) {
      bytes.resize(std::min(kCopyBytes, object.length - at));
      Status read = from->ReadRange(object.key, at, bytes);
      if (read.code() == StatusCode::kNotFound) {
        return Status::Corruption("object " + object.key + " is missing");
      }
      CAIRN_RETURN_IF_ERROR(read);
      const Status whole = frames.Take(bytes);
      if (!whole.ok()) return whole.WithContext("object " + object.key);
      CAIRN_RETURN_IF_ERROR(writer->Append(bytes));
      copied(bytes.size());
    }
    CAIRN_RETURN_IF_ERROR(writer->Finish());
  }
  // No manifest follows in this directory, which would make the name durable.
  return to->SyncName(object.key);
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

Result<CopyReport> CopyCut(env::ObjectRanges* from, const Place& place,
                           const format::CheckpointManifest& manifest, const std::string& pipeline,
                           env::ObjectStore* to, const CopyProgress& progress) {
  CAIRN_RETURN_IF_ERROR(RefuseUsed(to));
  const format::CutReference& cut = *place.Find(manifest.checkpoint_id);
  // The text is canonical: what the head's digest names comes out again.
  CAIRN_ASSIGN_OR_RETURN(const std::string manifest_bytes, format::SerializeManifest(manifest));
  if (base::Sha256::Of(manifest_bytes) != cut.manifest_sha256) {
    return Status::Internal("the manifest of checkpoint " + std::to_string(cut.id.value) +
                            " is not written as it was read");
  }
  const std::vector<StoredObject> objects = StoredObjectsOf(manifest);
  CopyReport report;
  uint64_t total = 0;
  for (const StoredObject& object : objects) total += object.length;

  format::StoreFormat format = *place.format;
  format.durability = "full";
  CAIRN_ASSIGN_OR_RETURN(const std::string format_bytes, format::SerializeStoreFormat(format));
  CAIRN_ASSIGN_OR_RETURN(const std::string identity_bytes,
                         format::SerializeDeploymentIdentity(*place.identity));
  CAIRN_RETURN_IF_ERROR(CreateRecord(to, std::string(kFormatKey), format_bytes));
  CAIRN_RETURN_IF_ERROR(CreateRecord(to, std::string(kIdentityKey), identity_bytes));
  for (const StoredObject& object : objects) {
    CAIRN_RETURN_IF_ERROR(CopyObject(from, to, manifest, object, [&](uint64_t bytes) {
      report.bytes += bytes;
      if (progress) progress(report.bytes, total);
    }));
    ++report.objects;
  }
  CAIRN_RETURN_IF_ERROR(CreateRecord(to, ManifestKey(cut.id), manifest_bytes));
  if (!pipeline.empty()) (void)to->PutHint(std::string(kPipelineKey), pipeline);
  Place copy;
  copy.format = format;
  copy.identity = place.identity;
  bool in_doubt = false;
  CAIRN_RETURN_IF_ERROR(ReplaceHead(to, HeadOfCopy(place, cut), &copy, &in_doubt));
  return report;
}

}  // namespace cairn::checkpoint
