// SPDX-License-Identifier: Apache-2.0
//
// BlockReader: a window that moves over a file front to back, always followed by readable padding
// so that parsers may look a few bytes too far.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::connectors {

/// Bytes read at a time: they and what is decoded from them stay in the second-level cache.
inline constexpr size_t kBlockBytes = 512 * 1024;
/// Rows in a batch at most.
inline constexpr int64_t kBatchRows = 8192;
/// A row longer than this is refused: most often a quote that is never closed.
inline constexpr size_t kRowBytesMax = 64 * 1024 * 1024;

class BlockReader {
 public:
  /// Read `file` from `offset` on. `path` is for messages.
  BlockReader(std::shared_ptr<const env::RandomAccessFile> file, std::string path, uint64_t offset);

  /// The bytes read and not consumed, and where in the file they begin.
  std::string_view bytes() const { return {buffer_.data() + begin_, end_ - begin_}; }
  uint64_t offset() const { return offset_; }
  /// True when bytes() reaches the end of the file.
  bool at_end() const { return offset_ + (end_ - begin_) >= file_->size(); }
  uint64_t file_size() const { return file_->size(); }
  const std::string& path() const { return path_; }
  const std::shared_ptr<const env::RandomAccessFile>& file() const { return file_; }

  /// Drop the first `size` of bytes().
  void Consume(size_t size) {
    begin_ += size;
    offset_ += size;
  }

  /// Read up to `want` bytes more behind bytes(). Views of bytes() are void after it.
  Status Extend(size_t want);

  /// The line that holds byte `offset` of the file, counted from 1.
  ///
  /// Cost:     reads the file up to there; only for messages.
  Result<uint64_t> LineAt(uint64_t offset) const;

 private:
  std::shared_ptr<const env::RandomAccessFile> file_;
  std::string path_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t offset_;
};

}  // namespace cairn::connectors
