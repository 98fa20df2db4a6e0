// SPDX-License-Identifier: Apache-2.0
//
// Status and Result: how every call of Cairn reports failure.
//
// Invariants
//  1. A Status is one pointer; OK is the null pointer, so success costs nothing.
//  2. A code says what the caller should do (docs/errors.md), never where the fault was found.
//  3. No exception crosses a module boundary; user callbacks are caught at the seam.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cairn {
inline namespace v0 {

/// Say what the caller can do about a failure.
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 1,    ///< fix the call, the statement or the option
  kNotFound = 2,           ///< the named thing does not exist
  kAlreadyExists = 3,      ///< another writer created it first
  kUnavailable = 4,        ///< try again later
  kResourceExhausted = 5,  ///< free memory or disk, or shed load
  kFenced = 6,             ///< another owner took over: stop and reopen
  kUnsupportedFormat = 7,  ///< written by a newer version: upgrade the reader
  kCorruption = 8,         ///< bytes are damaged: restore from elsewhere
  kCancelled = 9,          ///< stopped on request
  kInternal = 10,          ///< a bug in Cairn: report it
};

/// Name a code as it is printed: "corruption", "not found", ...
std::string_view StatusCodeName(StatusCode code);

/// Hold the outcome of a call that returns no value.
///
/// Threads:  a value type; distinct objects are independent.
/// Cost:     one pointer; OK allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  static Status InvalidArgument(std::string message);
  static Status NotFound(std::string message);
  static Status AlreadyExists(std::string message);
  static Status Unavailable(std::string message);
  static Status ResourceExhausted(std::string message);
  static Status Fenced(std::string message);
  static Status UnsupportedFormat(std::string message);
  static Status Corruption(std::string message);
  static Status Cancelled(std::string message);
  static Status Internal(std::string message);

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  std::string_view message() const;

  /// Put `context` before the message, "context: message", unless it is there. OK stays OK.
  Status WithContext(std::string_view context) const;

  /// Print as "corruption: message", or "ok".
  std::string ToString() const;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

/// Hold a value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design, as `return value;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit, as `return status;`
    if (status_.ok()) status_ = Status::Internal("Result built from an OK status without a value");
  }
  template <class U>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
             !std::is_same_v<std::remove_cvref_t<U>, Status> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result<T>>)
  Result(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace v0
}  // namespace cairn

#define CAIRN_CONCAT_INNER_(a, b) a##b
#define CAIRN_CONCAT_(a, b) CAIRN_CONCAT_INNER_(a, b)

/// Return from the enclosing function when `expr` (a Status) is not OK.
#define CAIRN_RETURN_IF_ERROR(expr)                                    \
  do {                                                                 \
    if (::cairn::Status cairn_status_ = (expr); !cairn_status_.ok()) { \
      return cairn_status_;                                            \
    }                                                                  \
  } while (false)

/// Assign the value of `expr` (a Result) to `lhs`, or return its Status.
#define CAIRN_ASSIGN_OR_RETURN(lhs, expr) \
  CAIRN_ASSIGN_OR_RETURN_IMPL_(CAIRN_CONCAT_(cairn_result_, __LINE__), lhs, expr)
#define CAIRN_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return std::move(result).status();  \
  lhs = *std::move(result)
