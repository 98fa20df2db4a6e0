// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/merged_scan.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/saved_rows.h"
#include "cairn/element_row_key.h"
#include "format/keys.h"
#include "format/manifest.h"

namespace cairn::checkpoint {
namespace {

/// Where a row stands in the order of a frame.
struct RowPlace {
  uint32_t group = 0;
  std::string_view slot;
  uint64_t hash = 0;
  std::string_view user_key;
  friend std::strong_ordering operator<=>(const RowPlace& a, const RowPlace& b) {
    return std::tie(a.group, a.slot, a.hash, a.user_key) <=>
           std::tie(b.group, b.slot, b.hash, b.user_key);
  }
  friend bool operator==(const RowPlace&, const RowPlace&) = default;
};

/// The slots of one operator that save a row an element.
using SlotKinds = std::map<std::string, SlotKind, std::less<>>;

/// One frame read front to back.
class FrameCursor {
 public:
  FrameCursor(const format::StateFrame* frame, const format::KeyLayout* layout, uint64_t seed,
              const SlotKinds* kinds)
      : frame_(frame), layout_(layout), seed_(seed), kinds_(kinds) {}

  const format::StateFrame& frame() const { return *frame_; }
  bool loaded() const { return loaded_; }
  bool done() const { return loaded_ && batch_ == rows_.rows.batches.size(); }
  const RowPlace& place() const { return place_; }
  std::string_view stored_key() const { return batch().key(row_); }
  std::string_view value() const { return batch().value(row_); }
  bool erased() const { return batch().kind(row_) == base::SavedRowKind::kErase; }

  Status Load(const CutReader& cut) {
    CAIRN_ASSIGN_OR_RETURN(rows_, cut.ReadFrame(*frame_));
    loaded_ = true;
    return Settle(nullptr);
  }

  Status Advance() {
    const RowPlace before = place_;
    ++row_;
    return Settle(&before);
  }

 private:
  const base::SavedRowSpan& batch() const { return rows_.rows.batches[batch_]; }

  /// Step over empty batches and take the current key apart; rows must ascend.
  Status Settle(const RowPlace* before) {
    while (batch_ < rows_.rows.batches.size() && row_ == batch().rows) {
      ++batch_;
      row_ = 0;
    }
    if (done()) return {};
    const format::StoredKey key = layout_->Parse(stored_key());
    if (frame_->key.kind == format::FrameKind::kKeyed) {
      if (key.kind != format::StoredKeyKind::kKeyed) {
        return Status::Corruption(frame_->identity().ToString() +
                                  " holds a row whose key has no group and slot");
      }
      const auto kind = kinds_->find(key.slot);
      const std::string_view user_key =
          kind == kinds_->end() ? key.user_key : UserKeyOfRow(kind->second, key.user_key);
      if (user_key.data() == nullptr) {
        return Status::Corruption(frame_->identity().ToString() +
                                  " holds a row of a list or map whose key has no such parts");
      }
      place_ = {key.group, key.slot, XXH3_64bits_withSeed(user_key.data(), user_key.size(), seed_),
                key.user_key};
    } else {
      const size_t bar = key.user_key.find('|');
      const bool named = bar != std::string_view::npos;
      const std::string_view user_key = named ? key.user_key.substr(bar + 1) : key.user_key;
      place_ = {frame_->key.first_key_group, named ? key.user_key.substr(0, bar) : "",
                XXH3_64bits_withSeed(user_key.data(), user_key.size(), seed_), user_key};
    }
    if (before != nullptr && !(*before < place_)) {
      return Status::Corruption(frame_->identity().ToString() +
                                " has rows out of order or twice; restore an older cut");
    }
    return {};
  }

  const format::StateFrame* frame_;
  const format::KeyLayout* layout_;
  uint64_t seed_;
  const SlotKinds* kinds_;
  LoadedFrame rows_;
  bool loaded_ = false;
  size_t batch_ = 0;
  size_t row_ = 0;
  RowPlace place_;
};

/// The frames of one operator and kind, oldest first: a later one wins.
class OperatorMerge {
 public:
  OperatorMerge(const CutReader& cut, const format::KeyLayout* layout, base::OperatorId id,
                format::FrameKind kind, KeyGroupRange groups)
      : cut_(cut), groups_(groups) {
    for (const format::OperatorRecord& record : cut.manifest().operators) {
      if (record.operator_id != id) continue;
      for (const format::SlotRecord& slot : record.slots) {
        const auto slot_kind = SlotKindOf(slot.kind);
        if (slot_kind && HasElementRows(*slot_kind)) kinds_.emplace(slot.name, *slot_kind);
      }
    }
    std::vector<const format::StateFrame*> frames;
    for (const format::StateFrame& frame : cut.manifest().state_frames) {
      if (frame.key.operator_id != id || frame.key.kind != kind) continue;
      const KeyGroupRange range = frame.key.range();
      if (range.first < groups.last && groups.first < range.last) frames.push_back(&frame);
    }
    std::sort(frames.begin(), frames.end(), [](const auto* a, const auto* b) {
      return std::tuple(a->delta, a->chunk, a->key.first_key_group) <
             std::tuple(b->delta, b->chunk, b->key.first_key_group);
    });
    for (const auto* frame : frames) {
      cursors_.emplace_back(frame, layout, cut.manifest().slot_hash.seed, &kinds_);
    }
  }

  Status Run(bool keyed, const MergedRowVisitor& visit) {
    for (uint32_t group = groups_.first; group < groups_.last; ++group) {
      CAIRN_RETURN_IF_ERROR(OpenGroup(group));
      while (FrameCursor* newest = Least(group)) {
        if (!newest->erased()) {
          const RowPlace& place = newest->place();
          CAIRN_RETURN_IF_ERROR(visit(
              {keyed, group, place.slot, place.user_key, newest->stored_key(), newest->value()}));
        }
        CAIRN_RETURN_IF_ERROR(AdvancePast(newest->place()));
      }
    }
    return {};
  }

 private:
  /// Drop the frames that end before `group`, load those that begin at it or before.
  Status OpenGroup(uint32_t group) {
    std::erase_if(cursors_, [group](const FrameCursor& cursor) {
      return cursor.frame().key.last_key_group < group;
    });
    active_.clear();
    for (FrameCursor& cursor : cursors_) {
      if (cursor.frame().key.first_key_group > group) continue;
      if (!cursor.loaded()) CAIRN_RETURN_IF_ERROR(cursor.Load(cut_));
      // Groups before the range asked for are stepped over, not visited.
      while (!cursor.done() && cursor.place().group < group) {
        CAIRN_RETURN_IF_ERROR(cursor.Advance());
      }
      active_.push_back(&cursor);
    }
    return {};
  }

  /// The newest frame's cursor at the least row of `group`; null = the group is done.
  FrameCursor* Least(uint32_t group) {
    FrameCursor* least = nullptr;
    for (FrameCursor* cursor : active_) {
      if (cursor->done() || cursor->place().group != group) continue;
      if (least == nullptr || !(least->place() < cursor->place())) least = cursor;
    }
    return least;
  }

  Status AdvancePast(const RowPlace& reached) {
    const RowPlace place = reached;  // advancing the cursor it belongs to changes it
    for (FrameCursor* cursor : active_) {
      if (!cursor->done() && cursor->place() == place) CAIRN_RETURN_IF_ERROR(cursor->Advance());
    }
    return {};
  }

  const CutReader& cut_;
  KeyGroupRange groups_;
  SlotKinds kinds_;
  std::vector<FrameCursor> cursors_;
  std::vector<FrameCursor*> active_;
};

uint32_t SubtaskLimit(const format::CheckpointManifest& manifest) {
  uint32_t limit = 0;
  for (const auto& frame : manifest.state_frames) {
    if (frame.key.kind == format::FrameKind::kOperatorState) {
      limit = std::max(limit, frame.key.last_key_group + 1u);
    }
  }
  return limit;
}

}  // namespace

Status ScanOperator(const CutReader& cut, base::OperatorId operator_id, KeyGroupRange groups,
                    const MergedRowVisitor& visit) {
  const format::CheckpointManifest& manifest = cut.manifest();
  CAIRN_ASSIGN_OR_RETURN(const format::KeyLayout layout,
                         format::KeyLayout::ForKeyGroups(manifest.key_groups));
  OperatorMerge keyed(cut, &layout, operator_id, format::FrameKind::kKeyed, groups);
  Status status = keyed.Run(true, visit);
  if (status.ok() && groups == KeyGroupRange{0, manifest.key_groups}) {
    OperatorMerge operator_state(cut, &layout, operator_id, format::FrameKind::kOperatorState,
                                 {0, SubtaskLimit(manifest)});
    status = operator_state.Run(false, visit);
  }
  return status.code() == StatusCode::kCancelled ? Status() : status;
}

}  // namespace cairn::checkpoint
