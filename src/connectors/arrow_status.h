// SPDX-License-Identifier: Apache-2.0
//
// Arrow's Status as ours, for the folder that calls Arrow's readers and writers.
#pragma once

#include <arrow/status.h>

#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::connectors {

/// Keep the message; map the code to what the caller can do about it.
inline Status FromArrow(const arrow::Status& status, std::string_view context) {
  if (status.ok()) return {};
  StatusCode code = StatusCode::kInternal;
  if (status.IsOutOfMemory() || status.IsCapacityError()) code = StatusCode::kResourceExhausted;
  if (status.IsInvalid() || status.IsSerializationError()) code = StatusCode::kCorruption;
  if (status.IsTypeError() || status.IsNotImplemented()) code = StatusCode::kInvalidArgument;
  if (status.IsIOError()) code = StatusCode::kUnavailable;
  std::string message(context);
  if (!message.empty()) message += ": ";
  return Status(code, message + status.message());
}

}  // namespace cairn::connectors
