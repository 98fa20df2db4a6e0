// SPDX-License-Identifier: Apache-2.0
//
// Reading frames. Nothing in the bytes is believed: Arrow checks the messages, the columns are
// validated in full before a pointer into them leaves here, and every row is compared with the
// frame's tag.
#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include "format/arrow_status.h"
#include "format/frame.h"
#include "format/frame_payload.h"

namespace cairn::format {

std::shared_ptr<arrow::Buffer> WrapBytes(std::string_view bytes) {
  return std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(bytes.data()),
                                         static_cast<int64_t>(bytes.size()));
}

namespace {

using arrow::ipc::Message;

Status BadRow(const FrameIdentity& frame, size_t row, std::string_view what) {
  return Status::Corruption(fmt::format("{}: row {} {}", frame.ToString(), row, what));
}

/// Compare the kinds of all rows with the frame's.
Status CheckRowKinds(const FrameIdentity& frame, const base::SavedRowSpan& rows) {
  if (rows.kinds == nullptr) return Status();
  for (size_t i = 0; i < rows.rows; ++i) {
    const uint8_t kind = rows.kinds[i];
    if (frame.delta ? kind != 1 && kind != 2 : kind != 0) {
      return BadRow(frame, i, fmt::format("has row kind {}", kind));
    }
    if (kind == 2 && rows.value_offsets[i] != rows.value_offsets[i + 1]) {
      return BadRow(frame, i, "is an erase with a value");
    }
  }
  return Status();
}

/// Compare the leading bytes of all keys with the frame's groups.
Status CheckRowGroups(const FrameIdentity& frame, const KeyLayout& layout,
                      const base::SavedRowSpan& rows) {
  if (frame.kind != FrameKind::kKeyed && frame.kind != FrameKind::kOperatorState) return Status();
  const bool keyed = frame.kind == FrameKind::kKeyed;
  const size_t prefix = layout.prefix_bytes();
  const uint32_t all_ones = prefix == 1 ? 0xff : 0xffff;
  const uint32_t first = keyed ? frame.first_group : all_ones;
  const uint32_t last = keyed ? frame.last_group : all_ones;
  for (size_t i = 0; i < rows.rows; ++i) {
    const std::string_view key = rows.key(i);
    if (key.size() < prefix) return BadRow(frame, i, "has a key shorter than its prefix");
    uint32_t group = static_cast<uint8_t>(key[0]);
    if (prefix == 2) group = group << 8 | static_cast<uint8_t>(key[1]);
    if (group < first || group > last) {
      return BadRow(frame, i, fmt::format("is of group {}", group));
    }
  }
  return Status();
}

Status CheckOperatorIds(const FrameIdentity& frame, const arrow::UInt64Array& ids) {
  const uint64_t* values = ids.raw_values();
  bool equal = true;
  for (int64_t i = 0; i < ids.length(); ++i) equal &= values[i] == frame.operator_id.value;
  if (equal) return Status();
  return Status::Corruption(fmt::format("{}: a row is of another operator", frame.ToString()));
}

base::SavedRowSpan SpanOf(const arrow::RecordBatch& batch, bool with_row_kind) {
  const int first = with_row_kind ? 1 : 0;
  const auto& keys = static_cast<const arrow::BinaryArray&>(*batch.column(first + 1));
  const auto& values = static_cast<const arrow::BinaryArray&>(*batch.column(first + 2));
  base::SavedRowSpan span;
  span.rows = static_cast<size_t>(batch.num_rows());
  if (span.rows == 0) return span;
  if (with_row_kind) {
    span.kinds = static_cast<const arrow::UInt8Array&>(*batch.column(0)).raw_values();
  }
  const auto bytes_of = [](const arrow::BinaryArray& array) {
    return array.value_data() ? reinterpret_cast<const char*>(array.value_data()->data()) : "";
  };
  span.key_offsets = keys.raw_value_offsets();
  span.key_data = bytes_of(keys);
  span.value_offsets = values.raw_value_offsets();
  span.value_data = bytes_of(values);
  return span;
}

Result<FramePartTag> TagOf(const Message& message) {
  const auto& metadata = message.custom_metadata();
  if (message.type() != arrow::ipc::MessageType::RECORD_BATCH || metadata == nullptr) {
    return Status::Corruption("a message without a frame tag lies where a frame should");
  }
  const auto value = metadata->Get(std::string(kFrameTagKey));
  if (!value.ok()) {
    return Status::Corruption("a record batch without a frame tag lies where a frame should");
  }
  return ParseFramePartTag(*value);
}

/// Open one part: check its batch in full and append its rows.
Result<std::shared_ptr<arrow::RecordBatch>> OpenPart(const Message& message,
                                                     const FrameIdentity& frame,
                                                     const ObjectSchema& schema,
                                                     const std::shared_ptr<arrow::Schema>& columns,
                                                     FrameRows* rows) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  const arrow::ipc::DictionaryMemo no_dictionaries;
  CAIRN_ASSIGN_OR_RETURN_PARSED(
      auto batch, arrow::ipc::ReadRecordBatch(message, columns, &no_dictionaries, options));
  CAIRN_RETURN_IF_PARSE_ERROR(batch->ValidateFull());
  for (const auto& column : batch->columns()) {
    if (column->null_count() != 0) {
      return Status::Corruption(fmt::format("{}: a column holds nulls", frame.ToString()));
    }
  }
  const int id_column = schema.with_row_kind ? 1 : 0;
  CAIRN_RETURN_IF_ERROR(
      CheckOperatorIds(frame, static_cast<const arrow::UInt64Array&>(*batch->column(id_column))));
  const base::SavedRowSpan span = SpanOf(*batch, schema.with_row_kind);
  CAIRN_RETURN_IF_ERROR(CheckRowKinds(frame, span));
  CAIRN_RETURN_IF_ERROR(CheckRowGroups(frame, schema.layout, span));
  rows->batches.push_back(span);
  rows->entries += span.rows;
  return batch;
}

}  // namespace

Result<ParsedFrame> ParseFrame(std::string_view bytes, const ObjectSchema& schema,
                               const std::shared_ptr<arrow::Schema>& arrow_schema) {
  ParsedFrame parsed;
  auto kept = std::make_shared<std::vector<std::shared_ptr<arrow::RecordBatch>>>();
  arrow::io::BufferReader reader(WrapBytes(bytes));
  for (bool last = false; !last;) {
    CAIRN_ASSIGN_OR_RETURN_PARSED(const std::unique_ptr<Message> message,
                                  arrow::ipc::ReadMessage(&reader));
    if (message == nullptr && parsed.parts == 0) {
      parsed.end = true;
      return parsed;
    }
    if (message == nullptr) {
      return Status::Corruption(fmt::format("{}: ends after {} parts, none of them the last",
                                            parsed.identity.ToString(), parsed.parts));
    }
    CAIRN_ASSIGN_OR_RETURN(const FramePartTag tag, TagOf(*message));
    if (parsed.parts == 0) parsed.identity = tag.frame;
    if (tag.part != parsed.parts || tag.frame != parsed.identity) {
      return Status::Corruption(fmt::format("{}: part {} is followed by part {} of {}",
                                            parsed.identity.ToString(), parsed.parts, tag.part,
                                            tag.frame.ToString()));
    }
    CAIRN_ASSIGN_OR_RETURN(auto batch,
                           OpenPart(*message, parsed.identity, schema, arrow_schema, &parsed.rows));
    kept->push_back(std::move(batch));
    ++parsed.parts;
    last = tag.last;
  }
  parsed.rows.keep_alive = std::move(kept);
  CAIRN_ASSIGN_OR_RETURN_PARSED(const int64_t used, reader.Tell());
  parsed.bytes = static_cast<uint64_t>(used);
  return parsed;
}

Result<FrameRows> ReadFrame(std::string_view bytes, const ObjectSchema& schema,
                            const FrameExpectation& expected) {
  const auto differs = [&](std::string_view what) {
    return Status::Corruption(fmt::format("{}: {}", expected.identity.ToString(), what));
  };
  if (base::Crc32c(0, bytes) != expected.crc32c) return differs("CRC-32C differs");
  if (expected.sha256 != nullptr && base::Sha256::Of(bytes) != *expected.sha256) {
    return differs("SHA-256 differs");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto arrow_schema, ToArrowSchema(schema));
  auto parsed = ParseFrame(bytes, schema, arrow_schema);
  if (!parsed.ok()) return parsed.status().WithContext(expected.identity.ToString());
  if (parsed->end) return differs("holds no part");
  if (parsed->identity != expected.identity) {
    return differs(fmt::format("the bytes are those of {}", parsed->identity.ToString()));
  }
  if (parsed->bytes != bytes.size()) return differs("bytes follow its last part");
  if (parsed->parts != expected.parts) {
    return differs(fmt::format("has {} parts, {} expected", parsed->parts, expected.parts));
  }
  if (parsed->rows.entries != expected.entries) {
    return differs(
        fmt::format("has {} entries, {} expected", parsed->rows.entries, expected.entries));
  }
  return std::move(parsed->rows);
}

}  // namespace cairn::format
