// SPDX-License-Identifier: Apache-2.0
//
// The saved value of a Top-N partition (value codec "topn"): its rows in rank order, each with its
// sort key. Read by the Top-N operator at restore and by the tools that export state.
//
// Format:   docs/formats/topn.md
// Threads:  free functions over the caller's memory.
//
// Invariants
//  1. A value holds at least one row; a partition without rows has no value.
//  2. Sort keys ascend by memcmp, then by length; rows with equal sort keys stand in the order in
//     which they arrived. The rank of a row is its place, counted from 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn::format {

/// One ranked row: its order-preserving sort key and its columns in the row codec.
struct TopNRow {
  std::string_view sort_key;
  std::string_view row;
  friend bool operator==(const TopNRow&, const TopNRow&) = default;
};

/// Version of the value's encoding, as SlotDescriptor::version carries it.
inline constexpr uint32_t kTopNCodecVersion = 1;

/// Name of the codec, as SlotDescriptor::value_codec carries it.
inline constexpr std::string_view kTopNCodecName = "topn";

/// Bytes before the rows of a value, and bytes of one row beside its sort key and columns.
inline constexpr size_t kTopNHeaderBytes = 4;
inline constexpr size_t kTopNRowOverheadBytes = 8;

/// Write the rows of a value one by one into memory that the caller has sized.
///
/// Shape:    `out` has kTopNHeaderBytes, plus kTopNRowOverheadBytes and both lengths for each row.
/// Threads:  one.
class TopNWriter {
 public:
  TopNWriter(char* out, uint32_t rows);
  /// Write the length of a sort key and return where its `bytes` go; the same for a row's columns.
  char* SortKey(uint32_t bytes) { return Field(bytes); }
  char* Row(uint32_t bytes) { return Field(bytes); }

 private:
  char* Field(uint32_t bytes);
  char* out_;
};

/// Return the bytes that EncodeTopN writes, and write them.
size_t EncodedTopNBytes(std::span<const TopNRow> rows);
void EncodeTopN(std::span<const TopNRow> rows, char* out);

/// Read a value. The rows point into `value`; their columns are not decoded.
///
/// Errors:   kCorruption when bytes are missing or left over, when there is no row, or when sort
///           keys do not ascend.
Result<std::vector<TopNRow>> DecodeTopN(std::string_view value);

}  // namespace cairn::format
