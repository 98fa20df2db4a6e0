// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/view_log_objects.h"

#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "format/arrow_status.h"

namespace cairn::checkpoint {
namespace {

using format::ViewLogSegment;

/// The objects of an attempt. Threads: any.
class SegmentObjects {
 public:
  SegmentObjects(env::ObjectStore* objects, std::vector<std::string>* created)
      : objects_(objects), created_(created) {}

  env::ObjectStore* objects() const { return objects_; }

  Status Create(const std::string& key, std::string_view bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      created_->push_back(key);  // before: a call that fails may have done it
    }
    return CreateRecord(objects_, key, bytes);
  }

 private:
  env::ObjectStore* objects_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string>* created_;
};

/// Writes the segments of one run: ends one when it is large enough.
class RunWriter {
 public:
  RunWriter(const ViewLogPlan& plan, uint32_t partition, uint64_t first, base::CheckpointId origin,
            uint64_t segment_bytes, SegmentObjects* objects)
      : plan_(plan),
        partition_(partition),
        next_(first),
        origin_(origin),
        segment_bytes_(segment_bytes),
        objects_(objects) {}

  /// Append rows, in pieces of no more than a segment.
  Status Append(const std::shared_ptr<arrow::RecordBatch>& batch) {
    const int64_t rows = batch->num_rows();
    if (rows == 0) return {};
    const arrow::Result<int64_t> bytes = arrow::util::ReferencedBufferSize(*batch);
    const auto row_bytes = std::max<uint64_t>(
        (bytes.ok() ? static_cast<uint64_t>(*bytes) : 0) / static_cast<uint64_t>(rows), 1);
    const auto piece = static_cast<int64_t>(std::max<uint64_t>(segment_bytes_ / row_bytes, 1));
    for (int64_t at = 0; at < rows; at += piece) {
      if (encoder_ == nullptr) CAIRN_RETURN_IF_ERROR(Begin());
      CAIRN_RETURN_IF_ERROR(encoder_->Append(*batch->Slice(at, std::min(piece, rows - at))));
      if (encoder_->bytes() >= segment_bytes_) CAIRN_RETURN_IF_ERROR(End());
    }
    return {};
  }

  Status Finish() { return encoder_ == nullptr ? Status() : End(); }

  std::vector<ViewLogSegment>& written() { return written_; }

 private:
  Status Begin() {
    CAIRN_ASSIGN_OR_RETURN(
        encoder_, format::ViewLogSegmentEncoder::Open(
                      plan_.schema, {plan_.log.view, plan_.log.generation, partition_, next_}));
    return {};
  }

  Status End() {
    CAIRN_ASSIGN_OR_RETURN(const format::EncodedViewLogSegment encoded, encoder_->Finish());
    encoder_.reset();
    ViewLogSegment segment;
    segment.partition = partition_;
    segment.origin = origin_;
    segment.first = next_;
    segment.end = next_ + encoded.rows;
    segment.object_length = encoded.view().size();
    segment.sha256 = encoded.sha256;
    segment.event_time = encoded.event_time;
    CAIRN_RETURN_IF_ERROR(objects_->Create(ViewLogSegmentKey(plan_.log, segment), encoded.view()));
    next_ = segment.end;
    written_.push_back(segment);
    return {};
  }

  const ViewLogPlan& plan_;
  const uint32_t partition_;
  uint64_t next_;
  const base::CheckpointId origin_;
  const uint64_t segment_bytes_;
  SegmentObjects* objects_;
  std::unique_ptr<format::ViewLogSegmentEncoder> encoder_;
  std::vector<ViewLogSegment> written_;
};

/// One partition of one log, and what became of it.
struct PartitionTask {
  const ViewLogPlan* plan = nullptr;
  const ViewLogPartitionPlan* partition = nullptr;
  Status status;
  std::vector<ViewLogSegment> segments;
  std::vector<std::string> problems;
};

class PartitionWriter {
 public:
  PartitionWriter(PartitionTask* task, base::CheckpointId origin, uint64_t segment_bytes,
                  SegmentObjects* objects)
      : task_(task), origin_(origin), segment_bytes_(segment_bytes), objects_(objects) {}

  Status Run() {
    for (const ViewLogRun& run : task_->partition->runs) {
      if (run.kept()) {
        task_->segments.push_back(run.old.front());
      } else {
        CAIRN_RETURN_IF_ERROR(Write(run));
      }
    }
    return {};
  }

 private:
  RunWriter WriterFrom(uint64_t first) const {
    return RunWriter(*task_->plan, task_->partition->partition, first, origin_, segment_bytes_,
                     objects_);
  }

  Status Write(const ViewLogRun& run) {
    if (!run.old.empty()) {
      Result<std::vector<ViewLogSegment>> merged = Merge(run);
      if (merged.ok()) {
        task_->segments.insert(task_->segments.end(), merged->begin(), merged->end());
        return {};
      }
      // A segment that cannot be read is no reason to lose the rows of today: it stays as it is.
      if (merged.status().code() != StatusCode::kCorruption) return merged.status();
      task_->problems.emplace_back(merged.status().message());
      task_->segments.insert(task_->segments.end(), run.old.begin(), run.old.end());
    }
    if (!run.appended) return {};
    RunWriter writer = WriterFrom(task_->partition->next);
    CAIRN_RETURN_IF_ERROR(AppendRows(&writer));
    task_->segments.insert(task_->segments.end(), writer.written().begin(), writer.written().end());
    return {};
  }

  Result<std::vector<ViewLogSegment>> Merge(const ViewLogRun& run) {
    RunWriter writer = WriterFrom(run.old.front().first);
    for (const ViewLogSegment& segment : run.old) {
      CAIRN_ASSIGN_OR_RETURN(const format::DecodedViewLogSegment rows,
                             ReadViewLogSegment(objects_->objects(), task_->plan->log, segment));
      for (const auto& batch : rows.batches) CAIRN_RETURN_IF_ERROR(writer.Append(batch));
    }
    if (run.appended) {
      CAIRN_RETURN_IF_ERROR(AppendRows(&writer));
    } else {
      CAIRN_RETURN_IF_ERROR(writer.Finish());
    }
    return std::move(writer.written());
  }

  Status AppendRows(RunWriter* writer) const {
    for (const auto& batch : task_->partition->appended) {
      CAIRN_RETURN_IF_ERROR(writer->Append(batch));
    }
    return writer->Finish();
  }

  PartitionTask* task_;
  const base::CheckpointId origin_;
  const uint64_t segment_bytes_;
  SegmentObjects* objects_;
};

}  // namespace

Result<WrittenViewLogs> WriteViewLogs(env::ObjectStore* objects,
                                      const std::vector<ViewLogPlan>& plans,
                                      const ViewLogPlanOptions& options, base::CheckpointId origin,
                                      Executor* executor, std::vector<std::string>* created) {
  std::vector<PartitionTask> tasks;
  for (const ViewLogPlan& plan : plans) {
    for (const ViewLogPartitionPlan& partition : plan.partitions) {
      tasks.push_back({&plan, &partition, {}, {}, {}});
    }
  }
  SegmentObjects created_objects(objects, created);
  executor->Run(tasks.size(), [&](size_t i) {
    PartitionWriter writer(&tasks[i], origin, options.segment_bytes, &created_objects);
    tasks[i].status = writer.Run();
  });
  WrittenViewLogs written;
  for (const ViewLogPlan& plan : plans) written.logs.push_back(plan.log);
  for (const PartitionTask& task : tasks) {
    const std::string context = fmt::format("log of view '{}'", task.plan->log.view);
    CAIRN_RETURN_IF_ERROR(task.status.WithContext(context));
    format::ViewLog& log = written.logs[static_cast<size_t>(task.plan - plans.data())];
    for (const ViewLogSegment& segment : task.segments) {
      log.segments.push_back(segment);
      if (segment.origin != origin) continue;
      ++written.segments_new;
      written.bytes_new += segment.object_length;
    }
    for (const auto& batch : task.partition->appended) {
      written.rows_new += static_cast<uint64_t>(batch->num_rows());
    }
    for (const std::string& problem : task.problems) {
      written.problems.push_back(context + ": " + problem);
    }
  }
  return written;
}

Result<format::DecodedViewLogSegment> ReadViewLogSegment(env::ObjectRanges* objects,
                                                         const format::ViewLog& log,
                                                         const format::ViewLogSegment& segment) {
  const std::string key = ViewLogSegmentKey(log, segment);
  CAIRN_ASSIGN_OR_RETURN_ARROW(std::unique_ptr<arrow::Buffer> bytes,
                               arrow::AllocateBuffer(static_cast<int64_t>(segment.object_length)));
  Status read = objects->ReadRange(
      key, 0, {reinterpret_cast<char*>(bytes->mutable_data()), static_cast<size_t>(bytes->size())});
  if (read.code() == StatusCode::kNotFound) read = Status::Corruption("it is missing");
  if (!read.ok()) return read.WithContext("segment " + key);
  Result<format::DecodedViewLogSegment> rows =
      format::OpenViewLogSegment(std::move(bytes), log, segment);
  if (!rows.ok()) return rows.status().WithContext("segment " + key);
  return rows;
}

}  // namespace cairn::checkpoint
