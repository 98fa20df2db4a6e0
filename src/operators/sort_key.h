// SPDX-License-Identifier: Apache-2.0
//
// Order-preserving sort keys: ORDER BY over any columns becomes one memcmp. The first 16 bytes live
// in two integers, so a comparison that they decide touches no memory.
//
// Format:   docs/formats/topn.md
// Threads:  one per encoder.
//
// Invariants
//  1. No key of one encoder is a proper prefix of another, so padding a short key with zeros to 16
//     bytes changes no order.
//  2. Prefix(row) equals the first 16 bytes of what AppendKey(row) writes, zero-padded.
#pragma once

#include <arrow/type_fwd.h>

#include <bit>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "stream/plan.h"

namespace cairn::operators {

/// First 16 bytes of a sort key, big-endian, so that integers compare as memcmp does.
struct SortPrefix {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr auto operator<=>(const SortPrefix&, const SortPrefix&) = default;
};

inline constexpr size_t kSortPrefixBytes = 16;

/// Return the prefix of a key that is given as bytes.
SortPrefix SortPrefixOf(std::string_view key);

/// Write the first `bytes` (<= 16) bytes of a prefix.
void StoreSortPrefix(SortPrefix prefix, size_t bytes, char* out);

/// Encode the sort key of rows of a record batch.
///
/// Threads:  one.
class SortKeyEncoder {
 public:
  /// Errors:   kInvalidArgument for a column whose type has no order here.
  static Result<SortKeyEncoder> Make(const arrow::Schema& schema,
                                     const std::vector<stream::SortSpec>& sort);

  /// Look at the columns of `batch`, which must outlive the calls that follow.
  void Bind(const arrow::RecordBatch& batch);

  /// Return the first 16 bytes of the key of `row`.
  ///
  /// Cost:     2 ns for one 8-byte column, about 6 ns a column otherwise. No allocation.
  SortPrefix Prefix(int64_t row) const {
    if (single_int64_) [[likely]]
      return PrefixOfInt64(row);
    return PrefixOfAny(row);
  }

  /// Append the whole key of `row`.
  void AppendKey(int64_t row, std::string* out) const;

  /// Bytes of every key when all columns have a fixed width, else 0.
  size_t fixed_bytes() const { return fixed_bytes_; }

  /// True when the prefix is the whole key, so that equal prefixes are equal keys.
  bool prefix_is_key() const { return fixed_bytes_ <= kSortPrefixBytes && all_fixed_; }

 private:
  enum class Kind : uint8_t { kBool, kInt32, kInt64, kDouble, kDecimal128, kText };
  struct Column {
    int index;
    Kind kind;
    bool nullable;
    bool descending;
    bool nulls_first;
    // Of the bound batch:
    const uint8_t* validity = nullptr;
    const uint8_t* values = nullptr;
    const uint8_t* text = nullptr;
    int64_t offset = 0;
  };

  SortKeyEncoder() = default;
  static size_t WidthOf(Kind kind);
  static bool IsNull(const Column& column, int64_t row) {
    const int64_t at = row + column.offset;
    return column.validity != nullptr && ((column.validity[at >> 3] >> (at & 7)) & 1) == 0;
  }
  template <class Out>
  static void Encode(const Column& column, int64_t row, Out* out);

  SortPrefix PrefixOfInt64(int64_t row) const {
    const Column& column = columns_[0];
    const int64_t value = reinterpret_cast<const int64_t*>(column.values)[row + column.offset];
    const uint64_t ordered = (static_cast<uint64_t>(value) ^ (uint64_t{1} << 63)) ^ flip_;
    if (!column.nullable) return {ordered, 0};
    if (IsNull(column, row)) return {uint64_t{column.nulls_first ? 0U : 2U} << 56, 0};
    return {(uint64_t{1} << 56) | (ordered >> 8), ordered << 56};
  }
  SortPrefix PrefixOfAny(int64_t row) const;

  std::vector<Column> columns_;
  bool single_int64_ = false;
  uint64_t flip_ = 0;  ///< all ones when the single column descends
  bool all_fixed_ = true;
  size_t fixed_bytes_ = 0;
};

}  // namespace cairn::operators
