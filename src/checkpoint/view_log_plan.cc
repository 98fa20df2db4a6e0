// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/view_log_plan.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::checkpoint {
namespace {

using format::ViewLogSegment;

/// How many segments have to stand together to be merged: fewer when there are too many. At the
/// last all are merged that are not final, whatever their sizes.
constexpr size_t kFanIns[] = {8, 4, 2, 1};

/// Segments below this size are as good as equal: most of a small one is its schema.
constexpr uint64_t kSmallBytes = 64 << 10;

using LogKey = std::pair<std::string, std::string>;  // view, generation

/// One partition while it is planned.
struct Partition {
  std::vector<ViewLogSegment> old;
  uint64_t next = 0;
  std::vector<std::shared_ptr<arrow::RecordBatch>> appended;
  uint64_t appended_rows = 0;
  uint64_t appended_bytes = 0;
};

struct Log {
  const CapturedViewLog* captured = nullptr;
  format::ViewLogSchema schema;
  format::Sha256Digest schema_sha256{};
  std::map<uint32_t, Partition> partitions;
};

Status AddCaptured(const CapturedViewLog& captured, Log* log) {
  const std::string context = fmt::format("log of view '{}'", captured.view);
  CAIRN_ASSIGN_OR_RETURN(format::ViewLogSchema schema,
                         format::ViewLogSchemaOf(*captured.schema, captured.event_time));
  if (log->captured == nullptr) {
    log->captured = &captured;
    log->schema = std::move(schema);
    log->schema_sha256 = format::view_log_schema_sha256(log->schema);
  } else if (schema != log->schema || captured.partitions != log->captured->partitions ||
             captured.retention != log->captured->retention) {
    return Status::InvalidArgument(context + ": subtasks declare it differently");
  }
  for (const auto& [number, batches] : captured.appended) {
    if (number >= captured.partitions) {
      return Status::InvalidArgument(fmt::format("{} has no partition {}", context, number));
    }
    Partition& partition = log->partitions[number];
    if (!partition.appended.empty()) {
      return Status::Internal(
          fmt::format("{}: two subtasks appended to partition {}", context, number));
    }
    partition.appended = batches;
    for (const auto& batch : batches) {
      partition.appended_rows += static_cast<uint64_t>(batch->num_rows());
      const arrow::Result<int64_t> bytes = arrow::util::ReferencedBufferSize(*batch);
      partition.appended_bytes += bytes.ok() ? static_cast<uint64_t>(*bytes) : 0;
    }
  }
  return {};
}

Status AddSaved(const format::ViewLog& saved, Log* log) {
  if (saved.schema_sha256 != log->schema_sha256 || saved.partitions != log->captured->partitions) {
    return Status::InvalidArgument(
        fmt::format("log of view '{}': its columns, event time or number of partitions are not "
                    "those it was begun with; a changed view begins a new generation",
                    saved.view));
  }
  for (const ViewLogSegment& segment : saved.segments) {
    Partition& partition = log->partitions[segment.partition];
    partition.old.push_back(segment);
    partition.next = segment.end;
  }
  return {};
}

/// The newest event time of the saved part of a log.
std::optional<int64_t> NewestEventTime(const Log& log) {
  std::optional<int64_t> newest;
  for (const auto& [number, partition] : log.partitions) {
    for (const ViewLogSegment& segment : partition.old) {
      if (!segment.event_time) continue;
      newest = std::max(newest.value_or(segment.event_time->max), segment.event_time->max);
    }
  }
  return newest;
}

/// How many segments from the front are older than a time. One without event times goes with the
/// next that has some.
size_t CountOlder(const std::vector<ViewLogSegment>& segments, int64_t oldest_kept) {
  size_t older = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].event_time) continue;
    if (segments[i].event_time->max >= oldest_kept) break;
    older = i + 1;
  }
  return older;
}

/// How many segments from the front may go while `keep` of what `amount` counts are left.
template <class Amount>
size_t CountBeyond(const std::vector<ViewLogSegment>& segments, uint64_t newer, uint64_t keep,
                   Amount amount) {
  uint64_t total = newer;
  for (const ViewLogSegment& segment : segments) total += amount(segment);
  size_t beyond = 0;
  while (beyond < segments.size() && total - amount(segments[beyond]) >= keep) {
    total -= amount(segments[beyond]);
    ++beyond;
  }
  return beyond;
}

void DropOld(const ViewLogRetention& retention, std::optional<int64_t> newest,
             Partition* partition) {
  std::vector<ViewLogSegment>& old = partition->old;
  size_t count = 0;
  if (retention.event_time_ms && newest) {
    int64_t oldest_kept = 0;
    if (!__builtin_sub_overflow(*newest, *retention.event_time_ms, &oldest_kept)) {
      count = CountOlder(old, oldest_kept);
    }
  }
  if (retention.rows) {
    const size_t beyond =
        CountBeyond(old, partition->appended_rows, *retention.rows,
                    [](const ViewLogSegment& segment) { return segment.end - segment.first; });
    count = std::max(count, beyond);
  }
  if (retention.bytes) {
    const size_t beyond =
        CountBeyond(old, partition->appended_bytes, *retention.bytes,
                    [](const ViewLogSegment& segment) { return segment.object_length; });
    count = std::max(count, beyond);
  }
  // Something has to say where the positions go on.
  if (partition->appended.empty() && !old.empty()) count = std::min(count, old.size() - 1);
  old.erase(old.begin(), old.begin() + static_cast<ptrdiff_t>(count));
}

/// Index of the first segment of the run at the end that is merged; the number of all when none is.
/// `sizes` has the appended rows as the last one.
size_t FirstMerged(const std::vector<uint64_t>& sizes, uint64_t segment_bytes, size_t fan_in) {
  const size_t count = sizes.size();
  if (count == 0 || sizes.back() >= segment_bytes / 2) return count;
  size_t first = count - 1;
  uint64_t newer = sizes.back();
  while (first > 0 && sizes[first - 1] < segment_bytes / 2 &&
         (sizes[first - 1] <= newer || fan_in == 1)) {
    newer += sizes[--first];
  }
  return count - first >= fan_in ? first : count;
}

std::vector<ViewLogRun> RunsOf(const Partition& partition, uint64_t segment_bytes, size_t fan_in) {
  const uint64_t small = std::min(kSmallBytes, segment_bytes / 16);
  std::vector<uint64_t> sizes;
  for (const ViewLogSegment& segment : partition.old) {
    sizes.push_back(std::max(segment.object_length, small));
  }
  if (!partition.appended.empty()) sizes.push_back(std::max(partition.appended_bytes, small));
  const size_t first = FirstMerged(sizes, segment_bytes, fan_in);
  std::vector<ViewLogRun> runs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i <= first) runs.emplace_back();
    if (i < partition.old.size()) {
      runs.back().old.push_back(partition.old[i]);
    } else {
      runs.back().appended = true;
    }
  }
  return runs;
}

/// How many segments a partition has when its runs are written.
uint64_t CountSegments(const Partition& partition, const std::vector<ViewLogRun>& runs,
                       uint64_t segment_bytes) {
  uint64_t segments = 0;
  for (const ViewLogRun& run : runs) {
    uint64_t bytes = run.appended ? partition.appended_bytes : 0;
    for (const ViewLogSegment& segment : run.old) bytes += segment.object_length;
    segments += run.kept() ? 1 : 1 + bytes / segment_bytes;
  }
  return segments;
}

ViewLogPlan PlanOf(const LogKey& key, const Log& log, uint64_t segment_bytes, size_t fan_in,
                   uint64_t* segments) {
  ViewLogPlan plan;
  plan.log.view = key.first;
  plan.log.generation = key.second;
  plan.log.schema_sha256 = log.schema_sha256;
  plan.log.partitions = log.captured->partitions;
  plan.schema = log.schema;
  for (const auto& [number, partition] : log.partitions) {
    ViewLogPartitionPlan one;
    one.partition = number;
    one.next = partition.next;
    one.appended = partition.appended;
    one.runs = RunsOf(partition, segment_bytes, fan_in);
    *segments += CountSegments(partition, one.runs, segment_bytes);
    plan.partitions.push_back(std::move(one));
  }
  return plan;
}

}  // namespace

Result<std::vector<ViewLogPlan>> PlanViewLogs(const CapturedCut& captured,
                                              const format::CheckpointManifest* base,
                                              const ViewLogPlanOptions& options) {
  std::map<LogKey, Log> logs;
  for (const CapturedViewLog& one : captured.view_logs) {
    CAIRN_RETURN_IF_ERROR(AddCaptured(one, &logs[{one.view, one.generation}]));
  }
  if (base != nullptr) {
    for (const format::ViewLog& saved : base->view_logs) {
      const auto found = logs.find({saved.view, saved.generation});
      if (found != logs.end()) CAIRN_RETURN_IF_ERROR(AddSaved(saved, &found->second));
    }
  }
  for (auto& [key, log] : logs) {
    const std::optional<int64_t> newest = NewestEventTime(log);
    for (auto& [number, partition] : log.partitions) {
      DropOld(log.captured->retention, newest, &partition);
    }
  }
  uint64_t segments = 0;
  for (const size_t fan_in : kFanIns) {
    segments = 0;
    std::vector<ViewLogPlan> plans;
    for (const auto& [key, log] : logs) {
      plans.push_back(PlanOf(key, log, options.segment_bytes, fan_in, &segments));
    }
    if (segments <= options.segment_limit) return plans;
  }
  return Status::ResourceExhausted(
      fmt::format("the logs of {} views have {} segments, more than the {} of one checkpoint: set "
                  "a shorter log_retention or use fewer partitions",
                  logs.size(), segments, options.segment_limit));
}

}  // namespace cairn::checkpoint
