// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <span>
#include <utility>

#include "base/hash.h"
#include "checkpoint/damage_advice.h"
#include "checkpoint/layout.h"
#include "checkpoint/loaded_cut.h"
#include "checkpoint/view_log_objects.h"
#include "env/object_place.h"
#include "format/object.h"

namespace cairn::checkpoint {

/// The objects of one cut. Of a directory they are open files, which a deletion leaves readable; of
/// a bucket they are read where they lie, and so are segments of view logs. Nothing else can be
/// read, and nothing written.
class CutObjects final : public env::ObjectStore {
 public:
  /// `bucket` = null: files of `directory`.
  CutObjects(env::FileSystem* files, std::string directory,
             std::unique_ptr<env::ObjectStore> bucket)
      : files_(files), directory_(std::move(directory)), bucket_(std::move(bucket)) {}

  /// Open an object.
  ///
  /// Errors:   as CheckObject.
  Status Add(const ObjectExtent& object) {
    const std::string key = object.key();
    if (bucket_ != nullptr) {
      CAIRN_RETURN_IF_ERROR(CheckObject(bucket_.get(), {key, object.length}));
      objects_[key] = {nullptr, object.length};
      return {};
    }
    Result<std::unique_ptr<env::RandomAccessFile>> file =
        files_->OpenForRead(env::JoinPath(directory_, key));
    if (file.status().code() == StatusCode::kNotFound) {
      return Status::Corruption(fmt::format("object {} is missing", key));
    }
    CAIRN_RETURN_IF_ERROR(file.status());
    if ((*file)->size() != object.length) {
      return Status::Corruption(
          fmt::format("object {} has {} bytes instead of {}", key, (*file)->size(), object.length));
    }
    objects_[key] = {*std::move(file), object.length};
    return {};
  }
  bool Has(const format::StateChunkId& chunk) const {
    return objects_.contains(StateObjectKey(chunk.checkpoint_id));
  }
  size_t size() const { return objects_.size(); }

  bool is_remote() const override { return bucket_ != nullptr; }
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override {
    Status read;
    if (key.starts_with(kViewLogsPrefix)) {
      read = ReadSegment(key, offset, out);
    } else {
      CAIRN_ASSIGN_OR_RETURN(const Object* object, Find(key));
      if (object->file != nullptr) return object->file->ReadExactly(offset, out);
      read = bucket_->ReadRange(key, offset, out);
    }
    if (read.code() != StatusCode::kNotFound) return read;
    return Status::Unavailable(key + " was deleted while it was read: the job has retired this " +
                               "checkpoint. Try again with a newer one");
  }
  Result<env::ObjectInfo> Head(const std::string& key) override {
    if (key.starts_with(kViewLogsPrefix)) {
      if (bucket_ != nullptr) return bucket_->Head(key);
      CAIRN_ASSIGN_OR_RETURN(const env::FileInfo info,
                             files_->Stat(env::JoinPath(directory_, key)));
      return env::ObjectInfo{key, info.size, 0};
    }
    CAIRN_ASSIGN_OR_RETURN(const Object* object, Find(key));
    return env::ObjectInfo{key, object->size, 0};
  }

  Status CreateIfAbsent(const std::string&, std::string_view) override { return Refused(); }
  Result<std::string> CompareAndSwap(const std::string&, const std::optional<std::string>&,
                                     std::string_view) override {
    return Refused();
  }
  Status PutHint(const std::string&, std::string_view) override { return Refused(); }
  Result<std::unique_ptr<env::ObjectWriter>> NewWriter(const std::string&) override {
    return Refused();
  }
  Result<env::VersionedBytes> Get(const std::string&, uint64_t) override { return Refused(); }
  Result<std::vector<env::ObjectInfo>> List(const std::string&) override { return Refused(); }
  Status Delete(const std::string&) override { return Refused(); }

 private:
  struct Object {
    std::unique_ptr<env::RandomAccessFile> file;  ///< null = in the bucket
    uint64_t size = 0;
  };

  static Status Refused() {
    return Status::Internal("the objects of an inspected cut are read by range only");
  }
  Status ReadSegment(const std::string& key, uint64_t offset, std::span<char> out) const {
    if (bucket_ != nullptr) return bucket_->ReadRange(key, offset, out);
    CAIRN_ASSIGN_OR_RETURN(const auto file, files_->OpenForRead(env::JoinPath(directory_, key)));
    return file->ReadExactly(offset, out);
  }
  Result<const Object*> Find(const std::string& key) const {
    const auto found = objects_.find(key);
    if (found == objects_.end()) return Status::NotFound(key + " is missing or has another length");
    return &found->second;
  }

  env::FileSystem* const files_;
  const std::string directory_;
  const std::unique_ptr<env::ObjectStore> bucket_;
  std::map<std::string, Object> objects_;
};

namespace {

/// Cuts may be retired between the read of the head and that of the manifest: read both again.
constexpr int kOpenAttempts = 8;

Result<format::CutReference> ChooseCut(const Place& place, const std::string& directory,
                                       std::optional<base::CheckpointId> id) {
  const auto cuts = place.Cuts();
  if (cuts.empty()) {
    return Status::NotFound(fmt::format("'{}' holds no committed checkpoint yet", directory));
  }
  if (!id) return cuts.front();
  std::vector<uint64_t> ids;
  for (const auto& cut : cuts) {
    if (cut.id == *id) return cut;
    ids.push_back(cut.id.value);
  }
  return Status::NotFound(fmt::format("'{}' holds no checkpoint {}; it holds {}", directory,
                                      id->value, fmt::join(ids, ", ")));
}

}  // namespace

Result<Place> OpenPlace(env::FileSystem* files, const std::string& directory) {
  if (!env::IsBucket(directory)) {
    Result<env::FileInfo> info = files->Stat(directory);
    if (!info.ok()) {
      if (info.status().code() != StatusCode::kNotFound) return std::move(info).status();
      return Status::NotFound(fmt::format("there is no directory '{}'", directory));
    }
    if (!info->is_directory) {
      return Status::InvalidArgument(fmt::format("'{}' is not a directory", directory));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const auto records, env::OpenObjects(files, directory));
  Result<Place> place = ReadPlace(records.get());
  if (!place.ok()) return std::move(place).status().WithContext(directory);
  if (!place->format) {
    return Status::NotFound(fmt::format("'{}' is no place of checkpoints", directory));
  }
  if (!place->identity || !place->head) {
    return Status::NotFound(fmt::format("'{}' holds no committed checkpoint yet", directory));
  }
  return place;
}

CutReader::~CutReader() = default;

std::string CutReader::ObjectKey(const format::StateChunkId& chunk) {
  return StateObjectKey(chunk.checkpoint_id);
}

Result<std::unique_ptr<CutReader>> CutReader::Open(env::FileSystem* files,
                                                   const std::string& directory,
                                                   std::optional<base::CheckpointId> id,
                                                   bool tolerate_missing) {
  for (int attempt = 1;; ++attempt) {
    std::unique_ptr<CutReader> reader(new CutReader);
    reader->directory_ = directory;
    CAIRN_ASSIGN_OR_RETURN(reader->place_, OpenPlace(files, directory));
    CAIRN_ASSIGN_OR_RETURN(const format::CutReference cut,
                           ChooseCut(reader->place_, directory, id));
    Status opened = reader->OpenCut(files, cut, tolerate_missing);
    if (opened.ok() && reader->problems_.empty()) return reader;

    // A running job may have retired the cut since the head was read. Only if the head still names
    // the cut is what is missing really gone.
    CAIRN_ASSIGN_OR_RETURN(const Place now, OpenPlace(files, directory));
    if (now.head == reader->place_.head || attempt == kOpenAttempts) {
      if (opened.ok()) return reader;
      return opened.WithContext(directory);
    }
  }
}

Status CutReader::OpenCut(env::FileSystem* files, const format::CutReference& cut,
                          bool tolerate_missing) {
  CAIRN_ASSIGN_OR_RETURN(auto records, env::OpenObjects(files, directory_));
  CAIRN_ASSIGN_OR_RETURN(manifest_, ReadManifest(records.get(), place_, cut));
  if (!env::IsBucket(directory_)) records.reset();
  objects_ = std::make_unique<CutObjects>(files, directory_, std::move(records));
  frames_ = std::make_unique<FrameReader>(objects_.get(), manifest_);

  for (const ObjectExtent& object : ObjectsOf(*manifest_)) {
    Status opened = objects_->Add(object);
    if (opened.ok()) continue;
    if (!tolerate_missing) {
      CAIRN_ASSIGN_OR_RETURN(const auto others, env::OpenObjects(files, directory_));
      return AdviseOnCut(opened, others.get(), place_, cut.id);
    }
    problems_.push_back(std::string(opened.message()));
  }
  return {};
}

Result<LoadedFrame> CutReader::ReadFrame(const format::StateFrame& frame,
                                         bool verify_sha256) const {
  LoadedFrame loaded;
  Result<format::FrameRows> rows = frames_->Read(frame, verify_sha256, &loaded.bytes);
  if (!rows.ok()) return AdviseOnFrame(rows.status());
  loaded.rows = *std::move(rows);
  return loaded;
}

env::ObjectRanges* CutReader::objects() const { return objects_.get(); }

Result<std::shared_ptr<const Cut>> CutReader::AsCut() const {
  CAIRN_ASSIGN_OR_RETURN(auto cut, LoadedCut::Open(objects_.get(), manifest_));
  return std::shared_ptr<const Cut>(std::move(cut));
}

void CutReader::VerifySections(CutVerdict* verdict) const {
  const format::NodeDataObject& object = manifest_->node_data;
  if (object.object_length == 0 || !objects_->Has(object.chunk)) return;
  const auto check = [&](const format::ObjectSection& section, std::string_view name) {
    std::string bytes(section.range.length, '\0');
    const Status read = ReadObjectRange(objects_.get(), object.chunk, section.range, bytes.data());
    if (!read.ok()) {
      verdict->problems.push_back(std::string(read.message()));
    } else if (base::Sha256::Of(bytes) != section.sha256) {
      verdict->problems.push_back(fmt::format("object {}: its {} is damaged",
                                              StateObjectKey(object.chunk.checkpoint_id), name));
    } else {
      verdict->bytes += section.range.length;
    }
  };
  check(*object.prefix, "schema");
  check(*object.suffix, "footer");
}

/// The manifest knows the digest of an older object as a whole, not of its schema and footer alone.
void CutReader::VerifyReferencedObjects(CutVerdict* verdict) const {
  for (const format::ReferencedStateChunk& object : manifest_->referenced_chunks) {
    if (!objects_->Has(object.chunk)) continue;  // named once already, as a missing object
    std::string bytes(object.object_length, '\0');
    Status checked =
        ReadObjectRange(objects_.get(), object.chunk, {0, object.object_length}, bytes.data());
    if (checked.ok()) {
      const Result<format::ObjectLayout> layout = format::ReadObject(bytes);
      checked = layout.status();
      if (layout.ok() && layout->summary.digest != object.sha256) {
        checked = Status::Corruption("its bytes are not those that the manifest's digest names");
      }
    }
    if (!checked.ok()) {
      verdict->problems.push_back(fmt::format(
          "object {}: {}", StateObjectKey(object.chunk.checkpoint_id), checked.message()));
    }
  }
}

void CutReader::VerifySinkFrame(CutVerdict* verdict) const {
  if (!manifest_->prepared_sink_frame || !objects_->Has(manifest_->node_data.chunk)) return;
  FrameBuffer buffer;
  Status checked = frames_->ReadSinks(true, &buffer).status();
  if (checked.ok()) checked = AsCut().status();
  if (!checked.ok()) {
    verdict->problems.push_back(std::string(checked.message()));
    return;
  }
  ++verdict->frames;
  verdict->bytes += manifest_->prepared_sink_frame->range.length;
}

void CutReader::VerifyViewLogs(CutVerdict* verdict) const {
  for (const format::ViewLog& log : manifest_->view_logs) {
    for (const format::ViewLogSegment& segment : log.segments) {
      Status checked =
          CheckObject(objects_.get(), {ViewLogSegmentKey(log, segment), segment.object_length});
      if (checked.ok()) checked = ReadViewLogSegment(objects_.get(), log, segment).status();
      if (!checked.ok()) {
        verdict->problems.push_back(std::string(checked.message()));
        continue;
      }
      ++verdict->segments;
      verdict->bytes += segment.object_length;
    }
  }
}

CutVerdict CutReader::Verify(const VerifyProgress& progress) const {
  CutVerdict verdict;
  verdict.problems = problems_;
  verdict.objects = objects_->size();
  VerifySections(&verdict);
  VerifyReferencedObjects(&verdict);
  uint64_t total = 0;
  for (const auto& frame : manifest_->state_frames) total += frame.range.length;
  uint64_t done = 0;
  LoadedFrame loaded;
  for (const auto& frame : manifest_->state_frames) {
    done += frame.range.length;
    if (progress) progress(done, total);
    if (!objects_->Has(frame.chunk)) continue;  // named once already, as a missing object
    Result<format::FrameRows> rows = frames_->Read(frame, true, &loaded.bytes);
    if (!rows.ok()) {
      verdict.problems.push_back(std::string(rows.status().message()));
      continue;
    }
    ++verdict.frames;
    verdict.entries += rows->entries;
    verdict.bytes += frame.range.length;
  }
  VerifySinkFrame(&verdict);
  VerifyViewLogs(&verdict);
  return verdict;
}

}  // namespace cairn::checkpoint
