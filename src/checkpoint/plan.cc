// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/plan.h"

#include <algorithm>
#include <set>

#include "checkpoint/place.h"

namespace cairn::checkpoint {
namespace {

using format::CheckpointManifest;
using format::FrameKind;
using format::StateChunkId;
using format::StateFrame;

/// What the base cut holds of one operator's keyed rows.
struct Saved {
  uint64_t base_bytes = 0;
  uint64_t delta_bytes = 0;
  std::set<StateChunkId> delta_chunks;
  std::map<StateChunkId, uint64_t> bytes_in;  // by object
  uint64_t bytes() const { return base_bytes + delta_bytes; }
};

/// Decides which operators get a new base.
class RebaseDecision {
 public:
  explicit RebaseDecision(const CheckpointManifest& base) {
    for (const ObjectExtent& object : ObjectsOf(base)) {
      object_length_[object.chunk] = object.length;
    }
    for (const StateFrame& frame : base.state_frames) {
      if (frame.key.kind != FrameKind::kKeyed) {
        pinned_[frame.chunk] += frame.range.length;
        continue;
      }
      Saved& saved = saved_[frame.key.operator_id];
      (frame.delta ? saved.delta_bytes : saved.base_bytes) += frame.range.length;
      if (frame.delta) saved.delta_chunks.insert(frame.chunk);
      saved.bytes_in[frame.chunk] += frame.range.length;
    }
  }

  bool OwnDeltasAreDue(base::OperatorId id, uint64_t rebase_bytes_min) const {
    const auto found = saved_.find(id);
    if (found == saved_.end()) return false;  // nothing saved: a delta over nothing is a base
    const Saved& saved = found->second;
    return saved.delta_bytes > std::max(rebase_bytes_min, saved.base_bytes / 2) ||
           saved.delta_chunks.size() >= format::kDeltasPerBaseMax;
  }

  bool HasRows(base::OperatorId id) const { return saved_.contains(id); }

  /// Add to `due` the operators whose objects are mostly dead once those in `due` are rewritten.
  void AddMostlyDead(std::set<base::OperatorId>* due) const {
    for (bool changed = true; changed;) {
      changed = false;
      const std::map<StateChunkId, uint64_t> live = LiveBytes(*due);
      for (const auto& [id, saved] : saved_) {
        if (due->contains(id)) continue;
        for (const auto& [chunk, bytes] : saved.bytes_in) {
          const uint64_t length = object_length_.at(chunk);
          const uint64_t dead = length - std::min(length, live.at(chunk));
          if (dead * 2 > length && saved.bytes() <= dead) {
            due->insert(id);
            changed = true;
            break;
          }
        }
        if (changed) break;
      }
    }
  }

  /// Add to `due` until fewer than `limit` objects are referenced, those in most objects first.
  /// Return true when operator state must be rewritten as well.
  bool AddUntilFewObjects(size_t limit, std::set<base::OperatorId>* due) const {
    while (LiveBytes(*due).size() >= limit) {
      const Saved* most = nullptr;
      base::OperatorId most_id;
      for (const auto& [id, saved] : saved_) {
        if (due->contains(id)) continue;
        if (most == nullptr || saved.bytes_in.size() > most->bytes_in.size()) {
          most = &saved;
          most_id = id;
        }
      }
      if (most == nullptr) return true;
      due->insert(most_id);
    }
    return false;
  }

 private:
  std::map<StateChunkId, uint64_t> LiveBytes(const std::set<base::OperatorId>& due) const {
    std::map<StateChunkId, uint64_t> live = pinned_;
    for (const auto& [id, saved] : saved_) {
      if (due.contains(id)) continue;
      for (const auto& [chunk, bytes] : saved.bytes_in) live[chunk] += bytes;
    }
    return live;
  }

  std::map<StateChunkId, uint64_t> object_length_;
  std::map<StateChunkId, uint64_t> pinned_;  // operator state: not keyed, always referenced
  std::map<base::OperatorId, Saved> saved_;
};

/// The same declaration, whatever the clock of its TTL shows.
bool SameSlot(format::SlotRecord a, const format::SlotRecord& b) {
  a.ttl_time_ms = b.ttl_time_ms;
  a.ttl_first_ms = b.ttl_first_ms;
  return a == b;
}

/// Save what the clock of a TTL showed in the subtasks: the furthest of a clock that stops while
/// down; else the time that all had reached, and none while one has no time yet.
void NoteClock(const state::SlotDescriptor& slot, const View& view, bool is_first,
               format::SlotRecord* record) {
  // The rows of a slot that passes through (an import) keep the clock of their own cut.
  if (!slot.ttl.enabled() || slot.ttl_time_ms) return;
  const std::optional<int64_t> time_ms = view.TimeOf(slot.ttl.clock);
  const std::optional<int64_t> first_ms = view.FirstTimeOf(slot.ttl.clock);
  if (is_first) {
    record->ttl_time_ms = time_ms;
    record->ttl_first_ms = first_ms;
    return;
  }
  record->ttl_first_ms = std::max(record->ttl_first_ms, first_ms);
  record->ttl_time_ms = slot.ttl.clock == TtlClock::kStoppedWhileDown
                            ? std::max(record->ttl_time_ms, time_ms)
                            : std::min(record->ttl_time_ms, time_ms);
  if (!record->ttl_time_ms) record->ttl_first_ms.reset();
}

/// Put every captured table in its place.
Status CollectTables(const CapturedCut& captured,
                     std::map<base::OperatorId, OperatorPlan>* operators) {
  for (size_t i = 0; i < captured.subtasks.size(); ++i) {
    for (const state::StateTable* table : captured.subtasks[i].tables) {
      const state::SlotDescriptor& slot = table->descriptor();
      OperatorPlan& plan = (*operators)[slot.operator_id];
      plan.operator_id = slot.operator_id;
      if (plan.uid.empty()) plan.uid = slot.operator_uid;
      if (plan.uid != slot.operator_uid) {
        return Status::Internal("operators " + plan.uid + " and " + slot.operator_uid +
                                " share the id " + base::ToHex16(slot.operator_id));
      }
      plan.keyed.resize(captured.subtasks.size());
      plan.operator_state.resize(captured.subtasks.size());
      auto& tables = IsKeyed(slot.kind) ? plan.keyed : plan.operator_state;
      tables[i].push_back(table);
      plan.frame_per_group |= slot.frame_per_group;
      const format::SlotRecord record = ToSlotRecord(slot);
      auto known =
          std::find_if(plan.slots.begin(), plan.slots.end(),
                       [&](const format::SlotRecord& other) { return other.name == slot.name; });
      const bool is_first = known == plan.slots.end();
      if (is_first) {
        CAIRN_RETURN_IF_ERROR(
            format::ValidateSlotName(slot.name).WithContext("operator " + plan.uid));
        known = plan.slots.insert(plan.slots.end(), record);
      } else if (!SameSlot(*known, record)) {
        return Status::Internal("operator " + plan.uid + ": subtasks declare slot " + slot.name +
                                " differently");
      }
      NoteClock(slot, captured.subtasks[i].view, is_first, &*known);
    }
  }
  return {};
}

Status SortTables(OperatorPlan* plan) {
  const auto by_name = [](const state::StateTable* a, const state::StateTable* b) {
    return a->descriptor().name < b->descriptor().name;
  };
  for (auto* side : {&plan->keyed, &plan->operator_state}) {
    for (std::vector<const state::StateTable*>& tables : *side) {
      std::sort(tables.begin(), tables.end(), by_name);
      for (size_t i = 1; i < tables.size(); ++i) {
        if (tables[i]->descriptor().name == tables[i - 1]->descriptor().name) {
          return Status::Internal("operator " + plan->uid +
                                  ": one subtask has two tables of slot " +
                                  tables[i]->descriptor().name);
        }
      }
    }
  }
  std::sort(
      plan->slots.begin(), plan->slots.end(),
      [](const format::SlotRecord& a, const format::SlotRecord& b) { return a.name < b.name; });
  return {};
}

/// True when the base cut declares this operator's slots otherwise, or does not know it.
bool SlotsChanged(const OperatorPlan& plan, const CheckpointManifest& base) {
  for (const format::OperatorRecord& record : base.operators) {
    if (record.operator_id == plan.operator_id) {
      return !std::equal(record.slots.begin(), record.slots.end(), plan.slots.begin(),
                         plan.slots.end(), SameSlot);
    }
  }
  return true;
}

/// True when a delta of this operator would have nothing to stand on.
bool NeedsBase(const OperatorPlan& plan, const CapturedCut& captured) {
  for (size_t i = 0; i < plan.keyed.size(); ++i) {
    if (!plan.keyed[i].empty() && !captured.subtasks[i].committed_epoch) return true;
  }
  return plan.slots_changed;
}

uint64_t FrameBytesMin(const OperatorPlan& plan) {
  uint64_t state_bytes = 0;
  for (const auto& tables : plan.keyed) {
    for (const state::StateTable* table : tables) state_bytes += table->MemoryBytes();
  }
  return std::max<uint64_t>(format::kFrameBytesMin, state_bytes / 8192);
}

}  // namespace

uint64_t ExpectedBytes(const CutPlan& plan, const format::CheckpointManifest* base) {
  uint64_t bytes = 0;
  for (const OperatorPlan& one : plan.operators) {
    if (one.delta || base == nullptr) continue;
    for (const format::OperatorRecord& record : base->operators) {
      if (record.operator_id == one.operator_id) bytes += record.bytes;
    }
  }
  return bytes;
}

format::SlotRecord ToSlotRecord(const state::SlotDescriptor& slot) {
  format::SlotRecord record;
  record.name = slot.name;
  record.kind = NameOf(slot.kind);
  record.key_codec = slot.key_codec;
  record.value_codec = slot.value_codec;
  record.version = slot.version;
  record.key_columns = slot.key_columns;
  record.value_columns = slot.value_columns;
  record.frame_per_group = slot.frame_per_group;
  if (!slot.element_key_codec.empty()) record.element_key_codec = slot.element_key_codec;
  if (slot.ttl.enabled()) {
    record.ttl_ms = static_cast<uint64_t>(slot.ttl.ttl_ms);
    record.ttl_clock = NameOf(slot.ttl.clock);
    record.ttl_time_ms = slot.ttl_time_ms;
    record.ttl_first_ms = slot.ttl_first_ms;
  }
  return record;
}

state::SlotDescriptor ToSlotDescriptor(const format::OperatorRecord& op,
                                       const format::SlotRecord& saved) {
  state::SlotDescriptor slot;
  slot.operator_id = op.operator_id;
  slot.operator_uid = op.uid;
  slot.name = saved.name;
  slot.kind = SlotKindOf(saved.kind).value_or(state::SlotKind::kKeyedValue);
  slot.key_codec = saved.key_codec;
  slot.value_codec = saved.value_codec;
  slot.version = saved.version;
  slot.key_columns = saved.key_columns;
  slot.value_columns = saved.value_columns;
  slot.frame_per_group = saved.frame_per_group;
  slot.element_key_codec = saved.element_key_codec.value_or("");
  if (saved.ttl_ms) {
    slot.ttl.ttl_ms = static_cast<int64_t>(std::min<uint64_t>(*saved.ttl_ms, INT64_MAX));
    slot.ttl.clock = TtlClockOf(saved.ttl_clock.value_or("")).value_or(TtlClock::kEvent);
    slot.ttl_time_ms = saved.ttl_time_ms;
    slot.ttl_first_ms = saved.ttl_first_ms;
  }
  return slot;
}

Result<CutPlan> PlanCut(const CapturedCut& captured, const CheckpointManifest* base,
                        const PlanOptions& options) {
  std::map<base::OperatorId, OperatorPlan> operators;
  CAIRN_RETURN_IF_ERROR(CollectTables(captured, &operators));
  CutPlan plan;
  std::set<base::OperatorId> due;
  for (auto& [id, one] : operators) {
    CAIRN_RETURN_IF_ERROR(SortTables(&one));
    one.slots_changed = base == nullptr || SlotsChanged(one, *base);
    if (NeedsBase(one, captured)) due.insert(id);
  }
  if (base != nullptr) {
    for (const format::OperatorRecord& record : base->operators) {
      if (!operators.contains(record.operator_id)) {
        return Status::Internal("operator " + record.uid + " of checkpoint " +
                                std::to_string(base->checkpoint_id.value) +
                                " was not captured; its state would be lost");
      }
    }
    const RebaseDecision decision(*base);
    for (const auto& [id, one] : operators) {
      if (options.rebase_all || decision.OwnDeltasAreDue(id, options.rebase_bytes_min)) {
        due.insert(id);
      }
      // A delta over nothing is the same rows as a base, and a base is read faster.
      if (!decision.HasRows(id)) due.insert(id);
    }
    decision.AddMostlyDead(&due);
    plan.rewrite_operator_state = decision.AddUntilFewObjects(options.rebase_chunks, &due) ||
                                  captured.parallelism != base->parallelism;
  } else {
    plan.rewrite_operator_state = true;
  }
  for (auto& [id, one] : operators) {
    one.delta = !due.contains(id);
    one.frame_bytes_min = FrameBytesMin(one);
    // A delta of a few rows a group would be mostly frame headers: one value a group is the base's.
    if (one.delta) one.frame_per_group = false;
    plan.with_row_kind |= one.delta;
    plan.operators.push_back(std::move(one));
  }
  return plan;
}

}  // namespace cairn::checkpoint
