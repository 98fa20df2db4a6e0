// SPDX-License-Identifier: Apache-2.0
//
// LogJob: a TestJob with a view that keeps a log. Row i that its source delivers to a partition
// says so, and has event time i seconds: exactly once means that row i stands at position i.
//
// Threads: one.
#pragma once

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/inspect.h"
#include "checkpoint/inventory.h"
#include "checkpoint/job_testing.h"
#include "checkpoint/layout.h"
#include "checkpoint/view_log_reader.h"
#include "checkpoint/view_log_writer.h"
#include "env/object_place.h"

namespace cairn::checkpoint::testing {

inline constexpr int64_t kMicrosPerSecond = 1'000'000;

inline std::shared_ptr<arrow::Schema> LogColumns() {
  return arrow::schema({arrow::field("seq", arrow::int64(), false),
                        arrow::field("text", arrow::utf8(), true),
                        arrow::field("at", arrow::timestamp(arrow::TimeUnit::MICRO), true)});
}

/// Rows `first` to `end` of a partition's source.
inline std::shared_ptr<arrow::RecordBatch> LogRows(uint32_t partition, uint64_t first, uint64_t end,
                                                   size_t text_bytes = 0) {
  arrow::Int64Builder seq;
  arrow::StringBuilder text;
  arrow::TimestampBuilder at(arrow::timestamp(arrow::TimeUnit::MICRO),
                             arrow::default_memory_pool());
  for (uint64_t i = first; i < end; ++i) {
    const auto number = static_cast<int64_t>(i);
    std::string words = std::to_string(partition) + "/" + std::to_string(i);
    words.resize(std::max(words.size(), text_bytes), '.');
    EXPECT_TRUE(seq.Append(number).ok() && text.Append(words).ok() &&
                at.Append(number * kMicrosPerSecond).ok());
  }
  return arrow::RecordBatch::Make(LogColumns(), static_cast<int64_t>(end - first),
                                  {*seq.Finish(), *text.Finish(), *at.Finish()});
}

class LogJob {
 public:
  explicit LogJob(uint32_t partitions = 2) : ends_(partitions) {
    spec.view = "orders by day";
    spec.generation = "018f0000-0000-7000-8000-000000000001";
    spec.schema = LogColumns();
    spec.event_time = "at";
    spec.partitions = partitions;
    job.add_to_capture = [this](CapturedCut* captured) {
      captured_ = writer->Capture();
      captured->view_logs.push_back(*captured_);
      ends_of_[job.last_id.value] = ends_;
    };
  }

  /// Open the place; the source goes on where the recovered cut left it.
  Status Start(std::optional<base::CheckpointId> at = std::nullopt) {
    CAIRN_RETURN_IF_ERROR(job.Start(1, at));
    CAIRN_ASSIGN_OR_RETURN(writer, ViewLogWriter::Open(spec));
    ends_.assign(spec.partitions, 0);
    if (job.cut != nullptr) ends_ = ends_of_.at(job.cut->id().value);
    return {};
  }

  /// The source delivers `count` rows more to a partition.
  void Append(uint32_t partition, uint64_t count) {
    const uint64_t first = ends_[partition];
    ends_[partition] += count;
    const Status appended =
        writer->Append(partition, LogRows(partition, first, ends_[partition], text_bytes));
    ASSERT_TRUE(appended.ok()) << appended.ToString();
  }

  Result<PersistedCut> Persist() { return job.Persist(); }
  Status Commit(const PersistedCut& persisted) {
    CAIRN_RETURN_IF_ERROR(job.Commit(persisted));
    writer->Committed(*captured_);
    return {};
  }
  Result<PersistedCut> Checkpoint() {
    CAIRN_ASSIGN_OR_RETURN(const PersistedCut persisted, Persist());
    CAIRN_RETURN_IF_ERROR(Commit(persisted));
    job.retired = job.store->Retire();
    return persisted;
  }

  std::unique_ptr<CutReader> Cut(std::optional<base::CheckpointId> id = std::nullopt) {
    auto cut = CutReader::Open(&job.files, job.directory, id);
    EXPECT_TRUE(cut.ok()) << cut.status().ToString();
    return cut.ok() ? *std::move(cut) : nullptr;
  }

  /// Read all that cut `id` (nothing = the newest) retains of a partition and check that every row
  /// is there once, at its place. Return the positions.
  std::pair<uint64_t, uint64_t> Check(uint32_t partition,
                                      std::optional<base::CheckpointId> id = std::nullopt) {
    const auto cut = Cut(id);
    if (cut == nullptr) return {};
    const auto log = ViewLogReader::Open(cut->objects(), cut->shared_manifest(), spec.view);
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    if (!log.ok()) return {};
    const auto scan = (*log)->Scan(partition, {});
    EXPECT_TRUE(scan.ok()) << scan.status().ToString();
    if (!scan.ok()) return {};
    uint64_t at = (*log)->retained_from(partition);
    const uint64_t from = at;
    while (true) {
      const auto batch = (*scan)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status().ToString();
      if (!batch.ok() || !*batch) break;
      EXPECT_EQ((*batch)->first, at);
      const auto expected = LogRows(
          partition, at, at + static_cast<uint64_t>((*batch)->rows->num_rows()), text_bytes);
      EXPECT_TRUE((*batch)->rows->Equals(*expected)) << "partition " << partition << " at " << at;
      at += static_cast<uint64_t>((*batch)->rows->num_rows());
    }
    EXPECT_EQ(at, (*log)->end(partition));
    return {from, at};
  }

  /// Where the source stood when checkpoint `id` was captured.
  uint64_t EndAt(base::CheckpointId id, uint32_t partition) const {
    return ends_of_.at(id.value)[partition];
  }

  /// The keys of all segments on disk.
  std::set<std::string> SegmentsOnDisk() {
    std::set<std::string> keys;
    for (const auto& [path, bytes] : job.disk().AllFiles()) {
      const std::string key = path.substr(job.directory.size() + 1);
      if (key.starts_with(kViewLogsPrefix)) keys.insert(key);
    }
    return keys;
  }
  /// The keys of all segments that a cut of the head needs.
  std::set<std::string> SegmentsNeeded() {
    std::set<std::string> keys;
    const auto objects = env::OpenObjects(&job.files, job.directory);
    const auto place = OpenPlace(&job.files, job.directory);
    const auto inventory = TakeInventory(objects->get(), *place);
    EXPECT_TRUE(inventory.ok()) << inventory.status().ToString();
    for (const InventoryItem& item : inventory->items) {
      if (item.segment && !item.needed_by.empty()) keys.insert(item.key);
    }
    return keys;
  }

  TestJob job;
  ViewLogSpec spec;
  std::unique_ptr<ViewLogWriter> writer;
  size_t text_bytes = 0;  ///< least of each row's text

 private:
  std::vector<uint64_t> ends_;  // rows delivered to each partition
  std::map<uint64_t, std::vector<uint64_t>> ends_of_;
  std::optional<CapturedViewLog> captured_;
};

}  // namespace cairn::checkpoint::testing
