// SPDX-License-Identifier: Apache-2.0
//
// Batch: the unit that moves between operators and between subtasks. Its rows are shared and never
// copied by an exchange: a receiver gets the same record batch with the rows it owns selected.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace cairn::stream {

/// What a row of an updating stream does. The order is that of Flink's RowKind.
enum class RowKind : uint8_t { kInsert = 0, kUpdateBefore = 1, kUpdateAfter = 2, kDelete = 3 };

/// "+I", "-U", "+U", "-D".
std::string_view RowKindText(RowKind kind);

/// Encoded keys of a batch's rows and their hashes: made once by the exchange, used by the table.
///
/// Shape:    key(i) and hashes[i] (FNV-1a 64 of the key) belong to row i of the record batch.
struct KeyColumn {
  std::vector<uint32_t> offsets;  ///< rows + 1
  std::vector<char> data;
  std::vector<uint64_t> hashes;
  std::string_view key(size_t row) const {
    return {data.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
};

struct Batch {
  std::shared_ptr<arrow::RecordBatch> rows;
  /// Kind of every row of `rows`; null = all kInsert.
  std::shared_ptr<const std::vector<RowKind>> kinds;
  /// Keys by which the batch was exchanged; null = not exchanged by key.
  std::shared_ptr<const KeyColumn> keys;
  /// Rows of `rows` that belong to the receiver, ascending; null = all.
  std::shared_ptr<const std::vector<uint32_t>> selection;

  int64_t num_rows() const {
    return selection ? static_cast<int64_t>(selection->size()) : rows->num_rows();
  }
  RowKind kind(int64_t row) const {
    return kinds ? (*kinds)[static_cast<size_t>(row)] : RowKind::kInsert;
  }
};

}  // namespace cairn::stream
