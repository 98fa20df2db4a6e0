// SPDX-License-Identifier: Apache-2.0
#include "format/object.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "base/coding.h"
#include "format/arrow_status.h"
#include "format/frame_payload.h"

namespace cairn::format {
namespace {

constexpr size_t kGatherBytes = size_t{256} << 10;
constexpr std::string_view kDigestDomain = "cairn/object-digest/v1";
constexpr std::string_view kMagic("ARROW1\0\0", 8);

}  // namespace

struct ObjectWriter::State {
  ByteSink* sink = nullptr;
  std::string gathered;
  Status sink_status;               // Arrow's statuses lose the code
  base::Sha256* section = nullptr;  // hashes the prefix or suffix while it is written
  std::unique_ptr<FunctionOutputStream> stream;
  std::unique_ptr<arrow::ipc::internal::IpcPayloadWriter> writer;
  ObjectSummary summary;
  std::vector<base::Sha256Digest> frames;

  arrow::Status Write(std::string_view bytes) {
    if (section != nullptr) section->Update(bytes);
    if (gathered.size() + bytes.size() > kGatherBytes) {
      if (!gathered.empty()) sink_status = sink->Append(gathered);
      gathered.clear();
      if (sink_status.ok() && bytes.size() >= kGatherBytes / 4) {
        sink_status = sink->Append(bytes);
        bytes = {};
      }
      if (!sink_status.ok()) return arrow::Status::IOError("sink");
    }
    gathered.append(bytes);
    return arrow::Status::OK();
  }

  /// The sink's own status, when it was the sink that failed.
  Status Explain(const arrow::Status& status) const {
    return sink_status.ok() ? FromArrow(status) : sink_status;
  }

  uint64_t position() const { return static_cast<uint64_t>(*stream->Tell()); }
};

ObjectWriter::ObjectWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectWriter::~ObjectWriter() = default;

uint64_t ObjectWriter::bytes() const { return state_->position(); }

Result<std::unique_ptr<ObjectWriter>> ObjectWriter::Open(ByteSink* sink,
                                                         const ObjectSchema& schema) {
  CAIRN_ASSIGN_OR_RETURN(const auto arrow_schema, ToArrowSchema(schema));
  auto state = std::make_unique<State>();
  State& s = *state;
  s.sink = sink;
  s.gathered.reserve(kGatherBytes);
  s.stream = std::make_unique<FunctionOutputStream>(
      [&s](std::string_view bytes) { return s.Write(bytes); });
  base::Sha256 hash;
  s.section = &hash;
  CAIRN_ASSIGN_OR_RETURN_ARROW(s.writer, arrow::ipc::internal::MakePayloadFileWriter(
                                             s.stream.get(), arrow_schema, ObjectWriteOptions()));
  arrow::Status status = s.writer->Start();
  arrow::ipc::IpcPayload message;
  if (status.ok()) {
    const arrow::ipc::DictionaryFieldMapper mapper(*arrow_schema);
    status = arrow::ipc::GetSchemaPayload(*arrow_schema, ObjectWriteOptions(), mapper, &message);
  }
  if (status.ok()) status = s.writer->WritePayload(message);
  if (!status.ok()) return s.Explain(status);
  s.section = nullptr;
  s.summary.prefix = {{0, s.position()}, hash.Finish()};
  return std::unique_ptr<ObjectWriter>(new ObjectWriter(std::move(state)));
}

Result<ByteRange> ObjectWriter::Append(const EncodedFrame& frame) {
  State& s = *state_;
  if (!s.sink_status.ok()) return s.sink_status;
  const uint64_t offset = s.position();
  for (size_t i = 0; i < frame.parts.size(); ++i) {
    const EncodedPart& part = frame.parts[i];
    if (part.tag.part != i || part.tag.last != (i + 1 == frame.parts.size())) {
      return Status::Internal(
          fmt::format("{}: parts out of order", frame.summary.identity.ToString()));
    }
    const arrow::Status status = s.writer->WritePayload(part.payload->message);
    if (!status.ok()) return s.Explain(status);
  }
  const ByteRange range{offset, s.position() - offset};
  if (range.length == 0 || range.length != frame.summary.bytes) {
    return Status::Internal(fmt::format("{}: {} bytes were hashed, {} written",
                                        frame.summary.identity.ToString(), frame.summary.bytes,
                                        range.length));
  }
  s.frames.push_back(frame.summary.sha256);
  return range;
}

Result<ObjectSummary> ObjectWriter::Finish() {
  State& s = *state_;
  if (!s.sink_status.ok()) return s.sink_status;
  base::Sha256 hash;
  s.section = &hash;
  const uint64_t offset = s.position();
  const arrow::Status status = s.writer->Close();
  s.section = nullptr;
  if (!status.ok()) return s.Explain(status);
  if (!s.gathered.empty()) CAIRN_RETURN_IF_ERROR(s.sink->Append(s.gathered));
  s.gathered.clear();
  s.summary.length = s.position();
  s.summary.suffix = {{offset, s.summary.length - offset}, hash.Finish()};
  s.summary.digest = ObjectDigest(s.summary.prefix.sha256, s.frames, s.summary.suffix.sha256);
  return s.summary;
}

base::Sha256Digest ObjectDigest(const base::Sha256Digest& prefix,
                                const std::vector<base::Sha256Digest>& frames,
                                const base::Sha256Digest& suffix) {
  base::Sha256 hash;
  const auto add = [&hash](std::string_view part) {
    char length[8];
    base::StoreLE<uint64_t>(length, part.size());
    hash.Update({length, sizeof(length)});
    hash.Update(part);
  };
  const auto add_digest = [&add](const base::Sha256Digest& digest) {
    add({reinterpret_cast<const char*>(digest.data()), digest.size()});
  };
  add(kDigestDomain);
  add_digest(prefix);
  for (const base::Sha256Digest& frame : frames) add_digest(frame);
  add_digest(suffix);
  return hash.Finish();
}

namespace {

struct ParsedPrefix {
  ObjectSchema schema;
  std::shared_ptr<arrow::Schema> arrow_schema;
  uint64_t bytes = 0;
};

Result<ParsedPrefix> ParsePrefix(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return Status::Corruption("no Arrow IPC file: it does not begin with ARROW1");
  }
  arrow::io::BufferReader reader(WrapBytes(bytes.substr(kMagic.size())));
  CAIRN_ASSIGN_OR_RETURN_PARSED(const auto message, arrow::ipc::ReadMessage(&reader));
  if (message == nullptr || message->type() != arrow::ipc::MessageType::SCHEMA) {
    return Status::Corruption("no schema message at the object's begin");
  }
  arrow::ipc::DictionaryMemo memo;
  CAIRN_ASSIGN_OR_RETURN_PARSED(const auto arrow_schema, arrow::ipc::ReadSchema(*message, &memo));
  ParsedPrefix prefix;
  CAIRN_ASSIGN_OR_RETURN(prefix.schema, FromArrowSchema(*arrow_schema));
  CAIRN_ASSIGN_OR_RETURN(prefix.arrow_schema, ToArrowSchema(prefix.schema));
  CAIRN_ASSIGN_OR_RETURN_PARSED(const int64_t used, reader.Tell());
  prefix.bytes = kMagic.size() + static_cast<uint64_t>(used);
  return prefix;
}

/// Check that the footer lists the batches that the walk found.
Status CheckFooter(std::string_view bytes, uint64_t parts) {
  arrow::io::BufferReader file(WrapBytes(bytes));
  const auto opened = arrow::ipc::RecordBatchFileReader::Open(&file);
  if (!opened.ok()) return FromArrowBytes(opened.status()).WithContext("footer of the object");
  const int batches = (*opened)->num_record_batches();
  if (static_cast<uint64_t>(batches) == parts) return Status();
  return Status::Corruption(
      fmt::format("footer lists {} record batches, the object holds {}", batches, parts));
}

}  // namespace

Result<ObjectSchema> ReadObjectPrefix(std::string_view prefix) {
  CAIRN_ASSIGN_OR_RETURN(ParsedPrefix parsed, ParsePrefix(prefix));
  if (parsed.bytes != prefix.size()) {
    return Status::Corruption(
        fmt::format("prefix of the object has {} bytes, {} expected", parsed.bytes, prefix.size()));
  }
  return std::move(parsed.schema);
}

Result<ObjectLayout> ReadObject(std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(const ParsedPrefix prefix, ParsePrefix(bytes));
  ObjectLayout layout;
  layout.schema = prefix.schema;
  uint64_t offset = prefix.bytes;
  uint64_t parts = 0;
  std::vector<base::Sha256Digest> digests;
  while (true) {
    auto parsed = ParseFrame(bytes.substr(offset), layout.schema, prefix.arrow_schema);
    if (!parsed.ok()) return parsed.status().WithContext(fmt::format("at offset {}", offset));
    if (parsed->end) break;
    const std::string_view frame = bytes.substr(offset, parsed->bytes);
    layout.frames.push_back({{parsed->identity, parsed->parts, parsed->rows.entries, parsed->bytes,
                              base::Crc32c(0, frame), base::Sha256::Of(frame)},
                             {offset, parsed->bytes}});
    digests.push_back(layout.frames.back().summary.sha256);
    parts += parsed->parts;
    offset += parsed->bytes;
  }
  CAIRN_RETURN_IF_ERROR(CheckFooter(bytes, parts));
  ObjectSummary& summary = layout.summary;
  summary.length = bytes.size();
  summary.prefix = {{0, prefix.bytes}, base::Sha256::Of(bytes.substr(0, prefix.bytes))};
  summary.suffix = {{offset, bytes.size() - offset}, base::Sha256::Of(bytes.substr(offset))};
  summary.digest = ObjectDigest(summary.prefix.sha256, digests, summary.suffix.sha256);
  return layout;
}

}  // namespace cairn::format
