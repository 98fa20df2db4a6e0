// SPDX-License-Identifier: Apache-2.0
//
// Order by key, epochs and errors of records that overlap.
//
// A record that ends only puts itself on a list (OnDone runs inside its own coroutine, which must
// not be destroyed there). Settle, at the outermost level, takes the list: it destroys the ended,
// starts the next of their keys and releases watermarks. So neither a long run of records of one
// key nor a watermark that submits records recurses.
#include "cairn/async_execution_controller.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace cairn {
inline namespace v0 {
namespace {

constexpr size_t kKeyBytesShown = 64;

std::string ShowRecordKey(std::string_view key) {
  std::string text = "'";
  for (char c : key.substr(0, kKeyBytesShown)) {
    if (c >= 0x20 && c <= 0x7E) {
      text += c;
      continue;
    }
    constexpr char kDigits[] = "0123456789abcdef";
    text += "\\x";
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text + (key.size() > kKeyBytesShown ? "...'" : "'");
}

}  // namespace

struct AsyncExecutionController::InFlight {
  AsyncExecutionController* controller;
  KeyMap::iterator key;
  Epoch* epoch;
  Record record;
  AsyncTask<Status> task;
  InFlight* next_of_key = nullptr;
  InFlight* next_ended = nullptr;
  InFlight* previous = nullptr;
  InFlight* next = nullptr;
};

AsyncExecutionController::AsyncExecutionController(AsyncExecutionOptions options)
    : options_(std::move(options)), epochs_(1) {}

AsyncExecutionController::~AsyncExecutionController() { Cancel(); }

Status AsyncExecutionController::Submit(std::string_view key, Record record) {
  if (!status_.ok()) return status_;
  if (in_flight_ >= options_.max_in_flight) {
    return Status::ResourceExhausted("records in flight are at their cap of " +
                                     std::to_string(options_.max_in_flight) +
                                     ": wait for room before the next");
  }
  auto owned = std::make_unique<InFlight>();
  auto at = last_of_key_.find(key);
  if (at == last_of_key_.end()) at = last_of_key_.emplace(std::string(key), nullptr).first;
  InFlight* const added = owned.release();
  added->controller = this;
  added->key = at;
  added->epoch = &epochs_.back();
  added->record = std::move(record);
  added->next = all_;
  if (all_ != nullptr) all_->previous = added;
  all_ = added;
  ++added->epoch->open;
  ++in_flight_;
  InFlight* const before = std::exchange(at->second, added);
  if (before != nullptr) {
    before->next_of_key = added;
  } else {
    Begin(added);
    Settle();
  }
  return status_;
}

void AsyncExecutionController::Begin(InFlight* record) {
  try {
    record->task = record->record();
  } catch (...) {
    FailRecord(record->key->first, StatusOfException(std::current_exception(), "a record"));
    OnDone(record);
    return;
  }
  if (!record->task) {
    FailRecord(record->key->first,
               Status::InvalidArgument("a record must return a task, this one returned none"));
    OnDone(record);
    return;
  }
  record->task.Start(&OnDone, record);
}

void AsyncExecutionController::OnDone(void* context) noexcept {
  auto* const record = static_cast<InFlight*>(context);
  record->next_ended = std::exchange(record->controller->ended_, record);
}

void AsyncExecutionController::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void AsyncExecutionController::FailRecord(std::string_view key, const Status& cause) {
  Fail(cause.WithContext("record with key " + ShowRecordKey(key)));
}

void AsyncExecutionController::Settle() {
  if (settling_) return;
  settling_ = true;
  struct Leave {
    bool* settling;
    ~Leave() { *settling = false; }
  } const leave{&settling_};
  do {
    // Taken whole and turned round: records settle in the order they ended.
    InFlight* list = nullptr;
    while (ended_ != nullptr) {
      InFlight* const record = ended_;
      ended_ = record->next_ended;
      record->next_ended = std::exchange(list, record);
    }
    while (list != nullptr) EndRecord(std::exchange(list, list->next_ended));
    ReleaseWatermarks();
  } while (ended_ != nullptr);
}

void AsyncExecutionController::EndRecord(InFlight* record) {
  const std::unique_ptr<InFlight> owned(record);
  (record->previous != nullptr ? record->previous->next : all_) = record->next;
  if (record->next != nullptr) record->next->previous = record->previous;
  --record->epoch->open;
  --in_flight_;
  ++completed_;
  InFlight* const next_of_key = record->next_of_key;
  KeyMap::node_type key;
  if (next_of_key == nullptr) key = last_of_key_.extract(record->key);
  if (record->task.done()) {
    Status outcome = record->task.TakeOutcome();
    if (!outcome.ok()) {
      FailRecord(key.empty() ? record->key->first : key.key(), outcome);
    }
  }
  if (next_of_key != nullptr && status_.ok()) Begin(next_of_key);
}

void AsyncExecutionController::ReleaseWatermarks() {
  while (status_.ok() && !cancelled_ && epochs_.front().closed && epochs_.front().open == 0) {
    const int64_t watermark = epochs_.front().watermark;
    epochs_.pop_front();
    if (!options_.on_watermark) continue;
    try {
      Fail(options_.on_watermark(watermark));
    } catch (...) {
      Fail(StatusOfException(std::current_exception(), "on_watermark"));
    }
  }
}

Status AsyncExecutionController::Watermark(int64_t watermark) {
  if (!status_.ok()) return status_;
  epochs_.back().closed = true;
  epochs_.back().watermark = watermark;
  epochs_.emplace_back();
  Settle();
  return status_;
}

Status AsyncExecutionController::Advance(bool wait) {
  if (settling_) {
    return Status::InvalidArgument("on_watermark and records may submit, not wait for records");
  }
  bool advanced = options_.queue->RunReady() > 0;
  Settle();
  if (!status_.ok()) return status_;
  // Nothing that is done is left: every record waits for a read.
  try {
    if (options_.reads != nullptr) advanced |= options_.reads->FlushPendingReads();
  } catch (...) {
    Fail(StatusOfException(std::current_exception(), "sending the reads held back"));
  }
  Settle();
  if (wait && !advanced && status_.ok()) Fail(options_.queue->WaitReady());
  return status_;
}

Status AsyncExecutionController::Poll() {
  CAIRN_RETURN_IF_ERROR(status_);
  return Advance(false);
}

Status AsyncExecutionController::WaitForRoom() {
  while (in_flight_ >= options_.max_in_flight) CAIRN_RETURN_IF_ERROR(Advance(true));
  return status_;
}

Status AsyncExecutionController::Drain() {
  CAIRN_RETURN_IF_ERROR(status_);
  while (in_flight_ > 0) CAIRN_RETURN_IF_ERROR(Advance(true));
  return status_;
}

void AsyncExecutionController::Cancel() {
  cancelled_ = true;
  Fail(Status::Cancelled("the records in flight were given up"));
  while (all_ != nullptr) {
    const std::unique_ptr<InFlight> record(std::exchange(all_, all_->next));
  }
  ended_ = nullptr;
  last_of_key_.clear();
  in_flight_ = 0;
  epochs_.clear();
  epochs_.emplace_back();
}

}  // namespace v0
}  // namespace cairn
