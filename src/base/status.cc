// SPDX-License-Identifier: Apache-2.0
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kFenced:
      return "fenced";
    case StatusCode::kUnsupportedFormat:
      return "unsupported format";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message)
    : rep_(code == StatusCode::kOk ? nullptr
                                   : std::make_unique<Rep>(Rep{code, std::move(message)})) {}

Status::Status(const Status& other)
    : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
  return *this;
}

Status Status::InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
Status Status::NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
Status Status::AlreadyExists(std::string m) { return {StatusCode::kAlreadyExists, std::move(m)}; }
Status Status::Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
Status Status::ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
Status Status::Fenced(std::string m) { return {StatusCode::kFenced, std::move(m)}; }
Status Status::UnsupportedFormat(std::string m) {
  return {StatusCode::kUnsupportedFormat, std::move(m)};
}
Status Status::Corruption(std::string m) { return {StatusCode::kCorruption, std::move(m)}; }
Status Status::Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
Status Status::Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

std::string_view Status::message() const {
  return rep_ ? std::string_view(rep_->message) : std::string_view();
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return {};
  // What failed further down may have named operator, slot and key already.
  const std::string_view rest = rep_->message;
  const bool there = rest.starts_with(context) && rest.size() > context.size() &&
                     (rest[context.size()] == ':' || rest[context.size()] == ',');
  if (there) return *this;
  return {rep_->code, std::string(context) + ": " + rep_->message};
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(StatusCodeName(rep_->code)) + ": " + rep_->message;
}

}  // namespace v0
}  // namespace cairn
