// SPDX-License-Identifier: Apache-2.0
//
// What frames and objects share of Arrow: the encoded message behind EncodedPart, and reading the
// parts of a frame. Kept out of frame.h so that its users need no Arrow.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <string_view>

#include "format/frame.h"

namespace cairn::format {

struct EncodedPart::Payload {
  arrow::ipc::IpcPayload message;
};

/// The write options of every object: uncompressed, 8-byte aligned.
const arrow::ipc::IpcWriteOptions& ObjectWriteOptions();

/// An Arrow stream that hands each write to a function.
class FunctionOutputStream final : public arrow::io::OutputStream {
 public:
  using Function = std::function<arrow::Status(std::string_view)>;
  explicit FunctionOutputStream(Function write) : write_(std::move(write)) {}
  ~FunctionOutputStream() override = default;
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t bytes) override {
    position_ += bytes;
    return write_({static_cast<const char*>(data), static_cast<size_t>(bytes)});
  }

 private:
  Function write_;
  int64_t position_ = 0;
  bool closed_ = false;
};

/// Wrap bytes that outlive the buffer.
std::shared_ptr<arrow::Buffer> WrapBytes(std::string_view bytes);

/// The parts of a frame, read and checked against each other and the schema, but for its sums.
struct ParsedFrame {
  FrameIdentity identity;
  uint32_t parts = 0;
  FrameRows rows;
  uint64_t bytes = 0;  ///< used up; the frame may be followed by more
  /// True when the end of a stream followed instead of a frame; nothing else is set then.
  bool end = false;
};

/// Read the frame at the front of `bytes`.
Result<ParsedFrame> ParseFrame(std::string_view bytes, const ObjectSchema& schema,
                               const std::shared_ptr<arrow::Schema>& arrow_schema);

}  // namespace cairn::format
