// SPDX-License-Identifier: Apache-2.0
//
// The interchange stream as backends use it: rows in order in, rows in order out. The same rows
// give the same bytes whichever backend wrote them.
//
// Threads: one a writer; the rest are pure functions.
// Format:  docs/formats/canonical-stream.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/saved_rows.h"
#include "cairn/state_backend.h"
#include "format/canonical_stream.h"
#include "format/changelog_stream.h"

namespace cairn::backend {

/// Collect a stream in memory.
class StringSink final : public format::ByteSink {
 public:
  Status Append(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

/// Write rows as a canonical stream, in record batches of about 8 MiB.
///
/// Threads:  one.
class SnapshotWriter {
 public:
  /// `sink` outlives the writer.
  static Result<std::unique_ptr<SnapshotWriter>> Open(format::ByteSink* sink,
                                                      const std::vector<StateStamp>& stamps);
  Status Add(OperatorId op, std::string_view key, std::string_view value);
  Status Finish();

 private:
  explicit SnapshotWriter(std::unique_ptr<format::CanonicalStreamWriter> writer)
      : writer_(std::move(writer)) {}
  Status WriteBatch();

  std::unique_ptr<format::CanonicalStreamWriter> writer_;
  base::SavedRows rows_;
  std::vector<uint64_t> operators_;
};

std::vector<format::StateVersion> ToStateVersions(const std::vector<StateStamp>& stamps);
std::vector<StateStamp> ToStamps(const std::vector<format::StateVersion>& versions);

/// Call for each row of batches, in order. Errors: what `take` returns.
using RowTaker = std::function<Status(base::SavedRowKind kind, OperatorId op, std::string_view key,
                                      std::string_view value)>;
Status ForEachRow(const std::vector<format::CanonicalBatch>& batches, const RowTaker& take);

}  // namespace cairn::backend
