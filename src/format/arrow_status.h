// SPDX-License-Identifier: Apache-2.0
//
// Arrow's statuses as Cairn's.
#pragma once

#include <arrow/status.h>

#include "cairn/status.h"

namespace cairn::format {

/// Map an Arrow status to the code that says what to do about it.
///
/// Shape:    OutOfMemory, CapacityError → kResourceExhausted · Invalid, SerializationError →
///           kCorruption (when reading bytes; a caller that checks arguments says so itself) ·
///           NotImplemented → kUnsupportedFormat · IOError → kUnavailable · Cancelled → kCancelled
///           · others → kInternal.
Status FromArrow(const arrow::Status& status);

/// As FromArrow for a call that read bytes in memory: there an IOError is a short read, so
/// kCorruption.
Status FromArrowBytes(const arrow::Status& status);

}  // namespace cairn::format

/// Return from the enclosing function when an arrow::Status is not OK.
#define CAIRN_RETURN_IF_ARROW_ERROR(expr) CAIRN_RETURN_IF_ERROR(::cairn::format::FromArrow(expr))

/// Assign the value of an arrow::Result, or return its status.
#define CAIRN_ASSIGN_OR_RETURN_ARROW(lhs, expr) \
  CAIRN_ASSIGN_OR_RETURN_ARROW_IMPL_(CAIRN_CONCAT_(arrow_result_, __LINE__), lhs, expr)
#define CAIRN_ASSIGN_OR_RETURN_ARROW_IMPL_(result, lhs, expr)           \
  auto result = (expr);                                                 \
  if (!result.ok()) return ::cairn::format::FromArrow(result.status()); \
  lhs = *std::move(result)

/// The same for a call that read bytes in memory.
#define CAIRN_RETURN_IF_PARSE_ERROR(expr) \
  CAIRN_RETURN_IF_ERROR(::cairn::format::FromArrowBytes(expr))
#define CAIRN_ASSIGN_OR_RETURN_PARSED(lhs, expr) \
  CAIRN_ASSIGN_OR_RETURN_PARSED_IMPL_(CAIRN_CONCAT_(arrow_result_, __LINE__), lhs, expr)
#define CAIRN_ASSIGN_OR_RETURN_PARSED_IMPL_(result, lhs, expr)               \
  auto result = (expr);                                                      \
  if (!result.ok()) return ::cairn::format::FromArrowBytes(result.status()); \
  lhs = *std::move(result)
