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

/// Grow-only bytes without zero fill.
class ColumnBuffer {
 public:
  char* Grow(size_t bytes) {
    if (size_ + bytes > capacity_) Reserve(std::max<size_t>(capacity_ * 2, size_ + bytes));
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
  void Clear() { size_ = 0; }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

/// Columns row_kind, key_bytes and value_bytes of up to 2^31 bytes each.
///
/// Shape:    offsets hold rows()+1 entries, the first 0. A stored key is `key prefix` + user key.
/// Threads:  one.
class SavedRows {
 public:
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
  /// Bytes of all columns: what a frame part is cut by.
  size_t bytes() const {
    return kinds_.size() + key_offsets_.size() + key_data_.size() + value_offsets_.size() +
           value_data_.size();
  }

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
};

}  // namespace v0
}  // namespace cairn
