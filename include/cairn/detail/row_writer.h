// SPDX-License-Identifier: Apache-2.0
//
// RowWriter: saved rows of any kind of state on their way to a sink.
//
// Threads:  one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/detail/table_types.h"
#include "cairn/saved_rows.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {
namespace detail {

class RowWriter {
 public:
  explicit RowWriter(SavedRowSink* sink) : sink_(sink) {}

  /// Make room for a row of `group`, groups ascending. What Append returned before is gone then.
  ///
  /// Errors:   kInvalidArgument when the value is over kSavedValueBytesMax · what the sink
  /// returned.
  Result<SavedRows::Slot> Append(uint32_t group, SavedRowKind kind, size_t key_bytes,
                                 size_t value_bytes) {
    if (value_bytes > kSavedValueBytesMax) {
      return Status::InvalidArgument(SavedValueTooLarge(value_bytes));
    }
    if (out_ == nullptr || group != group_) {
      CAIRN_ASSIGN_OR_RETURN(out_, sink_->BeginGroup(group));
      group_ = group;
    } else if (out_->bytes() >= kSavedRowsFlushBytes) {
      CAIRN_RETURN_IF_ERROR(sink_->Flush());
    }
    return out_->Append(kind, key_bytes, value_bytes);
  }

 private:
  SavedRowSink* const sink_;
  SavedRows* out_ = nullptr;
  uint32_t group_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn
