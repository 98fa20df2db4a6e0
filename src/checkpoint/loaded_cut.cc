// SPDX-License-Identifier: Apache-2.0
//
// Frames come in the manifest's order: by operator, bases before deltas, deltas oldest first. A
// restore therefore reads front to back and never looks ahead. Every row read is either applied or
// counted as another subtask's, and CheckReceipts adds the counts up over all subtasks.
#include "checkpoint/loaded_cut.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <set>

#include "base/units.h"
#include "checkpoint/damage_advice.h"
#include "checkpoint/place.h"
#include "checkpoint/plan.h"
#include "checkpoint/read_ahead.h"
#include "checkpoint/slot_migration.h"

namespace cairn::checkpoint {
namespace {

using format::FrameKind;
using format::StateFrame;

std::string FrameName(const StateFrame& frame) {
  return std::to_string(frame.chunk.checkpoint_id.value) + "@" + std::to_string(frame.range.offset);
}

/// A table of the job and what its saved values go through first.
struct RestoredTable {
  state::StateTable* table = nullptr;
  SlotMigration migration;
};

/// One subtask's tables of one operator.
struct OperatorTables {
  std::vector<RestoredTable> keyed;
  std::vector<RestoredTable> operator_state;
  KeyGroupRange groups;  ///< of the keyed tables
};

/// Gives the rows of frames to the tables of one operator.
class RowRouter {
 public:
  RowRouter(const std::vector<RestoredTable>& tables, size_t group_prefix_bytes)
      : group_prefix_bytes_(group_prefix_bytes) {
    for (const RestoredTable& restored : tables) {
      routes_.push_back(
          {restored.table, &restored.migration, restored.table->descriptor().name + "|"});
    }
  }

  /// Rows of this slot go nowhere.
  void LeaveOut(const std::string& slot) { routes_.push_back({nullptr, nullptr, slot + "|"}); }
  uint64_t left_out() const { return left_out_; }

  /// Apply the rows of one batch: runs of one group and slot go to their table whole.
  Status Route(const state::SavedRowSpan& rows, state::LoadCounts* counts) {
    size_t first = 0;
    while (first < rows.rows) {
      const Target* target = FindTarget(rows.key(first));
      if (target == nullptr) return NoTable(rows.key(first));
      const size_t prefix_bytes = group_prefix_bytes_ + target->slot_prefix.size();
      state::SavedRowSpan run = rows;
      if (run.kinds != nullptr) run.kinds += first;
      run.key_offsets += first;
      run.value_offsets += first;
      run.rows = rows.PrefixRun(first, prefix_bytes);
      first += run.rows;
      if (target->table == nullptr) {
        left_out_ += run.rows;
        continue;
      }
      CAIRN_RETURN_IF_ERROR(target->migration->empty() ? Load(*target, run, counts)
                                                       : LoadMigrated(*target, run, counts));
    }
    return {};
  }

 private:
  struct Target {
    state::StateTable* table;  // null = given up
    const SlotMigration* migration;
    std::string slot_prefix;  // slot and '|'
  };

  bool IsOf(const Target& target, std::string_view key) const {
    return key.size() >= group_prefix_bytes_ + target.slot_prefix.size() &&
           std::memcmp(key.data() + group_prefix_bytes_, target.slot_prefix.data(),
                       target.slot_prefix.size()) == 0;
  }

  const Target* FindTarget(std::string_view key) const {
    for (const Target& target : routes_) {
      if (IsOf(target, key)) return &target;
    }
    return nullptr;
  }

  Status Load(const Target& target, const state::SavedRowSpan& run,
              state::LoadCounts* counts) const {
    return target.table->Load(run, group_prefix_bytes_,
                              group_prefix_bytes_ + target.slot_prefix.size(), counts);
  }

  /// Load a run whose values go through a migration first, some MiB at a time.
  Status LoadMigrated(const Target& target, const state::SavedRowSpan& run,
                      state::LoadCounts* counts) {
    migrated_.Clear();
    for (size_t i = 0; i < run.rows; ++i) {
      value_.clear();
      if (run.kind(i) != state::SavedRowKind::kErase) {
        const Status converted = target.migration->Convert(
            run.key(i).substr(group_prefix_bytes_ + target.slot_prefix.size()), run.value(i),
            &value_);
        if (!converted.ok()) {
          return converted.WithContext("migration of slot " + target.table->descriptor().name);
        }
      }
      const std::string_view key = run.key(i);
      const auto at = migrated_.Append(run.kind(i), key.size(), value_.size());
      key.copy(at.key, key.size());
      value_.copy(at.value, value_.size());
      if (migrated_.bytes() < state::kSavedRowsFlushBytes) continue;
      CAIRN_RETURN_IF_ERROR(Load(target, migrated_.Span(), counts));
      migrated_.Clear();
    }
    return Load(target, migrated_.Span(), counts);
  }

  Status NoTable(std::string_view key) const {
    const std::string_view rest = key.substr(std::min(group_prefix_bytes_, key.size()));
    return Status::InvalidArgument("saved slot \"" + std::string(rest.substr(0, rest.find('|'))) +
                                   "\" has no table in this job");
  }

  size_t group_prefix_bytes_;
  std::vector<Target> routes_;
  uint64_t left_out_ = 0;
  state::SavedRows migrated_;
  std::string value_;
};

/// Tell `table` how its slot was saved, and plan how the saved values are read; a slot that was not
/// saved needs nothing.
Result<SlotMigration> MatchSlot(state::StateTable* table,
                                const format::CheckpointManifest& manifest,
                                const MigrationRegistry* migrations,
                                const RestoreMapping& mapping) {
  const state::SlotDescriptor& slot = table->descriptor();
  for (const format::OperatorRecord& saved : manifest.operators) {
    if (mapping.OperatorFor(saved.operator_id) != slot.operator_id) continue;
    for (const format::SlotRecord& record : saved.slots) {
      if (record.name != slot.name || mapping.LeavesOut(saved.operator_id, record.name)) continue;
      Result<SlotMigration> plan = SlotMigration::Plan(record, ToSlotRecord(slot), migrations);
      if (!plan.ok()) return plan.status().WithContext("operator " + saved.uid);
      CAIRN_RETURN_IF_ERROR(table->ExpectSaved(ToSlotDescriptor(saved, record)));
      return plan;
    }
  }
  return SlotMigration();
}

/// Sort the tables by operator. Every migration is planned before the first row is read.
Result<std::map<base::OperatorId, OperatorTables>> ByOperator(
    std::span<state::StateTable* const> tables, const format::CheckpointManifest& manifest,
    const MigrationRegistry* migrations, const RestoreMapping& mapping) {
  std::map<base::OperatorId, OperatorTables> by_operator;
  for (state::StateTable* table : tables) {
    const state::SlotDescriptor& slot = table->descriptor();
    OperatorTables& of = by_operator[slot.operator_id];
    CAIRN_ASSIGN_OR_RETURN(SlotMigration migration,
                           MatchSlot(table, manifest, migrations, mapping));
    if (IsKeyed(slot.kind)) {
      if (!of.keyed.empty() && of.groups != table->key_groups()) {
        return Status::Internal("operator " + slot.operator_uid +
                                ": its tables hold different key groups");
      }
      of.keyed.push_back({table, std::move(migration)});
      of.groups = table->key_groups();
    } else {
      of.operator_state.push_back({table, std::move(migration)});
    }
  }
  return by_operator;
}

Status RouteGuarded(RowRouter* router, const format::FrameRows& rows, state::LoadCounts* counts) {
  try {
    for (const state::SavedRowSpan& batch : rows.batches) {
      CAIRN_RETURN_IF_ERROR(router->Route(batch, counts));
    }
    return {};
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("no memory to load the state");
  } catch (const std::exception& thrown) {
    return Status::Internal(std::string("a state codec threw: ") + thrown.what());
  } catch (...) {
    return Status::Internal("a state codec threw something that is no std::exception");
  }
}

}  // namespace

Result<std::shared_ptr<const LoadedCut>> LoadedCut::Open(
    env::ObjectStore* objects, std::shared_ptr<const format::CheckpointManifest> manifest,
    const MigrationRegistry* migrations, RestoreMapping mapping) {
  std::shared_ptr<LoadedCut> cut(
      new LoadedCut(objects, std::move(manifest), migrations, std::move(mapping)));
  CAIRN_RETURN_IF_ERROR(cut->CheckObjects());
  cut->CollectSources();
  cut->CollectSlots();
  CAIRN_RETURN_IF_ERROR(cut->ReadSinks());
  return std::shared_ptr<const LoadedCut>(std::move(cut));
}

bool LoadedCut::ended() const {
  return !manifest().source_names.empty() &&
         manifest().ended_sources.size() == manifest().source_names.size();
}

Status LoadedCut::CheckObjects() const {
  for (const ObjectExtent& object : ObjectsOf(manifest())) {
    CAIRN_RETURN_IF_ERROR(CheckObject(objects_, {object.key(), object.length})
                              .WithContext("checkpoint " + std::to_string(id().value)));
  }
  return {};
}

void LoadedCut::CollectSources() {
  std::map<std::string, SourceOffsets> sources;  // by their present names
  const auto present = [&](const std::string& saved) -> SourceOffsets& {
    const std::string& name = RestoreMapping::NameFor(mapping_.sources, saved);
    sources[name].source = name;
    return sources[name];
  };
  for (const auto& [name, saved] : manifest().source_offsets) {
    SourceOffsets& source = present(name);
    for (const auto& [split, offset] : saved.offsets) {
      source.splits.push_back({split, offset.position, offset.ended});
    }
  }
  for (const std::string& name : manifest().ended_sources) present(name).ended = true;
  for (const format::ChannelProgress& progress : manifest().channel_progress) {
    SourceOffsets& source = present(progress.source_name);
    source.event_time = true;
    source.watermark_ms = progress.watermark;
    source.idle = progress.idle;
  }
  for (auto& [name, source] : sources) {
    if (!name.empty()) sources_.push_back(std::move(source));
  }
}

void LoadedCut::CollectSlots() {
  for (const format::OperatorRecord& record : manifest().operators) {
    for (const format::SlotRecord& saved : record.slots) {
      slots_.push_back(ToSlotDescriptor(record, saved));
    }
  }
}

Status LoadedCut::ReadSinks() {
  if (manifest().prepared_sinks.empty()) return {};
  FrameBuffer buffer;
  format::FrameRows rows;
  if (manifest().prepared_sink_frame) {
    CAIRN_ASSIGN_OR_RETURN(rows, reader_.ReadSinks(false, &buffer));
  }
  size_t batch = 0;
  size_t row = 0;
  for (const format::PreparedSinkDescriptor& saved : manifest().prepared_sinks) {
    PreparedPiece piece{saved.checkpoint_id, saved.subtask, {}};
    if (saved.has_payload) {
      while (batch < rows.batches.size() && row == rows.batches[batch].rows) {
        ++batch;
        row = 0;
      }
      const std::string name = "sink " + saved.sink_name + ", subtask " +
                               std::to_string(saved.subtask) + ", checkpoint " +
                               std::to_string(saved.checkpoint_id.value);
      if (batch == rows.batches.size() ||
          rows.batches[batch].key(row) !=
              format::SinkRowKey(saved.sink_name, saved.checkpoint_id, saved.subtask)) {
        return Status::Corruption("the descriptor of " + name + " is not in its frame");
      }
      piece.descriptor = std::string(rows.batches[batch].value(row));
      if (format::checkpoint_descriptor_sha256(piece.descriptor) != saved.sha256) {
        return Status::Corruption("the descriptor of " + name + " is damaged");
      }
      ++row;
    }
    if (sinks_.empty() || sinks_.back().sink != saved.sink_name) {
      sinks_.push_back({saved.sink_name, {}});
    }
    sinks_.back().pieces.push_back(std::move(piece));
  }
  std::sort(sinks_.begin(), sinks_.end(),
            [](const PreparedSink& a, const PreparedSink& b) { return a.sink < b.sink; });
  return {};
}

bool LoadedCut::IsLeftOut(base::OperatorId id) const {
  for (const format::OperatorRecord& record : manifest().operators) {
    if (record.operator_id != id) continue;
    return std::all_of(
        record.slots.begin(), record.slots.end(),
        [&](const format::SlotRecord& slot) { return mapping_.LeavesOut(id, slot.name); });
  }
  return false;
}

std::string LoadedCut::UidOf(base::OperatorId id) const {
  for (const format::OperatorRecord& record : manifest().operators) {
    if (record.operator_id == id) return record.uid;
  }
  return base::ToHex16(id);
}

Result<LoadReceipt> LoadedCut::LoadSubtask(std::span<state::StateTable* const> tables) const {
  CAIRN_ASSIGN_OR_RETURN(const auto by_operator,
                         ByOperator(tables, manifest(), migrations_, mapping_));
  CAIRN_ASSIGN_OR_RETURN(const format::KeyLayout layout,
                         format::KeyLayout::ForKeyGroups(manifest().key_groups));
  LoadReceipt receipt;
  FrameBuffer buffer;
  std::optional<ReadAhead> ahead;
  if (objects_->is_remote()) {
    std::map<std::string, uint64_t> lengths;
    for (const ObjectExtent& object : ObjectsOf(manifest())) lengths[object.key()] = object.length;
    ahead.emplace(objects_, std::move(lengths));
  }
  for (const StateFrame& frame : manifest().state_frames) {
    const auto found = by_operator.find(mapping_.OperatorFor(frame.key.operator_id));
    if (found == by_operator.end() || IsLeftOut(frame.key.operator_id)) continue;
    const bool keyed = frame.key.kind == FrameKind::kKeyed;
    if (keyed && (found->second.groups.first >= frame.key.range().last ||
                  found->second.groups.last <= frame.key.range().first)) {
      continue;
    }
    RowRouter router(keyed ? found->second.keyed : found->second.operator_state,
                     layout.prefix_bytes());
    for (const auto& [saved, slot] : mapping_.left_out_slots) {
      if (saved == frame.key.operator_id) router.LeaveOut(slot);
    }
    const std::string checkpoint = "checkpoint " + std::to_string(id().value);
    const std::string op = "operator " + UidOf(frame.key.operator_id);
    const std::string context = checkpoint + ", " + op;
    Result<format::FrameRows> rows = reader_.Read(frame, false, &buffer, ahead ? &*ahead : nullptr);
    if (!rows.ok()) return AdviseOnFrame(rows.status()).WithContext(context);
    state::LoadCounts counts;
    if (Status loaded = RouteGuarded(&router, *rows, &counts); !loaded.ok()) {
      return loaded.WithContext(op).WithContext(checkpoint);  // the table named its operator, too
    }
    const uint64_t accounted = counts.rows + counts.skipped + router.left_out();
    if (accounted != frame.entry_count) {
      return Status::Corruption(context + ", frame " + FrameName(frame) + ": " +
                                std::to_string(accounted) + " of " +
                                std::to_string(frame.entry_count) + " rows were accounted for");
    }
    receipt.frames.push_back({frame.key.operator_id, FrameName(frame), frame.entry_count,
                              counts.rows, counts.skipped, router.left_out(), frame.range.length});
    receipt.rows += counts.rows;
    receipt.bytes += frame.range.length;
  }
  return receipt;
}

Status LoadedCut::CheckReceipts(std::span<const LoadReceipt> receipts) const {
  struct Sum {
    uint64_t loaded = 0;
    uint64_t left_out = 0;  ///< each reader sees all rows of a slot that is given up
    uint64_t readers = 0;
  };
  std::map<std::string, Sum> sums;
  for (const LoadReceipt& receipt : receipts) {
    for (const FrameReceipt& frame : receipt.frames) {
      sums[frame.frame].loaded += frame.loaded;
      sums[frame.frame].left_out = frame.left_out;
      ++sums[frame.frame].readers;
    }
  }
  for (const StateFrame& frame : manifest().state_frames) {
    const Sum sum = sums[FrameName(frame)];
    const std::string what = "checkpoint " + std::to_string(id().value) + ", operator " +
                             UidOf(frame.key.operator_id) + ", frame " + FrameName(frame);
    if (sum.readers == 0 && IsLeftOut(frame.key.operator_id)) continue;
    if (sum.readers == 0) {
      return Status::InvalidArgument(what + ": no table of this job took its " +
                                     std::to_string(frame.entry_count) + " rows");
    }
    // Operator state goes to every subtask that has the operator; a keyed row to exactly one.
    if (frame.key.kind == FrameKind::kKeyed && sum.loaded + sum.left_out != frame.entry_count) {
      return Status::Corruption(what + ": " + std::to_string(sum.loaded) + " rows loaded, " +
                                std::to_string(frame.entry_count) + " expected");
    }
  }
  return {};
}

std::string DescribeTtl(const SlotDescriptor& slot) {
  std::string clock;
  switch (slot.ttl.clock) {
    case TtlClock::kEvent:
      clock = "the watermark, whatever time the job was down";
      break;
    case TtlClock::kWall:
      clock = "the wall clock, which went on while the job was down";
      break;
    case TtlClock::kStoppedWhileDown:
      clock = "a wall clock that stood still while the job was down";
      break;
  }
  return "operator " + slot.operator_uid + " slot " + slot.name + ": rows live " +
         base::FormatDurationMs(slot.ttl.ttl_ms) + " by " + clock;
}

Result<std::vector<LoadReceipt>> LoadState(
    const Cut& cut, const std::vector<std::vector<state::StateTable*>>& subtasks,
    Executor* executor) {
  std::vector<LoadReceipt> receipts(subtasks.size());
  std::vector<Status> outcomes(subtasks.size());
  executor->Run(subtasks.size(), [&](size_t i) {
    Result<LoadReceipt> receipt = cut.LoadSubtask(subtasks[i]);
    if (receipt.ok()) {
      receipts[i] = *std::move(receipt);
    } else {
      outcomes[i] = receipt.status();
    }
  });
  for (const Status& outcome : outcomes) CAIRN_RETURN_IF_ERROR(outcome);
  CAIRN_RETURN_IF_ERROR(cut.CheckReceipts(receipts));
  return receipts;
}

}  // namespace cairn::checkpoint
