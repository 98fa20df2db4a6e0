// SPDX-License-Identifier: Apache-2.0
//
// CutReader: one committed cut as tools see it. It opens a place without its lock and writes
// nothing, so it works beside the job that owns the place and on a read-only file system.
//
// Threads: a reader belongs to one thread.
//
// Invariants
//  1. Of a directory, every object of the cut's frames is open before Open returns: retention may
//     delete the cut meanwhile and the reader still reads its state whole. Of a bucket, and of view
//     logs, what is gone is said to be.
//  2. Nothing is believed unchecked: the manifest against the head's digest, frames against theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/frame_reader.h"
#include "checkpoint/place.h"
#include "checkpoint/recovery.h"
#include "env/file_system.h"
#include "env/object_store.h"
#include "format/frame.h"
#include "format/manifest.h"

namespace cairn::checkpoint {

/// Read the records of the place in `directory` (or s3://…), without its lock.
///
/// Shape:    format, identity and head are set.
/// Errors:   kNotFound (no such directory, no place in it, or no checkpoint was ever tried) ·
///           kInvalidArgument (not a directory) · and as ReadPlace of checkpoint/place.h.
Result<Place> OpenPlace(env::FileSystem* files, const std::string& directory);

/// The rows of one frame and the bytes that they point into.
struct LoadedFrame {
  format::FrameRows rows;
  FrameBuffer bytes;
};

/// What Verify found.
struct CutVerdict {
  uint64_t frames = 0;  ///< checked, sink frames included
  uint64_t objects = 0;
  uint64_t segments = 0;  ///< of view logs
  uint64_t entries = 0;
  uint64_t bytes = 0;
  /// One line for each thing that is damaged or missing; empty = the cut is valid.
  std::vector<std::string> problems;
};

/// Called now and then with the bytes done and the bytes there are.
using VerifyProgress = std::function<void(uint64_t done, uint64_t total)>;

class CutObjects;  // those that its manifest names

/// One committed cut.
class CutReader {
 public:
  ~CutReader();

  /// Open cut `id`, or the newest one.
  ///
  /// Shape:    with `tolerate_missing` an object that is gone or short is noted in problems() and
  ///           only reading it fails: for Verify and for looking at a damaged place.
  /// Errors:   as OpenPlace · kNotFound when the place holds no cut, or not this one (lists those
  /// it
  ///           holds) · kCorruption for a manifest or object that is missing or damaged.
  static Result<std::unique_ptr<CutReader>> Open(env::FileSystem* files,
                                                 const std::string& directory,
                                                 std::optional<base::CheckpointId> id,
                                                 bool tolerate_missing = false);

  const Place& place() const { return place_; }
  const format::CheckpointManifest& manifest() const { return *manifest_; }
  const std::shared_ptr<const format::CheckpointManifest>& shared_manifest() const {
    return manifest_;
  }
  /// Reads ranges of the objects of the cut and of the segments of its view logs. Lives as long as
  /// the reader. Segments may be retired meanwhile: unlike the objects of frames they are opened
  /// when they are read, as there may be very many.
  env::ObjectRanges* objects() const;
  const std::string& directory() const { return directory_; }
  /// Where a chunk lies below the place: "nodes/1/checkpoints/…/state.arrow".
  static std::string ObjectKey(const format::StateChunkId& chunk);
  /// Objects that could not be opened, one line each.
  const std::vector<std::string>& problems() const { return problems_; }

  /// Read and check one frame of the manifest. CRC, identity and counts always; SHA-256 on request.
  ///
  /// Errors:   kCorruption, naming object, frame and the first thing that differs.
  Result<LoadedFrame> ReadFrame(const format::StateFrame& frame, bool verify_sha256 = false) const;

  /// The cut as a restore sees it: progress of its sources, and what its sinks prepared. Lives no
  /// longer than the reader.
  ///
  /// Errors:   kCorruption.
  Result<std::shared_ptr<const Cut>> AsCut() const;

  /// Check every byte that the cut depends on: objects and their lengths, their schema and footer,
  /// each frame's CRC and SHA-256, its rows and their number; and so the segments of view logs.
  ///
  /// Cost:     reads its objects whole, one at a time in memory; frames of older ones twice.
  /// Blocks:   on reads of the whole cut.
  CutVerdict Verify(const VerifyProgress& progress) const;

 private:
  CutReader() = default;
  Status OpenCut(env::FileSystem* files, const format::CutReference& cut, bool tolerate_missing);
  void VerifySections(CutVerdict* verdict) const;
  void VerifyReferencedObjects(CutVerdict* verdict) const;
  void VerifySinkFrame(CutVerdict* verdict) const;
  void VerifyViewLogs(CutVerdict* verdict) const;

  Place place_;
  std::shared_ptr<const format::CheckpointManifest> manifest_;
  std::string directory_;
  std::unique_ptr<CutObjects> objects_;
  std::unique_ptr<FrameReader> frames_;
  std::vector<std::string> problems_;
};

}  // namespace cairn::checkpoint
