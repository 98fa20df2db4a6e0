// SPDX-License-Identifier: Apache-2.0
//
// Recovery: a committed cut as it was found, and the proof that all of it was loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/hash.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/executor.h"
#include "state/state_table.h"

namespace cairn::checkpoint {

/// Say how long rows of a slot with a TTL live, and what an outage does to them: "operator U slot
/// S: rows live 10m by the wall clock, which went on while the job was down".
std::string DescribeTtl(const SlotDescriptor& slot);

/// One committed cut: verified manifest, frames not yet read.
///
/// Threads:  any. Reads frames of the store it came from, which must outlive it.
class Cut {
 public:
  virtual ~Cut() = default;

  virtual base::CheckpointId id() const = 0;
  virtual int64_t timestamp_ms() const = 0;
  virtual uint32_t parallelism() const = 0;  ///< of the job that wrote it
  virtual uint32_t key_groups() const = 0;
  virtual bool ended() const = 0;  ///< every source was at its end: nothing is left to read
  virtual std::optional<int64_t> watermark_ms() const = 0;
  virtual const std::vector<SourceOffsets>& sources() const = 0;  ///< ascending by name
  virtual const std::vector<PreparedSink>& sinks() const = 0;     ///< ascending by name
  /// Every slot saved, ascending by (operator id, name).
  virtual const std::vector<state::SlotDescriptor>& slots() const = 0;

  /// Load the rows of `subtask`'s tables, every frame's base before its deltas, oldest first. A
  /// slot declared with another version or with more columns gets its values migrated on the way:
  /// all migrations are planned before the first row is read.
  ///
  /// Shape:    tables are empty, one for every slot of an operator; each filters by its key groups.
  ///           Tables that the cut does not know stay empty.
  /// Threads:  the tables' own; several subtasks may load at once.
  /// Blocks:   on reads of every frame that overlaps the tables' key groups.
  /// Errors:   kCorruption (object or frame missing or damaged, a value that does not decode) ·
  ///           kInvalidArgument (a saved slot without a table, a slot saved in a way that no
  ///           migration leads from) · what a migration step returned.
  virtual Result<LoadReceipt> LoadSubtask(std::span<state::StateTable* const> tables) const = 0;

  /// Check that the subtasks together loaded every row of every frame exactly once.
  ///
  /// Errors:   kCorruption, naming operator and frame, on any row short or over.
  virtual Status CheckReceipts(std::span<const LoadReceipt> receipts) const = 0;
};

/// Load all subtasks in parallel on `executor` and check their receipts.
///
/// Errors:   as Cut::LoadSubtask and Cut::CheckReceipts.
Result<std::vector<LoadReceipt>> LoadState(
    const Cut& cut, const std::vector<std::vector<state::StateTable*>>& subtasks,
    Executor* executor);

}  // namespace cairn::checkpoint
