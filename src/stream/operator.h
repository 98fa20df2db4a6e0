// SPDX-License-Identifier: Apache-2.0
//
// Operators: what happens to batches between a source and a sink.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/hash.h"
#include "cairn/status.h"
#include "cairn/ttl.h"
#include "cairn/view.h"
#include "state/state_table.h"
#include "stream/batch.h"
#include "stream/watermark.h"

namespace cairn::stream {

/// Take an operator's output.
class Collector {
 public:
  virtual ~Collector() = default;
  virtual Status Emit(Batch batch) = 0;
};

/// What an operator learns of its place in the job when it opens. Owns nothing.
struct OperatorContext {
  std::string uid;  ///< stable: "<sink>/<operator>/<ordinal>"
  uint32_t subtask = 0;
  uint32_t parallelism = 1;
  uint32_t key_groups = kDefaultKeyGroups;
  KeyGroupRange range;  ///< groups this subtask owns
  uint64_t slot_hash_seed = 0;
  StateDomain* state = nullptr;  ///< tables are made in it; null for stateless operators
  TtlConfig state_ttl;           ///< of what operators keep a key; disabled = for ever
};

/// One operator of one subtask.
///
/// Threads:  its subtask's only, except that the tables it names are read through views by others.
class Operator {
 public:
  virtual ~Operator() = default;

  /// Make the tables. Called once, before restore and the first batch.
  virtual Status Open(const OperatorContext& context) = 0;

  /// The tables made by Open, for checkpoint and restore.
  virtual std::vector<state::StateTable*> tables() { return {}; }

  virtual Status ProcessBatch(Batch batch, Collector* out) = 0;

  /// Learn that no row with an event time before `time_ms` is expected any more; kEndOfTime = the
  /// input has ended. It grows from call to call of a run.
  virtual Status OnWatermark(int64_t time_ms, Collector* out) {
    (void)time_ms;
    (void)out;
    return {};
  }

  /// When OnProcessingTime is wanted next, in milliseconds since 1970; nothing = it is not.
  virtual std::optional<int64_t> NextProcessingTime() { return std::nullopt; }

  /// Learn that the wall clock shows `now_ms`. Never called behind the end of the input.
  virtual Status OnProcessingTime(int64_t now_ms, Collector* out) {
    (void)now_ms;
    (void)out;
    return {};
  }

  /// Learn that no batch comes any more: emit what only the end of the input shows. Called once a
  /// run, before the last Flush; also in a run that resumes from a checkpoint taken after it.
  virtual Status EndInput(Collector* out) {
    (void)out;
    return {};
  }

  /// Emit everything staged; called before a barrier is handled and at the end of input.
  virtual Status Flush(Collector* out) {
    (void)out;
    return {};
  }
};

/// Make the operators of a job's subtasks and tell their shape beforehand.
class OperatorFactory {
 public:
  virtual ~OperatorFactory() = default;
  virtual std::string name() const = 0;
  virtual std::shared_ptr<arrow::Schema> output_schema() const = 0;
  virtual bool keyed() const = 0;
  /// True when the output carries row kinds other than +I.
  virtual bool updating() const = 0;
  virtual std::unique_ptr<Operator> Create() const = 0;
  /// What of this operator belongs to the pipeline's identity: JSON text.
  virtual std::string Identity() const = 0;
};

}  // namespace cairn::stream
