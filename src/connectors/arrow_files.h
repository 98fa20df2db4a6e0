// SPDX-License-Identifier: Apache-2.0
//
// env files in the shape that Arrow's readers and writers take.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <memory>

#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::connectors {

/// Threads:  any for ReadAt, one for the rest.
std::shared_ptr<arrow::io::RandomAccessFile> ToArrow(
    std::shared_ptr<const env::RandomAccessFile> file);

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
