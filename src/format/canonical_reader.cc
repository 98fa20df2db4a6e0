// SPDX-License-Identifier: Apache-2.0
//
// Reading canonical and changelog streams.
#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <charconv>

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "format/arrow_status.h"
#include "format/canonical_schema.h"
#include "format/canonical_stream.h"
#include "format/frame_payload.h"

namespace cairn::format {
namespace {

constexpr std::string_view kEndMarker("\xff\xff\xff\xff\0\0\0\0", 8);

Status CheckVersion(const arrow::Schema& schema) {
  const auto metadata = schema.metadata();
  if (metadata == nullptr || !metadata->Contains(kCanonicalVersionKey)) return Status();
  const std::string version = *metadata->Get(kCanonicalVersionKey);
  const bool digits =
      std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || version.empty() || version.size() > 9 || std::stoul(version) == 0) {
    return Status::Corruption(fmt::format("{} is '{}'", kCanonicalVersionKey, version));
  }
  if (std::stoul(version) == kCanonicalFormatVersion) return Status();
  return Status::UnsupportedFormat(fmt::format("snapshot has {} {}, this build reads {}",
                                               kCanonicalVersionKey, version,
                                               kCanonicalFormatVersion));
}

/// Compare names and types; a column may be declared nullable as long as it holds no null.
Status CheckColumns(const arrow::Schema& schema, const arrow::FieldVector& expected) {
  bool equal = schema.num_fields() == static_cast<int>(expected.size());
  for (int i = 0; equal && i < schema.num_fields(); ++i) {
    equal = schema.field(i)->name() == expected[i]->name() &&
            schema.field(i)->type()->Equals(*expected[i]->type());
  }
  if (equal) return Status();
  return Status::Corruption(fmt::format("stream has other columns: {}", schema.ToString()));
}

/// Read the messages of a stream: a schema, then record batches, each checked in full.
class MessageLoop {
 public:
  explicit MessageLoop(arrow::io::InputStream* in) : in_(in) {
    options_.use_threads = false;
    options_.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  }

  Status ReadSchema(const arrow::FieldVector& expected) {
    CAIRN_ASSIGN_OR_RETURN_PARSED(const auto message, arrow::ipc::ReadMessage(in_));
    if (message == nullptr) return Status::Corruption("stream has no schema");
    if (message->type() != arrow::ipc::MessageType::SCHEMA) {
      return Status::Corruption("stream does not begin with a schema");
    }
    CAIRN_ASSIGN_OR_RETURN_PARSED(schema_, arrow::ipc::ReadSchema(*message, &memo_));
    return CheckColumns(*schema_, expected);
  }

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

  /// The next batch; null after the last.
  Result<std::shared_ptr<arrow::RecordBatch>> Next() {
    CAIRN_ASSIGN_OR_RETURN_PARSED(const auto message, arrow::ipc::ReadMessage(in_));
    if (message == nullptr) return std::shared_ptr<arrow::RecordBatch>();
    if (message->type() != arrow::ipc::MessageType::RECORD_BATCH) {
      return Status::Corruption("stream holds a message other than record batches");
    }
    CAIRN_ASSIGN_OR_RETURN_PARSED(auto batch,
                                  arrow::ipc::ReadRecordBatch(*message, schema_, &memo_, options_));
    CAIRN_RETURN_IF_PARSE_ERROR(batch->ValidateFull());
    for (const auto& column : batch->columns()) {
      if (column->null_count() != 0) return Status::Corruption("a column of the stream has nulls");
    }
    return batch;
  }

 private:
  arrow::io::InputStream* in_;
  arrow::ipc::DictionaryMemo memo_;
  arrow::ipc::IpcReadOptions options_ = arrow::ipc::IpcReadOptions::Defaults();
  std::shared_ptr<arrow::Schema> schema_;
};

Status NoEndMarker() {
  return Status::Corruption("stream does not end with its end marker: it was cut off or added to");
}

struct OpenedStream {
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
};

/// Read a whole stream in memory: schema, record batches, end marker and nothing after it.
Result<OpenedStream> OpenStream(std::string_view bytes, const arrow::FieldVector& expected) {
  arrow::io::BufferReader reader(WrapBytes(bytes));
  MessageLoop loop(&reader);
  CAIRN_RETURN_IF_ERROR(loop.ReadSchema(expected));
  OpenedStream stream;
  stream.schema = loop.schema();
  int64_t last_at = 0;
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN_PARSED(last_at, reader.Tell());
    CAIRN_ASSIGN_OR_RETURN(auto batch, loop.Next());
    if (batch == nullptr) break;
    stream.batches.push_back(std::move(batch));
  }
  CAIRN_ASSIGN_OR_RETURN_PARSED(const int64_t used, reader.Tell());
  // The last body may end like the marker: that of a changelog's first row is a whole stream.
  const bool marked = used - last_at == static_cast<int64_t>(kEndMarker.size());
  if (!marked || static_cast<size_t>(used) != bytes.size() || !bytes.ends_with(kEndMarker)) {
    return NoEndMarker();
  }
  return stream;
}

/// A ByteSource as Arrow reads one. A length that the stream claims and the source does not have
/// costs no memory.
class SourceStream final : public arrow::io::InputStream {
 public:
  explicit SourceStream(ByteSource* source) : source_(source) {}
  ~SourceStream() override = default;

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return static_cast<int64_t>(position_); }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    const size_t count = std::min(static_cast<uint64_t>(bytes), source_->size() - position_);
    const std::span<char> target(static_cast<char*>(out), count);
    if (Status read = source_->Read(target); !read.ok()) {
      status_ = std::move(read);
      return arrow::Status::IOError("the source failed");
    }
    position_ += count;
    tail_.append(target.last(std::min(count, kEndMarker.size())).data(),
                 std::min(count, kEndMarker.size()));
    if (tail_.size() > kEndMarker.size()) tail_.erase(0, tail_.size() - kEndMarker.size());
    return static_cast<int64_t>(count);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    const int64_t left = static_cast<int64_t>(source_->size() - position_);
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(std::min(bytes, left)));
    ARROW_RETURN_NOT_OK(Read(buffer->size(), buffer->mutable_data()).status());
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

  uint64_t position() const { return position_; }
  /// True when the bytes since `last_at` are the end marker, and no byte follows it.
  bool ended(uint64_t last_at) const {
    return position_ == source_->size() && position_ - last_at == kEndMarker.size() &&
           tail_ == kEndMarker;
  }
  /// The source's own failure, where it had one, instead of what Arrow made of it.
  Status Explain(Status status) const { return status_.ok() ? status : status_; }

 private:
  ByteSource* source_;
  uint64_t position_ = 0;
  std::string tail_;
  bool closed_ = false;
  Status status_;
};

CanonicalBatch BatchOf(const std::shared_ptr<arrow::RecordBatch>& batch, bool changelog) {
  CanonicalBatch out;
  out.keep_alive = batch;
  out.rows.rows = static_cast<size_t>(batch->num_rows());
  if (out.rows.rows == 0) return out;
  const int first = changelog ? 1 : 0;
  if (changelog) {
    out.rows.kinds = static_cast<const arrow::UInt8Array&>(*batch->column(0)).raw_values();
  }
  out.operator_ids = static_cast<const arrow::UInt64Array&>(*batch->column(first)).raw_values();
  const auto& keys = static_cast<const arrow::BinaryArray&>(*batch->column(first + 1));
  const auto& values = static_cast<const arrow::BinaryArray&>(*batch->column(first + 2));
  const auto bytes_of = [](const arrow::BinaryArray& array) {
    return array.value_data() ? reinterpret_cast<const char*>(array.value_data()->data()) : "";
  };
  out.rows.key_offsets = keys.raw_value_offsets();
  out.rows.key_data = bytes_of(keys);
  out.rows.value_offsets = values.raw_value_offsets();
  out.rows.value_data = bytes_of(values);
  return out;
}

}  // namespace

namespace {

/// Check the format's version and take the version map.
Result<std::vector<StateVersion>> VersionsOf(const arrow::Schema& schema) {
  CAIRN_RETURN_IF_ERROR(CheckVersion(schema));
  const auto metadata = schema.metadata();
  if (metadata == nullptr || !metadata->Contains(kCanonicalStateVersionsKey)) {
    return std::vector<StateVersion>();
  }
  return ParseStateVersions(*metadata->Get(kCanonicalStateVersionsKey));
}

/// "2/4". Nothing where the stream does not say.
Result<std::optional<SnapshotPart>> PartOf(const arrow::Schema& schema) {
  const auto metadata = schema.metadata();
  if (metadata == nullptr || !metadata->Contains(kSnapshotPartKey)) {
    return std::optional<SnapshotPart>();
  }
  const std::string text = *metadata->Get(kSnapshotPartKey);
  SnapshotPart part;
  const char* end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, part.number);
  const bool slash = number.ec == std::errc() && number.ptr != end && *number.ptr == '/';
  const auto count = slash ? std::from_chars(number.ptr + 1, end, part.count) : number;
  if (!slash || count.ec != std::errc() || count.ptr != end || part.number < 1 ||
      part.number > part.count) {
    return Status::Corruption(fmt::format("snapshot says that it is part '{}'", text));
  }
  part.snapshot = metadata->Get(kSnapshotKey).ValueOr("");
  return std::optional<SnapshotPart>(std::move(part));
}

}  // namespace

struct CanonicalStreamReader::State {
  explicit State(ByteSource* source) : empty(source->size() == 0), in(source), loop(&in) {}
  bool empty;  ///< no bytes at all: the empty snapshot
  SourceStream in;
  MessageLoop loop;
  std::vector<StateVersion> versions;
  std::optional<SnapshotPart> part;
};

CanonicalStreamReader::CanonicalStreamReader(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
CanonicalStreamReader::~CanonicalStreamReader() = default;

Result<std::unique_ptr<CanonicalStreamReader>> CanonicalStreamReader::Open(ByteSource* source) {
  auto state = std::make_unique<State>(source);
  if (!state->empty) {
    Status schema = state->loop.ReadSchema(CanonicalFields(false));
    if (!schema.ok()) return state->in.Explain(std::move(schema));
    CAIRN_ASSIGN_OR_RETURN(state->versions, VersionsOf(*state->loop.schema()));
    CAIRN_ASSIGN_OR_RETURN(state->part, PartOf(*state->loop.schema()));
  }
  return std::unique_ptr<CanonicalStreamReader>(new CanonicalStreamReader(std::move(state)));
}

const std::vector<StateVersion>& CanonicalStreamReader::state_versions() const {
  return state_->versions;
}

const std::optional<SnapshotPart>& CanonicalStreamReader::part() const { return state_->part; }

Result<std::optional<CanonicalBatch>> CanonicalStreamReader::Next() {
  if (state_->empty) return std::optional<CanonicalBatch>();
  // The last body may end like the marker, so that the marker is what lies behind it.
  const uint64_t last_at = state_->in.position();
  auto batch = state_->loop.Next();
  if (!batch.ok()) return state_->in.Explain(batch.status());
  if (*batch != nullptr) return std::optional<CanonicalBatch>(BatchOf(*batch, false));
  if (!state_->in.ended(last_at)) return NoEndMarker();
  return std::optional<CanonicalBatch>();
}

Result<CanonicalStream> ReadCanonicalStream(std::string_view bytes) {
  CanonicalStream stream;
  if (bytes.empty()) return stream;
  CAIRN_ASSIGN_OR_RETURN(const OpenedStream opened, OpenStream(bytes, CanonicalFields(false)));
  CAIRN_ASSIGN_OR_RETURN(stream.state_versions, VersionsOf(*opened.schema));
  CAIRN_ASSIGN_OR_RETURN(stream.part, PartOf(*opened.schema));
  for (const auto& batch : opened.batches) {
    stream.batches.push_back(BatchOf(batch, false));
    stream.rows += stream.batches.back().rows.rows;
  }
  return stream;
}

std::string_view ResolveDuplicate(std::string_view stored_key, std::string_view earlier,
                                  std::string_view later) {
  const bool operator_state = !stored_key.empty() && stored_key.front() == '\xff';
  if (!operator_state || earlier.size() != 8 || later.size() != 8) return later;
  return base::LoadLE<int64_t>(earlier.data()) > base::LoadLE<int64_t>(later.data()) ? earlier
                                                                                     : later;
}

namespace {

/// Drop the first row of a batch.
void DropFirst(CanonicalBatch* batch) {
  ++batch->operator_ids;
  ++batch->rows.kinds;
  ++batch->rows.key_offsets;
  ++batch->rows.value_offsets;
  --batch->rows.rows;
}

Status CheckLogRows(const base::SavedRowSpan& rows) {
  for (size_t i = 0; i < rows.rows; ++i) {
    const auto kind = static_cast<ChangelogRowKind>(rows.kinds[i]);
    if (kind != ChangelogRowKind::kPut && kind != ChangelogRowKind::kErase) {
      return Status::Corruption(fmt::format("changelog row has kind {}", rows.kinds[i]));
    }
    if (kind == ChangelogRowKind::kErase && !rows.value(i).empty()) {
      return Status::Corruption("changelog erases a row and gives it a value");
    }
  }
  return Status();
}

}  // namespace

Result<ChangelogStream> ReadChangelogStream(std::string_view bytes) {
  ChangelogStream log;
  if (bytes.empty()) return log;
  CAIRN_ASSIGN_OR_RETURN(const OpenedStream opened, OpenStream(bytes, CanonicalFields(true)));
  bool materialised = false;
  for (const auto& record_batch : opened.batches) {
    CanonicalBatch batch = BatchOf(record_batch, true);
    if (batch.rows.rows == 0) continue;
    if (!materialised) {
      log.materialisation = static_cast<ChangelogRowKind>(batch.rows.kinds[0]);
      if (log.materialisation != ChangelogRowKind::kMaterialisedInline &&
          log.materialisation != ChangelogRowKind::kMaterialisedHandle) {
        return Status::Corruption(
            fmt::format("changelog begins with a row of kind {}", batch.rows.kinds[0]));
      }
      log.materialisation_value = batch.rows.value(0);
      materialised = true;
      DropFirst(&batch);
    }
    CAIRN_RETURN_IF_ERROR(CheckLogRows(batch.rows));
    log.rows += batch.rows.rows;
    log.batches.push_back(std::move(batch));
  }
  if (!materialised) return Status::Corruption("changelog has no materialisation row");
  return log;
}

}  // namespace cairn::format
