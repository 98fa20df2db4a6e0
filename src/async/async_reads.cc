// SPDX-License-Identifier: Apache-2.0
//
// Reads held back and sent together.
//
// A round is the reads that wait for one GetManyAsync. It is shared by the coroutine that makes the
// batch read and by the tasks that wait in it, so either side may be destroyed first: a task that
// is gone leaves a null handle, a backend that is gone leaves tasks nobody resumes.
#include "cairn/async_reads.h"

#include <algorithm>
#include <coroutine>
#include <map>
#include <utility>

namespace cairn {
inline namespace v0 {

AsyncTask<Result<StateValue>> InlineReads::GetAsync(OperatorId op, std::string key, int64_t) {
  co_return backend_->Get(op, key);
}

AsyncTask<Result<std::vector<StateValue>>> InlineReads::GetManyAsync(std::vector<StateKey> keys,
                                                                     int64_t) {
  std::vector<StateValue> values(keys.size());
  std::map<OperatorId, std::vector<size_t>> by_operator;
  for (size_t i = 0; i < keys.size(); ++i) by_operator[keys[i].operator_id].push_back(i);
  for (const auto& [op, positions] : by_operator) {
    std::vector<std::string_view> part;
    for (size_t i : positions) part.push_back(keys[i].key);
    std::vector<StateValue> found;
    if (Status read = backend_->GetMany(op, part, &found); !read.ok()) co_return read;
    for (size_t i = 0; i < positions.size(); ++i) values[positions[i]] = std::move(found[i]);
  }
  co_return values;
}

class CoalescingBackend::Reads final : public AsyncReads {
 public:
  Reads(AsyncReads* behind, size_t round_max) : behind_(behind), round_max_(round_max) {}

  void SetResumeScheduler(std::shared_ptr<ResumeScheduler> scheduler) override {
    has_scheduler_ = scheduler != nullptr;
    behind_->SetResumeScheduler(std::move(scheduler));
  }
  bool TryGet(OperatorId op, std::string_view key, StateValue* value) override {
    return behind_->TryGet(op, key, value);
  }
  AsyncTask<Result<StateValue>> GetAsync(OperatorId op, std::string key,
                                         int64_t order_key) override;
  AsyncTask<Result<std::vector<StateValue>>> GetManyAsync(std::vector<StateKey> keys,
                                                          int64_t order_key) override {
    return behind_->GetManyAsync(std::move(keys), order_key);
  }
  bool FlushPendingReads() override;
  const CoalescingCounts& counts() const { return counts_; }

 private:
  struct Waiter {
    size_t position;  // of its key in the round
    int64_t order_key;
    size_t arrival;
    std::coroutine_handle<> handle;
  };
  struct Round {
    std::vector<StateKey> keys;
    std::map<StateKey, size_t> positions;
    std::vector<std::shared_ptr<Waiter>> waiters;
    int64_t order_key = kNoDeadline;
    // The answer, for all: values, or what the read threw.
    bool answered = false;
    Result<std::vector<StateValue>> values = std::vector<StateValue>();
    std::exception_ptr thrown;
  };
  /// Awaits one read of a round.
  class Parked {
   public:
    Parked(std::shared_ptr<Round> round, std::shared_ptr<Waiter> waiter)
        : round_(std::move(round)), waiter_(std::move(waiter)) {}
    Parked(const Parked&) = delete;
    Parked& operator=(const Parked&) = delete;
    ~Parked() { waiter_->handle = {}; }
    bool await_ready() const noexcept { return round_->answered; }
    void await_suspend(std::coroutine_handle<> handle) noexcept { waiter_->handle = handle; }
    Result<StateValue> await_resume();

   private:
    const std::shared_ptr<Round> round_;
    const std::shared_ptr<Waiter> waiter_;
  };

  std::shared_ptr<Waiter> Park(OperatorId op, std::string key, int64_t order_key);
  AsyncTask<Status> RunRound(std::shared_ptr<Round> round);

  AsyncReads* const behind_;
  const size_t round_max_;
  bool has_scheduler_ = false;
  std::shared_ptr<Round> open_;
  std::vector<AsyncTask<Status>> running_;
  CoalescingCounts counts_;
};

std::shared_ptr<CoalescingBackend::Reads::Waiter> CoalescingBackend::Reads::Park(
    OperatorId op, std::string key, int64_t order_key) {
  if (open_ == nullptr) open_ = std::make_shared<Round>();
  StateKey state_key{op, std::move(key)};
  const auto [at, added] = open_->positions.try_emplace(state_key, open_->keys.size());
  if (added) open_->keys.push_back(std::move(state_key));
  auto waiter = std::make_shared<Waiter>();
  waiter->position = at->second;
  waiter->order_key = order_key;
  waiter->arrival = open_->waiters.size();
  open_->order_key = std::min(open_->order_key, order_key);
  open_->waiters.push_back(waiter);
  ++counts_.reads;
  return waiter;
}

AsyncTask<Result<StateValue>> CoalescingBackend::Reads::GetAsync(OperatorId op, std::string key,
                                                                 int64_t order_key) {
  StateValue resident;
  if (behind_->TryGet(op, key, &resident)) co_return resident;
  if (!has_scheduler_) co_return co_await behind_->GetAsync(op, std::move(key), order_key);
  std::shared_ptr<Waiter> waiter = Park(op, std::move(key), order_key);
  Parked parked(open_, std::move(waiter));
  // The last of a full round sends it, and may find its answer there already.
  if (open_->waiters.size() >= round_max_) FlushPendingReads();
  co_return co_await parked;
}

bool CoalescingBackend::Reads::FlushPendingReads() {
  std::erase_if(running_, [](const AsyncTask<Status>& task) { return task.done(); });
  if (open_ == nullptr) return false;
  // What can fail for want of memory comes first: a round that was taken off is always answered.
  running_.reserve(running_.size() + 1);
  AsyncTask<Status> task = RunRound(open_);
  open_.reset();
  ++counts_.rounds;
  task.Start(nullptr, nullptr);
  if (!task.done()) running_.push_back(std::move(task));
  return true;
}

AsyncTask<Status> CoalescingBackend::Reads::RunRound(std::shared_ptr<Round> round) {
  try {
    round->values = co_await behind_->GetManyAsync(round->keys, round->order_key);
  } catch (...) {
    round->thrown = std::current_exception();
  }
  // All have their answer before the first goes on: it may read again, or end others.
  round->answered = true;
  std::sort(round->waiters.begin(), round->waiters.end(), [](const auto& a, const auto& b) {
    return std::pair(a->order_key, a->arrival) < std::pair(b->order_key, b->arrival);
  });
  for (const std::shared_ptr<Waiter>& waiter : round->waiters) {
    if (auto handle = std::exchange(waiter->handle, {})) handle.resume();
  }
  co_return Status();
}

Result<StateValue> CoalescingBackend::Reads::Parked::await_resume() {
  if (round_->thrown) return StatusOfException(round_->thrown, "a batch read");
  if (!round_->values.ok()) return round_->values.status();
  std::vector<StateValue>& values = *round_->values;
  if (values.size() != round_->keys.size()) {
    return Status::Internal("a batch read gave " + std::to_string(values.size()) + " values for " +
                            std::to_string(round_->keys.size()) + " keys");
  }
  StateValue& value = values[waiter_->position];
  if (round_->waiters.size() == round_->keys.size()) return std::move(value);  // nobody shares it
  return value;
}

Result<std::unique_ptr<CoalescingBackend>> CoalescingBackend::Create(
    std::unique_ptr<StateBackend> backend, size_t round_max) {
  if (backend->async_reads() == nullptr) {
    return Status::InvalidArgument("the backend " + backend->Describe().uri +
                                   " never waits for a read: there is nothing to coalesce");
  }
  return std::unique_ptr<CoalescingBackend>(
      new CoalescingBackend(std::move(backend), std::max<size_t>(round_max, 1)));
}

CoalescingBackend::CoalescingBackend(std::unique_ptr<StateBackend> backend, size_t round_max)
    : backend_(std::move(backend)),
      reads_(std::make_unique<Reads>(backend_->async_reads(), round_max)) {}

CoalescingBackend::~CoalescingBackend() = default;

CoalescingCounts CoalescingBackend::counts() const { return reads_->counts(); }

AsyncReads* CoalescingBackend::async_reads() { return reads_.get(); }

}  // namespace v0
}  // namespace cairn
