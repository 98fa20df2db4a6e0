// SPDX-License-Identifier: Apache-2.0
//
// Task: one subtask of a stage, its thread's whole life: open, restore, run, snapshot, leave.
//
// At a barrier, in this order: a source notes its progress; operators flush; the barrier goes on;
// a view of all tables is captured; sink writers prepare; the snapshot is handed over; work goes
// on. Encoding and persisting happen elsewhere, beside the work.
//
// Threads:  Run by the task's thread; the mailbox by any; the rest before Run or after it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "cairn/state_domain.h"
#include "cairn/state_sweep.h"
#include "cairn/status.h"
#include "cairn/view.h"
#include "checkpoint/recovery.h"
#include "env/clock.h"
#include "stream/barrier_aligner.h"
#include "stream/chain.h"
#include "stream/mailbox.h"
#include "stream/memory_pressure.h"
#include "stream/source.h"
#include "stream/task_metrics.h"
#include "stream/watermark.h"

namespace cairn::stream {

/// What one task contributes to one checkpoint.
struct TaskSnapshot {
  base::CheckpointId id;
  std::optional<std::vector<SplitProgress>> progress;  ///< of a source task
  std::optional<int64_t> watermark_ms;                 ///< of a source task with event time
  bool input_ended = false;
  std::optional<View> view;  ///< of a task with tables
  std::vector<PreparedRows> prepared;
};

/// Hear from tasks.
///
/// Threads:  every call comes from the task's own thread, none waits for another task.
class TaskListener {
 public:
  virtual ~TaskListener() = default;
  /// Opened and restored; the task waits for kStart.
  virtual void OnReady(size_t task, checkpoint::LoadReceipt receipt) = 0;
  virtual void OnSnapshot(size_t task, TaskSnapshot snapshot) = 0;
  /// All input was read and flushed. The task stays for barriers.
  virtual void OnInputEnded(size_t task) = 0;
  virtual void OnFailure(size_t task, Status status) = 0;
};

struct TaskOptions {
  size_t index = 0;  ///< among the tasks of the job
  std::string name;  ///< "source bid[0]"
  uint32_t subtask = 0;
  std::string source_name;                  ///< of a source task
  std::optional<EventTimeSpec> event_time;  ///< of a source task
  OperatorContext context;                  ///< without uid and state
  size_t channels = 0;                      ///< inputs; 0 = a source task
  ChannelLimits limits;
  bool async_snapshots = true;
  bool checkpoints = true;  ///< false: nothing is ever committed, so no erase is remembered
  MemoryBudget* budget = nullptr;
  int64_t memory_wait_ms = 10'000;  ///< longest wait for memory before a batch
  /// Of processing time, and of state with a TTL by wall clock; null = SystemClock().
  env::Clock* clock = nullptr;
};

class Task {
 public:
  Task(TaskOptions options, TaskListener* listener);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Give the chain, the reader of a source task, and the cut to restore from (may be null).
  void Assemble(std::unique_ptr<Chain> chain, std::unique_ptr<SourceReader> reader,
                std::shared_ptr<const checkpoint::Cut> cut);

  /// Body of the task's thread. Every failure goes to the listener.
  void Run() noexcept;

  Mailbox& mailbox() { return mailbox_; }
  TaskMetrics& metrics() { return metrics_; }
  const TaskOptions& options() const { return options_; }
  bool is_source() const { return options_.channels == 0; }
  /// After OnReady.
  const std::vector<state::StateTable*>& tables() const { return chain_->tables(); }
  /// Epoch of the restored rows, for the first delta; after OnReady.
  std::optional<uint64_t> restored_epoch() const { return restored_epoch_; }

 private:
  Status OpenAndRestore();
  Status RunSource();
  Status RunKeyed();
  std::optional<int64_t> RestoredWatermark() const;
  Status Begin();
  Status AdvanceWatermark(int64_t time_ms);
  /// Wait for the next event; nothing when a processing-time timer is due first.
  Result<std::optional<std::variant<Control, Delivery>>> AwaitEvent();
  Status FireProcessingTimers();
  /// True = leave.
  Result<bool> HandleControl(const Control& control);
  Status HandleDelivery(Delivery delivery);
  Status Align(Delivery delivery);
  Status EndInput();
  Status TakeSnapshot(const Barrier& barrier);
  Status AwaitResume(base::CheckpointId id);
  Status AwaitMemory();
  void SweepState();
  void NoteStateBytes();

  const TaskOptions options_;
  TaskListener* const listener_;
  TaskMetrics metrics_;
  Mailbox mailbox_;
  BarrierAligner aligner_;
  WatermarkValve valve_;
  env::Clock* const clock_;
  std::unique_ptr<StateDomain> domain_;  ///< outlives the operators whose tables are in it
  std::optional<MemoryPressure> pressure_;
  StateSweep sweep_;
  std::unique_ptr<Chain> chain_;
  std::unique_ptr<SourceReader> reader_;
  std::optional<WatermarkGenerator> watermarks_;  ///< of a source task with event time
  std::shared_ptr<const checkpoint::Cut> cut_;
  std::optional<uint64_t> restored_epoch_;
  bool started_ = false;
  bool input_ended_ = false;
  base::CheckpointId resumed_;  ///< highest checkpoint that kResume named
  bool paused_ = false;         ///< a stop barrier has passed: nothing may be read behind it
};

}  // namespace cairn::stream
