// SPDX-License-Identifier: Apache-2.0
//
// State objects: an Arrow IPC file of frames, between a prefix (magic, schema) and a suffix (end
// marker, footer). Prefix, frames and suffix tile the file; each of them is hashed once, and the
// object's digest is made of these hashes, so that it costs no second pass.
//
//   object digest = SHA-256( LP("cairn/object-digest/v1") LP(prefix) LP(frame)... LP(suffix) )
//   LP(x) = u64 LE length of x, then x; prefix, frame, suffix = their 32-byte SHA-256, by offset
//
// Threads: a writer belongs to one thread; encoders on other threads feed it.
// Format:  docs/formats/object.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "cairn/status.h"
#include "format/frame.h"
#include "format/object_schema.h"

namespace cairn::format {

/// Bytes from `offset`, `length` of them.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  constexpr uint64_t end() const { return offset + length; }
  friend auto operator<=>(const ByteRange&, const ByteRange&) = default;
};

/// Take the bytes of an object front to back.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status Append(std::string_view bytes) = 0;
};

/// A hashed piece of an object outside its frames.
struct ObjectSection {
  ByteRange range;
  base::Sha256Digest sha256{};
  friend bool operator==(const ObjectSection&, const ObjectSection&) = default;
};

/// A complete object as the manifest names it.
struct ObjectSummary {
  uint64_t length = 0;
  ObjectSection prefix;
  ObjectSection suffix;
  base::Sha256Digest digest{};
};

/// Write one object.
///
/// Threads:  one.
/// Errors:   what the sink returned; after an error the writer is done for.
class ObjectWriter {
 public:
  /// Write the prefix. `sink` outlives the writer; small writes are gathered to 256 KiB.
  static Result<std::unique_ptr<ObjectWriter>> Open(ByteSink* sink, const ObjectSchema& schema);
  ~ObjectWriter();

  /// Append a complete frame and return where it lies.
  Result<ByteRange> Append(const EncodedFrame& frame);

  /// Write the suffix and pass every byte on. No call may follow.
  Result<ObjectSummary> Finish();

  /// Bytes so far.
  uint64_t bytes() const;

 private:
  struct State;
  explicit ObjectWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Combine section and frame digests, ordered by offset, into the object's digest.
base::Sha256Digest ObjectDigest(const base::Sha256Digest& prefix,
                                const std::vector<base::Sha256Digest>& frames,
                                const base::Sha256Digest& suffix);

/// Read the schema from an object's prefix.
///
/// Errors:   kCorruption · kUnsupportedFormat, as FromArrowSchema.
Result<ObjectSchema> ReadObjectPrefix(std::string_view prefix);

struct ObjectFrame {
  FrameSummary summary;
  ByteRange range;
};

/// An object found without its manifest.
struct ObjectLayout {
  ObjectSchema schema;
  ObjectSummary summary;
  std::vector<ObjectFrame> frames;  ///< by offset
};

/// Walk an object from its bytes alone: for tools, and for salvage. Hashes everything.
///
/// Errors:   kCorruption naming the offset where the object stops making sense.
Result<ObjectLayout> ReadObject(std::string_view bytes);

}  // namespace cairn::format
