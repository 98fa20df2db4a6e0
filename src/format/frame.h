// SPDX-License-Identifier: Apache-2.0
//
// Frames: the unit in which state is saved, referenced, fetched and checked.
//
// A frame is one or more consecutive Arrow record batches ("parts", at most 64 MiB each) of one
// operator, kind and range of key groups. It is complete by itself: its bytes carry its identity,
// and the manifest knows its range, entries, CRC-32C and SHA-256. Encoding copies no row: the
// buffers of SavedRows become the buffers of the batch.
//
// Invariants
//  1. A frame's bytes depend on its identity and rows only, not on where or by whom it is written.
//  2. Row order in a frame: key group, then slot name, then (slot hash of the user key, user key).
//  3. Parts of a frame are numbered from 0; exactly the last says so.
//
// Threads: an encoder belongs to one thread; several run in parallel over one RowBufferPool.
// Format:  docs/formats/object.md.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/saved_rows.h"
#include "cairn/hash.h"
#include "cairn/status.h"
#include "format/object_schema.h"

namespace arrow {
class Buffer;
class RecordBatch;
}  // namespace arrow

namespace cairn::format {

/// Most bytes of one part.
inline constexpr uint64_t kFramePartBytesMax = uint64_t{64} << 20;
/// Neighbouring groups share a frame until it holds this much (or 1/8192 of the state, if more).
inline constexpr uint64_t kFrameBytesMin = uint64_t{64} << 10;

enum class FrameKind : uint8_t {
  kOperatorMeta = 0,    ///< what an operator saves about itself; groups = the writing subtask
  kOperatorState = 1,   ///< operator state rows; groups = the writing subtask
  kKeyed = 2,           ///< keyed rows of groups first..last
  kSinkIntent = 3,      ///< one an object, operator 0
  kSinkDescriptor = 4,  ///< one an object, operator 0
};
std::string_view FrameKindName(FrameKind kind);  // "keyed", "operator_state", ...

/// Name a frame. Two frames of one object never share all of it.
struct FrameIdentity {
  FrameKind kind = FrameKind::kKeyed;
  base::OperatorId operator_id;
  uint16_t first_group = 0;  ///< inclusive
  uint16_t last_group = 0;   ///< inclusive; of operator state and meta both are the subtask
  bool delta = false;
  base::CheckpointId checkpoint_id;  ///< the checkpoint whose object holds it
  friend bool operator==(const FrameIdentity&, const FrameIdentity&) = default;

  /// "keyed frame of operator 89cd31291d2aefa4, groups 0..127, checkpoint 7"
  std::string ToString() const;
};

/// The value of a batch's metadata key "cairn.frame": 61 ASCII characters, always.
struct FramePartTag {
  FrameIdentity frame;
  uint32_t part = 0;
  bool last = true;
  friend bool operator==(const FramePartTag&, const FramePartTag&) = default;
};
inline constexpr std::string_view kFrameTagKey = "cairn.frame";
inline constexpr size_t kFrameTagBytes = 61;
std::string PackFramePartTag(const FramePartTag& tag);
/// Errors:   kUnsupportedFormat for another tag version, kCorruption for anything else.
Result<FramePartTag> ParseFramePartTag(std::string_view value);

/// Keep row buffers between uses: a fresh page costs more than the row written to it.
///
/// Threads:  any.
class RowBufferPool {
 public:
  /// `max_idle` buffers are kept; more are freed as they come back.
  explicit RowBufferPool(size_t max_idle = 8);
  /// Return empty columns. They go back to the pool with the last reference, also after the pool's
  /// own end.
  std::shared_ptr<base::SavedRows> Take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// One encoded record batch, ready to be appended. Shares the row buffers it was made from.
struct EncodedPart {
  struct Payload;  ///< Arrow's, hidden so that callers need no Arrow
  std::shared_ptr<const Payload> payload;
  FramePartTag tag;
  uint64_t entries = 0;
  uint64_t bytes = 0;  ///< as in the file, message header included
};

/// What the manifest must know of a complete frame, but for its place.
struct FrameSummary {
  FrameIdentity identity;
  uint32_t parts = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  base::Sha256Digest sha256{};
};

/// A complete frame: its parts and its sums.
struct EncodedFrame {
  std::vector<EncodedPart> parts;
  FrameSummary summary;
};

/// Take finished frames from an encoder.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual Status TakeFrame(EncodedFrame frame) = 0;
};

struct FrameEncoderOptions {
  FrameKind kind = FrameKind::kKeyed;
  base::OperatorId operator_id;
  bool delta = false;
  base::CheckpointId checkpoint_id;
  uint64_t frame_bytes_min = kFrameBytesMin;  ///< close a frame at the next group after this much
  bool frame_per_group = false;
};

/// Turn rows into frames: cut parts where rows are flushed and frames at group borders, encode and
/// hash on the calling thread.
///
/// Use: for each group ascending, for each slot by name: SetSlot, table->EncodeBase/EncodeDelta of
/// that group with this encoder as the sink; then Finish. Of operator state and meta the group is
/// the subtask.
///
/// Threads:  one.
/// Errors:   kInvalidArgument for groups out of order or out of range, or an erase outside a delta.
/// Cost:     about 1 ns a byte of hashing; no copy.
class FrameEncoder final : public base::SavedRowSink {
 public:
  /// `schema` is that of the object the frames go to; pool and sink outlive the encoder.
  FrameEncoder(const ObjectSchema& schema, FrameEncoderOptions options, RowBufferPool* pool,
               FrameSink* sink);
  ~FrameEncoder() override;

  /// Name the slot of the rows that follow: the encoder puts group, slot and '|' before each key.
  void SetSlot(std::string_view slot);
  /// Rows that follow come with whole stored keys (merging, import): nothing is put before them.
  void SetRawKeys();

  Result<base::SavedRows*> BeginGroup(uint32_t group) override;
  Status Flush() override;
  /// Cut and hand over the last frame, if it has rows. The encoder can be used again.
  Status Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Encode rows that are already complete stored keys and values as one single-part frame.
Result<EncodedFrame> EncodeFrame(const ObjectSchema& schema, const FrameIdentity& identity,
                                 std::shared_ptr<base::SavedRows> rows);

/// What a frame must be, as the manifest says.
struct FrameExpectation {
  FrameIdentity identity;
  uint32_t parts = 0;
  uint64_t entries = 0;
  uint32_t crc32c = 0;
  /// Checked too when set; a restore checks the CRC only.
  const base::Sha256Digest* sha256 = nullptr;
};

/// The rows of a frame, in place.
struct FrameRows {
  std::vector<base::SavedRowSpan> batches;
  uint64_t entries = 0;
  std::shared_ptr<const void> keep_alive;  ///< Arrow's batches; the bytes are the caller's
};

/// Check a frame's bytes against what is expected of them and open its rows.
///
/// Shape:    `bytes` is exactly the frame's range and outlives the result; 8-byte aligned for zero
///           copy, else its columns are copied.
/// Errors:   kCorruption naming the frame and the first thing that differs: CRC, SHA-256, identity,
///           part numbers, entries, operator id of a row, group of a row.
/// Cost:     CRC 0.1 ns a byte, SHA-256 (when asked for) 0.6, checks about 1 ns a row.
Result<FrameRows> ReadFrame(std::string_view bytes, const ObjectSchema& schema,
                            const FrameExpectation& expected);

}  // namespace cairn::format
