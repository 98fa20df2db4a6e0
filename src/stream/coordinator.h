// SPDX-License-Identifier: Apache-2.0
//
// Coordinator: starts the tasks of a job, takes its checkpoints and ends it.
//
// A checkpoint: trigger the sources; collect one snapshot from every task; then, on the persist
// thread, write frames and manifest, decide the head, commit the sinks, retire old cuts. One
// attempt is in flight; triggers that fall due meanwhile are skipped and counted.
//
// Threads: Run by the job's thread, which alone owns the state here; tasks and the persist thread
// hand it events. What the persist thread needs travels with the attempt.
//
// Invariants
//  1. A sink descriptor is pending from its snapshot until a checkpoint that lists it is decided
//  and
//     the sink has committed it. A failed or timed-out attempt leaves it pending, and the next
//     attempt lists it.
//  2. Whether an attempt is given up is decided in one place at a time: by the coordinator while
//     snapshots are missing, by the persist thread after that. No acknowledgement can race it.
//  3. Sinks are committed only after the head decision, and their failure fails the job: the next
//     run commits again from the cut.
//  4. The first error is kept; every later one is a consequence.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "checkpoint/executor.h"
#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "env/clock.h"
#include "stream/job_control.h"
#include "stream/serial_executor.h"
#include "stream/sink.h"
#include "stream/step_file.h"
#include "stream/task.h"

namespace cairn::stream {

struct CoordinatorOptions {
  /// Least time between the starts of two checkpoints; 0 = only on request.
  int64_t interval_ms = 10'000;
  /// An attempt that is not decided by then is given up.
  int64_t timeout_ms = 120'000;
  bool async_snapshots = true;
  /// The cut to restore is not of the store, so the first checkpoint saves all state.
  bool foreign_cut = false;
  /// Called once when all state is restored, before any row is read; may be null. An error ends the
  /// job.
  std::function<Status()> before_start;
  env::Clock* clock = nullptr;  ///< null = SystemClock()
  StepFile* steps = nullptr;    ///< may be null
  size_t persist_threads = 2;
  /// How often a persist that failed is tried again, each time under an id of its own, before its
  /// changes are left to the next checkpoint; the first wait, which then doubles, with jitter.
  uint32_t persist_retries = 3;
  int64_t retry_wait_ms = 100;
};

/// A sink under the name that its descriptors carry.
struct NamedSink {
  std::string uid;
  std::shared_ptr<Sink> sink;
};

class Coordinator final : public TaskListener {
 public:
  /// `store` null = no checkpoints: exactly-once sinks commit at the end of the input only.
  Coordinator(CoordinatorOptions options, checkpoint::CheckpointStore* store,
              std::vector<NamedSink> sinks, JobControl control);
  ~Coordinator() override;

  /// Say which tasks there are, before any of them runs.
  void SetTasks(std::vector<Task*> tasks) { tasks_ = std::move(tasks); }

  /// Wait until all tasks are restored, prove it with their receipts, run the job to its end.
  ///
  /// Errors:   the first error of any task, of recovery, of a sink commit, of the last checkpoint.
  ///           Every mailbox is then cancelled: the tasks' threads can be joined.
  Result<JobOutcome> Run(const checkpoint::Cut* cut);

  /// Begin a checkpoint as soon as none is in flight. Any thread.
  void RequestCheckpoint();
  /// Look at the clock again. Any thread.
  void Wake();

  void OnReady(size_t task, checkpoint::LoadReceipt receipt) override;
  void OnSnapshot(size_t task, TaskSnapshot snapshot) override;
  void OnInputEnded(size_t task) override;
  void OnFailure(size_t task, Status status) override;

 private:
  /// One checkpoint between its trigger and its end.
  struct Attempt {
    base::CheckpointId id;
    int64_t started_ns = 0;
    bool last = false;  ///< the job ends with it
    size_t missing = 0;
    bool persisting = false;
    int64_t persist_ns = 0;       ///< when persisting began
    uint64_t written_before = 0;  ///< bytes that the store had written by then
    std::vector<std::optional<TaskSnapshot>> snapshots;
    checkpoint::CapturedCut cut;
  };
  struct Ready {
    size_t task;
    checkpoint::LoadReceipt receipt;
  };
  struct Snapshot {
    size_t task;
    TaskSnapshot snapshot;
  };
  struct InputEnded {
    size_t task;
  };
  struct Failure {
    size_t task;
    Status status;
  };
  /// What the persist thread reports of an attempt.
  struct AttemptDone {
    Status status;
    base::CheckpointId id;  ///< of the last try
    Status failed_try;      ///< what the try before it met, if there was one
    bool decided = false;   ///< the head names it
    bool fatal = false;     ///< the job cannot go on
    checkpoint::PersistedCut persisted;
    int64_t decided_ns = 0;
    int64_t persist_ms = 0;  ///< of writing and deciding
    env::StoreUse use;       ///< by them
    Status retire_warning;
  };
  using Event = std::variant<Ready, Snapshot, InputEnded, Failure, AttemptDone>;

  void Push(Event event);
  /// Wait for an event until `deadline_ns` of the clock at most; nothing on time-out or wake-up.
  std::optional<Event> WaitEvent(int64_t deadline_ns);
  void Handle(Event event);
  void HandleSnapshot(size_t task, TaskSnapshot snapshot);
  void HandleDone(AttemptDone done);

  Status AwaitReady(const checkpoint::Cut* cut);
  void Loop();
  /// Decide what is due now: stop, last checkpoint, time-out, trigger.
  void Decide();
  int64_t NextDeadline() const;
  void BeginAttempt(bool last, bool stop);
  void PersistAttempt();
  AttemptDone GuardedAttempt(Attempt* attempt);
  AttemptDone RunAttempt(Attempt* attempt);
  Result<checkpoint::PersistedCut> PersistWithRetries(Attempt* attempt, AttemptDone* done);
  Status CommitSinks(const std::vector<checkpoint::PreparedSink>& prepared);
  void GiveUp(const Status& reason);
  void EndAttempt();
  void Fail(Status status);
  void CancelAll();
  void PostAll(const Control& control);
  void ReportProgress(bool final_report);
  void Log(LogLevel level, const std::string& text) const;
  void SetStep(checkpoint::Step step);
  bool AllEnded() const { return ended_count_ == tasks_.size(); }
  uint64_t RowsIn() const;

  const CoordinatorOptions options_;
  env::Clock* const clock_;
  checkpoint::CheckpointStore* const store_;
  const std::vector<NamedSink> sinks_;
  const JobControl control_;
  std::vector<Task*> tasks_;

  std::mutex mutex_;  ///< guards events_, woken_ and requested_
  std::condition_variable arrival_;
  std::deque<Event> events_;
  bool woken_ = false;
  bool requested_ = false;

  std::unique_ptr<Attempt> attempt_;
  std::map<std::string, std::vector<checkpoint::PreparedPiece>> pending_;  ///< by sink uid
  std::vector<std::optional<uint64_t>> committed_epochs_;                  ///< by task
  std::vector<checkpoint::LoadReceipt> receipts_;
  size_t ready_count_ = 0;
  size_t ended_count_ = 0;
  int64_t next_trigger_ns_ = 0;
  int64_t started_ns_ = 0;
  int64_t last_report_ns_ = 0;
  int64_t last_commit_unix_ms_ = -1;
  uint64_t local_id_ = 0;  ///< ids when there is no store
  bool resumed_from_end_ = false;
  bool done_ = false;
  Status first_error_;
  JobOutcome outcome_;

  checkpoint::ThreadsExecutor persist_executor_;
  SerialExecutor persist_thread_;  ///< last: joined before anything it uses is gone
};

}  // namespace cairn::stream
