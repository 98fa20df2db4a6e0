// SPDX-License-Identifier: Apache-2.0
#include "engine/restore_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/ids.h"
#include "base/units.h"
#include "checkpoint/plan.h"
#include "checkpoint/slot_migration.h"
#include "connectors/factory.h"
#include "operators/operator_factory.h"

namespace cairn::engine {
namespace {

using checkpoint::PipelineComponent;
using nlohmann::json;

constexpr std::string_view kSource = "source";
constexpr std::string_view kOperator = "operator";
constexpr std::string_view kSink = "sink";

/// Definitions of the components of one kind, by name.
using Definitions = std::map<std::string, json>;

Definitions DefinitionsOf(const checkpoint::Pipeline& pipeline, std::string_view kind) {
  Definitions definitions;
  for (const PipelineComponent& one : pipeline.components) {
    if (one.kind == kind) definitions[one.name] = json::parse(one.definition, nullptr, false);
  }
  return definitions;
}

/// A kind's saved components and the job's, and which saved one goes under which name now.
struct Matched {
  Definitions saved;
  Definitions now;
  std::map<std::string, std::string> renames;  ///< saved name to present name

  const std::string& Present(const std::string& saved_name) const {
    return checkpoint::RestoreMapping::NameFor(renames, saved_name);
  }
  /// The saved component that goes under a present name.
  std::optional<std::string> SavedOf(const std::string& present) const {
    for (const auto& [from, to] : renames) {
      if (to == present) return from;
    }
    if (saved.contains(present) && !renames.contains(present)) return present;
    return std::nullopt;
  }
  /// The only new component that is defined like a saved one that is gone.
  std::optional<std::string> LookalikeOf(const std::string& saved_name) const {
    std::optional<std::string> found;
    for (const auto& [name, definition] : now) {
      if (SavedOf(name) || definition != saved.at(saved_name)) continue;
      if (found) return std::nullopt;
      found = name;
    }
    return found;
  }
};

std::string Plural(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", base::FormatCount(count), one, count == 1 ? "" : "s");
}

/// The part of an operator's uid that names its sink or table.
std::string OwnerOf(const std::string& uid) { return uid.substr(0, uid.find('/')); }

class RestorePlanner {
 public:
  RestorePlanner(const checkpoint::Pipeline& saved, const format::CheckpointManifest& manifest,
                 const checkpoint::Pipeline& pipeline, const std::vector<SlotDescriptor>& slots,
                 const RestoreConsent& consent)
      : manifest_(manifest), slots_(slots), consent_(consent) {
    for (Matched* kind : {&sources_, &operators_, &sinks_}) {
      const std::string_view name = kind == &sources_     ? kSource
                                    : kind == &operators_ ? kOperator
                                                          : kSink;
      kind->saved = DefinitionsOf(saved, name);
      kind->now = DefinitionsOf(pipeline, name);
    }
  }

  Result<RestorePlan> Run(uint32_t key_groups) {
    for (const std::string& rename : consent_.renames) CAIRN_RETURN_IF_ERROR(TakeRename(rename));
    for (const Matched* kind : {&sources_, &operators_, &sinks_}) {
      CAIRN_RETURN_IF_ERROR(CheckTargets(*kind));
    }
    CAIRN_RETURN_IF_ERROR(CheckNonRestored());
    if (manifest_.key_groups != key_groups) {
      RestoreItem item{"job", "", "", "", Fate::kRedefined, "", ""};
      item.says = fmt::format("{} key groups, saved with {}", key_groups, manifest_.key_groups);
      item.refusal =
          fmt::format("run with --set state.key_groups={}, or regroup with `cairn state migrate`",
                      manifest_.key_groups);
      plan_.items.push_back(std::move(item));
    }
    AddSources();
    AddOperators();
    AddSlots();
    AddSinks();
    FillMapping();
    return std::move(plan_);
  }

 private:
  // --- consent ----------------------------------------------------------------------------------

  static void RenameOne(const std::string& from, const std::string& to, Matched* kind,
                        bool* matched) {
    if (!kind->saved.contains(from) || !kind->now.contains(to)) return;
    kind->renames[from] = to;
    *matched = true;
  }

  Status TakeRename(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return Status::InvalidArgument(
          fmt::format("--rename '{}' is not OLD=NEW, the saved name and the one in the job", text));
    }
    const std::string from = text.substr(0, equals);
    const std::string to = text.substr(equals + 1);
    bool matched = false;
    RenameOne(from, to, &sources_, &matched);
    RenameOne(from, to, &sinks_, &matched);
    RenameOne(from, to, &operators_, &matched);
    for (const auto& [uid, definition] : operators_.saved) {
      if (uid.starts_with(from + "/")) {
        RenameOne(uid, to + uid.substr(from.size()), &operators_, &matched);
      }
    }
    if (matched) return {};
    return Status::InvalidArgument(fmt::format(
        "--rename {}: the checkpoint has no source, sink or operator '{}', or the job no '{}' of "
        "that kind. Saved are {}; the job has {}",
        text, from, to, NamesOf(true), NamesOf(false)));
  }

  std::string NamesOf(bool saved) const {
    std::string names;
    for (const Matched* kind : {&sources_, &operators_, &sinks_}) {
      for (const auto& [name, definition] : saved ? kind->saved : kind->now) {
        names += (names.empty() ? "" : ", ") + name;
      }
    }
    return names.empty() ? "nothing" : names;
  }

  /// No two saved components may go under one name.
  static Status CheckTargets(const Matched& kind) {
    std::map<std::string, std::string> taken;
    for (const auto& [name, definition] : kind.saved) {
      const auto [at, inserted] = taken.emplace(kind.Present(name), name);
      if (inserted) continue;
      return Status::InvalidArgument(
          fmt::format("--rename: both the saved {} and {} would be {}; rename the other one too",
                      at->second, name, at->first));
    }
    return {};
  }

  bool Allows(const std::string& name) const {
    return std::find(consent_.non_restored.begin(), consent_.non_restored.end(), name) !=
           consent_.non_restored.end();
  }
  bool AllowsSlot(const format::OperatorRecord& op, const std::string& slot) const {
    const std::string hex = base::ToHex16(op.operator_id);
    return Allows(op.uid) || Allows(hex) || Allows(op.uid + "." + slot) || Allows(hex + "." + slot);
  }

  bool AllowsAllSlots(const std::string& uid) const {
    for (const format::OperatorRecord& op : manifest_.operators) {
      for (const format::SlotRecord& slot : op.slots) {
        if (op.uid == uid && !AllowsSlot(op, slot.name)) return false;
      }
    }
    return true;
  }

  /// A name that nothing has is a slip of the pen, and what was meant would be refused after all.
  Status CheckNonRestored() const {
    std::set<std::string> names;
    for (const auto& [name, definition] : sources_.saved) names.insert(name);
    for (const auto& [name, definition] : sinks_.saved) names.insert(name);
    std::string listed = NamesOf(true);
    for (const format::OperatorRecord& op : manifest_.operators) {
      for (const std::string& id : {op.uid, base::ToHex16(op.operator_id)}) {
        names.insert(id);
        for (const format::SlotRecord& slot : op.slots) names.insert(id + "." + slot.name);
      }
    }
    for (const std::string& name : consent_.non_restored) {
      if (names.contains(name)) continue;
      return Status::InvalidArgument(
          fmt::format("--allow-non-restored {}: the checkpoint has nothing of that name. Write "
                      "OPERATOR, OPERATOR.SLOT or a source or sink; saved are {}",
                      name, listed));
    }
    return {};
  }

  std::string AllowHint(const std::string& name) const {
    return fmt::format("--allow-non-restored {} gives it up", name);
  }

  // --- the parts --------------------------------------------------------------------------------

  void AddSources() {
    for (const auto& [name, definition] : sources_.saved) {
      RestoreItem item = Component(kSource, sources_, name, definition);
      uint64_t done = 0;
      const auto offsets = manifest_.source_offsets.find(name);
      const size_t splits =
          offsets == manifest_.source_offsets.end() ? 0 : offsets->second.offsets.size();
      if (splits > 0) {
        for (const auto& [split, offset] : offsets->second.offsets) done += offset.ended ? 1 : 0;
      }
      item.says = fmt::format("{} of {} done", done, Plural(splits, "split"));
      if (Allows(name)) {
        item.says += ", given up, as allowed";
        plan_.mapping.sources[name] = "";
      } else if (item.fate == Fate::kDropped) {
        item.refusal = fmt::format("its offsets would be lost; {}{}", RenameHint(sources_, name),
                                   AllowHint(name));
      } else if (item.fate == Fate::kRedefined) {
        const Status fits =
            connectors::CheckSavedOffsets(definition.dump(), sources_.now.at(item.name).dump());
        if (!fits.ok()) {
          item.refusal = std::string(fits.message()) +
                         "; put it back as it was, or begin it anew: " + AllowHint(name);
        } else if (!consent_.accept_changes) {
          item.refusal =
              "its offsets may not fit what it reads now; --accept-changes keeps them as they are";
        }
      }
      plan_.items.push_back(std::move(item));
    }
    AddNew(kSource, sources_, "read from its beginning");
  }

  void AddOperators() {
    for (const auto& [name, definition] : operators_.saved) {
      RestoreItem item = Component(kOperator, operators_, name, definition);
      if (item.fate == Fate::kKept || item.fate == Fate::kRenamed) continue;  // its slots say more
      if (item.fate == Fate::kDropped) {
        if (HasSavedSlots(name)) continue;
        item.says = "keeps no state";
      } else if (const Status serves = SavedStateServes(name, definition); !serves.ok()) {
        if (AllowsAllSlots(name)) continue;
        item.refusal = std::string(serves.message()) + "; " + AllowHint(name);
      } else if (!consent_.accept_changes) {
        item.refusal =
            "what is saved may mean something else now; --accept-changes keeps it as it is";
      }
      plan_.items.push_back(std::move(item));
    }
    for (const auto& [name, definition] : operators_.now) {
      if (operators_.SavedOf(name) || HasSlots(name)) continue;
      plan_.items.push_back(
          {std::string(kOperator), name, "", "", Fate::kNew, "keeps no state", ""});
    }
  }

  /// Whether what operator `saved` has could serve its successor at all.
  Status SavedStateServes(const std::string& saved, const json& definition) const {
    const auto now = operators_.now.find(operators_.Present(saved));
    if (now == operators_.now.end() || !HasSavedSlots(saved)) return {};
    return operators::CheckSavedState(definition.dump(), now->second.dump());
  }

  void AddSlots() {
    for (const format::OperatorRecord& op : manifest_.operators) {
      const std::string& uid = operators_.Present(op.uid);
      for (const format::SlotRecord& slot : op.slots) AddSavedSlot(op, uid, slot);
    }
    for (const SlotDescriptor& slot : slots_) {
      const std::optional<std::string> saved = operators_.SavedOf(slot.operator_uid);
      if (saved && SavedSlot(*saved, slot.name) != nullptr) continue;
      plan_.items.push_back(
          {"slot", slot.operator_uid, slot.name, "", Fate::kNew, "begins empty", ""});
    }
  }

  void AddSavedSlot(const format::OperatorRecord& op, const std::string& uid,
                    const format::SlotRecord& slot) {
    RestoreItem item{"slot", uid, slot.name, op.uid, Fate::kKept, "", ""};
    const SlotDescriptor* wanted = DeclaredSlot(uid, slot.name);
    std::string why = "the job has no such slot";
    if (wanted != nullptr && !AllowsSlot(op, slot.name)) {
      const auto migration =
          checkpoint::SlotMigration::Plan(slot, checkpoint::ToSlotRecord(*wanted), nullptr);
      if (migration.ok()) {
        if (uid != op.uid) item.fate = Fate::kMoved;
        if (!migration->empty()) item.fate = Fate::kMigrated;
        item.says = migration->Describe() + TtlChange(slot, wanted->ttl);
        item.deadline_shift_ms = DeadlineShift(slot, *wanted);
        if (!consent_.accept_changes && StatelessChanged(OwnerOf(op.uid), OwnerOf(uid))) {
          item.refusal =
              "operators without state beside it have changed, such as a WHERE before it, so what "
              "is saved may mean something else now; --accept-changes keeps it as it is";
        }
        plan_.items.push_back(std::move(item));
        return;
      }
      why = std::string(migration.status().message());
    }
    item.fate = Fate::kDropped;
    item.name = wanted != nullptr ? uid : op.uid;
    if (AllowsSlot(op, slot.name)) {
      item.says = "given up, as allowed";
      plan_.mapping.left_out_slots.emplace(op.operator_id, slot.name);
    } else {
      item.refusal =
          why + "; " + RenameHint(operators_, op.uid) + AllowHint(op.uid + "." + slot.name);
    }
    plan_.items.push_back(std::move(item));
  }

  /// True when a query's operators without state are not those that it was saved with.
  bool StatelessChanged(const std::string& saved_owner, const std::string& owner) const {
    std::multiset<std::string> saved;
    std::multiset<std::string> now;
    for (const auto& [name, definition] : operators_.saved) {
      if (OwnerOf(name) == saved_owner && !HasSavedSlots(name)) saved.insert(definition.dump());
    }
    for (const auto& [name, definition] : operators_.now) {
      if (OwnerOf(name) == owner && !HasSlots(name)) now.insert(definition.dump());
    }
    return saved != now;
  }

  static std::string TtlChange(const format::SlotRecord& saved, const TtlConfig& wanted) {
    const int64_t saved_ms = static_cast<int64_t>(saved.ttl_ms.value_or(0));
    if (saved_ms == wanted.ttl_ms) return "";
    const auto text = [](int64_t ms) {
      return ms == 0 ? std::string("none") : base::FormatDurationMs(ms);
    };
    return fmt::format(", TTL {} instead of {}", text(wanted.ttl_ms), text(saved_ms));
  }

  /// Deadlines move with the length of a TTL whose clock stays.
  static int64_t DeadlineShift(const format::SlotRecord& saved, const SlotDescriptor& wanted) {
    const format::SlotRecord now = checkpoint::ToSlotRecord(wanted);
    if (!saved.ttl_ms || !now.ttl_ms || saved.ttl_clock != now.ttl_clock) return 0;
    return static_cast<int64_t>(*now.ttl_ms) - static_cast<int64_t>(*saved.ttl_ms);
  }

  void AddSinks() {
    for (const auto& [name, definition] : sinks_.saved) {
      RestoreItem item = Component(kSink, sinks_, name, definition);
      const auto pieces = static_cast<uint64_t>(
          std::count_if(manifest_.prepared_sinks.begin(), manifest_.prepared_sinks.end(),
                        [&](const auto& prepared) { return prepared.sink_name == name; }));
      item.says = pieces == 0 ? "nothing prepared" : Plural(pieces, "prepared piece");
      if (Allows(name)) {
        item.says += ", given up, as allowed";
        plan_.given_up_sinks.insert(name);
      } else if (pieces > 0 && (item.fate == Fate::kDropped || item.fate == Fate::kRedefined)) {
        item.says += ", published as it was saved";
      }
      plan_.items.push_back(std::move(item));
    }
    AddNew(kSink, sinks_, "");
  }

  /// A saved source, operator or sink under its present name.
  static RestoreItem Component(std::string_view kind, const Matched& matched,
                               const std::string& saved, const json& definition) {
    const std::string& present = matched.Present(saved);
    RestoreItem item{std::string(kind), present, "", saved, Fate::kKept, "", ""};
    const auto now = matched.now.find(present);
    if (now == matched.now.end()) {
      item.fate = Fate::kDropped;
    } else if (now->second != definition) {
      item.fate = Fate::kRedefined;
    } else if (present != saved) {
      item.fate = Fate::kRenamed;
    }
    return item;
  }

  void AddNew(std::string_view kind, const Matched& matched, const std::string& says) {
    for (const auto& [name, definition] : matched.now) {
      if (matched.SavedOf(name)) continue;
      plan_.items.push_back({std::string(kind), name, "", "", Fate::kNew, says, ""});
    }
  }

  /// "--rename counts=totals takes it over, " when one new component is defined in the same way.
  std::string RenameHint(const Matched& kind, const std::string& saved) const {
    const std::optional<std::string> like =
        kind.saved.contains(saved) ? kind.LookalikeOf(saved) : std::nullopt;
    if (!like) return "";
    std::string from = saved;
    std::string to = *like;
    if (&kind == &operators_ && sinks_.saved.contains(OwnerOf(from)) &&
        !sinks_.now.contains(OwnerOf(from)) &&
        from.substr(OwnerOf(from).size()) == to.substr(OwnerOf(to).size())) {
      from = OwnerOf(from);
      to = OwnerOf(to);
    }
    return fmt::format("{} is defined like it: --rename {}={} takes it over, ", *like, from, to);
  }

  void FillMapping() {
    for (const auto& [from, to] : operators_.renames) {
      if (from == to) continue;
      plan_.mapping.operators[base::OperatorIdOf(from)] = base::OperatorIdOf(to);
    }
    for (const auto& [name, definition] : sources_.saved) {
      const std::string& present = sources_.Present(name);
      if (!sources_.now.contains(present)) {
        plan_.mapping.sources[name] = "";
      } else if (present != name) {
        plan_.mapping.sources.try_emplace(name, present);
      }
    }
  }

  // --- slots ------------------------------------------------------------------------------------

  const SlotDescriptor* DeclaredSlot(const std::string& uid, const std::string& name) const {
    for (const SlotDescriptor& slot : slots_) {
      if (slot.operator_uid == uid && slot.name == name) return &slot;
    }
    return nullptr;
  }
  bool HasSlots(const std::string& uid) const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [&](const SlotDescriptor& slot) { return slot.operator_uid == uid; });
  }
  const format::SlotRecord* SavedSlot(const std::string& uid, const std::string& name) const {
    for (const format::OperatorRecord& op : manifest_.operators) {
      if (op.uid != uid) continue;
      for (const format::SlotRecord& slot : op.slots) {
        if (slot.name == name) return &slot;
      }
    }
    return nullptr;
  }
  bool HasSavedSlots(const std::string& uid) const {
    return std::any_of(manifest_.operators.begin(), manifest_.operators.end(),
                       [&](const auto& op) { return op.uid == uid && !op.slots.empty(); });
  }

  const format::CheckpointManifest& manifest_;
  const std::vector<SlotDescriptor>& slots_;
  const RestoreConsent& consent_;
  Matched sources_;
  Matched operators_;
  Matched sinks_;
  RestorePlan plan_;
};

std::string NameOfItem(const RestoreItem& item) {
  if (item.kind == "job") return item.kind;
  if (item.kind == "slot") return fmt::format("slot {}.{}", item.name, item.slot);
  return item.kind + " " + item.name;
}

}  // namespace

std::string_view FateName(Fate fate) {
  constexpr std::string_view kNames[] = {"kept",      "moved", "renamed", "migrated",
                                         "redefined", "new",   "dropped"};
  return kNames[static_cast<size_t>(fate)];
}

bool RestorePlan::restorable() const {
  return std::all_of(items.begin(), items.end(),
                     [](const RestoreItem& item) { return item.refusal.empty(); });
}

std::string RestorePlan::Refusals() const {
  std::string text;
  for (const RestoreItem& item : items) {
    if (item.refusal.empty()) continue;
    text += fmt::format("{}{} ({}): {}", text.empty() ? "" : "\n  ", NameOfItem(item),
                        FateName(item.fate), item.refusal);
  }
  return text;
}

Result<RestorePlan> PlanRestore(const checkpoint::Pipeline& saved,
                                const format::CheckpointManifest& manifest,
                                const checkpoint::Pipeline& pipeline,
                                const std::vector<SlotDescriptor>& slots, uint32_t key_groups,
                                const RestoreConsent& consent) {
  return RestorePlanner(saved, manifest, pipeline, slots, consent).Run(key_groups);
}

}  // namespace cairn::engine
