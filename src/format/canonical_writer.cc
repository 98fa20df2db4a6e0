// SPDX-License-Identifier: Apache-2.0
//
// Writing canonical streams.
#include "format/canonical_stream.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include "format/arrow_status.h"
#include "format/canonical_schema.h"
#include "format/frame_payload.h"

namespace cairn::format {
namespace {

Result<std::shared_ptr<arrow::Schema>> SnapshotSchema(const std::vector<StateVersion>& versions,
                                                      const std::optional<SnapshotPart>& part) {
  CAIRN_ASSIGN_OR_RETURN(const std::string packed, PackStateVersions(versions));
  auto metadata = std::make_shared<arrow::KeyValueMetadata>();
  metadata->Append(kCanonicalVersionKey, std::to_string(kCanonicalFormatVersion));
  if (!packed.empty()) metadata->Append(kCanonicalStateVersionsKey, packed);
  if (part) {
    metadata->Append(kSnapshotPartKey, fmt::format("{}/{}", part->number, part->count));
    metadata->Append(kSnapshotKey, part->snapshot);
  }
  return arrow::schema(CanonicalFields(false), std::move(metadata));
}

/// Wrap a span's column without a copy.
std::shared_ptr<arrow::Array> BinaryColumn(const int32_t* offsets, const char* data, size_t rows) {
  const int32_t end = rows == 0 ? 0 : offsets[rows];
  return std::make_shared<arrow::BinaryArray>(
      static_cast<int64_t>(rows),
      WrapBytes({reinterpret_cast<const char*>(offsets), (rows + 1) * sizeof(int32_t)}),
      WrapBytes({data, static_cast<size_t>(end)}));
}

}  // namespace

struct CanonicalStreamWriter::State {
  ByteSink* sink = nullptr;
  Status sink_status;
  std::unique_ptr<FunctionOutputStream> stream;
  std::shared_ptr<arrow::Schema> schema;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer;
  bool wrote_batch = false;

  Status Explain(const arrow::Status& status) const {
    return sink_status.ok() ? FromArrow(status) : sink_status;
  }

  Status WriteBatch(const std::vector<uint64_t>& ids, const base::SavedRowSpan& rows) {
    static constexpr int32_t kNoOffsets[1] = {0};
    const bool empty = rows.rows == 0;
    auto id_column = std::make_shared<arrow::UInt64Array>(
        static_cast<int64_t>(rows.rows),
        WrapBytes({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint64_t)}));
    const auto batch = arrow::RecordBatch::Make(
        schema, static_cast<int64_t>(rows.rows),
        {std::move(id_column),
         BinaryColumn(empty ? kNoOffsets : rows.key_offsets, empty ? "" : rows.key_data, rows.rows),
         BinaryColumn(empty ? kNoOffsets : rows.value_offsets, empty ? "" : rows.value_data,
                      rows.rows)});
    const arrow::Status status = writer->WriteRecordBatch(*batch);
    if (!status.ok()) return Explain(status);
    wrote_batch = true;
    return Status();
  }
};

CanonicalStreamWriter::CanonicalStreamWriter(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
CanonicalStreamWriter::~CanonicalStreamWriter() = default;

Result<std::unique_ptr<CanonicalStreamWriter>> CanonicalStreamWriter::Open(
    ByteSink* sink, const std::vector<StateVersion>& state_versions,
    const std::optional<SnapshotPart>& part) {
  auto state = std::make_unique<State>();
  State& s = *state;
  CAIRN_ASSIGN_OR_RETURN(s.schema, SnapshotSchema(state_versions, part));
  s.sink = sink;
  s.stream = std::make_unique<FunctionOutputStream>([&s](std::string_view bytes) {
    s.sink_status = s.sink->Append(bytes);
    return s.sink_status.ok() ? arrow::Status::OK() : arrow::Status::IOError("sink");
  });
  auto writer = arrow::ipc::MakeStreamWriter(s.stream.get(), s.schema, ObjectWriteOptions());
  if (!writer.ok()) return s.Explain(writer.status());
  s.writer = *std::move(writer);
  return std::unique_ptr<CanonicalStreamWriter>(new CanonicalStreamWriter(std::move(state)));
}

Status CanonicalStreamWriter::Append(base::OperatorId operator_id, const base::SavedRowSpan& rows) {
  return state_->WriteBatch(std::vector<uint64_t>(rows.rows, operator_id.value), rows);
}

Status CanonicalStreamWriter::Append(const std::vector<uint64_t>& operator_ids,
                                     const base::SavedRowSpan& rows) {
  if (operator_ids.size() != rows.rows) {
    return Status::InvalidArgument(
        fmt::format("{} operator ids for {} rows", operator_ids.size(), rows.rows));
  }
  return state_->WriteBatch(operator_ids, rows);
}

Status CanonicalStreamWriter::Finish() {
  if (!state_->wrote_batch) CAIRN_RETURN_IF_ERROR(state_->WriteBatch({}, {}));
  const arrow::Status status = state_->writer->Close();
  return status.ok() ? Status() : state_->Explain(status);
}

}  // namespace cairn::format
