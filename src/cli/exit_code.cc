// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

namespace cairn::cli {

ExitCode ExitCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ExitCode::kDone;
    case StatusCode::kNotFound:
      return ExitCode::kNegative;
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
      return ExitCode::kUsage;
    case StatusCode::kCorruption:
    case StatusCode::kUnsupportedFormat:
      return ExitCode::kDamaged;
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted:
    case StatusCode::kFenced:
      return ExitCode::kUnavailable;
    case StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    case StatusCode::kInternal:
      return ExitCode::kBug;
  }
  return ExitCode::kBug;
}

}  // namespace cairn::cli
