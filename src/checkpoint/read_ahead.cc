// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::checkpoint {

Result<ReadAhead::Piece> ReadAhead::Fetch(const std::string& key, uint64_t offset,
                                          uint64_t length) const {
  Piece piece{key, offset, std::string(length, '\0')};
  CAIRN_RETURN_IF_ERROR(objects_->ReadRange(key, offset, piece.bytes));
  return piece;
}

void ReadAhead::Begin(const std::string& key, uint64_t offset) {
  const uint64_t end = lengths_.at(key);
  if (offset >= end) return;
  next_ = std::async(std::launch::async,
                     [this, key, offset, length = std::min(piece_bytes_, end - offset)] {
                       return Fetch(key, offset, length);
                     });
}

/// Make piece_ one that covers `offset`, and begin the one behind it.
Status ReadAhead::MoveTo(const std::string& key, uint64_t offset) {
  if (next_.valid()) {
    Result<Piece> next = next_.get();
    if (next.ok() && next->Covers(key, offset)) {
      piece_ = *std::move(next);
      Begin(key, piece_.offset + piece_.bytes.size());
      return {};
    }
  }
  // Somewhere else; what became of a piece that is not wanted does not matter.
  const uint64_t end = lengths_.at(key);
  CAIRN_ASSIGN_OR_RETURN(piece_, Fetch(key, offset, std::min(piece_bytes_, end - offset)));
  Begin(key, piece_.offset + piece_.bytes.size());
  return {};
}

Status ReadAhead::ReadRange(const std::string& key, uint64_t offset, std::span<char> out) {
  const auto length = lengths_.find(key);
  if (length == lengths_.end() || offset > length->second || length->second - offset < out.size()) {
    return objects_->ReadRange(key, offset, out);  // it says what is wrong
  }
  while (!out.empty()) {
    if (!piece_.Covers(key, offset)) CAIRN_RETURN_IF_ERROR(MoveTo(key, offset));
    const uint64_t at = offset - piece_.offset;
    const size_t taken = std::min<uint64_t>(out.size(), piece_.bytes.size() - at);
    std::memcpy(out.data(), piece_.bytes.data() + at, taken);
    offset += taken;
    out = out.subspan(taken);
  }
  return {};
}

}  // namespace cairn::checkpoint
