// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/view_log_reader.h"

#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "checkpoint/view_log_objects.h"

namespace cairn::checkpoint {
namespace {

using format::ViewLogSegment;

bool HasTimes(const ViewLogSegment& segment, const ViewLogRange& range) {
  if (!segment.event_time) return true;  // nothing is known of them
  return (!range.event_time_min || segment.event_time->max >= *range.event_time_min) &&
         (!range.event_time_max || segment.event_time->min <= *range.event_time_max);
}

}  // namespace

Result<std::unique_ptr<ViewLogReader>> ViewLogReader::Open(
    env::ObjectRanges* objects, std::shared_ptr<const format::CheckpointManifest> manifest,
    std::string_view view) {
  std::unique_ptr<ViewLogReader> reader(new ViewLogReader);
  std::string others;
  for (const format::ViewLog& log : manifest->view_logs) {
    if (log.view == view) {
      reader->log_ = &log;  // generations ascend, and so does the time they were drawn
    } else if (others.empty() || !others.ends_with("'" + log.view + "'")) {
      others += (others.empty() ? "; it has those of '" : ", '") + log.view + "'";
    }
  }
  if (reader->log_ == nullptr) {
    return Status::NotFound(fmt::format("checkpoint {} has no log of view '{}'{}",
                                        manifest->checkpoint_id.value, view, others));
  }
  reader->objects_ = objects;
  reader->manifest_ = std::move(manifest);
  return reader;
}

uint64_t ViewLogReader::retained_from(uint32_t partition) const {
  for (const ViewLogSegment& segment : log_->segments) {
    if (segment.partition == partition) return segment.first;
  }
  return 0;
}

uint64_t ViewLogReader::end(uint32_t partition) const {
  uint64_t end = 0;
  for (const ViewLogSegment& segment : log_->segments) {
    if (segment.partition == partition) end = segment.end;
  }
  return end;
}

Result<std::unique_ptr<ViewLogScan>> ViewLogReader::Scan(uint32_t partition,
                                                         const ViewLogRange& range) const {
  if (partition >= partitions()) {
    return Status::InvalidArgument(fmt::format("log of view '{}' has no partition {}, only {}",
                                               log_->view, partition, partitions()));
  }
  const uint64_t oldest = retained_from(partition);
  const uint64_t newest = end(partition);
  std::unique_ptr<ViewLogScan> scan(new ViewLogScan);
  scan->range_ = range;
  scan->range_.first = range.first.value_or(oldest);
  scan->range_.end = range.end.value_or(newest);
  if (*scan->range_.first < oldest) {
    return Status::NotFound(
        fmt::format("log of view '{}', partition {}: rows {} to {} are no longer retained",
                    log_->view, partition, *range.first, oldest - 1));
  }
  if (*scan->range_.first > newest || *scan->range_.end > newest) {
    return Status::InvalidArgument(fmt::format("log of view '{}', partition {}: it ends at {}",
                                               log_->view, partition, newest));
  }
  scan->objects_ = objects_;
  scan->manifest_ = manifest_;
  scan->log_ = log_;
  for (const ViewLogSegment& segment : log_->segments) {
    if (segment.partition != partition) continue;
    ++scan->counts_.segments;
    if (segment.end <= *scan->range_.first || segment.first >= *scan->range_.end) {
      ++scan->counts_.pruned_position;
    } else if (!HasTimes(segment, range)) {
      ++scan->counts_.pruned_event_time;
    } else {
      scan->segments_.push_back(&segment);
    }
  }
  return scan;
}

Status ViewLogScan::OpenSegment() {
  const ViewLogSegment& segment = *segments_[next_segment_++];
  CAIRN_ASSIGN_OR_RETURN(format::DecodedViewLogSegment rows,
                         ReadViewLogSegment(objects_, *log_, segment));
  position_ = segment.first;
  batches_ = std::move(rows.batches);
  next_batch_ = 0;
  return {};
}

Result<std::optional<ViewLogBatch>> ViewLogScan::Next() {
  while (true) {
    if (next_batch_ == batches_.size()) {
      if (next_segment_ == segments_.size()) return std::optional<ViewLogBatch>();
      CAIRN_RETURN_IF_ERROR(OpenSegment());
      continue;
    }
    std::shared_ptr<arrow::RecordBatch> rows = std::move(batches_[next_batch_++]);
    const uint64_t at = position_;
    position_ += static_cast<uint64_t>(rows->num_rows());
    const uint64_t first = std::max(at, *range_.first);
    const uint64_t end = std::min(position_, *range_.end);
    if (first >= end) continue;
    return std::optional(ViewLogBatch{
        first, rows->Slice(static_cast<int64_t>(first - at), static_cast<int64_t>(end - first))});
  }
}

}  // namespace cairn::checkpoint
