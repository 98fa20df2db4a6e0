// SPDX-License-Identifier: Apache-2.0
//
// TopNBuffer: the ranked rows of one partition, as the Top-N table holds them in a box.
//
// Threads: a buffer is changed only by being replaced; payloads are shared by buffers of any
//          thread.
//
// Invariants
//  1. Rows ascend by sort key; equal keys stand in order of arrival.
//  2. A payload is never changed after it is made. It goes with the last buffer that names it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/status.h"
#include "format/row_codec.h"
#include "operators/sort_key.h"

namespace cairn::operators {

/// Share the immutable bytes of a ranked row: the part of its sort key past the prefix, then its
/// columns in the row codec.
///
/// Threads:  handles are independent; the count is atomic.
/// Cost:     a copy is one atomic add.
class Payload {
 public:
  Payload() = default;
  Payload(const Payload& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->handles.fetch_add(1, std::memory_order_relaxed);
  }
  Payload(Payload&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Payload& operator=(Payload other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Payload() {
    if (block_ != nullptr) Release();
  }

  /// Copy a row. `key` is its whole sort key, of `key_bytes`; null when all of it is in the prefix.
  static Payload Make(const char* key, uint32_t key_bytes, std::string_view row);

  uint32_t key_bytes() const { return block_->key_bytes; }
  std::string_view key_rest() const { return {block_->data(), block_->key_rest_bytes()}; }
  std::string_view row() const {
    return {block_->data() + block_->key_rest_bytes(), block_->row_bytes};
  }
  /// Bytes allocated for the row.
  size_t memory_bytes() const { return Block::SizeOf(block_->key_bytes, block_->row_bytes); }

 private:
  struct Block {
    std::atomic<uint32_t> handles;
    uint32_t key_bytes;
    uint32_t row_bytes;
    char* data() { return reinterpret_cast<char*>(this + 1); }
    uint32_t key_rest_bytes() const {
      return key_bytes > kSortPrefixBytes ? key_bytes - kSortPrefixBytes : 0;
    }
    static size_t SizeOf(uint32_t key_bytes, uint32_t row_bytes) {
      return sizeof(Block) + row_bytes +
             (key_bytes > kSortPrefixBytes ? key_bytes - kSortPrefixBytes : 0);
    }
  };
  explicit Payload(Block* block) : block_(block) {}
  void Release();

  Block* block_ = nullptr;
};

struct RankedRow {
  SortPrefix prefix;
  Payload payload;
};

/// True when the key of `a` is before that of `b`.
inline bool KeyBefore(const RankedRow& a, const RankedRow& b) {
  if (a.prefix != b.prefix) return a.prefix < b.prefix;
  return a.payload.key_rest() < b.payload.key_rest();
}

class TopNBuffer {
 public:
  void Reserve(size_t rows) { rows_.reserve(rows); }
  /// Add a row after all others.
  void Append(RankedRow row);

  const std::vector<RankedRow>& rows() const { return rows_; }
  size_t size() const { return rows_.size(); }
  /// Memory beyond the buffer itself. Cost: O(1).
  size_t memory_bytes() const { return rows_.capacity() * sizeof(RankedRow) + payload_bytes_; }
  /// Bytes of the saved value. Cost: O(1).
  size_t saved_bytes() const;

  /// Write the saved value (format/topn_codec.h): saved_bytes().
  void Save(char* out) const;

 private:
  std::vector<RankedRow> rows_;
  size_t payload_bytes_ = 0;
  size_t content_bytes_ = 0;  // of sort keys and columns
};

/// Saved form of a buffer: value codec "topn".
class TopNCodec {
 public:
  /// Shape:    `rows` describes the payload columns; a value of more than `limit` rows, or whose
  ///           keys have not `key_bytes` (0 = any), is refused.
  TopNCodec(std::shared_ptr<const format::RowCodec> rows, size_t limit, size_t key_bytes)
      : rows_(std::move(rows)), limit_(limit), key_bytes_(key_bytes) {}

  size_t EncodedSize(const TopNBuffer& buffer) const { return buffer.saved_bytes(); }
  void Encode(const TopNBuffer& buffer, char* out) const { buffer.Save(out); }
  Result<TopNBuffer> Decode(std::string_view bytes) const;
  size_t MemoryBytes(const TopNBuffer& buffer) const { return buffer.memory_bytes(); }

 private:
  std::shared_ptr<const format::RowCodec> rows_;
  size_t limit_;
  size_t key_bytes_;
};

}  // namespace cairn::operators
