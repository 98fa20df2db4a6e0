// SPDX-License-Identifier: Apache-2.0
//
// Arrow's errors in Cairn's words.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <utility>

#include "cairn/status.h"

namespace cairn::operators {

/// Shape:    out of memory → kResourceExhausted; what an expression met in the data (overflow,
///           division by zero, a bad cast) → kInvalidArgument; the rest → kInternal.
Status FromArrow(const arrow::Status& status);

template <class T>
Result<T> FromArrow(arrow::Result<T> result) {
  if (!result.ok()) return FromArrow(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace cairn::operators
