// SPDX-License-Identifier: Apache-2.0
//
// CutWriter: turn a planned cut into one data object and its manifest. It decides nothing: until
// the decision head names the manifest, all of it can be thrown away.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/executor.h"
#include "checkpoint/plan.h"
#include "env/object_store.h"
#include "format/frame.h"
#include "format/manifest.h"
#include "format/object.h"

namespace cairn::checkpoint {

/// What every manifest of a deployment has in common.
struct ManifestFrame {
  std::string deployment_id;
  format::PipelineIdentity pipeline_identity;
  uint32_t key_groups = kDefaultKeyGroups;
  format::SlotHash slot_hash;
  std::vector<std::string> source_names;  ///< ascending
  std::vector<std::string> sink_names;    ///< ascending
};

/// Which attempt is written, and when.
struct Attempt {
  base::CheckpointId id;
  std::string attempt_id;  ///< UUIDv7
  uint64_t timestamp_ms = 0;
  /// What the cut is built on; null = nothing. Outlives the attempt.
  const format::CheckpointManifest* built_on = nullptr;
};

/// The object of a cut, once written.
struct WrittenObject {
  std::optional<format::ObjectSummary> summary;  ///< nothing = no frame, no object
  std::vector<format::StateFrame> frames;        ///< of state, in no order
  std::optional<format::SinkFrame> sink_frame;
  /// Operator state that did not change: its frame of the base cut stays. (operator, subtask)
  std::vector<std::pair<base::OperatorId, uint32_t>> unchanged_operator_state;
};

/// Write the object of one attempt: subtasks encode in parallel, one at a time appends.
///
/// Durable:  the bytes yes; the name with the manifest.
/// Errors:   what a table, the object store or the format returned, naming operator and slot.
Result<WrittenObject> WriteObject(env::ObjectStore* objects, const CapturedCut& captured,
                                  const CutPlan& plan, const ManifestFrame& deployment,
                                  const Attempt& attempt, format::RowBufferPool* buffers,
                                  Executor* executor);

/// Put the manifest together: what was written, and by reference what the cut that it is
/// built on holds unchanged.
///
/// Errors:   kInternal when the result breaks a rule of the format.
Result<format::CheckpointManifest> MakeManifest(const CapturedCut& captured, const CutPlan& plan,
                                                const ManifestFrame& deployment,
                                                const Attempt& attempt,
                                                const WrittenObject& written,
                                                std::vector<format::ViewLog> view_logs);

}  // namespace cairn::checkpoint
