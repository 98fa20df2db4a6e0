// SPDX-License-Identifier: Apache-2.0
//
// Writing the changelog variant of the interchange snapshot: row 0 is the materialisation or its
// handle, then puts and erases. canonical_stream.h reads it.
//
// Threads: a writer belongs to one thread.
// Format:  docs/formats/canonical-stream.md.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/saved_rows.h"
#include "cairn/status.h"
#include "format/canonical_stream.h"

namespace cairn::format {

/// Most bytes that one row of a changelog can hold: an Arrow binary column has 32-bit offsets.
inline constexpr uint64_t kChangelogInlineBytesMax = (uint64_t{1} << 31) - 1;

class ChangelogStreamWriter {
 public:
  /// Begin a stream with its materialisation row.
  ///
  /// Shape:    kind is kMaterialisedInline (value = a canonical stream, may be empty) or
  ///           kMaterialisedHandle (value names one).
  /// Errors:   kInvalidArgument for another kind, or for a value above kChangelogInlineBytesMax.
  static Result<std::unique_ptr<ChangelogStreamWriter>> Open(ByteSink* sink, ChangelogRowKind kind,
                                                             std::string_view value);
  ~ChangelogStreamWriter();

  /// Write log rows as one batch; their kinds are kPut and kErase. operator_ids has one id a row.
  Status Append(const std::vector<uint64_t>& operator_ids, const base::SavedRowSpan& rows);
  Status Finish();

 private:
  struct State;
  explicit ChangelogStreamWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::format
