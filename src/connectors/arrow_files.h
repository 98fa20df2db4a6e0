// SPDX-License-Identifier: Apache-2.0
//
// env files in the shape that Arrow's readers and writers take.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <memory>
#include <mutex>
#include <utility>

#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::connectors {

/// A file for Arrow to read, which keeps the first failure of the file itself: Arrow tells it like
/// one of the bytes.
///
/// Threads:  any for ReadAt and failure, one for the rest.
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
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t size, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t size) override;
  arrow::Result<int64_t> Read(int64_t size, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t size) override;

  Status failure() const;

 private:
  std::shared_ptr<const env::RandomAccessFile> file_;
  int64_t position_ = 0;
  bool closed_ = false;
  mutable std::mutex mutex_;
  Status failure_;
};

/// An Arrow stream that appends to a file which it does not own, and keeps the first failure whole.
///
/// Threads:  one.
class ArrowOutput final : public arrow::io::OutputStream {
 public:
  explicit ArrowOutput(env::WritableFile* file) : file_(file) {
    set_mode(arrow::io::FileMode::WRITE);
  }
  arrow::Status Write(const void* data, int64_t size) override;
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return written_; }
  bool closed() const override { return closed_; }

  int64_t written() const { return written_; }
  /// The failure of the file behind an Arrow call that failed, else that call's own.
  Status Explain(const arrow::Status& status, std::string_view context) const;

 private:
  env::WritableFile* file_;
  int64_t written_ = 0;
  bool closed_ = false;
  Status failure_;
};

}  // namespace cairn::connectors
