// SPDX-License-Identifier: Apache-2.0
//
// The interchange snapshot: an Arrow IPC *stream* of op_id, key_bytes and value_bytes whose bytes
// other tools fix (metadata keys clink.format_version and clink.state_versions), its text sidecar,
// and the changelog variant with a leading row_kind.
//
// Threads: pure functions; a writer belongs to one thread.
// Format:  docs/formats/canonical-stream.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/saved_rows.h"
#include "cairn/status.h"
#include "format/object.h"
#include "format/object_schema.h"

namespace cairn::format {

inline constexpr uint32_t kCanonicalFormatVersion = 1;

/// Which part of a snapshot a stream is, when it was split over subtasks: metadata
/// cairn.snapshot_part "2/4" and cairn.snapshot. Other tools read a part as any stream.
struct SnapshotPart {
  uint32_t number = 0;  ///< 1..count
  uint32_t count = 0;
  std::string snapshot;  ///< the same in all parts of one
  friend bool operator==(const SnapshotPart&, const SnapshotPart&) = default;
};

/// Write one canonical stream, a record batch a call.
///
/// Threads:  one.
/// Errors:   what the sink returned; kInvalidArgument for a version map that cannot be packed.
class CanonicalStreamWriter {
 public:
  static Result<std::unique_ptr<CanonicalStreamWriter>> Open(
      ByteSink* sink, const std::vector<StateVersion>& state_versions,
      const std::optional<SnapshotPart>& part = std::nullopt);
  ~CanonicalStreamWriter();

  /// Write rows of one operator as one batch. Keys are stored keys; kinds are not written.
  Status Append(base::OperatorId operator_id, const base::SavedRowSpan& rows);
  /// Write rows of several operators as one batch: operator_ids has one id a row.
  Status Append(const std::vector<uint64_t>& operator_ids, const base::SavedRowSpan& rows);
  /// Write the end marker; with no batch so far an empty one goes first, as other readers expect
  /// one.
  Status Finish();

 private:
  struct State;
  explicit CanonicalStreamWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// One record batch of a canonical or changelog stream, in place.
struct CanonicalBatch {
  const uint64_t* operator_ids = nullptr;
  base::SavedRowSpan rows;  ///< kinds is set in a changelog only
  std::shared_ptr<const void> keep_alive;
};

/// A stream opened. The batches point into its bytes.
struct CanonicalStream {
  std::optional<SnapshotPart> part;  ///< nothing = not known to be less than a whole snapshot
  std::vector<StateVersion> state_versions;
  std::vector<CanonicalBatch> batches;
  uint64_t rows = 0;
};

/// Open a snapshot of any number of batches. No bytes at all is the empty snapshot.
///
/// Errors:   kUnsupportedFormat for a version above 1 · kCorruption for a version that is not 1..9
///           digits or is 0, other columns, nulls, damage or a missing end marker.
Result<CanonicalStream> ReadCanonicalStream(std::string_view bytes);

/// Give bytes front to back.
///
/// Threads:  one.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /// Fill `out` with the next bytes; never asked past size().
  virtual Status Read(std::span<char> out) = 0;
};

/// Read a canonical stream a batch at a time: memory is that of its largest batch.
///
/// Threads:  one.
class CanonicalStreamReader {
 public:
  /// Read as far as the schema. `source` outlives the reader.
  ///
  /// Errors:   as ReadCanonicalStream, and what the source returned.
  static Result<std::unique_ptr<CanonicalStreamReader>> Open(ByteSource* source);
  ~CanonicalStreamReader();

  const std::vector<StateVersion>& state_versions() const;
  /// Nothing = not known to be less than a whole snapshot.
  const std::optional<SnapshotPart>& part() const;

  /// The next batch; nothing when the stream has ended as it must, with its end marker as the last
  /// bytes of the source. Rows read before an error is found were of a damaged snapshot.
  Result<std::optional<CanonicalBatch>> Next();

 private:
  struct State;
  explicit CanonicalStreamReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The value that a restore keeps when a stored key comes twice: of operator state whose values are
/// both 8 bytes the larger little-endian signed integer (a source's offset), else the later one.
std::string_view ResolveDuplicate(std::string_view stored_key, std::string_view earlier,
                                  std::string_view later);

/// Row kinds of the changelog variant.
enum class ChangelogRowKind : uint8_t {
  kMaterialisedInline = 0,  ///< row 0: the value is a canonical stream, or empty
  kPut = 1,
  kErase = 2,               ///< no value
  kMaterialisedHandle = 3,  ///< row 0: the value names a materialisation, or is empty
};

struct ChangelogStream {
  ChangelogRowKind materialisation = ChangelogRowKind::kMaterialisedInline;
  std::string_view materialisation_value;  ///< the inner snapshot's bytes, or the handle
  /// Batches with row 0 of the first left out; every kind is put or erase.
  std::vector<CanonicalBatch> batches;
  uint64_t rows = 0;
};

/// Open a changelog stream.
///
/// Errors:   kCorruption when row 0 is no materialisation or a later row is one, a kind is above 3,
///           an erase carries a value, and as ReadCanonicalStream.
Result<ChangelogStream> ReadChangelogStream(std::string_view bytes);

/// The text beside a snapshot file: its id, length and CRC.
struct SnapshotSidecar {
  uint64_t checkpoint_id = 0;
  uint64_t payload_bytes = 0;
  uint32_t payload_crc32c = 0;
  friend bool operator==(const SnapshotSidecar&, const SnapshotSidecar&) = default;
};
inline constexpr uint32_t kSidecarVersion = 1;
std::string SerializeSidecar(const SnapshotSidecar& sidecar);
SnapshotSidecar SidecarOf(uint64_t checkpoint_id, std::string_view payload);
/// Unknown keys are ignored.
///
/// Errors:   kUnsupportedFormat for a higher version · kCorruption for text that is no sidecar.
Result<SnapshotSidecar> ParseSidecar(std::string_view text);

enum class SnapshotVerdict : uint8_t { kValid, kMissing, kIncomplete, kCorrupt, kUnsupported };
std::string_view SnapshotVerdictName(SnapshotVerdict verdict);

/// Judge a snapshot by its bytes and its sidecar's; null = the file is not there.
SnapshotVerdict JudgeSnapshot(const std::string_view* payload, const std::string_view* sidecar);

}  // namespace cairn::format
