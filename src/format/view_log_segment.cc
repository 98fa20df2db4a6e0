// SPDX-License-Identifier: Apache-2.0
#include "format/view_log_segment.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/coding.h"
#include "format/arrow_status.h"
#include "format/frame_payload.h"
#include "format/row_codec.h"

namespace cairn::format {
namespace {

constexpr std::string_view kVersionKey = "cairn.view_log.version";
constexpr std::string_view kViewKey = "cairn.view_log.view";
constexpr std::string_view kGenerationKey = "cairn.view_log.generation";
constexpr std::string_view kPartitionKey = "cairn.view_log.partition";
constexpr std::string_view kFirstKey = "cairn.view_log.first";
constexpr std::string_view kEventTimeKey = "cairn.view_log.event_time";
constexpr std::string_view kSchemaDomain = "cairn/view-log-schema/v1";
constexpr int64_t kMicrosPerMilli = 1000;

using Metadata = arrow::KeyValueMetadata;

/// The column that holds event times: its index, and how many of its units a millisecond has.
struct EventTimeColumn {
  int index = 0;
  int64_t units_per_ms = 1;
};

Result<std::optional<EventTimeColumn>> FindEventTime(const ViewLogSchema& schema) {
  if (!schema.event_time) return std::optional<EventTimeColumn>();
  for (size_t i = 0; i < schema.columns.size(); ++i) {
    const ColumnSpec& column = schema.columns[i];
    if (column.name != *schema.event_time) continue;
    const int index = static_cast<int>(i);
    if (column.type == "timestamp") return std::optional(EventTimeColumn{index, kMicrosPerMilli});
    if (column.type == "bigint") return std::optional(EventTimeColumn{index, 1});
    return Status::InvalidArgument(fmt::format(
        "event-time column '{}' is {}; it may be a timestamp, or a bigint of milliseconds",
        column.name, column.type));
  }
  return Status::InvalidArgument(
      fmt::format("there is no column '{}' to take the event time of", *schema.event_time));
}

/// Widen `bounds` by the event times of a batch. Rows without one count for nothing.
void AddEventTimes(const arrow::RecordBatch& batch, const EventTimeColumn& column,
                   std::optional<EventTimeBounds>* bounds) {
  const arrow::Array& array = *batch.column(column.index);
  const int64_t* values = array.data()->GetValues<int64_t>(1);
  std::optional<EventTimeBounds> found;
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) continue;
    if (!found) found = {values[i], values[i]};
    found->min = std::min(found->min, values[i]);
    found->max = std::max(found->max, values[i]);
  }
  if (!found) return;
  const auto to_ms = [&](int64_t value) {
    const int64_t whole = value / column.units_per_ms;
    return whole - (value % column.units_per_ms < 0 ? 1 : 0);
  };
  const EventTimeBounds in_ms = {to_ms(found->min), to_ms(found->max)};
  if (!*bounds) *bounds = in_ms;
  (*bounds)->min = std::min((*bounds)->min, in_ms.min);
  (*bounds)->max = std::max((*bounds)->max, in_ms.max);
}

std::shared_ptr<const Metadata> MetadataOf(const ViewLogSchema& schema,
                                           const ViewLogSegmentId& id) {
  auto metadata = std::make_shared<Metadata>();
  const auto add = [&](std::string_view key, std::string value) {
    metadata->Append(std::string(key), std::move(value));
  };
  add(kVersionKey, std::to_string(kViewLogSegmentVersion));
  add(kViewKey, id.view);
  add(kGenerationKey, id.generation);
  add(kPartitionKey, std::to_string(id.partition));
  add(kFirstKey, std::to_string(id.first));
  if (schema.event_time) add(kEventTimeKey, *schema.event_time);
  return metadata;
}

template <class Number>
bool ParseWhole(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && std::to_string(*value) == text;
}

/// Take Cairn's metadata out of a segment's schema.
Status ReadMetadata(const arrow::Schema& schema, DecodedViewLogSegment* segment) {
  static const Metadata kNone;
  const Metadata& metadata = schema.metadata() == nullptr ? kNone : *schema.metadata();
  const auto get = [&](std::string_view key) { return metadata.Get(std::string(key)); };
  const auto version = get(kVersionKey);
  if (!version.ok()) return Status::Corruption("the file is no segment of a view log");
  if (*version != std::to_string(kViewLogSegmentVersion)) {
    return Status::UnsupportedFormat(fmt::format("the segment has version {}, this build reads {}",
                                                 *version, kViewLogSegmentVersion));
  }
  const auto partition = get(kPartitionKey);
  const auto first = get(kFirstKey);
  const auto view = get(kViewKey);
  const auto generation = get(kGenerationKey);
  if (!partition.ok() || !first.ok() || !view.ok() || !generation.ok() ||
      !ParseWhole(*partition, &segment->id.partition) || !ParseWhole(*first, &segment->id.first)) {
    return Status::Corruption("the segment does not say whose rows it holds");
  }
  segment->id.view = *view;
  segment->id.generation = *generation;
  std::optional<std::string> event_time;
  if (const auto name = get(kEventTimeKey); name.ok()) event_time = *name;
  Result<ViewLogSchema> columns = ViewLogSchemaOf(schema, event_time);
  if (!columns.ok()) return Status::Corruption(std::string(columns.status().message()));
  segment->schema = *std::move(columns);
  CAIRN_ASSIGN_OR_RETURN(segment->arrow_schema, ArrowSchemaOf(segment->schema.columns));
  return {};
}

std::string BoundsText(const std::optional<EventTimeBounds>& bounds) {
  return bounds ? fmt::format("{}..{}", bounds->min, bounds->max) : "none";
}

}  // namespace

Result<ViewLogSchema> ViewLogSchemaOf(const arrow::Schema& schema,
                                      const std::optional<std::string>& event_time) {
  ViewLogSchema described;
  CAIRN_ASSIGN_OR_RETURN(described.columns, ColumnSpecsOf(schema, {}));
  for (int i = 0; i < schema.num_fields(); ++i) {
    if (described.columns[static_cast<size_t>(i)].name == schema.field(i)->name()) continue;
    return Status::InvalidArgument(
        fmt::format("two columns are named '{}'", schema.field(i)->name()));
  }
  CAIRN_ASSIGN_OR_RETURN(const auto saved, ArrowSchemaOf(described.columns));
  if (!saved->Equals(schema, /*check_metadata=*/false)) {
    return Status::InvalidArgument("timestamps of a view log have no time zone: cast them");
  }
  described.event_time = event_time;
  CAIRN_RETURN_IF_ERROR(FindEventTime(described).status());
  return described;
}

Sha256Digest view_log_schema_sha256(const ViewLogSchema& schema) {
  base::Sha256 hash;
  const auto add = [&](std::string_view part) {
    char length[8];
    base::StoreLE<uint64_t>(length, part.size());
    hash.Update({length, sizeof(length)});
    hash.Update(part);
  };
  add(kSchemaDomain);
  add(schema.event_time.value_or(""));
  for (const ColumnSpec& column : schema.columns) {
    add(column.name);
    add(column.type);
    add(column.nullable ? "null" : "not null");
  }
  return hash.Finish();
}

std::string_view EncodedViewLogSegment::view() const {
  return {reinterpret_cast<const char*>(bytes->data()), static_cast<size_t>(bytes->size())};
}

struct ViewLogSegmentEncoder::State {
  std::shared_ptr<arrow::Schema> columns;
  std::optional<EventTimeColumn> event_time;
  std::shared_ptr<arrow::io::BufferOutputStream> stream;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer;
  EncodedViewLogSegment segment;
};

ViewLogSegmentEncoder::ViewLogSegmentEncoder(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
ViewLogSegmentEncoder::~ViewLogSegmentEncoder() = default;

Result<std::unique_ptr<ViewLogSegmentEncoder>> ViewLogSegmentEncoder::Open(
    const ViewLogSchema& schema, const ViewLogSegmentId& id) {
  auto state = std::make_unique<State>();
  CAIRN_ASSIGN_OR_RETURN(state->columns, ArrowSchemaOf(schema.columns));
  CAIRN_ASSIGN_OR_RETURN(state->event_time, FindEventTime(schema));
  CAIRN_ASSIGN_OR_RETURN_ARROW(state->stream, arrow::io::BufferOutputStream::Create());
  CAIRN_ASSIGN_OR_RETURN_ARROW(
      state->writer, arrow::ipc::MakeFileWriter(
                         state->stream.get(), state->columns->WithMetadata(MetadataOf(schema, id)),
                         ObjectWriteOptions()));
  return std::unique_ptr<ViewLogSegmentEncoder>(new ViewLogSegmentEncoder(std::move(state)));
}

Status ViewLogSegmentEncoder::Append(const arrow::RecordBatch& batch) {
  State& s = *state_;
  if (batch.num_rows() == 0) return {};
  if (!batch.schema()->Equals(*s.columns, /*check_metadata=*/false)) {
    return Status::InvalidArgument(fmt::format("the batch has the columns {}, the view log {}",
                                               batch.schema()->ToString(), s.columns->ToString()));
  }
  CAIRN_RETURN_IF_ARROW_ERROR(s.writer->WriteRecordBatch(batch));
  if (s.event_time) AddEventTimes(batch, *s.event_time, &s.segment.event_time);
  s.segment.rows += static_cast<uint64_t>(batch.num_rows());
  return {};
}

uint64_t ViewLogSegmentEncoder::rows() const { return state_->segment.rows; }

uint64_t ViewLogSegmentEncoder::bytes() const {
  const auto at = state_->stream->Tell();
  return at.ok() ? static_cast<uint64_t>(*at) : 0;
}

Result<EncodedViewLogSegment> ViewLogSegmentEncoder::Finish() {
  State& s = *state_;
  CAIRN_RETURN_IF_ARROW_ERROR(s.writer->Close());
  CAIRN_ASSIGN_OR_RETURN_ARROW(s.segment.bytes, s.stream->Finish());
  s.segment.sha256 = base::Sha256::Of(s.segment.view());
  return std::move(s.segment);
}

Result<DecodedViewLogSegment> DecodeViewLogSegment(std::shared_ptr<arrow::Buffer> bytes) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  arrow::io::BufferReader file(std::move(bytes));
  CAIRN_ASSIGN_OR_RETURN_PARSED(const auto reader,
                                arrow::ipc::RecordBatchFileReader::Open(&file, options));
  DecodedViewLogSegment segment;
  CAIRN_RETURN_IF_ERROR(ReadMetadata(*reader->schema(), &segment));
  Result<std::optional<EventTimeColumn>> event_time = FindEventTime(segment.schema);
  if (!event_time.ok()) return Status::Corruption(std::string(event_time.status().message()));
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    CAIRN_ASSIGN_OR_RETURN_PARSED(const auto batch, reader->ReadRecordBatch(i));
    CAIRN_RETURN_IF_PARSE_ERROR(batch->ValidateFull());
    for (int c = 0; c < batch->num_columns(); ++c) {
      if (batch->column(c)->null_count() == 0 || batch->schema()->field(c)->nullable()) continue;
      return Status::Corruption(
          fmt::format("column '{}' holds nulls", batch->schema()->field(c)->name()));
    }
    if (*event_time) AddEventTimes(*batch, **event_time, &segment.event_time);
    segment.rows += static_cast<uint64_t>(batch->num_rows());
    segment.batches.push_back(batch->ReplaceSchemaMetadata(nullptr));
  }
  return segment;
}

Result<DecodedViewLogSegment> OpenViewLogSegment(std::shared_ptr<arrow::Buffer> bytes,
                                                 const ViewLog& log,
                                                 const ViewLogSegment& expected) {
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()),
                              static_cast<size_t>(bytes->size()));
  if (text.size() != expected.object_length) {
    return Status::Corruption(
        fmt::format("it has {} bytes instead of {}", text.size(), expected.object_length));
  }
  if (base::Sha256::Of(text) != expected.sha256) return Status::Corruption("its SHA-256 differs");
  CAIRN_ASSIGN_OR_RETURN(DecodedViewLogSegment segment, DecodeViewLogSegment(std::move(bytes)));
  const ViewLogSegmentId id = {log.view, log.generation, expected.partition, expected.first};
  if (segment.id != id) {
    return Status::Corruption(fmt::format(
        "it holds rows of view '{}', generation {}, partition {}, from {} on", segment.id.view,
        segment.id.generation, segment.id.partition, segment.id.first));
  }
  if (view_log_schema_sha256(segment.schema) != log.schema_sha256) {
    return Status::Corruption("its columns are not those of the view log");
  }
  if (segment.rows != expected.end - expected.first) {
    return Status::Corruption(
        fmt::format("it has {} rows instead of {}", segment.rows, expected.end - expected.first));
  }
  if (segment.event_time != expected.event_time) {
    return Status::Corruption(fmt::format("its event times are {} instead of {}",
                                          BoundsText(segment.event_time),
                                          BoundsText(expected.event_time)));
  }
  return segment;
}

}  // namespace cairn::format
