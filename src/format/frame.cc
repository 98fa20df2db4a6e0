// SPDX-License-Identifier: Apache-2.0
//
// Encoding frames. The buffers of SavedRows become the buffers of an Arrow record batch, the batch
// an IPC message, and the message is hashed by writing it into a stream that keeps nothing. The
// same message is written to the object later, by the one thread that appends; its bytes do not
// depend on where it lands, because Arrow pads every message to 8 bytes.
//
// A part cannot be encoded before it is known whether it is the last of its frame, so one part of
// rows is always held back.
#include "format/frame.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "format/arrow_status.h"
#include "format/frame_payload.h"

namespace cairn::format {

const arrow::ipc::IpcWriteOptions& ObjectWriteOptions() {
  static const arrow::ipc::IpcWriteOptions options = [] {
    auto defaults = arrow::ipc::IpcWriteOptions::Defaults();
    defaults.use_threads = false;
    return defaults;
  }();
  return options;
}

struct RowBufferPool::Shared {
  explicit Shared(size_t max) : max_idle(max) {}
  const size_t max_idle;
  std::mutex mutex;
  std::vector<std::unique_ptr<base::SavedRows>> idle;
};

RowBufferPool::RowBufferPool(size_t max_idle) : shared_(std::make_shared<Shared>(max_idle)) {}

std::shared_ptr<base::SavedRows> RowBufferPool::Take() {
  std::unique_ptr<base::SavedRows> rows;
  {
    std::lock_guard lock(shared_->mutex);
    if (!shared_->idle.empty()) {
      rows = std::move(shared_->idle.back());
      shared_->idle.pop_back();
    }
  }
  if (rows == nullptr) rows = std::make_unique<base::SavedRows>();
  rows->Clear();
  return {rows.release(), [shared = shared_](base::SavedRows* returned) {
            std::unique_ptr<base::SavedRows> owned(returned);
            std::lock_guard lock(shared->mutex);
            if (shared->idle.size() < shared->max_idle) shared->idle.push_back(std::move(owned));
          }};
}

namespace {

/// A view of a row buffer that keeps the rows alive.
class RowsBuffer final : public arrow::Buffer {
 public:
  RowsBuffer(const char* data, size_t bytes, std::shared_ptr<const base::SavedRows> rows)
      : arrow::Buffer(reinterpret_cast<const uint8_t*>(data), static_cast<int64_t>(bytes)),
        rows_(std::move(rows)) {}

 private:
  std::shared_ptr<const base::SavedRows> rows_;
};

std::shared_ptr<arrow::Buffer> Share(const base::ColumnBuffer& column,
                                     const std::shared_ptr<const base::SavedRows>& rows) {
  return std::make_shared<RowsBuffer>(column.data(), column.size(), rows);
}

/// CRC-32C and SHA-256 of bytes as they pass.
struct FrameSums {
  uint32_t crc32c = 0;
  base::Sha256 sha256;
  uint64_t bytes = 0;
  void Update(std::string_view more) {
    crc32c = base::Crc32c(crc32c, more);
    sha256.Update(more);
    bytes += more.size();
  }
};

/// Refuse row kinds that the frame cannot hold.
Status CheckKinds(const FrameIdentity& frame, const base::SavedRows& rows) {
  const char* kinds = rows.kinds().data();
  bool fits = true;
  for (size_t i = 0; i < rows.rows(); ++i) {
    const auto kind = static_cast<uint8_t>(kinds[i]);
    fits &= frame.delta ? kind == 1 || kind == 2 : kind == 0;
  }
  if (fits) return Status();
  return Status::InvalidArgument(fmt::format("{}: a {} takes rows of kind {} only",
                                             frame.ToString(), frame.delta ? "delta" : "base",
                                             frame.delta ? "put and erase" : "materialised"));
}

/// Encode parts of frames of one object.
class PartEncoder {
 public:
  static Result<std::unique_ptr<PartEncoder>> Make(const ObjectSchema& schema) {
    auto encoder = std::make_unique<PartEncoder>();
    CAIRN_ASSIGN_OR_RETURN(encoder->schema_, ToArrowSchema(schema));
    encoder->with_row_kind_ = schema.with_row_kind;
    return encoder;
  }

  Result<EncodedPart> Encode(const FramePartTag& tag, std::shared_ptr<const base::SavedRows> rows,
                             FrameSums* sums) {
    CAIRN_RETURN_IF_ERROR(Check(tag.frame, *rows));
    const auto count = static_cast<int64_t>(rows->rows());
    std::vector<std::shared_ptr<arrow::Array>> columns;
    if (with_row_kind_) {
      columns.push_back(std::make_shared<arrow::UInt8Array>(count, Share(rows->kinds(), rows)));
    }
    columns.push_back(
        std::make_shared<arrow::UInt64Array>(count, OperatorIds(tag.frame.operator_id, count)));
    columns.push_back(std::make_shared<arrow::BinaryArray>(count, Share(rows->key_offsets(), rows),
                                                           Share(rows->key_data(), rows)));
    columns.push_back(std::make_shared<arrow::BinaryArray>(
        count, Share(rows->value_offsets(), rows), Share(rows->value_data(), rows)));
    const auto batch = arrow::RecordBatch::Make(schema_, count, std::move(columns));
    const auto metadata =
        arrow::key_value_metadata({std::string(kFrameTagKey)}, {PackFramePartTag(tag)});
    auto payload = std::make_shared<EncodedPart::Payload>();
    CAIRN_RETURN_IF_ARROW_ERROR(arrow::ipc::GetRecordBatchPayload(
        *batch, metadata, ObjectWriteOptions(), &payload->message));
    const uint64_t before = sums->bytes;
    FunctionOutputStream hashing([&](std::string_view bytes) {
      sums->Update(bytes);
      return arrow::Status::OK();
    });
    int32_t metadata_length = 0;
    CAIRN_RETURN_IF_ARROW_ERROR(arrow::ipc::WriteIpcPayload(payload->message, ObjectWriteOptions(),
                                                            &hashing, &metadata_length));
    EncodedPart part;
    part.payload = std::move(payload);
    part.tag = tag;
    part.entries = rows->rows();
    part.bytes = sums->bytes - before;
    return part;
  }

 private:
  Status Check(const FrameIdentity& frame, const base::SavedRows& rows) const {
    if (frame.delta && !with_row_kind_) {
      return Status::InvalidArgument(
          fmt::format("{}: a delta needs an object with row kinds", frame.ToString()));
    }
    constexpr size_t kOffsetMax = std::numeric_limits<int32_t>::max();
    if (rows.key_data().size() > kOffsetMax || rows.value_data().size() > kOffsetMax ||
        (rows.bytes() > kFramePartBytesMax && rows.rows() > 1)) {
      return Status::InvalidArgument(fmt::format("{}: a part of {} bytes: flush rows more often",
                                                 frame.ToString(), rows.bytes()));
    }
    return CheckKinds(frame, rows);
  }

  /// The op_id column: one buffer for all parts of an operator, filled as far as it is needed.
  std::shared_ptr<arrow::Buffer> OperatorIds(base::OperatorId id, int64_t count) {
    if (ids_ == nullptr || id != ids_of_ || ids_count_ < count) {
      ids_count_ = std::max<int64_t>(count, 1024);
      auto filled = std::make_shared<std::vector<uint64_t>>(ids_count_, id.value);
      ids_ = std::shared_ptr<arrow::Buffer>(
          new arrow::Buffer(reinterpret_cast<const uint8_t*>(filled->data()), ids_count_ * 8),
          [filled](arrow::Buffer* buffer) { delete buffer; });
      ids_of_ = id;
    }
    return arrow::SliceBuffer(ids_, 0, count * 8);
  }

  std::shared_ptr<arrow::Schema> schema_;
  bool with_row_kind_ = false;
  std::shared_ptr<arrow::Buffer> ids_;
  base::OperatorId ids_of_;
  int64_t ids_count_ = 0;
};

}  // namespace

struct FrameEncoder::State {
  ObjectSchema schema;
  FrameEncoderOptions options;
  RowBufferPool* pool;
  FrameSink* sink;
  std::unique_ptr<PartEncoder> parts;  // made at the first group, whose caller can take an error
  std::string slot;
  bool raw_keys = false;

  std::shared_ptr<base::SavedRows> rows;  // being filled
  std::shared_ptr<base::SavedRows> held;  // complete, its part not encoded yet
  uint32_t group = 0;                     // that of BeginGroup
  size_t rows_before_group = 0;           // in `rows` when `group` began
  bool began = false;                     // BeginGroup was called since the last frame

  bool has_rows = false;  // of the open frame, groups closed so far
  FrameIdentity frame;
  EncodedFrame encoded;
  FrameSums sums;
  bool cut = false;  // a part was cut, so the frame ends with the group it was cut in

  /// Note the rows of the current group in the frame's range.
  void CloseGroup() {
    if (!began || rows->rows() == rows_before_group) return;
    if (!has_rows) frame.first_group = static_cast<uint16_t>(group);
    frame.last_group = static_cast<uint16_t>(group);
    has_rows = true;
    rows_before_group = rows->rows();
  }

  void SetPrefix() {
    if (raw_keys) {
      rows->SetKeyPrefix({});
    } else if (options.kind == FrameKind::kKeyed) {
      rows->SetKeyPrefix(schema.layout.KeyedPrefix(group, slot));
    } else {
      rows->SetKeyPrefix(schema.layout.OperatorStatePrefix(slot));
    }
  }

  /// Move the rows so far out, leaving the caller's columns empty in place.
  std::shared_ptr<base::SavedRows> TakeRows() {
    auto taken = pool->Take();
    std::swap(*taken, *rows);
    SetPrefix();
    rows_before_group = 0;
    return taken;
  }

  Status EncodePart(std::shared_ptr<base::SavedRows> part_rows, bool last) {
    const FramePartTag tag{frame, static_cast<uint32_t>(encoded.parts.size()), last};
    CAIRN_ASSIGN_OR_RETURN(EncodedPart part, parts->Encode(tag, std::move(part_rows), &sums));
    encoded.summary.entries += part.entries;
    encoded.parts.push_back(std::move(part));
    return Status();
  }

  /// Encode what is held and what is left and hand the frame over.
  Status CutFrame() {
    CloseGroup();
    if (has_rows) {
      std::shared_ptr<base::SavedRows> rest = rows->rows() > 0 ? TakeRows() : nullptr;
      if (held != nullptr) CAIRN_RETURN_IF_ERROR(EncodePart(std::move(held), rest == nullptr));
      if (rest != nullptr) CAIRN_RETURN_IF_ERROR(EncodePart(std::move(rest), true));
      FrameSummary& summary = encoded.summary;
      summary.identity = frame;
      summary.parts = static_cast<uint32_t>(encoded.parts.size());
      summary.bytes = sums.bytes;
      summary.crc32c = sums.crc32c;
      summary.sha256 = sums.sha256.Finish();
      CAIRN_RETURN_IF_ERROR(sink->TakeFrame(std::move(encoded)));
    }
    held = nullptr;
    encoded = EncodedFrame();
    sums = FrameSums();
    has_rows = cut = false;
    return Status();
  }

  Status CheckGroup(uint32_t next) const {
    const uint32_t limit =
        options.kind == FrameKind::kKeyed ? schema.layout.key_groups() : kMaxKeyGroups;
    if (next >= limit) {
      return Status::InvalidArgument(
          fmt::format("operator {}: group {} of rows to encode, but there are {}",
                      base::ToHex16(options.operator_id), next, limit));
    }
    if (began && next < group) {
      return Status::InvalidArgument(
          fmt::format("operator {}: rows of group {} after those of group {}: groups must ascend",
                      base::ToHex16(options.operator_id), next, group));
    }
    return Status();
  }
};

FrameEncoder::FrameEncoder(const ObjectSchema& schema, FrameEncoderOptions options,
                           RowBufferPool* pool, FrameSink* sink)
    : state_(std::make_unique<State>()) {
  state_->schema = schema;
  state_->options = options;
  state_->pool = pool;
  state_->sink = sink;
  state_->rows = pool->Take();
  state_->frame.kind = options.kind;
  state_->frame.operator_id = options.operator_id;
  state_->frame.delta = options.delta;
  state_->frame.checkpoint_id = options.checkpoint_id;
}

FrameEncoder::~FrameEncoder() = default;

void FrameEncoder::SetSlot(std::string_view slot) {
  state_->slot = slot;
  state_->raw_keys = false;
}

void FrameEncoder::SetRawKeys() { state_->raw_keys = true; }

Result<base::SavedRows*> FrameEncoder::BeginGroup(uint32_t group) {
  State& s = *state_;
  CAIRN_RETURN_IF_ERROR(s.CheckGroup(group));
  if (s.parts == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(s.parts, PartEncoder::Make(s.schema));
  }
  s.CloseGroup();
  if (s.has_rows && group != s.frame.last_group) {
    const bool full = s.rows->bytes() >= s.options.frame_bytes_min;
    if (s.cut || full || s.options.frame_per_group || s.options.kind != FrameKind::kKeyed) {
      CAIRN_RETURN_IF_ERROR(s.CutFrame());
    }
  }
  s.group = group;
  s.began = true;
  s.rows_before_group = s.rows->rows();
  s.SetPrefix();
  return s.rows.get();
}

Status FrameEncoder::Flush() {
  State& s = *state_;
  s.CloseGroup();
  if (s.rows->rows() == 0) return Status();
  if (s.held != nullptr) CAIRN_RETURN_IF_ERROR(s.EncodePart(std::move(s.held), false));
  s.held = s.TakeRows();
  s.cut = true;
  return Status();
}

Status FrameEncoder::Finish() {
  CAIRN_RETURN_IF_ERROR(state_->CutFrame());
  state_->began = false;
  return Status();
}

Result<EncodedFrame> EncodeFrame(const ObjectSchema& schema, const FrameIdentity& identity,
                                 std::shared_ptr<base::SavedRows> rows) {
  CAIRN_ASSIGN_OR_RETURN(auto parts, PartEncoder::Make(schema));
  FrameSums sums;
  EncodedFrame frame;
  CAIRN_ASSIGN_OR_RETURN(EncodedPart part, parts->Encode({identity, 0, true}, rows, &sums));
  frame.summary = {identity, 1, part.entries, sums.bytes, sums.crc32c, sums.sha256.Finish()};
  frame.parts.push_back(std::move(part));
  return frame;
}

}  // namespace cairn::format
