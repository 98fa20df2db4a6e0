// SPDX-License-Identifier: Apache-2.0
//
// ImportTable: the rows of one slot on their way into a new place, in the order in which a base
// holds them.
//
// Threads: filled by one; EncodeBase by any after Seal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"

namespace cairn::cli {

class ImportTable final : public StateTable {
 public:
  ImportTable(SlotDescriptor slot, uint32_t key_groups)
      : slot_(std::move(slot)), job_key_groups_(key_groups) {}

  void Add(std::string_view user_key, std::string_view value);

  /// Order the rows by the deployment's slot hash.
  ///
  /// Errors:   kInvalidArgument for a key that is there twice, naming slot and key.
  Status Seal(uint64_t slot_hash_seed);

  uint64_t rows() const { return rows_.size(); }

  const SlotDescriptor& descriptor() const override { return slot_; }
  KeyGroupRange key_groups() const override;
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override;
  /// Never asked for: a new place has no cut to be a delta of.
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override;
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override;
  uint64_t CountRows(const View& view) const override;
  uint64_t MemoryBytes() const override;

 private:
  struct Row {
    uint32_t group;
    uint64_t hash;
    size_t at;  ///< of the key in bytes_; the value follows it
    size_t key_bytes;
    size_t value_bytes;
  };
  std::string_view Key(const Row& row) const { return {bytes_.data() + row.at, row.key_bytes}; }
  std::string_view Value(const Row& row) const {
    return {bytes_.data() + row.at + row.key_bytes, row.value_bytes};
  }

  SlotDescriptor slot_;
  uint32_t job_key_groups_;
  std::string bytes_;
  std::vector<Row> rows_;
};

}  // namespace cairn::cli
