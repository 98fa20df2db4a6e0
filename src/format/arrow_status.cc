// SPDX-License-Identifier: Apache-2.0
#include "format/arrow_status.h"

namespace cairn::format {

Status FromArrow(const arrow::Status& status) {
  if (status.ok()) return Status();
  const std::string message = "arrow: " + status.message();
  switch (status.code()) {
    case arrow::StatusCode::OutOfMemory:
    case arrow::StatusCode::CapacityError:
      return Status::ResourceExhausted(message);
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::SerializationError:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::KeyError:
    case arrow::StatusCode::IndexError:
      return Status::Corruption(message);
    case arrow::StatusCode::NotImplemented:
      return Status::UnsupportedFormat(message);
    case arrow::StatusCode::IOError:
      return Status::Unavailable(message);
    case arrow::StatusCode::Cancelled:
      return Status::Cancelled(message);
    default:
      return Status::Internal(message);
  }
}

Status FromArrowBytes(const arrow::Status& status) {
  if (status.IsIOError()) return Status::Corruption("arrow: " + status.message());
  return FromArrow(status);
}

}  // namespace cairn::format
