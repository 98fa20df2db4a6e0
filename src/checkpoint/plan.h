// SPDX-License-Identifier: Apache-2.0
//
// CutPlan: decide what of a captured cut is written whole, what as a delta and what is referenced.
// Pure: looks at the captured tables' descriptors and at the manifest that the cut builds on.
//
// An operator gets a new base when
//  - there is none, or a subtask's rows are in no committed cut, or its slots changed;
//  - its deltas hold more than half the bytes of its base and more than `rebase_bytes_min`, or
//    number kDeltasPerBaseMax;
//  - `rebase_all` asks for it;
//  - an object it lies in is more than half dead and the rewrite frees as much as it costs;
//  - the cut would reference `rebase_chunks` objects or more.
// Else it gets a delta, and every frame it had stays by reference.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "format/manifest.h"
#include "state/state_table.h"

namespace cairn::checkpoint {

/// What is written of one operator.
struct OperatorPlan {
  base::OperatorId operator_id;
  std::string uid;
  std::vector<format::SlotRecord> slots;  ///< by name
  bool slots_changed = false;             ///< saved otherwise, or not at all: write all of it
  bool delta = false;                     ///< keyed rows: since the committed epochs, else all
  bool frame_per_group = false;
  uint64_t frame_bytes_min = 0;
  /// By index of CapturedCut::subtasks, then by slot name.
  std::vector<std::vector<const state::StateTable*>> keyed;
  std::vector<std::vector<const state::StateTable*>> operator_state;
};

struct CutPlan {
  std::vector<OperatorPlan> operators;  ///< by operator id
  bool with_row_kind = false;           ///< some operator is a delta
  /// Write operator state though it did not change: its subtasks are others now.
  bool rewrite_operator_state = false;
};

struct PlanOptions {
  uint32_t rebase_chunks = 64;
  uint64_t rebase_bytes_min = 0;  ///< deltas up to so many bytes never make a base due
  bool rebase_all = false;
};

/// Plan `captured` over `base` (null = the first cut).
///
/// Errors:   kInternal when the captured tables contradict each other or the base.
Result<CutPlan> PlanCut(const CapturedCut& captured, const format::CheckpointManifest* base,
                        const PlanOptions& options);

/// About how many bytes `plan` will write: its bases by what `base` holds of them, deltas as
/// nothing. 0 = little, or unknown.
uint64_t ExpectedBytes(const CutPlan& plan, const format::CheckpointManifest* base);

/// The manifest's form of a table's descriptor.
format::SlotRecord ToSlotRecord(const state::SlotDescriptor& slot);
/// The descriptor of a slot as a manifest has it.
state::SlotDescriptor ToSlotDescriptor(const format::OperatorRecord& op,
                                       const format::SlotRecord& saved);

}  // namespace cairn::checkpoint
