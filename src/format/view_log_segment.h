// SPDX-License-Identifier: Apache-2.0
//
// Segments of view logs: Arrow IPC files with rows of one partition of an append-only view. Any
// Arrow reader opens one; its schema's metadata says whose rows they are and from which position.
//
// Threads: an encoder belongs to one thread; the rest are value types and pure functions.
// Format:  docs/formats/view-log.md.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "format/manifest.h"

namespace cairn::format {

/// Version of the segment; another one is refused with kUnsupportedFormat.
inline constexpr uint32_t kViewLogSegmentVersion = 1;

/// The columns of a view's rows, and which of them is their event time.
struct ViewLogSchema {
  std::vector<ColumnSpec> columns;  ///< names unique
  /// Name of a timestamp column, or of a bigint one that holds milliseconds; nothing = none.
  std::optional<std::string> event_time;
  friend bool operator==(const ViewLogSchema&, const ViewLogSchema&) = default;
};

/// Describe an Arrow schema.
///
/// Errors:   kInvalidArgument: a type that Cairn has no name for, a column name that comes twice,
///           an event-time column that is missing or of another type.
Result<ViewLogSchema> ViewLogSchemaOf(const arrow::Schema& schema,
                                      const std::optional<std::string>& event_time);

/// SHA-256 by which a manifest names the schema of a view log.
Sha256Digest view_log_schema_sha256(const ViewLogSchema& schema);

/// Whose rows a segment holds, and the position of its first one.
struct ViewLogSegmentId {
  std::string view;
  std::string generation;
  uint32_t partition = 0;
  uint64_t first = 0;
  friend bool operator==(const ViewLogSegmentId&, const ViewLogSegmentId&) = default;
};

/// A complete segment.
struct EncodedViewLogSegment {
  std::shared_ptr<const arrow::Buffer> bytes;
  std::string_view view() const;
  uint64_t rows = 0;
  Sha256Digest sha256{};
  std::optional<EventTimeBounds> event_time;  ///< milliseconds; of the rows that have one
};

/// Put batches of rows together to a segment in memory.
class ViewLogSegmentEncoder {
 public:
  /// Errors:   kInvalidArgument: a column type without an Arrow type.
  static Result<std::unique_ptr<ViewLogSegmentEncoder>> Open(const ViewLogSchema& schema,
                                                             const ViewLogSegmentId& id);
  ~ViewLogSegmentEncoder();

  /// Errors:   kInvalidArgument: the batch has other columns · kResourceExhausted.
  Status Append(const arrow::RecordBatch& batch);
  uint64_t rows() const;
  uint64_t bytes() const;
  Result<EncodedViewLogSegment> Finish();

 private:
  struct State;
  explicit ViewLogSegmentEncoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A segment read and checked: every batch is valid in full.
struct DecodedViewLogSegment {
  ViewLogSegmentId id;
  ViewLogSchema schema;
  std::shared_ptr<arrow::Schema> arrow_schema;  ///< without Cairn's metadata
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  uint64_t rows = 0;
  std::optional<EventTimeBounds> event_time;
};

/// Read a segment. The batches share `bytes`.
///
/// Errors:   kCorruption · kUnsupportedFormat: another version.
Result<DecodedViewLogSegment> DecodeViewLogSegment(std::shared_ptr<arrow::Buffer> bytes);

/// Check the bytes of a segment against what the manifest says of it, then read it.
///
/// Errors:   kCorruption, naming the first thing that differs · kUnsupportedFormat.
Result<DecodedViewLogSegment> OpenViewLogSegment(std::shared_ptr<arrow::Buffer> bytes,
                                                 const ViewLog& log, const ViewLogSegment& segment);

}  // namespace cairn::format
