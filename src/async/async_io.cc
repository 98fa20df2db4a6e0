// SPDX-License-Identifier: Apache-2.0
//
// The I/O threads and the way back to the runner.
//
// An operation is one object from the co_await to the resumption. It goes from thread to thread by
// a mutex each time (the executor's, then the queue's), so its plain members need no other care. A
// post allocates nothing: an I/O thread has nowhere to report a failure to.
#include "cairn/async_io.h"

#include <algorithm>
#include <new>
#include <string>
#include <system_error>

namespace cairn {
inline namespace v0 {
namespace {

thread_local const IoThreadPool* t_pool_of_this_thread = nullptr;

}  // namespace

Status StatusOfException(const std::exception_ptr& thrown, std::string_view where) {
  const std::string what(where);
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted(what +
                                     " found no memory: raise the memory budget or shed load");
  } catch (const std::exception& error) {
    return Status::Internal(what + " threw: " + error.what());
  } catch (...) {
    return Status::Internal(what + " threw something that is no std::exception");
  }
}

void IoOperation::Run(std::shared_ptr<IoOperation> operation) noexcept {
  operation->Load();
  // Taken out: the runner may drop the operation before Post returns, and an operation that lies in
  // a queue must not keep the queue.
  const std::shared_ptr<ResumeScheduler> scheduler = std::move(operation->scheduler_);
  scheduler->Post(std::move(operation));
}

void IoOperation::Cancel(std::shared_ptr<IoOperation> operation) noexcept {
  operation->cancelled_ = true;
  const std::shared_ptr<ResumeScheduler> scheduler = std::move(operation->scheduler_);
  scheduler->Post(std::move(operation));
}

Result<std::unique_ptr<IoThreadPool>> IoThreadPool::Create(size_t threads, size_t queued_max) {
  if (threads == 0 || queued_max == 0) {
    return Status::InvalidArgument("I/O threads and their queue must be at least 1, got " +
                                   std::to_string(threads) + " and " + std::to_string(queued_max));
  }
  std::unique_ptr<IoThreadPool> pool(new IoThreadPool(queued_max));
  CAIRN_RETURN_IF_ERROR(pool->StartThreads(threads));
  return pool;
}

Status IoThreadPool::StartThreads(size_t threads) {
  threads_.reserve(threads);
  try {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { RunThread(); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    Shutdown();
    return Status::ResourceExhausted("only " + std::to_string(started) + " of " +
                                     std::to_string(threads) + " I/O threads started (" +
                                     error.what() + "): set fewer io_threads");
  }
  return {};
}

void IoThreadPool::Submit(std::shared_ptr<IoOperation> operation) {
  std::unique_lock lock(mutex_);
  if (t_pool_of_this_thread != this) {
    drained_.wait(lock, [this] { return stopped_ || queue_.size() < queued_max_; });
  }
  if (stopped_) {
    lock.unlock();
    IoOperation::Cancel(std::move(operation));
    return;
  }
  const int64_t order_key = operation->order_key();
  queue_.push_back({order_key, arrivals_++, std::move(operation)});
  std::push_heap(queue_.begin(), queue_.end(), Later);
  filled_.notify_one();
}

void IoThreadPool::RunThread() {
  t_pool_of_this_thread = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    if (stopped_) return;
    std::pop_heap(queue_.begin(), queue_.end(), Later);
    std::shared_ptr<IoOperation> next = std::move(queue_.back().operation);
    queue_.pop_back();
    drained_.notify_one();
    lock.unlock();
    IoOperation::Run(std::move(next));
    lock.lock();
  }
}

void IoThreadPool::Shutdown() {
  std::vector<Queued> given_up;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    given_up.swap(queue_);
    filled_.notify_all();
    drained_.notify_all();
  }
  std::sort_heap(given_up.begin(), given_up.end(), Later);  // the last to run comes first
  for (auto it = given_up.rbegin(); it != given_up.rend(); ++it) {
    IoOperation::Cancel(std::move(it->operation));
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

ResumeQueue::~ResumeQueue() { Close(); }

void ResumeQueue::DropList(std::shared_ptr<IoOperation> list) {
  // One by one: a long list must not be freed by recursion.
  while (list != nullptr) list = std::move(list->next);
}

void ResumeQueue::Post(std::shared_ptr<IoOperation> operation) noexcept {
  bool was_empty;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    was_empty = inbox_ == nullptr;
    IoOperation* const tail = operation.get();
    (was_empty ? inbox_ : inbox_tail_->next) = std::move(operation);
    inbox_tail_ = tail;
    posted_.notify_one();
  }
  if (was_empty && options_.wake) options_.wake();
}

bool ResumeQueue::TakeInbox() {
  std::shared_ptr<IoOperation> list;
  {
    std::lock_guard lock(mutex_);
    list.swap(inbox_);
    inbox_tail_ = nullptr;
    if (closed_) heap_.clear();
  }
  while (list != nullptr) {
    std::shared_ptr<IoOperation> rest = std::move(list->next);
    const int64_t order_key = list->order_key();
    heap_.push_back({order_key, arrivals_++, std::move(list)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
    list = std::move(rest);
  }
  return !heap_.empty();
}

size_t ResumeQueue::RunReady() {
  size_t resumed = 0;
  while (TakeInbox()) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const std::shared_ptr<IoOperation> next = std::move(heap_.back().operation);
    heap_.pop_back();
    next->Resume();
    ++resumed;
  }
  return resumed;
}

Status ResumeQueue::WaitReady() {
  std::unique_lock lock(mutex_);
  while (inbox_ == nullptr && !closed_) {
    if (!options_.idle) {
      posted_.wait(lock);
      continue;
    }
    lock.unlock();
    if (!options_.idle()) {
      return Status::Internal("a task waits for a read that nobody makes: nothing is under way");
    }
    lock.lock();
  }
  if (closed_) return Status::Cancelled("the queue of completed reads was closed");
  return {};
}

void ResumeQueue::Close() {
  std::shared_ptr<IoOperation> dropped;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(inbox_);
    inbox_tail_ = nullptr;
    posted_.notify_all();
  }
  DropList(std::move(dropped));
}

}  // namespace v0
}  // namespace cairn
