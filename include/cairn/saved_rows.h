// SPDX-License-Identifier: Apache-2.0
//
// Rows on their way from a table to a file and back: plain column buffers, so that tables need no
// Arrow and the file format wraps them into Arrow arrays without a copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

/// What a saved row does to the key it names. The values are saved bytes.
enum class SavedRowKind : uint8_t { kMaterialised = 0, kPut = 1, kErase = 2 };

/// Grow-only bytes without zero fill. What Grow and Room return is never null, so that a codec may
/// copy an empty value there.
class ColumnBuffer {
 public:
  char* Grow(size_t bytes) {
    MakeRoom(bytes);
    char* at = data_.get() + size_;
    size_ += bytes;
    return at;
  }
  void Reserve(size_t capacity) {
    std::unique_ptr<char[]> grown(new char[capacity]);
    if (size_ > 0) std::memcpy(grown.get(), data_.get(), size_);
    data_ = std::move(grown);
    capacity_ = capacity;
  }
  /// Have room for `bytes` more and return where they go; SetEnd says how far they were written.
  char* Room(size_t bytes) {
    MakeRoom(bytes);
    return data_.get() + size_;
  }
  void SetEnd(const char* end) { size_ = static_cast<size_t>(end - data_.get()); }
  void Clear() { size_ = 0; }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  void MakeRoom(size_t bytes) {
    if (size_ + bytes >= capacity_) Reserve(std::max<size_t>(capacity_ * 2, size_ + bytes + 1));
  }

  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

struct SavedRowSpan;

/// Columns row_kind, key_bytes and value_bytes of up to 2^31 bytes each.
///
/// Shape:    offsets hold rows()+1 entries, the first 0. A stored key is `key prefix` + user key.
/// Threads:  one.
class SavedRows {
 public:
  class Run;
  struct Slot {
    char* key;    ///< where to write the user key
    char* value;  ///< where to write the value
  };

  SavedRows() { Clear(); }

  /// Set the bytes put before every later user key: group, slot name and '|'.
  void SetKeyPrefix(std::string_view prefix) { key_prefix_ = prefix; }

  /// Append a row and return where its user key and value go. Both pointers die with the next call.
  Slot Append(SavedRowKind kind, size_t user_key_bytes, size_t value_bytes) {
    *kinds_.Grow(1) = static_cast<char>(kind);
    char* key = key_data_.Grow(key_prefix_.size() + user_key_bytes);
    std::memcpy(key, key_prefix_.data(), key_prefix_.size());
    char* value = value_data_.Grow(value_bytes);
    PushOffset(&key_offsets_, key_data_.size());
    PushOffset(&value_offsets_, value_data_.size());
    ++rows_;
    return {key + key_prefix_.size(), value};
  }

  void Clear() {
    kinds_.Clear();
    key_offsets_.Clear();
    key_data_.Clear();
    value_offsets_.Clear();
    value_data_.Clear();
    PushOffset(&key_offsets_, 0);
    PushOffset(&value_offsets_, 0);
    rows_ = 0;
  }

  size_t rows() const { return rows_; }
  /// Bytes that a row takes beside its user key and value.
  size_t bytes_beside() const { return 1 + 2 * sizeof(int32_t) + key_prefix_.size(); }
  /// Bytes of all columns: what a frame part is cut by.
  size_t bytes() const {
    return kinds_.size() + key_offsets_.size() + key_data_.size() + value_offsets_.size() +
           value_data_.size();
  }

  /// The rows as a reader has them; valid until the next change.
  SavedRowSpan Span() const;

  const ColumnBuffer& kinds() const { return kinds_; }
  const ColumnBuffer& key_offsets() const { return key_offsets_; }
  const ColumnBuffer& key_data() const { return key_data_; }
  const ColumnBuffer& value_offsets() const { return value_offsets_; }
  const ColumnBuffer& value_data() const { return value_data_; }

 private:
  static void PushOffset(ColumnBuffer* offsets, size_t offset) {
    const int32_t narrow = static_cast<int32_t>(offset);
    std::memcpy(offsets->Grow(sizeof(narrow)), &narrow, sizeof(narrow));
  }

  std::string key_prefix_;
  ColumnBuffer kinds_;
  ColumnBuffer key_offsets_;
  ColumnBuffer key_data_;
  ColumnBuffer value_offsets_;
  ColumnBuffer value_data_;
  size_t rows_ = 0;
};

/// Append rows of known total size: room is made once, and the cursors stay in registers.
///
/// Use: rows.Append for each of `count` rows, whose sizes add up to the bytes given; then Finish.
/// Without Finish nothing was appended. No other use of the columns may come between.
class SavedRows::Run {
 public:
  Run(SavedRows* rows, size_t count, size_t user_key_bytes, size_t value_bytes)
      : rows_(rows),
        prefix_bytes_(rows->key_prefix_.size()),
        kind_(rows->kinds_.Room(count)),
        key_offset_(rows->key_offsets_.Room(count * sizeof(int32_t))),
        key_(rows->key_data_.Room(count * prefix_bytes_ + user_key_bytes + kShortPrefixBytes)),
        value_offset_(rows->value_offsets_.Room(count * sizeof(int32_t))),
        value_(rows->value_data_.Room(value_bytes)),
        key_data_(rows->key_data_.data()),
        value_data_(rows->value_data_.data()) {
    if (prefix_bytes_ <= kShortPrefixBytes) {
      std::memcpy(short_prefix_, rows->key_prefix_.data(), prefix_bytes_);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Slot Append(SavedRowKind kind, size_t user_key_bytes, size_t value_bytes) {
    *kind_++ = static_cast<char>(kind);
    if (prefix_bytes_ <= kShortPrefixBytes) {
      // Of fixed size, so no call; what is too much lies where the user key or later rows go.
      std::memcpy(key_, short_prefix_, kShortPrefixBytes);
    } else {
      std::memcpy(key_, rows_->key_prefix_.data(), prefix_bytes_);
    }
    const Slot slot{key_ + prefix_bytes_, value_};
    key_ = slot.key + user_key_bytes;
    value_ += value_bytes;
    PutOffset(&key_offset_, key_ - key_data_);
    PutOffset(&value_offset_, value_ - value_data_);
    return slot;
  }

  void Finish() {
    rows_->rows_ += static_cast<size_t>(kind_ - (rows_->kinds_.data() + rows_->kinds_.size()));
    rows_->kinds_.SetEnd(kind_);
    rows_->key_offsets_.SetEnd(key_offset_);
    rows_->key_data_.SetEnd(key_);
    rows_->value_offsets_.SetEnd(value_offset_);
    rows_->value_data_.SetEnd(value_);
  }

 private:
  static constexpr size_t kShortPrefixBytes = 16;

  static void PutOffset(char** at, ptrdiff_t offset) {
    const auto narrow = static_cast<int32_t>(offset);
    std::memcpy(*at, &narrow, sizeof(narrow));
    *at += sizeof(narrow);
  }

  SavedRows* const rows_;
  const size_t prefix_bytes_;
  char* kind_;
  char* key_offset_;
  char* key_;
  char* value_offset_;
  char* value_;
  const char* const key_data_;
  const char* const value_data_;
  char short_prefix_[kShortPrefixBytes] = {};
};

/// Take the rows that a table encodes, group by group.
///
/// Threads:  one at a time.
class SavedRowSink {
 public:
  virtual ~SavedRowSink() = default;

  /// Begin the rows of `group` (ascending). Return the columns to append to, prefix set.
  virtual Result<SavedRows*> BeginGroup(uint32_t group) = 0;

  /// Called at a row boundary whenever the columns hold kSavedRowsFlushBytes or more, so that the
  /// sink can cut a part. Leaves the same columns ready for more rows of the same group.
  virtual Status Flush() = 0;
};

inline constexpr size_t kSavedRowsFlushBytes = size_t{8} << 20;
/// Most bytes of one saved value: columns count bytes with 31 bits.
inline constexpr size_t kSavedValueBytesMax = size_t{1} << 30;

/// Rows read back: spans over column memory that outlives the call.
struct SavedRowSpan {
  const uint8_t* kinds = nullptr;  ///< null = all kMaterialised
  const int32_t* key_offsets = nullptr;
  const char* key_data = nullptr;
  const int32_t* value_offsets = nullptr;
  const char* value_data = nullptr;
  size_t rows = 0;

  std::string_view key(size_t i) const {
    return {key_data + key_offsets[i], static_cast<size_t>(key_offsets[i + 1] - key_offsets[i])};
  }
  std::string_view value(size_t i) const {
    return {value_data + value_offsets[i],
            static_cast<size_t>(value_offsets[i + 1] - value_offsets[i])};
  }
  SavedRowKind kind(size_t i) const {
    return kinds == nullptr ? SavedRowKind::kMaterialised : static_cast<SavedRowKind>(kinds[i]);
  }

  /// Number of rows from `first` on whose keys begin with the same `bytes` bytes; 0 when the key of
  /// `first` is shorter.
  size_t PrefixRun(size_t first, size_t bytes) const {
    const std::string_view prefix = key(first).substr(0, bytes);
    if (prefix.size() < bytes) return 0;
    // Most prefixes fit a word: group, a short slot name, '|'.
    uint64_t word = 0;
    std::memcpy(&word, prefix.data(), std::min<size_t>(bytes, 8));
    const uint64_t mask = bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << (bytes * 8)) - 1;
    size_t last = first + 1;
    for (; last < rows; ++last) {
      const std::string_view next = key(last);
      if (next.size() < std::max<size_t>(bytes, 8)) {
        if (!next.starts_with(prefix)) break;
        continue;
      }
      uint64_t begin;
      std::memcpy(&begin, next.data(), 8);
      if (((begin ^ word) & mask) != 0) break;
      if (bytes > 8 && !next.starts_with(prefix)) break;
    }
    return last - first;
  }
};

inline SavedRowSpan SavedRows::Span() const {
  SavedRowSpan span;
  span.kinds = reinterpret_cast<const uint8_t*>(kinds_.data());
  span.key_offsets = reinterpret_cast<const int32_t*>(key_offsets_.data());
  span.key_data = key_data_.data();
  span.value_offsets = reinterpret_cast<const int32_t*>(value_offsets_.data());
  span.value_data = value_data_.data();
  span.rows = rows_;
  return span;
}

}  // namespace v0
}  // namespace cairn
