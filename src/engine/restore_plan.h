// SPDX-License-Identifier: Apache-2.0
//
// RestorePlan: what a job takes over from a cut that was saved by another version of it. One
// planner serves `cairn run --plan` and the restore itself, so what the plan says is what happens.
//
// Parts are matched by name: a slot by its operator's uid and its own name, sources and sinks by
// theirs. Nothing is guessed: a part that would be lost is refused until it is given up by name, a
// part under another name is taken over when the user says which it is.
//
// Threads: plain values and a pure function.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/restore_mapping.h"
#include "format/manifest.h"

namespace cairn::engine {

/// What a restore may do beside taking every part over under its own name.
struct RestoreConsent {
  /// OPERATOR, OPERATOR.SLOT, or the name of a source or sink: saved, and may be given up.
  std::vector<std::string> non_restored;
  /// OLD=NEW: of an operator's uid, a source or a sink; the name of a sink or table renames the
  /// operators below it as well.
  std::vector<std::string> renames;
  /// Keep state and offsets of operators and sources that were redefined.
  bool accept_changes = false;

  bool empty() const { return non_restored.empty() && renames.empty() && !accept_changes; }
};

enum class Fate : uint8_t {
  kKept,       ///< as saved
  kMoved,      ///< a slot under its operator's new uid
  kRenamed,    ///< a source or sink under its new name
  kMigrated,   ///< values are converted on the way
  kRedefined,  ///< the job defines it in another way
  kNew,        ///< not saved: begins empty, or at the beginning
  kDropped,    ///< saved, and not restored
};

/// "kept", "moved", "renamed", "migrated", "redefined", "new", "dropped".
std::string_view FateName(Fate fate);

struct RestoreItem {
  std::string kind;  ///< "job" | "source" | "operator" | "slot" | "sink"
  std::string name;  ///< present name, of a part that is gone the saved one; of a slot its operator
  std::string slot;  ///< of a slot
  std::string saved_as;  ///< saved name of operator, source or sink; empty = it was not saved
  Fate fate = Fate::kKept;
  std::string says;               ///< "12 of 32 splits done"
  std::string refusal;            ///< why it cannot be, and what to do; empty = it can
  int64_t deadline_shift_ms = 0;  ///< of a slot whose rows live longer or shorter now
};

struct RestorePlan {
  std::vector<RestoreItem> items;
  checkpoint::RestoreMapping mapping;
  std::set<std::string> given_up_sinks;  ///< saved names of sinks whose prepared rows are given up

  bool restorable() const;
  /// All refusals in one text; empty = none.
  std::string Refusals() const;
};

/// Plan how `pipeline` with `slots` takes over what `saved` with `manifest` has.
///
/// Errors:   kInvalidArgument: `consent` names what is neither in the cut nor in the job. What a
///           restore cannot do is no error but an item's refusal.
Result<RestorePlan> PlanRestore(const checkpoint::Pipeline& saved,
                                const format::CheckpointManifest& manifest,
                                const checkpoint::Pipeline& pipeline,
                                const std::vector<SlotDescriptor>& slots, uint32_t key_groups,
                                const RestoreConsent& consent);

}  // namespace cairn::engine
