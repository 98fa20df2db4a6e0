// SPDX-License-Identifier: Apache-2.0
//
// GroupRows: the rows of one key group of one table, encoded and sorted by key: the unit in which
// an unordered table is scanned in order.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/saved_rows.h"
#include "cairn/state_table.h"
#include "cairn/view.h"

namespace cairn::backend {

struct EncodedRow {
  SavedRowKind kind = SavedRowKind::kMaterialised;
  std::string_view key;
  std::string_view value;
};

class GroupRows final : public SavedRowSink {
 public:
  /// Take the live rows of `group`, each key behind `prefix`. Earlier rows are gone.
  ///
  /// Cost:     O(n log n) of the group; its bytes are in memory until the next call.
  Status CollectBase(const StateTable& table, const View& view, uint32_t group,
                     std::string_view prefix);
  /// The same for the rows changed after epoch `since`.
  Status CollectDelta(const StateTable& table, const View& view, uint64_t since, uint32_t group,
                      std::string_view prefix);

  size_t size() const { return rows_.size(); }
  const EncodedRow& operator[](size_t i) const { return rows_[i]; }

  Result<SavedRows*> BeginGroup(uint32_t group) override;
  Status Flush() override;

 private:
  void Begin(std::string_view prefix);
  void FlushPart();
  void Sort();

  std::string prefix_;
  std::vector<std::unique_ptr<SavedRows>> parts_;
  SavedRows current_;
  std::vector<EncodedRow> rows_;
};

}  // namespace cairn::backend
