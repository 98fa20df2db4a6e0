// SPDX-License-Identifier: Apache-2.0
#include "connectors/file_encoder.h"

namespace cairn::connectors {
namespace {

constexpr size_t kFlushBytes = 256 * 1024;

class TextEncoder final : public FileEncoder {
 public:
  TextEncoder(RowText rows, env::WritableFile* file) : rows_(std::move(rows)), file_(file) {
    rows_.AppendHeader(&buffer_);
  }

  Status Write(const stream::Batch& batch) override {
    CAIRN_RETURN_IF_ERROR(rows_.Append(batch, &buffer_));
    return buffer_.size() >= kFlushBytes ? Flush() : Status();
  }

  Status Finish() override { return Flush(); }

  uint64_t bytes() const override { return flushed_ + buffer_.size(); }

 private:
  Status Flush() {
    CAIRN_RETURN_IF_ERROR(file_->Append(buffer_.view()));
    flushed_ += buffer_.size();
    buffer_.clear();
    return {};
  }

  RowText rows_;
  env::WritableFile* file_;
  TextBuffer buffer_;
  uint64_t flushed_ = 0;
};

}  // namespace

Result<std::unique_ptr<FileEncoder>> MakeTextEncoder(const RowTextOptions& options,
                                                     std::shared_ptr<arrow::Schema> schema,
                                                     env::WritableFile* file) {
  CAIRN_ASSIGN_OR_RETURN(RowText rows, RowText::Make(options, std::move(schema)));
  std::unique_ptr<FileEncoder> encoder = std::make_unique<TextEncoder>(std::move(rows), file);
  return encoder;
}

}  // namespace cairn::connectors
