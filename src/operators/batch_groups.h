// SPDX-License-Identifier: Apache-2.0
//
// BatchGroups: number the distinct keys of a batch, so that an operator touches its state once a
// key and batch instead of once a row.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stream/batch.h"

namespace cairn::operators {

/// One distinct key of a batch.
struct KeyGroupOfBatch {
  uint64_t hash;         ///< FNV-1a 64 of the key
  std::string_view key;  ///< into the batch's key column
  uint32_t first_row;    ///< of the record batch
};

class BatchGroups {
 public:
  /// Number the keys of the selected rows of `batch` in the order in which they first appear.
  ///
  /// Shape:    a batch without keys has one group with the empty key.
  /// Cost:     about 5 ns a row while the distinct keys fit the second-level cache. Memory is kept
  ///           between batches.
  void Assign(const stream::Batch& batch);

  /// Number of selected rows, and the distinct keys.
  size_t rows() const { return rows_; }
  std::span<const KeyGroupOfBatch> groups() const { return groups_; }

  /// Group of the i-th selected row.
  std::span<const uint32_t> group_of() const { return group_of_; }

  /// Selected rows (of the record batch) ordered by group, arrival order kept within one: those of
  /// group g are [starts[g], starts[g + 1]).
  struct Buckets {
    std::vector<uint32_t> rows;
    std::vector<uint32_t> starts;
  };
  /// Cost:     about 3 ns a row.
  void Bucket(const stream::Batch& batch, Buckets* buckets) const;

 private:
  struct Slot {
    uint64_t hash;
    uint32_t group;  ///< kEmpty = free
    uint32_t key_offset;
  };
  static constexpr uint32_t kEmpty = UINT32_MAX;

  template <class RowAt>
  void AssignRows(const stream::KeyColumn& keys, RowAt row_at);
  template <class RowAt, class Equal>
  void AssignKeys(const stream::KeyColumn& keys, RowAt row_at, Equal equal);
  void Resize(size_t slots);
  size_t IndexOf(uint64_t hash) const { return (hash * 0x9e3779b97f4a7c15ULL) >> shift_; }

  size_t rows_ = 0;
  std::vector<Slot> slots_;
  int shift_ = 0;
  std::vector<KeyGroupOfBatch> groups_;
  std::vector<uint32_t> group_of_;
};

}  // namespace cairn::operators
