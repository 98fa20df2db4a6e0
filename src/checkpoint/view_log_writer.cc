// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/view_log_writer.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "format/view_log_segment.h"

namespace cairn::checkpoint {
namespace {

uint64_t BytesOf(const arrow::RecordBatch& rows) {
  return static_cast<uint64_t>(std::max<int64_t>(arrow::util::TotalBufferSize(rows), 0));
}

}  // namespace

ViewLogWriter::ViewLogWriter(ViewLogSpec spec) {
  pending_.view = std::move(spec.view);
  pending_.generation = std::move(spec.generation);
  pending_.schema = std::move(spec.schema);
  pending_.event_time = std::move(spec.event_time);
  pending_.partitions = spec.partitions;
  pending_.retention = spec.retention;
}

Result<std::unique_ptr<ViewLogWriter>> ViewLogWriter::Open(ViewLogSpec spec) {
  if (spec.view.empty() || spec.view.size() > format::kViewNameBytesMax) {
    return Status::InvalidArgument(
        fmt::format("view '{}': the name of a view with a log has 1 to "
                    "{} bytes",
                    spec.view, format::kViewNameBytesMax));
  }
  const std::string context = fmt::format("log of view '{}'", spec.view);
  const auto refuse = [&](std::string_view why) {
    return Status::InvalidArgument(fmt::format("{}: {}", context, why));
  };
  if (!base::IsCanonicalUuid(spec.generation)) return refuse("its generation is no UUID");
  if (spec.schema == nullptr || spec.partitions == 0) return refuse("it has no columns or no part");
  if (spec.retention.event_time_ms && !spec.event_time) {
    return refuse("a retention by time needs an event-time column");
  }
  CAIRN_RETURN_IF_ERROR(
      format::ViewLogSchemaOf(*spec.schema, spec.event_time).status().WithContext(context));
  return std::unique_ptr<ViewLogWriter>(new ViewLogWriter(std::move(spec)));
}

Status ViewLogWriter::Append(uint32_t partition, std::shared_ptr<arrow::RecordBatch> rows) {
  if (partition >= pending_.partitions) {
    return Status::InvalidArgument(fmt::format("log of view '{}' has no partition {}, only {}",
                                               pending_.view, partition, pending_.partitions));
  }
  if (!rows->schema()->Equals(*pending_.schema, /*check_metadata=*/false)) {
    return Status::InvalidArgument(fmt::format("log of view '{}': the rows have the columns {}",
                                               pending_.view, rows->schema()->ToString()));
  }
  if (rows->num_rows() == 0) return {};
  rows_ += static_cast<uint64_t>(rows->num_rows());
  bytes_ += BytesOf(*rows);
  pending_.appended[partition].push_back(std::move(rows));
  return {};
}

void ViewLogWriter::Committed(const CapturedViewLog& captured) {
  for (const auto& [partition, batches] : captured.appended) {
    auto& pending = pending_.appended[partition];
    const size_t count = std::min(batches.size(), pending.size());
    for (size_t i = 0; i < count; ++i) {
      rows_ -= static_cast<uint64_t>(pending[i]->num_rows());
      bytes_ -= BytesOf(*pending[i]);
    }
    pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(count));
    if (pending.empty()) pending_.appended.erase(partition);
  }
}

}  // namespace cairn::checkpoint
