// SPDX-License-Identifier: Apache-2.0
#include "connectors/nexmark_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "connectors/block_reader.h"
#include "connectors/column_set.h"
#include "connectors/file_split.h"
#include "connectors/nexmark_generator.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;

constexpr uint64_t kSplits = 32;
constexpr uint64_t kBlockBids = 1024;
constexpr std::string_view kTableName = "bid";

/// With a rate, so much time's bids are made at once.
constexpr uint64_t kBatchesPerSecond = 50;

std::string PositionOf(uint64_t bid) { return "{\"bid\":" + std::to_string(bid) + "}"; }

/// The first bid of a split, where it is when it has no position yet.
uint64_t FirstOf(uint64_t split) { return split * kBlockBids; }

Result<uint64_t> ParsePosition(const SplitProgress& split, uint64_t index) {
  if (split.position.empty()) return FirstOf(index);
  const auto json = nlohmann::json::parse(split.position, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("bid") && json["bid"].is_number_unsigned()) {
    return json["bid"].get<uint64_t>();
  }
  return Status::Corruption("the saved position of split " + split.split +
                            " cannot be read: " + split.position.substr(0, 200));
}

/// The first bid of the split's next block when `bid` is not in one of its blocks any more.
uint64_t InSplit(uint64_t bid, uint64_t split) {
  const uint64_t block = bid / kBlockBids;
  const uint64_t ahead = (split + kSplits - block % kSplits) % kSplits;
  return ahead == 0 ? bid : (block + ahead) * kBlockBids;
}

struct Cursor {
  uint64_t split;
  uint64_t next;  ///< bid
};

class NexmarkReader final : public stream::SourceReader {
 public:
  NexmarkReader(const NexmarkOptions& options, std::shared_ptr<arrow::Schema> schema,
                std::vector<ColumnBuilder> columns, std::vector<NexmarkBids::Column> what,
                std::vector<Cursor> cursors, env::Clock* clock)
      : options_(options),
        bids_(options.seed),
        schema_(std::move(schema)),
        columns_(std::move(columns)),
        what_(std::move(what)),
        cursors_(std::move(cursors)),
        clock_(clock),
        started_ns_(clock->MonotonicNanos()) {
    if (options_.rate == 0) return;
    bids_per_second_ = static_cast<double>(options_.rate) * static_cast<double>(cursors_.size()) /
                       static_cast<double>(kSplits);
    batch_max_ = std::clamp<int64_t>(
        static_cast<int64_t>(bids_per_second_ / static_cast<double>(kBatchesPerSecond)), 1,
        kBatchRows);
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    CAIRN_RETURN_IF_ERROR(
        BeginBatch(&columns_, batch_max_, batch_max_ * NexmarkBids::kTextBytesMax));
    int64_t rows = 0;
    while (rows < batch_max_) {
      Cursor* lowest = nullptr;
      for (Cursor& cursor : cursors_) {
        if (cursor.next < options_.events && (lowest == nullptr || cursor.next < lowest->next)) {
          lowest = &cursor;
        }
      }
      if (lowest == nullptr) break;
      const uint64_t block_end = (lowest->next / kBlockBids + 1) * kBlockBids;
      const int64_t count =
          std::min(static_cast<int64_t>(std::min(block_end, options_.events) - lowest->next),
                   batch_max_ - rows);
      for (size_t c = 0; c < columns_.size(); ++c) {
        bids_.Generate(what_[c], lowest->next, count, rows, &columns_[c]);
      }
      lowest->next = InSplit(lowest->next + static_cast<uint64_t>(count), lowest->split);
      rows += count;
    }
    if (rows == 0) return std::shared_ptr<arrow::RecordBatch>();
    AwaitTurn();
    made_ += static_cast<uint64_t>(rows);
    return FinishBatch(schema_, &columns_, rows);
  }

  std::vector<SplitProgress> Progress() const override {
    std::vector<SplitProgress> progress;
    for (const Cursor& cursor : cursors_) {
      const bool begun = cursor.next != FirstOf(cursor.split);
      progress.push_back({SplitName(kTableName, cursor.split), begun ? PositionOf(cursor.next) : "",
                          cursor.next >= options_.events});
    }
    return progress;
  }

 private:
  /// Wait until the bids made so far are due.
  void AwaitTurn() {
    if (options_.rate == 0) return;
    const double due_ns = static_cast<double>(made_) / bids_per_second_ * 1e9;
    for (;;) {
      const double ahead_ns = due_ns - static_cast<double>(clock_->MonotonicNanos() - started_ns_);
      if (ahead_ns < 1e6) return;
      clock_->SleepMillis(static_cast<int64_t>(ahead_ns / 1e6));
    }
  }

  NexmarkOptions options_;
  NexmarkBids bids_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ColumnBuilder> columns_;
  std::vector<NexmarkBids::Column> what_;
  std::vector<Cursor> cursors_;
  env::Clock* clock_;
  int64_t started_ns_;
  double bids_per_second_ = 0;
  int64_t batch_max_ = kBatchRows;
  uint64_t made_ = 0;
};

class NexmarkSource final : public stream::Source {
 public:
  NexmarkSource(const NexmarkOptions& options, std::shared_ptr<arrow::Schema> schema,
                std::vector<NexmarkBids::Column> what, env::Clock* clock)
      : options_(options), schema_(std::move(schema)), what_(std::move(what)), clock_(clock) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  Result<std::vector<SplitProgress>> Discover(const std::vector<SplitProgress>& saved) override {
    std::vector<SplitProgress> splits = saved;
    std::vector<bool> known(kSplits, false);
    for (SplitProgress& split : splits) {
      CAIRN_ASSIGN_OR_RETURN(const Cursor cursor, Parse(split));
      known[cursor.split] = true;
      split.ended = cursor.next >= options_.events;  // `events` may have grown
    }
    for (uint64_t split = 0; split < kSplits; ++split) {
      if (known[split]) continue;
      splits.push_back({SplitName(kTableName, split), "", FirstOf(split) >= options_.events,
                        /*is_new=*/true});
    }
    return splits;
  }

  Result<std::unique_ptr<stream::SourceReader>> CreateReader(
      std::vector<SplitProgress> splits) override {
    std::vector<Cursor> cursors;
    for (const SplitProgress& split : splits) {
      CAIRN_ASSIGN_OR_RETURN(const Cursor cursor, Parse(split));
      cursors.push_back(cursor);
    }
    CAIRN_ASSIGN_OR_RETURN(auto columns, MakeBuilders(*schema_));
    std::unique_ptr<stream::SourceReader> reader = std::make_unique<NexmarkReader>(
        options_, schema_, std::move(columns), what_, std::move(cursors), clock_);
    return reader;
  }

  std::string Identity() const override { return options_.identity; }

 private:
  static Result<Cursor> Parse(const SplitProgress& split) {
    std::string name;
    Cursor cursor{};
    CAIRN_RETURN_IF_ERROR(ParseSplitName(split.split, &name, &cursor.split));
    CAIRN_ASSIGN_OR_RETURN(cursor.next, ParsePosition(split, cursor.split));
    if (name != kTableName || cursor.split >= kSplits ||
        InSplit(cursor.next, cursor.split) != cursor.next) {
      return Status::Corruption("saved split " + split.split + " at " + split.position +
                                " is none of the nexmark source");
    }
    return cursor;
  }

  NexmarkOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<NexmarkBids::Column> what_;
  env::Clock* clock_;
};

Result<NexmarkBids::Column> GeneratedColumn(const arrow::Field& field) {
  struct Known {
    std::string_view name;
    NexmarkBids::Column column;
    ColumnKind kind;
  };
  using Column = NexmarkBids::Column;
  constexpr Known kKnown[] = {{"auction", Column::kAuction, ColumnKind::kBigint},
                              {"bidder", Column::kBidder, ColumnKind::kBigint},
                              {"price", Column::kPrice, ColumnKind::kBigint},
                              {"channel", Column::kChannel, ColumnKind::kText},
                              {"url", Column::kUrl, ColumnKind::kText},
                              {"date_time", Column::kDateTime, ColumnKind::kTimestamp},
                              {"extra", Column::kExtra, ColumnKind::kText}};
  for (const Known& known : kKnown) {
    if (known.name != field.name()) continue;
    const auto kind = ColumnKindOf(field);
    if (kind.ok() && *kind == known.kind) return known.column;
    return Status::InvalidArgument("nexmark column " + field.name() + " has the type " +
                                   (known.kind == ColumnKind::kBigint ? "BIGINT"
                                    : known.kind == ColumnKind::kText ? "TEXT"
                                                                      : "TIMESTAMP") +
                                   ", not " + stream::SqlTypeName(*field.type()));
  }
  return Status::InvalidArgument("the nexmark table bid has no column " + field.name() +
                                 "; it has auction, bidder, price, channel, url, date_time, extra");
}

}  // namespace

Result<std::unique_ptr<stream::Source>> MakeNexmarkSource(const stream::TableDefinition& table,
                                                          const std::vector<int>& columns,
                                                          const NexmarkOptions& options,
                                                          env::Clock* clock) {
  const std::shared_ptr<arrow::Schema> declared = SchemaOf(table);
  for (const std::shared_ptr<arrow::Field>& field : declared->fields()) {
    CAIRN_RETURN_IF_ERROR(GeneratedColumn(*field).status().WithContext("table " + table.name));
  }
  const std::shared_ptr<arrow::Schema> schema = SchemaOf(table, columns);
  std::vector<NexmarkBids::Column> what;
  for (const std::shared_ptr<arrow::Field>& field : schema->fields()) {
    CAIRN_ASSIGN_OR_RETURN(const NexmarkBids::Column column, GeneratedColumn(*field));
    what.push_back(column);
  }
  std::unique_ptr<stream::Source> source =
      std::make_unique<NexmarkSource>(options, schema, std::move(what), clock);
  return source;
}

}  // namespace cairn::connectors
