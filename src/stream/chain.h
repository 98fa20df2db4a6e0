// SPDX-License-Identifier: Apache-2.0
//
// Chain: the operators, exchange senders and sink writers that run in one subtask's thread, joined
// by direct calls. When the job has one subtask an exchange is a direct call too and the stages
// behind it belong to the same chain; keys are still computed, so operators see no difference.
//
// Threads: made by the job's thread, then its subtask's only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "stream/job_graph.h"
#include "stream/mailbox.h"
#include "stream/task_metrics.h"

namespace cairn::stream {

/// One way into another subtask.
struct OutputChannel {
  Mailbox* mailbox = nullptr;
  size_t channel = 0;
};

/// Rows that one sink writer made durable for one checkpoint.
struct PreparedRows {
  std::string sink;  ///< the sink's uid
  std::string descriptor;
};

/// Member of a chain.
class ChainNode : public Collector {
 public:
  virtual Status Open(const OperatorContext&) { return {}; }
  virtual std::vector<state::StateTable*> tables() { return {}; }
  virtual Status OnWatermark(int64_t) { return {}; }
  virtual std::optional<int64_t> NextProcessingTime() { return std::nullopt; }
  virtual Status OnProcessingTime(int64_t) { return {}; }
  virtual Status EndInput() { return {}; }
  virtual Status Flush() { return {}; }
  virtual Status SendBarrier(const Barrier&) { return {}; }
  virtual Status SendEnd() { return {}; }
  virtual Status Prepare(base::CheckpointId, std::vector<PreparedRows>*) { return {}; }
};

class Chain {
 public:
  /// What a chain is made from.
  struct Plan {
    const JobGraph* graph = nullptr;
    size_t stage = 0;
    uint32_t subtask = 0;
    /// True when the exchange to `stage` is a direct call.
    std::function<bool(size_t stage)> direct;
    /// Channels to all subtasks of the exchange's target.
    std::function<std::vector<OutputChannel>(const ExchangeSpec&)> connect;
    TaskMetrics* metrics = nullptr;
  };

  /// Make the nodes and the sink writers; nothing is open yet.
  ///
  /// Errors:   what a sink's CreateWriter or a key codec returned.
  static Result<std::unique_ptr<Chain>> Make(const Plan& plan);

  /// Open every operator, parents first. `context` gives all but the uid.
  Status Open(const OperatorContext& context);

  /// Tables of all operators; complete after Open.
  const std::vector<state::StateTable*>& tables() const { return tables_; }

  Status Emit(Batch batch) { return root_->Emit(std::move(batch)); }

  /// Tell every operator how far event time has come, parents first, and pass it on.
  Status OnWatermark(int64_t time_ms);
  /// Earliest time at which an operator wants OnProcessingTime; nothing = none does.
  std::optional<int64_t> NextProcessingTime();
  Status OnProcessingTime(int64_t now_ms);

  /// Tell every operator that event time and its input have ended, and flush it, parents first.
  Status EndInput();
  /// Flush every operator, parents first.
  Status Flush();
  Status SendBarrier(const Barrier& barrier);
  Status SendEnd();
  /// Phase one of every sink writer.
  Status Prepare(base::CheckpointId id, std::vector<PreparedRows>* prepared);

 private:
  class Fanout;
  class OperatorNode;
  class SinkNode;
  class SendNode;
  class DirectNode;

  Chain() = default;
  Status AddStage(const Plan& plan, size_t stage, Fanout* input);

  std::unique_ptr<ChainNode> root_;
  std::vector<std::unique_ptr<ChainNode>> nodes_;  ///< parents first
  std::vector<state::StateTable*> tables_;
};

}  // namespace cairn::stream
