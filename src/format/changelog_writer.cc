// SPDX-License-Identifier: Apache-2.0
#include "format/changelog_stream.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "format/arrow_status.h"
#include "format/canonical_schema.h"
#include "format/frame_payload.h"

namespace cairn::format {

struct ChangelogStreamWriter::State {
  ByteSink* sink = nullptr;
  Status sink_status;
  std::unique_ptr<FunctionOutputStream> stream;
  std::shared_ptr<arrow::Schema> schema;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer;

  Status Explain(const arrow::Status& status) const {
    return sink_status.ok() ? FromArrow(status) : sink_status;
  }

  static std::shared_ptr<arrow::Array> Binary(const int32_t* offsets, const char* data,
                                              size_t rows) {
    return std::make_shared<arrow::BinaryArray>(
        static_cast<int64_t>(rows),
        WrapBytes({reinterpret_cast<const char*>(offsets), (rows + 1) * sizeof(int32_t)}),
        WrapBytes({data, static_cast<size_t>(offsets[rows])}));
  }

  Status Write(const std::vector<uint64_t>& ids, const base::SavedRowSpan& rows) {
    const auto count = static_cast<int64_t>(rows.rows);
    auto kinds = std::make_shared<arrow::UInt8Array>(
        count, WrapBytes({reinterpret_cast<const char*>(rows.kinds), rows.rows}));
    auto operators = std::make_shared<arrow::UInt64Array>(
        count,
        WrapBytes({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint64_t)}));
    const auto batch = arrow::RecordBatch::Make(
        schema, count,
        {std::move(kinds), std::move(operators), Binary(rows.key_offsets, rows.key_data, rows.rows),
         Binary(rows.value_offsets, rows.value_data, rows.rows)});
    const arrow::Status status = writer->WriteRecordBatch(*batch);
    return status.ok() ? Status() : Explain(status);
  }
};

ChangelogStreamWriter::ChangelogStreamWriter(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
ChangelogStreamWriter::~ChangelogStreamWriter() = default;

Result<std::unique_ptr<ChangelogStreamWriter>> ChangelogStreamWriter::Open(ByteSink* sink,
                                                                           ChangelogRowKind kind,
                                                                           std::string_view value) {
  if (kind != ChangelogRowKind::kMaterialisedInline &&
      kind != ChangelogRowKind::kMaterialisedHandle) {
    return Status::InvalidArgument("a changelog begins with its materialisation");
  }
  if (value.size() > kChangelogInlineBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a materialisation of {} bytes does not fit into a changelog; keep it outside",
                    value.size()));
  }
  auto state = std::make_unique<State>();
  State& s = *state;
  s.schema = arrow::schema(CanonicalFields(true));
  s.sink = sink;
  s.stream = std::make_unique<FunctionOutputStream>([&s](std::string_view bytes) {
    s.sink_status = s.sink->Append(bytes);
    return s.sink_status.ok() ? arrow::Status::OK() : arrow::Status::IOError("sink");
  });
  auto writer = arrow::ipc::MakeStreamWriter(s.stream.get(), s.schema, ObjectWriteOptions());
  if (!writer.ok()) return s.Explain(writer.status());
  s.writer = *std::move(writer);
  const auto kind_byte = static_cast<uint8_t>(kind);
  const int32_t key_offsets[2] = {0, 0};
  const int32_t value_offsets[2] = {0, static_cast<int32_t>(value.size())};
  CAIRN_RETURN_IF_ERROR(
      s.Write({0}, {&kind_byte, key_offsets, "", value_offsets, value.data(), 1}));
  return std::unique_ptr<ChangelogStreamWriter>(new ChangelogStreamWriter(std::move(state)));
}

Status ChangelogStreamWriter::Append(const std::vector<uint64_t>& operator_ids,
                                     const base::SavedRowSpan& rows) {
  if (operator_ids.size() != rows.rows) {
    return Status::InvalidArgument(
        fmt::format("{} operator ids for {} rows", operator_ids.size(), rows.rows));
  }
  return state_->Write(operator_ids, rows);
}

Status ChangelogStreamWriter::Finish() {
  const arrow::Status status = state_->writer->Close();
  return status.ok() ? Status() : state_->Explain(status);
}

}  // namespace cairn::format
