// SPDX-License-Identifier: Apache-2.0
#include "backend/table/group_rows.h"

#include <algorithm>
#include <utility>

#include "backend/snapshot_stream.h"

namespace cairn::backend {
void GroupRows::Begin(std::string_view prefix) {
  prefix_ = prefix;
  parts_.clear();
  rows_.clear();
  current_.Clear();
}

Result<SavedRows*> GroupRows::BeginGroup(uint32_t) {
  current_.SetKeyPrefix(prefix_);
  return &current_;
}

Status GroupRows::Flush() {
  FlushPart();
  return {};
}

void GroupRows::FlushPart() {
  auto part = std::make_unique<SavedRows>();
  std::swap(*part, current_);
  current_.SetKeyPrefix(prefix_);
  parts_.push_back(std::move(part));
}

void GroupRows::Sort() {
  if (current_.rows() > 0) FlushPart();
  for (const auto& part : parts_) {
    const SavedRowSpan span = part->Span();
    for (size_t i = 0; i < span.rows; ++i) {
      rows_.push_back({span.kind(i), span.key(i), span.value(i)});
    }
  }
  std::sort(rows_.begin(), rows_.end(),
            [](const EncodedRow& a, const EncodedRow& b) { return a.key < b.key; });
}

Status GroupRows::CollectBase(const StateTable& table, const View& view, uint32_t group,
                              std::string_view prefix) {
  Begin(prefix);
  CAIRN_RETURN_IF_ERROR(table.EncodeBase(view, {group, group + 1}, this));
  Sort();
  return {};
}

Status GroupRows::CollectDelta(const StateTable& table, const View& view, uint64_t since,
                               uint32_t group, std::string_view prefix) {
  Begin(prefix);
  CAIRN_RETURN_IF_ERROR(table.EncodeDelta(view, since, {group, group + 1}, this));
  Sort();
  return {};
}

}  // namespace cairn::backend
