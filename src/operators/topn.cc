// SPDX-License-Identifier: Apache-2.0
#include "operators/topn.h"

#include <arrow/array/array_base.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/value_state.h"
#include "format/topn_codec.h"
#include "operators/arrow_status.h"
#include "operators/batch_groups.h"
#include "operators/row_assembler.h"
#include "operators/topn_buffer.h"

namespace cairn::operators {
namespace {

using stream::Batch;
using stream::RowKind;

class TopN final : public stream::Operator {
 public:
  explicit TopN(std::shared_ptr<const TopNSpec> spec)
      : spec_(std::move(spec)),
        limit_(static_cast<size_t>(spec_->node.limit)),
        sort_keys_(spec_->sort_keys),
        assembler_(spec_->input, spec_->node.partition) {}

  Status Open(const stream::OperatorContext& context) override;
  std::vector<StateTable*> tables() override { return {&*table_}; }
  Status ProcessBatch(Batch batch, stream::Collector* out) override;

 private:
  /// A row in the list being ranked: one of the partition's old rows or one of the batch.
  struct Candidate {
    SortPrefix prefix;
    uint32_t source;  ///< kOld | index in the old buffer, or row of the batch
    bool is_old() const { return (source & kOld) != 0; }
    uint32_t old_index() const { return source & ~kOld; }
  };
  static constexpr uint32_t kOld = 1U << 31;
  /// A partition that the batch changes.
  struct Changed {
    size_t group;
    const TopNBuffer* old;
    size_t begin;  ///< of its list in `candidates_`
    size_t end;
    TopNBuffer buffer;  ///< new until it is swapped into the table, then the old one
  };

  Status Process(const Batch& batch, stream::Collector* out);
  void RankPartitions();
  void Rank(size_t group, const TopNBuffer* old);
  bool Before(SortPrefix prefix, uint32_t row, const Candidate& other, const TopNBuffer* old);
  std::string_view KeyRestOf(uint32_t row, std::string* key) const;
  Status EncodeNewRows(size_t batch_rows);
  Result<Payload> EncodeRow(uint32_t row);
  void FillBuffer(Changed* partition);
  void Send(RowKind kind, const Candidate& row, const TopNBuffer* old, uint32_t key_row,
            size_t rank);
  void SendChanges(const Changed& partition);
  Status EmitChanges(const Batch& batch, stream::Collector* out);

  const std::shared_ptr<const TopNSpec> spec_;
  const size_t limit_;
  SortKeyEncoder sort_keys_;
  RowAssembler assembler_;
  std::string uid_;
  std::optional<ValueState<Bytes, TopNBuffer, Codec<Bytes>, TopNCodec>> table_;

  // Of the batch at hand; kept for their memory.
  BatchGroups groups_;
  BatchGroups::Buckets buckets_;
  std::optional<format::RowEncoder> encoder_;
  std::vector<Candidate> ranked_;      // of the partition at hand
  std::vector<Candidate> candidates_;  // of all changed partitions
  std::vector<Payload> payloads_;      // of the new ones among them
  std::vector<uint32_t> candidate_of_row_;
  std::string key_;
  std::string other_key_;
  std::string row_;
  std::vector<Changed> changed_;
  std::vector<RowSource> sources_;
  std::shared_ptr<std::vector<RowKind>> kinds_;
  std::vector<int64_t> ranks_;
  bool only_inserts_ = true;
};

Status TopN::Open(const stream::OperatorContext& context) {
  uid_ = context.uid;
  SlotDescriptor slot;
  slot.operator_id = base::OperatorIdOf(context.uid);
  slot.operator_uid = context.uid;
  slot.name = "topn";
  slot.key_codec = "row";
  slot.value_codec = format::kTopNCodecName;
  slot.version = format::kTopNCodecVersion;
  if (!spec_->node.partition.empty()) {
    CAIRN_ASSIGN_OR_RETURN(slot.key_columns,
                           format::ColumnSpecsOf(*spec_->input, spec_->node.partition));
  }
  slot.value_columns = spec_->payload_codec->columns();
  slot.frame_per_group = true;
  slot.ttl = context.state_ttl;
  TableOptions options;
  options.key_groups = context.key_groups;
  options.range = context.range;
  options.slot_hash_seed = context.slot_hash_seed;
  table_.emplace(context.state, std::move(slot), options, Codec<Bytes>{},
                 TopNCodec(spec_->payload_codec, limit_, sort_keys_.fixed_bytes()));
  return {};
}

Status TopN::ProcessBatch(Batch batch, stream::Collector* out) {
  try {
    const Status done = Process(batch, out);
    changed_.clear();
    return done.WithContext("operator " + uid_);
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("operator " + uid_ + ": no memory for a batch of " +
                                     std::to_string(batch.num_rows()) + " rows");
  }
}

Status TopN::Process(const Batch& batch, stream::Collector* out) {
  groups_.Assign(batch);
  if (groups_.rows() == 0) return {};
  groups_.Bucket(batch, &buckets_);
  sort_keys_.Bind(*batch.rows);
  std::vector<std::shared_ptr<arrow::Array>> payload;
  for (int column : spec_->payload_columns) payload.push_back(batch.rows->column(column));
  CAIRN_ASSIGN_OR_RETURN(encoder_,
                         format::RowEncoder::Bind(*spec_->payload_codec, std::move(payload)));
  sources_.clear();
  ranks_.clear();
  kinds_ = std::make_shared<std::vector<RowKind>>();
  only_inserts_ = true;

  RankPartitions();
  CAIRN_RETURN_IF_ERROR(EncodeNewRows(static_cast<size_t>(batch.rows->num_rows())));
  for (Changed& partition : changed_) {
    FillBuffer(&partition);
    SendChanges(partition);
  }
  // Old rows that the output still names live on in the buffers that are swapped out.
  CAIRN_RETURN_IF_ERROR(table_->UpdateBatch(
      changed_.size(), [this](size_t i) { return groups_.groups()[changed_[i].group].key; },
      [this](size_t i) { return groups_.groups()[changed_[i].group].hash; },
      [this](size_t i, TopNBuffer& value, bool) noexcept {
        std::swap(value, changed_[i].buffer);
      }));
  return EmitChanges(batch, out);
}

void TopN::RankPartitions() {
  changed_.clear();
  candidates_.clear();
  table_->FindBatch(
      groups_.groups().size(), [this](size_t i) { return groups_.groups()[i].key; },
      [this](size_t i) { return groups_.groups()[i].hash; },
      [this](size_t group, const TopNBuffer* old) {
        Rank(group, old);
        const bool changed = std::any_of(ranked_.begin(), ranked_.end(),
                                         [](const Candidate& row) { return !row.is_old(); });
        if (!changed) return;
        const size_t begin = candidates_.size();
        candidates_.insert(candidates_.end(), ranked_.begin(), ranked_.end());
        changed_.push_back({group, old, begin, candidates_.size(), {}});
      });
}

/// Make `ranked_` the first `limit` of the partition's old rows and the batch's.
void TopN::Rank(size_t group, const TopNBuffer* old) {
  ranked_.clear();
  if (old != nullptr) {
    for (uint32_t i = 0; i < old->size(); ++i) {
      ranked_.push_back({old->rows()[i].prefix, kOld | i});
    }
  }
  for (uint32_t at = buckets_.starts[group]; at < buckets_.starts[group + 1]; ++at) {
    const uint32_t row = buckets_.rows[at];
    const SortPrefix prefix = sort_keys_.Prefix(row);
    if (ranked_.size() == limit_) {
      if (!Before(prefix, row, ranked_.back(), old)) continue;
      ranked_.pop_back();
    }
    size_t rank = ranked_.size();
    while (rank > 0 && Before(prefix, row, ranked_[rank - 1], old)) --rank;
    ranked_.insert(ranked_.begin() + static_cast<ptrdiff_t>(rank), {prefix, row});
  }
}

/// True when `row` ranks before `other`, which arrived earlier.
bool TopN::Before(SortPrefix prefix, uint32_t row, const Candidate& other, const TopNBuffer* old) {
  if (prefix != other.prefix) [[likely]]
    return prefix < other.prefix;
  if (sort_keys_.prefix_is_key()) return false;
  const std::string_view rest = KeyRestOf(row, &key_);
  return rest < (other.is_old() ? old->rows()[other.old_index()].payload.key_rest()
                                : KeyRestOf(other.source, &other_key_));
}

std::string_view TopN::KeyRestOf(uint32_t row, std::string* key) const {
  key->clear();
  sort_keys_.AppendKey(row, key);
  return key->size() > kSortPrefixBytes ? std::string_view(*key).substr(kSortPrefixBytes)
                                        : std::string_view();
}

/// Encode the rows of the batch that stay, in the order of the batch: its columns are then read
/// front to back, which is half the time of reading them partition by partition.
Status TopN::EncodeNewRows(size_t batch_rows) {
  constexpr uint32_t kNone = UINT32_MAX;
  candidate_of_row_.assign(batch_rows, kNone);
  for (uint32_t i = 0; i < candidates_.size(); ++i) {
    if (!candidates_[i].is_old()) candidate_of_row_[candidates_[i].source] = i;
  }
  payloads_.clear();
  payloads_.resize(candidates_.size());
  for (uint32_t row = 0; row < batch_rows; ++row) {
    const uint32_t candidate = candidate_of_row_[row];
    if (candidate == kNone) continue;
    CAIRN_ASSIGN_OR_RETURN(payloads_[candidate], EncodeRow(row));
  }
  return {};
}

Result<Payload> TopN::EncodeRow(uint32_t row) {
  row_.clear();
  CAIRN_RETURN_IF_ERROR(encoder_->Append(row, &row_));
  size_t key_bytes = sort_keys_.fixed_bytes();
  if (!sort_keys_.prefix_is_key()) {
    key_.clear();
    sort_keys_.AppendKey(row, &key_);
    key_bytes = key_.size();
  }
  return Payload::Make(key_.data(), static_cast<uint32_t>(key_bytes), row_);
}

/// Make the partition's new buffer: old rows are shared.
void TopN::FillBuffer(Changed* partition) {
  partition->buffer.Reserve(partition->end - partition->begin);
  for (size_t i = partition->begin; i < partition->end; ++i) {
    const Candidate& row = candidates_[i];
    if (row.is_old()) {
      partition->buffer.Append(partition->old->rows()[row.old_index()]);
    } else {
      partition->buffer.Append({row.prefix, std::move(payloads_[i])});
    }
  }
}

void TopN::Send(RowKind kind, const Candidate& row, const TopNBuffer* old, uint32_t key_row,
                size_t rank) {
  kinds_->push_back(kind);
  only_inserts_ &= kind == RowKind::kInsert;
  if (row.is_old()) {
    sources_.push_back({old->rows()[row.old_index()].payload.row().data(), key_row});
  } else {
    sources_.push_back({nullptr, row.source});
  }
  if (spec_->node.emit_rank) ranks_.push_back(static_cast<int64_t>(rank) + 1);
}

void TopN::SendChanges(const Changed& partition) {
  const TopNBuffer* old = partition.old;
  const uint32_t key_row = groups_.groups()[partition.group].first_row;
  const size_t old_size = old == nullptr ? 0 : old->size();
  const std::span<const Candidate> ranked =
      std::span(candidates_).subspan(partition.begin, partition.end - partition.begin);
  const auto old_row = [&](size_t i) {
    return Candidate{old->rows()[i].prefix, kOld | static_cast<uint32_t>(i)};
  };
  if (spec_->node.emit_rank) {
    for (size_t rank = 0; rank < ranked.size(); ++rank) {
      if (rank >= old_size) {
        Send(RowKind::kInsert, ranked[rank], old, key_row, rank);
      } else if (!ranked[rank].is_old() || ranked[rank].old_index() != rank) {
        Send(RowKind::kUpdateBefore, old_row(rank), old, key_row, rank);
        Send(RowKind::kUpdateAfter, ranked[rank], old, key_row, rank);
      }
    }
    return;
  }
  // Rows leave from the end only, so those that stay are the first of the old ones.
  const size_t stay = static_cast<size_t>(std::count_if(
      ranked.begin(), ranked.end(), [](const Candidate& row) { return row.is_old(); }));
  for (size_t i = stay; i < old_size; ++i) Send(RowKind::kDelete, old_row(i), old, key_row, i);
  for (size_t rank = 0; rank < ranked.size(); ++rank) {
    if (!ranked[rank].is_old()) Send(RowKind::kInsert, ranked[rank], old, key_row, rank);
  }
}

Status TopN::EmitChanges(const Batch& batch, stream::Collector* out) {
  if (sources_.empty()) return {};
  CAIRN_ASSIGN_OR_RETURN(auto columns, assembler_.Assemble(*batch.rows, sources_));
  if (spec_->node.emit_rank) {
    const int64_t rows = static_cast<int64_t>(ranks_.size());
    columns.push_back(std::make_shared<arrow::Int64Array>(
        rows, arrow::Buffer::FromVector(std::exchange(ranks_, {}))));
  }
  Batch changes;
  changes.rows = arrow::RecordBatch::Make(spec_->node.output, static_cast<int64_t>(sources_.size()),
                                          std::move(columns));
  if (!only_inserts_) changes.kinds = std::move(kinds_);
  return out->Emit(std::move(changes));
}

}  // namespace

Result<std::shared_ptr<const TopNSpec>> MakeTopNSpec(const stream::TopNNode& node,
                                                     std::shared_ptr<arrow::Schema> input,
                                                     bool input_updates) {
  if (input_updates) {
    return Status::InvalidArgument(
        "ROW_NUMBER() over an updating input is not supported: rank the rows before they are "
        "aggregated, or write the aggregate to a table and rank that");
  }
  if (node.limit < 1) {
    return Status::InvalidArgument("ROW_NUMBER() limited to " + std::to_string(node.limit) +
                                   " rows: at least 1 is needed");
  }
  if (node.limit >= int64_t{1} << 31) {
    return Status::InvalidArgument("ROW_NUMBER() limited to " + std::to_string(node.limit) +
                                   " rows: fewer than 2147483648 can be kept");
  }
  std::vector<int> payload_columns;
  for (int column = 0; column < input->num_fields(); ++column) {
    if (std::find(node.partition.begin(), node.partition.end(), column) == node.partition.end()) {
      payload_columns.push_back(column);
    }
  }
  std::vector<format::ColumnSpec> columns;
  if (!payload_columns.empty()) {
    CAIRN_ASSIGN_OR_RETURN(columns, format::ColumnSpecsOf(*input, payload_columns));
  }
  CAIRN_ASSIGN_OR_RETURN(auto codec, format::RowCodec::Make(std::move(columns)));
  CAIRN_ASSIGN_OR_RETURN(auto sort_keys, SortKeyEncoder::Make(*input, node.sort));
  return std::shared_ptr<const TopNSpec>(std::make_shared<TopNSpec>(
      TopNSpec{node, std::move(input), std::move(payload_columns),
               std::make_shared<const format::RowCodec>(std::move(codec)), std::move(sort_keys)}));
}

std::unique_ptr<stream::Operator> MakeTopN(std::shared_ptr<const TopNSpec> spec) {
  return std::make_unique<TopN>(std::move(spec));
}

}  // namespace cairn::operators
