// SPDX-License-Identifier: Apache-2.0
#include "connectors/block_reader.h"

#include <algorithm>
#include <cstring>

namespace cairn::connectors {
namespace {

constexpr size_t kPadding = 64;  // the scanners and the 32-byte copies read that far at most

}  // namespace

BlockReader::BlockReader(std::shared_ptr<const env::RandomAccessFile> file, std::string path,
                         uint64_t offset)
    : file_(std::move(file)), path_(std::move(path)), buffer_(kPadding), offset_(offset) {}

Status BlockReader::Extend(size_t want) {
  const size_t kept = end_ - begin_;
  const uint64_t next = offset_ + kept;
  if (next > file_->size()) {
    return Status::InvalidArgument(path_ + " has " + std::to_string(file_->size()) +
                                   " bytes, fewer than were read of it before: it was cut or "
                                   "replaced");
  }
  const size_t more = static_cast<size_t>(std::min<uint64_t>(want, file_->size() - next));
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
    begin_ = 0;
    end_ = kept;
  }
  if (buffer_.size() < kept + more + kPadding) buffer_.resize(kept + more + kPadding);
  CAIRN_RETURN_IF_ERROR(
      file_->ReadExactly(next, {buffer_.data() + end_, more}).WithContext("reading " + path_));
  end_ += more;
  std::memset(buffer_.data() + end_, 0, kPadding);
  return {};
}

Result<uint64_t> BlockReader::LineAt(uint64_t offset) const {
  uint64_t line = 1;
  std::vector<char> piece(kBlockBytes);
  for (uint64_t at = 0; at < offset;) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(piece.size(), offset - at));
    CAIRN_RETURN_IF_ERROR(file_->ReadExactly(at, {piece.data(), size}));
    line += static_cast<uint64_t>(std::count(piece.data(), piece.data() + size, '\n'));
    at += size;
  }
  return line;
}

}  // namespace cairn::connectors
