// SPDX-License-Identifier: Apache-2.0
#include "stream/task.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace cairn::stream {
namespace {

/// Hundreds of pieces of garbage returned after a commit: a few microseconds.
constexpr size_t kPollSteps = 4;
/// Expired rows swept between two batches: some ten microseconds.
constexpr size_t kSweepSteps = 256;
/// A view may go without a control word: a waiting subtask looks again so often.
constexpr int64_t kMemoryTickMs = 5;
/// Timers may be due in thousands of years, and the wall clock may be set.
constexpr int64_t kLongestWaitMs = 60'000;

}  // namespace

Task::Task(TaskOptions options, TaskListener* listener)
    : options_(std::move(options)),
      listener_(listener),
      mailbox_(options_.channels, options_.limits),
      aligner_(options_.channels),
      valve_(options_.channels),
      clock_(options_.clock != nullptr ? options_.clock : env::SystemClock()) {}

Task::~Task() = default;

void Task::Assemble(std::unique_ptr<Chain> chain, std::unique_ptr<SourceReader> reader,
                    std::shared_ptr<const checkpoint::Cut> cut) {
  chain_ = std::move(chain);
  reader_ = std::move(reader);
  cut_ = std::move(cut);
}

void Task::Run() noexcept {
  Status status;
  try {
    status = OpenAndRestore();
    if (status.ok()) status = is_source() ? RunSource() : RunKeyed();
  } catch (const std::bad_alloc&) {
    status = Status::ResourceExhausted(options_.name + ": out of memory");
  } catch (const std::exception& error) {
    status = Status::Internal(options_.name + ": " + error.what());
  }
  if (!status.ok()) listener_->OnFailure(options_.index, std::move(status));
}

Status Task::OpenAndRestore() {
  domain_ = StateDomain::Create({options_.name, options_.budget, options_.checkpoints});
  pressure_.emplace(options_.budget != nullptr ? options_.budget : MemoryBudget::Default(),
                    domain_.get(), env::SystemClock(), options_.memory_wait_ms);
  OperatorContext context = options_.context;
  context.state = domain_.get();
  CAIRN_RETURN_IF_ERROR(chain_->Open(context));
  checkpoint::LoadReceipt receipt;
  if (cut_ != nullptr && !tables().empty()) {
    CAIRN_ASSIGN_OR_RETURN(receipt, cut_->LoadSubtask(tables()));
    // Close the epoch of the restored rows, so that the first delta begins behind them.
    restored_epoch_ = domain_->Capture().epoch();
    domain_->SetCommitted(*restored_epoch_);
  }
  if (options_.event_time.has_value()) {
    watermarks_.emplace(*options_.event_time, RestoredWatermark());
  }
  NoteStateBytes();
  cut_.reset();
  listener_->OnReady(options_.index, std::move(receipt));
  return {};
}

std::optional<int64_t> Task::RestoredWatermark() const {
  if (cut_ == nullptr) return std::nullopt;
  for (const checkpoint::SourceOffsets& source : cut_->sources()) {
    if (source.source == options_.source_name) return source.watermark_ms;
  }
  return std::nullopt;
}

/// State lives and dies by watermarks that rows have told, not by the end of the input.
Status Task::AdvanceWatermark(int64_t time_ms) {
  domain_->AdvanceEventTime(time_ms);
  return chain_->OnWatermark(time_ms);
}

/// The clocks show what they must before anything else happens.
Status Task::Begin() {
  started_ = true;
  domain_->AdvanceWallTime(clock_->UnixMillis());
  if (!watermarks_.has_value() || !watermarks_->watermark().has_value()) return {};
  return AdvanceWatermark(*watermarks_->watermark());
}

Status Task::RunSource() {
  for (;;) {
    const bool reading = started_ && !input_ended_ && !paused_;
    std::optional<Control> control = mailbox_.PollControl();
    if (!control.has_value() && !reading) {
      CAIRN_ASSIGN_OR_RETURN(control, mailbox_.NextControl());
    }
    if (control.has_value()) {
      CAIRN_ASSIGN_OR_RETURN(const bool leave, HandleControl(*control));
      if (leave) return {};
      continue;
    }
    if (mailbox_.cancelled()) return Status::Cancelled("the job is shutting down");
    CAIRN_RETURN_IF_ERROR(AwaitMemory());
    if (paused_) continue;  // a stop barrier passed while waiting
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<arrow::RecordBatch> rows, reader_->Next());
    metrics_.rows_skipped.store(reader_->rows_skipped(), std::memory_order_relaxed);
    if (rows == nullptr) {
      CAIRN_RETURN_IF_ERROR(EndInput());
      continue;
    }
    Add(&metrics_.rows_in, static_cast<uint64_t>(rows->num_rows()));
    SweepState();
    std::optional<int64_t> watermark;
    if (watermarks_.has_value()) watermark = watermarks_->Observe(*rows);
    CAIRN_RETURN_IF_ERROR(chain_->Emit(Batch{std::move(rows)}));
    if (watermark.has_value()) CAIRN_RETURN_IF_ERROR(AdvanceWatermark(*watermark));
    CAIRN_RETURN_IF_ERROR(FireProcessingTimers());
    NoteStateBytes();
  }
}

Result<std::optional<std::variant<Control, Delivery>>> Task::AwaitEvent() {
  std::optional<int64_t> due_ms;
  if (started_ && !input_ended_) due_ms = chain_->NextProcessingTime();
  if (due_ms.has_value()) {
    const int64_t now_ms = clock_->UnixMillis();
    return mailbox_.NextFor(*due_ms <= now_ms ? 0 : std::min(*due_ms - now_ms, kLongestWaitMs));
  }
  CAIRN_ASSIGN_OR_RETURN(auto event, mailbox_.Next());
  return std::optional(std::move(event));
}

Status Task::FireProcessingTimers() {
  if (!started_ || input_ended_) return {};
  const std::optional<int64_t> due_ms = chain_->NextProcessingTime();
  if (!due_ms.has_value()) return {};
  const int64_t now_ms = clock_->UnixMillis();
  return now_ms < *due_ms ? Status() : chain_->OnProcessingTime(now_ms);
}

Status Task::RunKeyed() {
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(auto event, AwaitEvent());
    if (event.has_value()) {
      if (const Control* control = std::get_if<Control>(&*event)) {
        CAIRN_ASSIGN_OR_RETURN(const bool leave, HandleControl(*control));
        if (leave) return {};
        continue;
      }
      CAIRN_RETURN_IF_ERROR(HandleDelivery(std::get<Delivery>(*std::move(event))));
    }
    CAIRN_RETURN_IF_ERROR(FireProcessingTimers());
  }
}

Result<bool> Task::HandleControl(const Control& control) {
  switch (control.kind) {
    case Control::Kind::kStart:
      CAIRN_RETURN_IF_ERROR(Begin());
      return false;
    case Control::Kind::kTrigger:
      if (!is_source()) return false;
      paused_ = paused_ || control.barrier.stop;
      CAIRN_RETURN_IF_ERROR(TakeSnapshot(control.barrier));
      return false;
    case Control::Kind::kCommitted:
      domain_->SetCommitted(control.epoch);
      domain_->Poll(kPollSteps);
      return false;
    case Control::Kind::kResume:
      resumed_ = std::max(resumed_, control.barrier.id);
      return false;
    case Control::Kind::kShutdown:
      return true;
  }
  return Status::Internal("unknown control word");
}

Status Task::HandleDelivery(Delivery delivery) {
  if (Batch* batch = std::get_if<Batch>(&delivery.message.content)) {
    CAIRN_RETURN_IF_ERROR(AwaitMemory());
    SweepState();
    CAIRN_RETURN_IF_ERROR(chain_->Emit(std::move(*batch)));
    NoteStateBytes();
    return {};
  }
  if (const Watermark* watermark = std::get_if<Watermark>(&delivery.message.content)) {
    const std::optional<int64_t> grown = valve_.OnWatermark(delivery.channel, watermark->time_ms);
    return grown.has_value() ? AdvanceWatermark(*grown) : Status();
  }
  return Align(std::move(delivery));
}

Status Task::Align(Delivery delivery) {
  std::optional<Barrier> complete;
  if (const Barrier* barrier = std::get_if<Barrier>(&delivery.message.content)) {
    CAIRN_ASSIGN_OR_RETURN(complete, aligner_.OnBarrier(delivery.channel, *barrier));
    if (aligner_.IsHeld(delivery.channel)) mailbox_.Block(delivery.channel);
  } else {
    complete = aligner_.OnEnd(delivery.channel);
    if (const std::optional<int64_t> grown = valve_.OnEnd(delivery.channel)) {
      CAIRN_RETURN_IF_ERROR(AdvanceWatermark(*grown));
    }
  }
  if (complete.has_value()) {
    CAIRN_RETURN_IF_ERROR(TakeSnapshot(*complete));
    mailbox_.UnblockAll();
  }
  return aligner_.all_ended() && !input_ended_ ? EndInput() : Status();
}

Status Task::EndInput() {
  input_ended_ = true;
  CAIRN_RETURN_IF_ERROR(chain_->EndInput());
  CAIRN_RETURN_IF_ERROR(chain_->SendEnd());
  listener_->OnInputEnded(options_.index);
  return {};
}

Status Task::TakeSnapshot(const Barrier& barrier) {
  TaskSnapshot snapshot;
  snapshot.id = barrier.id;
  if (reader_ != nullptr) snapshot.progress = reader_->Progress();
  if (watermarks_.has_value()) snapshot.watermark_ms = watermarks_->watermark();
  snapshot.input_ended = input_ended_;
  CAIRN_RETURN_IF_ERROR(chain_->Flush());
  CAIRN_RETURN_IF_ERROR(chain_->SendBarrier(barrier));
  if (options_.checkpoints && !tables().empty()) snapshot.view = domain_->Capture();
  CAIRN_RETURN_IF_ERROR(chain_->Prepare(barrier.id, &snapshot.prepared));
  listener_->OnSnapshot(options_.index, std::move(snapshot));
  return options_.async_snapshots ? Status() : AwaitResume(barrier.id);
}

void Task::NoteStateBytes() {
  if (tables().empty()) return;
  metrics_.state_bytes.store(domain_->MemoryBytes(), std::memory_order_relaxed);
}

Status Task::AwaitResume(base::CheckpointId id) {
  // An aborted checkpoint may have been resumed before its barrier came here.
  while (resumed_ < id) {
    CAIRN_ASSIGN_OR_RETURN(const Control control, mailbox_.NextControl());
    CAIRN_ASSIGN_OR_RETURN(const bool leave, HandleControl(control));
    if (leave) return Status::Cancelled("the job is shutting down");
  }
  return {};
}

// Tells the slots with a TTL by wall clock what time it is, and frees what has expired.
void Task::SweepState() {
  if (tables().empty()) return;
  domain_->AdvanceWallTime(clock_->UnixMillis());
  sweep_.Run(tables(), kSweepSteps);
}

// Holds the next batch back, and with it those behind it, while a checkpoint that is being saved
// or a reader holds memory that the budget lacks.
Status Task::AwaitMemory() {
  while (pressure_->Check() == MemoryPressure::Verdict::kWait) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<Control> control,
                           mailbox_.NextControlFor(kMemoryTickMs));
    if (!control.has_value()) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool leave, HandleControl(*control));
    if (leave) return Status::Cancelled("the job is shutting down");
  }
  metrics_.memory_waits.store(pressure_->waits(), std::memory_order_relaxed);
  return {};
}

}  // namespace cairn::stream
