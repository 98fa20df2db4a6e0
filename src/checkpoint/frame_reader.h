// SPDX-License-Identifier: Apache-2.0
//
// FrameReader: fetch frames of a cut from the objects they lie in and check each against its
// manifest. Restore, verify and the tools read through it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cairn/status.h"
#include "env/object_store.h"
#include "format/frame.h"
#include "format/manifest.h"
#include "format/object_schema.h"

namespace cairn::checkpoint {

/// Bytes of one frame, kept between reads so that pages are touched once.
class FrameBuffer {
 public:
  char* Resize(size_t bytes) {
    if (bytes > capacity_) {
      bytes_.reset(new char[bytes]);
      capacity_ = bytes;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
};

class FrameReader {
 public:
  /// `objects` outlives the reader.
  FrameReader(env::ObjectRanges* objects,
              std::shared_ptr<const format::CheckpointManifest> manifest)
      : objects_(objects), manifest_(std::move(manifest)) {}

  const format::CheckpointManifest& manifest() const { return *manifest_; }

  /// Read one frame of state. The rows lie in `buffer` until its next use. `ranges` is another way
  /// to the same objects; null = those of the reader.
  ///
  /// Threads:  any, a buffer and a way each.
  /// Errors:   kCorruption naming frame and object: missing, truncated, damaged · kUnavailable.
  Result<format::FrameRows> Read(const format::StateFrame& frame, bool verify_sha256,
                                 FrameBuffer* buffer, env::ObjectRanges* ranges = nullptr) const;

  /// Read the frame of sink descriptors; the manifest has one.
  Result<format::FrameRows> ReadSinks(bool verify_sha256, FrameBuffer* buffer) const;

  /// Schema of the object that `chunk` names: from its prefix, read once.
  Result<format::ObjectSchema> SchemaOf(const format::StateChunkId& chunk) const;

 private:
  Result<format::FrameRows> ReadAt(env::ObjectRanges* objects, const format::StateChunkId& chunk,
                                   const format::ByteRange& range,
                                   const format::FrameExpectation& expected,
                                   FrameBuffer* buffer) const;

  env::ObjectRanges* objects_;
  std::shared_ptr<const format::CheckpointManifest> manifest_;
  mutable std::mutex mutex_;
  mutable std::map<format::StateChunkId, format::ObjectSchema> schemas_;
};

/// Read `range` of the object of `chunk`: a missing or short one is kCorruption, as a manifest
/// names it.
Status ReadObjectRange(env::ObjectRanges* objects, const format::StateChunkId& chunk,
                       const format::ByteRange& range, char* out);

}  // namespace cairn::checkpoint
