// SPDX-License-Identifier: Apache-2.0
//
// The print sink: rows on standard output as soon as they come, at least once. The blackhole sink:
// rows counted and dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "cairn/status.h"
#include "connectors/row_text.h"
#include "stream/sink.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

/// Print to `out`, which outlives the sink, in whole lines; subtasks take turns.
Result<std::unique_ptr<stream::Sink>> MakePrintSink(const stream::TableDefinition& table,
                                                    const RowTextOptions& options, std::FILE* out);

class BlackholeSink final : public stream::Sink {
 public:
  bool exactly_once() const override { return true; }  // no row is ever seen twice
  Result<std::unique_ptr<stream::SinkWriter>> CreateWriter(uint32_t subtask) override;
  Status Commit(const std::vector<std::string>&) override { return {}; }
  Status Recover(base::CheckpointId, const std::vector<std::string>&) override { return {}; }
  std::string Identity() const override { return R"({"connector":"blackhole"})"; }

  /// Rows that all writers took since the sink was made.
  uint64_t rows() const { return *rows_; }

 private:
  std::shared_ptr<std::atomic<uint64_t>> rows_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace cairn::connectors
