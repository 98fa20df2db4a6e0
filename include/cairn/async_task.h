// SPDX-License-Identifier: Apache-2.0
//
// AsyncTask: a coroutine that starts when it is awaited and ends with a Status or a Result.
//
// Threads:  a task and all that awaits in it belong to one thread, the runner's. What it awaits may
//           be done elsewhere; it is resumed on the runner's thread only (cairn/async_io.h).
// Invariants
//  1. A task that is never awaited or started runs nothing.
//  2. A task ends with an outcome, whatever happens in it: an exception that leaves its body
//  becomes
//     the outcome's Status. Nothing leaves a task by throwing.
//  3. Destroying a task destroys what it awaits. An operation that is still under way elsewhere
//     then finds nobody to resume.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

/// Say what an exception of user code means: kResourceExhausted for want of memory, else kInternal.
///
/// Shape:    `where` names what threw, such as "an asynchronous task".
Status StatusOfException(const std::exception_ptr& thrown, std::string_view where);

template <class T>
inline constexpr bool kIsAsyncOutcome = false;
template <>
inline constexpr bool kIsAsyncOutcome<Status> = true;
template <class T>
inline constexpr bool kIsAsyncOutcome<Result<T>> = true;

/// A lazily started coroutine with the outcome T, which is Status or Result<…>.
///
/// Threads:  the runner's.
/// Cost:     one allocation for the frame; awaiting and returning are jumps, not calls.
template <class T>
class [[nodiscard]] AsyncTask {
  static_assert(kIsAsyncOutcome<T>, "an asynchronous task ends with a Status or a Result");

 public:
  class promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  AsyncTask() = default;
  AsyncTask(AsyncTask&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  AsyncTask& operator=(AsyncTask&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~AsyncTask() {
    if (handle_) handle_.destroy();
  }

  /// False for a task that was moved from.
  explicit operator bool() const { return static_cast<bool>(handle_); }
  bool done() const { return handle_ && handle_.done(); }

  /// Run to the first suspension that nothing resolves at once. `on_done(context)`, which may be
  /// null, is called when the task is over; it must not destroy the task.
  void Start(void (*on_done)(void*) noexcept, void* context) {
    handle_.promise().on_done_ = on_done;
    handle_.promise().context_ = context;
    handle_.resume();
  }

  /// The outcome of a task that is done. Once.
  T TakeOutcome() { return handle_.promise().TakeOutcome(); }

  auto operator co_await() && noexcept {
    struct Awaiter {
      Handle task;
      bool await_ready() const noexcept { return !task; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) const noexcept {
        task.promise().waiter_ = waiter;
        return task;
      }
      T await_resume() const {
        if (!task) return Status::Internal("a task was awaited after it was moved away");
        return task.promise().TakeOutcome();
      }
    };
    return Awaiter{handle_};
  }

 private:
  explicit AsyncTask(Handle handle) : handle_(handle) {}
  Handle handle_;
};

template <class T>
class AsyncTask<T>::promise_type {
 public:
  AsyncTask get_return_object() { return AsyncTask(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept {
    struct Awaiter {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle ended) const noexcept {
        promise_type& promise = ended.promise();
        if (promise.waiter_) return promise.waiter_;
        if (promise.on_done_ != nullptr) promise.on_done_(promise.context_);
        return std::noop_coroutine();
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{};
  }
  template <class U>
    requires std::is_convertible_v<U&&, T>
  void return_value(U&& outcome) {
    outcome_.emplace(std::forward<U>(outcome));
  }
  void unhandled_exception() noexcept { thrown_ = std::current_exception(); }

  // The Status of an exception is made here: where it was caught nothing may be allocated.
  T TakeOutcome() {
    if (thrown_) return StatusOfException(thrown_, "an asynchronous task");
    return std::move(*outcome_);
  }

 private:
  friend class AsyncTask;
  std::optional<T> outcome_;
  std::exception_ptr thrown_;
  std::coroutine_handle<> waiter_;
  void (*on_done_)(void*) noexcept = nullptr;
  void* context_ = nullptr;
};

}  // namespace v0
}  // namespace cairn
