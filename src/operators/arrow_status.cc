// SPDX-License-Identifier: Apache-2.0
#include "operators/arrow_status.h"

namespace cairn::operators {

Status FromArrow(const arrow::Status& status) {
  switch (status.code()) {
    case arrow::StatusCode::OK:
      return {};
    case arrow::StatusCode::OutOfMemory:
    case arrow::StatusCode::CapacityError:
      return Status::ResourceExhausted(status.message());
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::NotImplemented:
      return Status::InvalidArgument(status.message());
    case arrow::StatusCode::Cancelled:
      return Status::Cancelled(status.message());
    default:
      return Status::Internal(status.ToString());
  }
}

}  // namespace cairn::operators
