// SPDX-License-Identifier: Apache-2.0
#include "connectors/arrow_files.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>

#include <algorithm>

#include "connectors/arrow_status.h"

namespace cairn::connectors {

arrow::Result<int64_t> ArrowInput::ReadAt(int64_t position, int64_t size, void* out) {
  const int64_t file_size = static_cast<int64_t>(file_->size());
  if (position < 0 || size < 0) return arrow::Status::Invalid("read of a negative range");
  const int64_t more = std::min(size, std::max<int64_t>(file_size - position, 0));
  const Status status = file_->ReadExactly(static_cast<uint64_t>(position),
                                           {static_cast<char*>(out), static_cast<size_t>(more)});
  if (status.ok()) return more;
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok()) failure_ = status;
  return arrow::Status::IOError(std::string(status.message()));
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowInput::ReadAt(int64_t position, int64_t size) {
  // A damaged file may ask for more than it has: no memory is taken for that.
  const int64_t left = std::max<int64_t>(static_cast<int64_t>(file_->size()) - position, 0);
  size = std::min(size, left);
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(size));
  ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, size, buffer->mutable_data()));
  ARROW_RETURN_NOT_OK(buffer->Resize(got, /*shrink_to_fit=*/false));
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

arrow::Result<int64_t> ArrowInput::Read(int64_t size, void* out) {
  ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, size, out));
  position_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowInput::Read(int64_t size) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, size));
  position_ += buffer->size();
  return buffer;
}

Status ArrowInput::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
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
