// SPDX-License-Identifier: Apache-2.0
#include "stream/coordinator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <new>
#include <thread>
#include <utility>

#include "base/units.h"

namespace cairn::stream {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// True when a later attempt may succeed. A fault of Cairn's or of what it has written stays.
bool CanRetry(const Status& status) {
  return status.code() != StatusCode::kFenced && status.code() != StatusCode::kInternal &&
         status.code() != StatusCode::kCorruption;
}

/// The watermark of a source: the least of its subtasks that still read. When all have ended, that
/// of the one that came furthest: nothing waits for older rows any more.
std::optional<int64_t> WatermarkOf(const std::vector<const TaskSnapshot*>& subtasks) {
  std::optional<int64_t> least;
  std::optional<int64_t> furthest;
  for (const TaskSnapshot* subtask : subtasks) {
    furthest = std::max(furthest, subtask->watermark_ms);
    if (subtask->input_ended) continue;
    if (!subtask->watermark_ms.has_value()) return std::nullopt;
    least = std::min(least.value_or(*subtask->watermark_ms), *subtask->watermark_ms);
  }
  return least.has_value() ? least : furthest;
}

std::string Named(base::CheckpointId id) { return "checkpoint " + std::to_string(id.value); }

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, checkpoint::CheckpointStore* store,
                         std::vector<NamedSink> sinks, JobControl control)
    : options_(std::move(options)),
      clock_(options.clock != nullptr ? options.clock : env::SystemClock()),
      store_(store),
      sinks_(std::move(sinks)),
      control_(std::move(control)),
      persist_executor_(options.persist_threads) {}

Coordinator::~Coordinator() = default;

// --- events -------------------------------------------------------------------------------------

void Coordinator::Push(Event event) {
  {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  arrival_.notify_one();
}

void Coordinator::OnReady(size_t task, checkpoint::LoadReceipt receipt) {
  Push(Ready{task, std::move(receipt)});
}
void Coordinator::OnSnapshot(size_t task, TaskSnapshot snapshot) {
  Push(Snapshot{task, std::move(snapshot)});
}
void Coordinator::OnInputEnded(size_t task) { Push(InputEnded{task}); }
void Coordinator::OnFailure(size_t task, Status status) { Push(Failure{task, std::move(status)}); }

void Coordinator::RequestCheckpoint() {
  {
    std::lock_guard lock(mutex_);
    requested_ = true;
    woken_ = true;
  }
  arrival_.notify_one();
}

void Coordinator::Wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  arrival_.notify_one();
}

std::optional<Coordinator::Event> Coordinator::WaitEvent(int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return woken_ || !events_.empty(); };
  if (deadline_ns == kNever) {
    arrival_.wait(lock, ready);
  } else {
    const int64_t left_ns = std::max<int64_t>(0, deadline_ns - clock_->MonotonicNanos());
    arrival_.wait_for(lock, std::chrono::nanoseconds(left_ns), ready);
  }
  woken_ = false;
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// --- the life of the job ------------------------------------------------------------------------

Result<JobOutcome> Coordinator::Run(const checkpoint::Cut* cut) {
  started_ns_ = last_report_ns_ = clock_->MonotonicNanos();
  std::stop_callback wake_on_stop(control_.stop, [this] { Wake(); });
  committed_epochs_.assign(tasks_.size(), std::nullopt);
  receipts_.resize(tasks_.size());
  if (cut != nullptr) {
    resumed_from_end_ = cut->ended() && !options_.foreign_cut;
    if (!options_.foreign_cut) {
      outcome_.progress.checkpoint = cut->id();
      last_commit_unix_ms_ = cut->timestamp_ms();
    }
  }
  Status ready = AwaitReady(cut);
  if (ready.ok() && options_.before_start) ready = options_.before_start();
  if (ready.ok()) {
    PostAll({Control::Kind::kStart});
    if (options_.interval_ms > 0 && store_ != nullptr) {
      next_trigger_ns_ = clock_->MonotonicNanos() + options_.interval_ms * kNanosPerMilli;
    } else {
      next_trigger_ns_ = kNever;
    }
    Loop();
  } else {
    Fail(std::move(ready));
  }
  // The persist thread may still be at work for an attempt of a job that failed beside it: what it
  // decides must be known before the sinks and the store go.
  while (attempt_ != nullptr && attempt_->persisting) {
    if (std::optional<Event> event = WaitEvent(kNever)) Handle(*std::move(event));
  }
  attempt_.reset();
  if (first_error_.ok()) {
    PostAll({Control::Kind::kShutdown});
  } else {
    CancelAll();
  }
  ReportProgress(true);
  if (!first_error_.ok()) return first_error_;
  return outcome_;
}

Status Coordinator::AwaitReady(const checkpoint::Cut* cut) {
  while (ready_count_ < tasks_.size()) {
    std::optional<Event> event = WaitEvent(kNever);
    if (event.has_value()) Handle(*std::move(event));
    CAIRN_RETURN_IF_ERROR(first_error_);
  }
  if (cut == nullptr) return {};
  CAIRN_RETURN_IF_ERROR(cut->CheckReceipts(receipts_));
  checkpoint::RestoreReceipt receipt = checkpoint::SumReceipts(*cut, receipts_);
  receipt.duration_ms = (clock_->MonotonicNanos() - started_ns_) / kNanosPerMilli;
  if (!options_.foreign_cut) {
    for (size_t i = 0; i < tasks_.size(); ++i) committed_epochs_[i] = tasks_[i]->restored_epoch();
  }
  if (control_.on_restored) control_.on_restored(receipt);
  Log(LogLevel::kInfo, "restored " + Named(cut->id()) + ": " + checkpoint::ReceiptText(receipt));
  for (const auto& task : tasks_) {
    if (task->options().subtask != 0) continue;
    for (const state::StateTable* table : task->tables()) {
      const state::SlotDescriptor& slot = table->descriptor();
      if (slot.ttl.enabled()) Log(LogLevel::kInfo, checkpoint::DescribeTtl(slot));
    }
  }
  return {};
}

void Coordinator::Loop() {
  while (!done_) {
    Decide();
    if (done_) return;
    if (std::optional<Event> event = WaitEvent(NextDeadline())) Handle(*std::move(event));
    if (!first_error_.ok()) return;
    if (clock_->MonotonicNanos() - last_report_ns_ >=
        control_.progress_interval_ms * kNanosPerMilli) {
      ReportProgress(false);
    }
  }
}

int64_t Coordinator::NextDeadline() const {
  int64_t deadline = next_trigger_ns_;
  if (attempt_ != nullptr && !attempt_->persisting) {
    deadline = std::min(deadline, attempt_->started_ns + options_.timeout_ms * kNanosPerMilli);
  }
  if (control_.on_progress) {
    deadline = std::min(deadline, last_report_ns_ + control_.progress_interval_ms * kNanosPerMilli);
  }
  return deadline;
}

void Coordinator::Decide() {
  const int64_t now = clock_->MonotonicNanos();
  if (attempt_ != nullptr && !attempt_->persisting &&
      now - attempt_->started_ns >= options_.timeout_ms * kNanosPerMilli) {
    GiveUp(Status::Unavailable("not all subtasks came to the barrier within " +
                               base::FormatDurationMs(options_.timeout_ms)));
    if (done_ || !first_error_.ok()) return;
  }
  bool due = false;
  if (now >= next_trigger_ns_) {
    due = attempt_ == nullptr;
    if (!due) ++outcome_.progress.checkpoints_skipped;
    next_trigger_ns_ = now + options_.interval_ms * kNanosPerMilli;
  }
  if (attempt_ != nullptr) return;
  if (AllEnded()) {
    if (resumed_from_end_ && RowsIn() == 0) {
      outcome_.nothing_new = true;
      done_ = true;
    } else {
      BeginAttempt(true, false);
    }
    return;
  }
  if (control_.stop.stop_requested()) {
    outcome_.stopped = true;
    if (store_ != nullptr) {
      BeginAttempt(true, true);
    } else {
      done_ = true;
    }
    return;
  }
  {
    std::lock_guard lock(mutex_);
    due = due || (requested_ && store_ != nullptr);
    requested_ = false;
  }
  if (due) BeginAttempt(false, false);
}

void Coordinator::Handle(Event event) {
  if (auto* ready = std::get_if<Ready>(&event)) {
    receipts_[ready->task] = std::move(ready->receipt);
    ++ready_count_;
  } else if (auto* snapshot = std::get_if<Snapshot>(&event)) {
    HandleSnapshot(snapshot->task, std::move(snapshot->snapshot));
  } else if (std::get_if<InputEnded>(&event) != nullptr) {
    ++ended_count_;
  } else if (auto* failure = std::get_if<Failure>(&event)) {
    Fail(std::move(failure->status));
  } else {
    HandleDone(std::get<AttemptDone>(std::move(event)));
  }
}

void Coordinator::Fail(Status status) {
  if (!first_error_.ok() || status.code() == StatusCode::kCancelled) return;
  first_error_ = std::move(status);
  CancelAll();
}

void Coordinator::CancelAll() {
  for (Task* task : tasks_) task->mailbox().Cancel();
}

void Coordinator::PostAll(const Control& control) {
  for (Task* task : tasks_) task->mailbox().Post(control);
}

// --- one attempt --------------------------------------------------------------------------------

void Coordinator::BeginAttempt(bool last, bool stop) {
  base::CheckpointId id(++local_id_);
  if (store_ != nullptr) {
    Result<base::CheckpointId> next = store_->NextId();
    if (!next.ok()) {
      ++outcome_.progress.checkpoints_failed;
      if (last || !CanRetry(next.status())) return Fail(next.status().WithContext("checkpoint"));
      return Log(LogLevel::kWarning, "no checkpoint now: " + next.status().ToString());
    }
    id = *next;
  }
  SetStep(checkpoint::Step::kCapture);
  attempt_ = std::make_unique<Attempt>();
  attempt_->id = id;
  attempt_->started_ns = clock_->MonotonicNanos();
  attempt_->last = last;
  attempt_->missing = tasks_.size();
  attempt_->snapshots.resize(tasks_.size());
  if (options_.interval_ms > 0 && store_ != nullptr) {
    next_trigger_ns_ = attempt_->started_ns + options_.interval_ms * kNanosPerMilli;
  }
  for (Task* task : tasks_) {
    if (task->is_source()) task->mailbox().Post({Control::Kind::kTrigger, Barrier{id, stop}});
  }
}

void Coordinator::HandleSnapshot(size_t task, TaskSnapshot snapshot) {
  // Descriptors count whether or not the attempt they were prepared for is still wanted.
  for (PreparedRows& rows : snapshot.prepared) {
    pending_[rows.sink].push_back(
        {snapshot.id, tasks_[task]->options().subtask, std::move(rows.descriptor)});
  }
  snapshot.prepared.clear();
  if (attempt_ == nullptr || attempt_->id != snapshot.id || attempt_->persisting) return;
  attempt_->snapshots[task] = std::move(snapshot);
  if (--attempt_->missing == 0) PersistAttempt();
}

void Coordinator::PersistAttempt() {
  checkpoint::CapturedCut& cut = attempt_->cut;
  std::map<std::string, checkpoint::SourceOffsets> sources;
  std::map<std::string, std::vector<const TaskSnapshot*>> event_times;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const TaskSnapshot& snapshot = *attempt_->snapshots[i];
    const TaskOptions& task = tasks_[i]->options();
    cut.parallelism = task.context.parallelism;
    if (snapshot.view.has_value()) {
      checkpoint::CapturedSubtask captured;
      captured.subtask = task.subtask;
      captured.tables.assign(tasks_[i]->tables().begin(), tasks_[i]->tables().end());
      captured.view = *snapshot.view;
      captured.committed_epoch = committed_epochs_[i];
      cut.subtasks.push_back(std::move(captured));
    }
    if (!snapshot.progress.has_value()) continue;
    checkpoint::SourceOffsets& offsets = sources[task.source_name];
    offsets.source = task.source_name;
    if (task.event_time.has_value()) event_times[task.source_name].push_back(&snapshot);
    for (const SplitProgress& split : *snapshot.progress) {
      offsets.splits.push_back({split.split, split.position, split.ended});
    }
  }
  for (auto& [name, offsets] : sources) {
    offsets.ended = std::all_of(offsets.splits.begin(), offsets.splits.end(),
                                [](const checkpoint::SplitOffset& split) { return split.ended; });
    if (const auto subtasks = event_times.find(name); subtasks != event_times.end()) {
      offsets.event_time = true;
      offsets.watermark_ms = WatermarkOf(subtasks->second);
    }
    cut.sources.push_back(std::move(offsets));
  }
  for (const auto& [sink, pieces] : pending_) {
    if (!pieces.empty()) cut.sinks.push_back({sink, pieces});
  }
  attempt_->persisting = true;
  attempt_->persist_ns = clock_->MonotonicNanos();
  if (store_ != nullptr) attempt_->written_before = store_->use().bytes_written;
  persist_thread_.Post([this, attempt = attempt_.get()] { Push(GuardedAttempt(attempt)); });
}

/// What throws after the head decision leaves it unknown here, so the job begins again from it.
Coordinator::AttemptDone Coordinator::GuardedAttempt(Attempt* attempt) {
  AttemptDone done;
  done.id = attempt->id;
  done.fatal = true;
  try {
    return RunAttempt(attempt);
  } catch (const std::bad_alloc&) {
    done.status = Status::ResourceExhausted("out of memory while persisting");
  } catch (const std::exception& error) {
    done.status = Status::Internal(std::string("persisting: ") + error.what());
  }
  return done;
}

/// What stands in the way often goes by itself: an upload that was cut, a disk that was full.
Result<checkpoint::PersistedCut> Coordinator::PersistWithRetries(Attempt* attempt,
                                                                 AttemptDone* done) {
  const int64_t deadline_ns = attempt->started_ns + options_.timeout_ms * kNanosPerMilli;
  int64_t wait_ns = options_.retry_wait_ms * kNanosPerMilli;
  for (uint32_t retry = 0;; ++retry) {
    Result<checkpoint::PersistedCut> persisted =
        store_->Persist(done->id, attempt->cut, &persist_executor_);
    if (persisted.ok() || !CanRetry(persisted.status()) || retry == options_.persist_retries ||
        control_.stop.stop_requested() || clock_->MonotonicNanos() + wait_ns >= deadline_ns) {
      return persisted;
    }
    done->failed_try = persisted.status();
    const int64_t jitter_ns =
        static_cast<int64_t>(env::SystemRandom()->Next() % static_cast<uint64_t>(wait_ns / 2 + 1));
    std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns + jitter_ns));
    wait_ns *= 2;
    CAIRN_ASSIGN_OR_RETURN(done->id, store_->NextId());  // ids are never used twice
  }
}

/// The persist thread's part: nothing here touches what the coordinator's thread owns.
Coordinator::AttemptDone Coordinator::RunAttempt(Attempt* attempt) {
  AttemptDone done;
  done.id = attempt->id;
  if (store_ != nullptr) {
    const env::StoreUse before = store_->use();
    Result<checkpoint::PersistedCut> persisted = PersistWithRetries(attempt, &done);
    if (!persisted.ok()) {
      done.status = persisted.status();
      done.fatal = !CanRetry(done.status);
      return done;
    }
    done.persisted = *std::move(persisted);
    const int64_t took_ms = (clock_->MonotonicNanos() - attempt->started_ns) / kNanosPerMilli;
    if (took_ms >= options_.timeout_ms) {
      done.status = Status::Unavailable("persisting took " + base::FormatDurationMs(took_ms) +
                                        ", longer than checkpoint.timeout");
      if (Status abandoned = store_->Abandon(done.persisted); !abandoned.ok()) {
        done.status = done.status.WithContext(abandoned.ToString());
      }
      return done;
    }
    if (Status status = store_->Commit(done.persisted); !status.ok()) {
      // kUnavailable says that the old cut stands, unless the store could not learn what became of
      // the decision: then it answers nothing any more, and the job must begin again from the head.
      done.fatal = status.code() != StatusCode::kUnavailable &&
                   status.code() != StatusCode::kResourceExhausted;
      if (!done.fatal) done.fatal = !store_->NextId().ok();
      done.status = std::move(status);
      return done;
    }
    done.use = store_->use() - before;
    done.persist_ms = (clock_->MonotonicNanos() - attempt->persist_ns) / kNanosPerMilli;
  }
  done.decided = true;
  done.decided_ns = clock_->MonotonicNanos();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const std::optional<View>& view = attempt->snapshots[i]->view;
    if (view.has_value() && store_ != nullptr) {
      tasks_[i]->mailbox().Post({Control::Kind::kCommitted, {}, view->epoch()});
    }
  }
  SetStep(checkpoint::Step::kSinkCommit);
  done.status = CommitSinks(attempt->cut.sinks);
  done.fatal = !done.status.ok();
  if (!done.fatal && store_ != nullptr) {
    // Retirement that fails leaves work for the next one and harms nothing.
    if (Result<checkpoint::RetireReport> retired = store_->Retire(); !retired.ok()) {
      done.retire_warning = retired.status();
    }
  }
  return done;
}

Status Coordinator::CommitSinks(const std::vector<checkpoint::PreparedSink>& prepared) {
  for (const checkpoint::PreparedSink& entry : prepared) {
    const auto sink = std::find_if(sinks_.begin(), sinks_.end(),
                                   [&](const NamedSink& s) { return s.uid == entry.sink; });
    if (sink == sinks_.end()) return Status::Internal("no sink is named " + entry.sink);
    std::vector<std::string> descriptors;
    for (const checkpoint::PreparedPiece& piece : entry.pieces) {
      descriptors.push_back(piece.descriptor);
    }
    if (Status status = sink->sink->Commit(descriptors); !status.ok()) {
      return status.WithContext("sink " + entry.sink +
                                ": the checkpoint is decided, its rows are not yet visible; run "
                                "the job again to publish them");
    }
  }
  return {};
}

void Coordinator::HandleDone(AttemptDone done) {
  const base::CheckpointId id = done.id;
  JobProgress& progress = outcome_.progress;
  if (!done.decided) {
    if (!done.fatal) return GiveUp(done.status);
    ++progress.checkpoints_failed;
    Fail(done.status.WithContext(Named(id)));
    return EndAttempt();
  }
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const std::optional<View>& view = attempt_->snapshots[i]->view;
    if (view.has_value()) committed_epochs_[i] = view->epoch();
  }
  if (store_ != nullptr) {
    progress.checkpoint = id;
    progress.checkpoint_duration_ms = (done.decided_ns - attempt_->started_ns) / kNanosPerMilli;
    progress.checkpoint_bytes = done.persisted.bytes_new;
    progress.checkpoint_total_bytes = done.persisted.bytes_new + done.persisted.bytes_reused;
    progress.checkpoint_frames = done.persisted.frames_new;
    progress.checkpoint_total_frames = done.persisted.frames_new + done.persisted.frames_reused;
    progress.checkpoint_persist_ms = done.persist_ms;
    progress.checkpoint_use = done.use;
    ++progress.checkpoints_committed;
    last_commit_unix_ms_ = clock_->UnixMillis();
  }
  if (!done.failed_try.ok()) {
    Log(LogLevel::kWarning,
        Named(id) + " was persisted after a failed try: " + done.failed_try.ToString());
  }
  if (!done.retire_warning.ok()) {
    Log(LogLevel::kWarning, "old checkpoints were not removed: " + done.retire_warning.ToString());
  }
  if (done.fatal) {
    Fail(std::move(done.status));
  } else {
    pending_.clear();
  }
  done_ = done_ || attempt_->last;
  EndAttempt();
}

void Coordinator::GiveUp(const Status& reason) {
  ++outcome_.progress.checkpoints_failed;
  if (attempt_->last) {
    Fail(reason.WithContext("the last checkpoint (" + std::to_string(attempt_->id.value) +
                            ") failed; the job's output stands as of checkpoint " +
                            std::to_string(outcome_.progress.checkpoint.value)));
  } else {
    Log(LogLevel::kWarning,
        Named(attempt_->id) + " failed, its changes go into the next one: " + reason.ToString());
  }
  EndAttempt();
}

void Coordinator::EndAttempt() {
  const Barrier barrier{attempt_->id};
  attempt_.reset();  // releases the views
  SetStep(checkpoint::Step::kBetween);
  if (!options_.async_snapshots) PostAll({Control::Kind::kResume, barrier});
}

// --- reports ------------------------------------------------------------------------------------

uint64_t Coordinator::RowsIn() const {
  uint64_t rows = 0;
  for (Task* task : tasks_) rows += task->metrics().rows_in.load(std::memory_order_relaxed);
  return rows;
}

void Coordinator::ReportProgress(bool final_report) {
  JobProgress& progress = outcome_.progress;
  const uint64_t rows_in_before = final_report ? 0 : progress.rows_in;
  const uint64_t rows_out_before = final_report ? 0 : progress.rows_out;
  const int64_t now = clock_->MonotonicNanos();
  const double seconds = static_cast<double>(std::max<int64_t>(
                             1, now - (final_report ? started_ns_ : last_report_ns_))) /
                         1e9;
  progress.rows_in = RowsIn();
  progress.rows_out = progress.rows_skipped = progress.state_bytes = 0;
  for (Task* task : tasks_) {
    const TaskMetrics& metrics = task->metrics();
    progress.rows_out += metrics.rows_out.load(std::memory_order_relaxed);
    progress.rows_skipped += metrics.rows_skipped.load(std::memory_order_relaxed);
    progress.state_bytes += metrics.state_bytes.load(std::memory_order_relaxed);
  }
  progress.elapsed_ms = (now - started_ns_) / kNanosPerMilli;
  progress.rows_in_per_s = static_cast<double>(progress.rows_in - rows_in_before) / seconds;
  progress.rows_out_per_s = static_cast<double>(progress.rows_out - rows_out_before) / seconds;
  progress.checkpoint_age_ms =
      last_commit_unix_ms_ < 0 ? -1
                               : std::max<int64_t>(0, clock_->UnixMillis() - last_commit_unix_ms_);
  progress.persisting = base::CheckpointId();
  if (attempt_ != nullptr && attempt_->persisting && store_ != nullptr) {
    progress.persisting = attempt_->id;
    progress.persisting_ms = (now - attempt_->persist_ns) / kNanosPerMilli;
    progress.persisting_bytes = store_->use().bytes_written - attempt_->written_before;
    // The first checkpoint has no older one to go by.
    progress.persisting_expected =
        progress.checkpoint.value == 0 ? progress.state_bytes : store_->expected_bytes();
  }
  last_report_ns_ = now;
  if (control_.on_progress) control_.on_progress(progress);
}

void Coordinator::Log(LogLevel level, const std::string& text) const {
  if (control_.log) control_.log(level, text);
}

void Coordinator::SetStep(checkpoint::Step step) {
  if (options_.steps != nullptr) options_.steps->Set(step);
}

}  // namespace cairn::stream
