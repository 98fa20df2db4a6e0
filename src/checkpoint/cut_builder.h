// SPDX-License-Identifier: Apache-2.0
//
// CutBuilder: a committed cut in a new place, made of rows instead of a running job: seeding,
// editing, regrouping and migrating state offline, in fixed memory.
//
// Invariants
//  1. Nothing is made before all rows were added and checked: a key that comes twice makes no
//  place.
//  2. A place that holds a checkpoint is refused; nothing is ever replaced.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/inspect.h"
#include "checkpoint/row_sorter.h"
#include "env/clock.h"
#include "env/file_system.h"

namespace cairn::checkpoint {

struct CutBuilderOptions {
  env::FileSystem* files = nullptr;
  std::string place;  ///< directory of the new place
  uint64_t memory_bytes = uint64_t{64} << 20;
  uint32_t key_groups = kDefaultKeyGroups;
  Pipeline pipeline;                   ///< the job the cut is for
  std::vector<SourceOffsets> sources;  ///< where it goes on; empty = from the beginning
  std::vector<PreparedSink> sinks;
  /// The deployment that goes on with the cut, and its checkpoint that the rows are of: its sinks
  /// know by them what they have published. Empty and 0 = of a job that never ran.
  std::string deployment_id;
  base::CheckpointId origin;
  env::Clock* clock = nullptr;    ///< null = SystemClock()
  env::Random* random = nullptr;  ///< null = SystemRandom()
};

/// Let the job of `cut` go on with what is built: its offsets, what its sinks prepared, its
/// deployment.
Status GoOnFrom(const CutReader& cut, CutBuilderOptions* options);

struct BuiltCut {
  base::CheckpointId id;
  uint64_t rows = 0;
};

/// Check that a new place may be made in `directory`: it holds no checkpoint.
///
/// Errors:   kInvalidArgument, naming the checkpoint it holds · kCorruption · kUnavailable.
Status RefuseUsedPlace(env::FileSystem* files, const std::string& directory);

class CutBuilder {
 public:
  /// Errors:   kInvalidArgument: the place holds a checkpoint · kCorruption · kUnavailable.
  static Result<std::unique_ptr<CutBuilder>> Open(CutBuilderOptions options);

  /// Add a slot; one without rows is saved as such.
  ///
  /// Errors:   kInvalidArgument for a bad name or a slot that is there already.
  Result<size_t> AddSlot(SlotDescriptor slot);
  /// Number of a slot; nothing when it was not added.
  std::optional<size_t> FindSlot(OperatorId op, std::string_view name) const;
  const std::vector<SlotDescriptor>& slots() const { return sorter_->slots(); }

  /// Add a row in any order. Of keyed state the key group is that of `user_key`.
  ///
  /// Errors:   as RowSorter::Add.
  Status Add(size_t slot, std::string_view user_key, std::string_view value,
             DuplicateRule rule = DuplicateRule::kRefuse);

  /// Check all rows, then make the place and commit its first cut. No call may follow.
  ///
  /// Errors:   kInvalidArgument for a key that came twice · kFenced · kResourceExhausted ·
  ///           kUnavailable.
  Result<BuiltCut> Commit();

 private:
  explicit CutBuilder(CutBuilderOptions options) : options_(std::move(options)) {}
  Status ReadSeed();
  Result<std::vector<uint64_t>> CountRows();
  Result<base::CheckpointId> Write(const std::vector<uint64_t>& rows);

  CutBuilderOptions options_;
  uint64_t seed_ = 0;
  std::unique_ptr<RowSorter> sorter_;
};

}  // namespace cairn::checkpoint
