// SPDX-License-Identifier: Apache-2.0
//
// ColumnBuilder: fill one Arrow column a row at a time with no check but the caller's own. Readers
// size it once a batch, so the inner loops store and go on.
//
// Threads: one.
// Invariants
//  1. Rows are set in ascending order and none is left out; the newest row may be set again, and
//     the last value wins.
//  2. The text of one batch fits its reserve: a batch is cut from one block, and no value is longer
//     in the column than in the block.
#pragma once

#include <arrow/array/array_base.h>
#include <arrow/buffer.h>
#include <arrow/type.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "cairn/status.h"
#include "connectors/value_text.h"

namespace cairn::connectors {

enum class ColumnKind : uint8_t {
  kBigint,
  kInteger,
  kDouble,
  kText,
  kBoolean,
  kTimestamp,
  kDate,
  kDecimal
};

/// Tell the kind of a SQL column. kInvalidArgument for a type that files cannot hold.
Result<ColumnKind> ColumnKindOf(const arrow::Field& field);

class ColumnBuilder {
 public:
  static Result<ColumnBuilder> Make(std::shared_ptr<arrow::Field> field);

  ColumnKind kind() const { return kind_; }
  const arrow::Field& field() const { return *field_; }
  bool nullable() const { return field_->nullable(); }
  int precision() const { return precision_; }
  int scale() const { return scale_; }
  DateCache* date_cache() { return &date_cache_; }

  /// Begin a batch of at most `rows` rows and, for text, `text_bytes` bytes.
  Status Begin(int64_t rows, int64_t text_bytes);

  void SetNull(int64_t row);
  void SetInt64(int64_t row, int64_t value) { Store(row, value); }
  void SetInt32(int64_t row, int32_t value) { Store(row, value); }
  void SetDouble(int64_t row, double value) { Store(row, value); }
  void SetBool(int64_t row, bool value) {
    const uint8_t bit = static_cast<uint8_t>(1u << (row & 7));
    if (value) {
      values_[row >> 3] |= bit;
    } else {
      values_[row >> 3] &= static_cast<uint8_t>(~bit);
    }
    MarkValid(row);
  }
  void SetDecimal(int64_t row, const uint8_t value[16]) {
    std::memcpy(values_ + row * 16, value, 16);
    MarkValid(row);
  }
  /// Shape:    `text` is followed by 32 readable bytes (the copy is by 32 at a time).
  void SetText(int64_t row, std::string_view text) {
    char* out = StartText(row);
    size_t done = 0;
    do {
      std::memcpy(out + done, text.data() + done, 32);
      done += 32;
    } while (done < text.size());
    FinishText(row, text.size());
  }
  /// Where to write a text of the row, to be ended by FinishText.
  char* StartText(int64_t row) { return text_ + offsets_[row]; }
  void FinishText(int64_t row, size_t size) {
    offsets_[row + 1] = offsets_[row] + static_cast<int32_t>(size);
    MarkValid(row);
  }

  /// Read and set one value; null = done. Text is not looked at here (see SetText).
  TextError SetFromText(int64_t row, std::string_view text);

  /// End the batch after `rows` rows.
  Result<std::shared_ptr<arrow::Array>> Finish(int64_t rows);

 private:
  template <class T>
  void Store(int64_t row, T value) {
    std::memcpy(values_ + row * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    MarkValid(row);
  }
  void MarkValid(int64_t row) {
    if (validity_ != nullptr) [[unlikely]] {
      validity_[row >> 3] |= static_cast<uint8_t>(1u << (row & 7));
    }
  }

  std::shared_ptr<arrow::Field> field_;
  ColumnKind kind_ = ColumnKind::kBigint;
  int precision_ = 0;
  int scale_ = 0;
  int64_t width_ = 0;  ///< bytes a value; 0 for text and boolean
  int64_t capacity_ = 0;
  DateCache date_cache_;

  std::shared_ptr<arrow::ResizableBuffer> values_buffer_;
  std::shared_ptr<arrow::ResizableBuffer> offsets_buffer_;
  std::shared_ptr<arrow::ResizableBuffer> validity_buffer_;
  uint8_t* values_ = nullptr;
  char* text_ = nullptr;
  int32_t* offsets_ = nullptr;
  uint8_t* validity_ = nullptr;  ///< made at the first null
};

}  // namespace cairn::connectors
