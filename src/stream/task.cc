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
/// A view may go without a control word: a waiting subtask looks again so often.
constexpr int64_t kMemoryTickMs = 5;

}  // namespace

Task::Task(TaskOptions options, TaskListener* listener)
    : options_(std::move(options)),
      listener_(listener),
      mailbox_(options_.channels, options_.limits),
      aligner_(options_.channels) {}

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
  NoteStateBytes();
  cut_.reset();
  listener_->OnReady(options_.index, std::move(receipt));
  return {};
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
    CAIRN_RETURN_IF_ERROR(chain_->Emit(Batch{std::move(rows)}));
    NoteStateBytes();
  }
}

Status Task::RunKeyed() {
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(auto event, mailbox_.Next());
    if (const Control* control = std::get_if<Control>(&event)) {
      CAIRN_ASSIGN_OR_RETURN(const bool leave, HandleControl(*control));
      if (leave) return {};
      continue;
    }
    CAIRN_RETURN_IF_ERROR(HandleDelivery(std::get<Delivery>(std::move(event))));
  }
}

Result<bool> Task::HandleControl(const Control& control) {
  switch (control.kind) {
    case Control::Kind::kStart:
      started_ = true;
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
    CAIRN_RETURN_IF_ERROR(chain_->Emit(std::move(*batch)));
    NoteStateBytes();
    return {};
  }
  std::optional<Barrier> complete;
  if (const Barrier* barrier = std::get_if<Barrier>(&delivery.message.content)) {
    CAIRN_ASSIGN_OR_RETURN(complete, aligner_.OnBarrier(delivery.channel, *barrier));
    if (aligner_.IsHeld(delivery.channel)) mailbox_.Block(delivery.channel);
  } else {
    complete = aligner_.OnEnd(delivery.channel);
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
