// SPDX-License-Identifier: Apache-2.0
#include "connectors/arrow_files.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>

#include <algorithm>

#include "connectors/arrow_status.h"

namespace cairn::connectors {
namespace {

class ArrowInput final : public arrow::io::RandomAccessFile {
 public:
  explicit ArrowInput(std::shared_ptr<const env::RandomAccessFile> file) : file_(std::move(file)) {
    set_mode(arrow::io::FileMode::READ);
  }

  arrow::Result<int64_t> GetSize() override { return static_cast<int64_t>(file_->size()); }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t size, void* out) override {
    const int64_t file_size = static_cast<int64_t>(file_->size());
    if (position < 0 || size < 0) return arrow::Status::Invalid("read of a negative range");
    const int64_t more = std::min(size, std::max<int64_t>(file_size - position, 0));
    const Status status = file_->ReadExactly(static_cast<uint64_t>(position),
                                             {static_cast<char*>(out), static_cast<size_t>(more)});
    if (!status.ok()) return arrow::Status::IOError(std::string(status.message()));
    return more;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t size) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(size));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, size, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got, /*shrink_to_fit=*/false));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Result<int64_t> Read(int64_t size, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, size, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t size) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, size));
    position_ += buffer->size();
    return buffer;
  }

 private:
  std::shared_ptr<const env::RandomAccessFile> file_;
  int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> ToArrow(
    std::shared_ptr<const env::RandomAccessFile> file) {
  return std::make_shared<ArrowInput>(std::move(file));
}

arrow::Status ArrowOutput::Write(const void* data, int64_t size) {
  if (!failure_.ok()) return arrow::Status::IOError(std::string(failure_.message()));
  failure_ = file_->Append({static_cast<const char*>(data), static_cast<size_t>(size)});
  if (!failure_.ok()) return arrow::Status::IOError(std::string(failure_.message()));
  written_ += size;
  return arrow::Status::OK();
}

Status ArrowOutput::Explain(const arrow::Status& status, std::string_view context) const {
  if (status.ok()) return {};
  return failure_.ok() ? FromArrow(status, context) : failure_.WithContext(context);
}

}  // namespace cairn::connectors
