// SPDX-License-Identifier: Apache-2.0
//
// Bodies of operator_harness.h; the name keeps them out of the library.
#include "operators/operator_harness.h"

#include <arrow/array/array_base.h>
#include <arrow/array/array_nested.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include "operators/operator_factory.h"

namespace cairn::operators {

Result<SavedRows*> SavedTable::BeginGroup(uint32_t group) {
  rows_.SetKeyPrefix(std::string(1, static_cast<char>(group)) + slot_ + "|");
  return &rows_;
}

SavedRowSpan SavedTable::span() const {
  SavedRowSpan span;
  span.kinds = reinterpret_cast<const uint8_t*>(rows_.kinds().data());
  span.key_offsets = reinterpret_cast<const int32_t*>(rows_.key_offsets().data());
  span.key_data = rows_.key_data().data();
  span.value_offsets = reinterpret_cast<const int32_t*>(rows_.value_offsets().data());
  span.value_data = rows_.value_data().data();
  span.rows = rows_.rows();
  return span;
}

std::vector<TextRow> RowsOf(const arrow::RecordBatch& batch) {
  std::vector<TextRow> rows(static_cast<size_t>(batch.num_rows()));
  for (const auto& column : batch.columns()) {
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      rows[static_cast<size_t>(i)].push_back(column->GetScalar(i).ValueOrDie()->ToString());
    }
  }
  return rows;
}

std::vector<TextChange> ChangesOf(const std::vector<stream::Batch>& batches) {
  std::vector<TextChange> changes;
  for (const stream::Batch& batch : batches) {
    EXPECT_TRUE(batch.rows->ValidateFull().ok()) << batch.rows->ValidateFull().ToString();
    const std::vector<TextRow> rows = RowsOf(*batch.rows);
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const int64_t row = batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i;
      changes.emplace_back(stream::RowKindText(batch.kind(row)), rows[static_cast<size_t>(row)]);
    }
  }
  return changes;
}

std::map<TextRow, int> Net(const std::vector<TextChange>& changes) {
  std::map<TextRow, int> rows;
  for (const auto& [kind, row] : changes) {
    int& count = rows[row];
    count += kind[0] == '+' ? 1 : -1;
    EXPECT_GE(count, 0) << "a row was taken away that was not there";
    if (count == 0) rows.erase(row);
  }
  return rows;
}

OperatorHarness::OperatorHarness(const stream::PlanNode& node, std::shared_ptr<arrow::Schema> input,
                                 bool input_updates, TtlConfig ttl) {
  auto factory = MakeOperator(node, input, input_updates);
  EXPECT_TRUE(factory.ok()) << factory.status().ToString();
  factory_ = *std::move(factory);
  domain_ = StateDomain::Create({});
  operator_ = factory_->Create();
  stream::OperatorContext context;
  context.state_ttl = ttl;
  context.uid = "sink/" + factory_->name() + "/0";
  context.range = {0, kDefaultKeyGroups};
  context.state = domain_.get();
  const Status opened = operator_->Open(context);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  if (!factory_->keyed()) return;
  stream::ExchangeSpec exchange;
  exchange.schema = input;
  if (const auto* group = std::get_if<stream::GroupAggregateNode>(&node)) {
    exchange.key_columns = group->keys;
  } else if (const auto* top = std::get_if<stream::TopNNode>(&node)) {
    exchange.key_columns = top->partition;
  }
  auto partitioner = stream::KeyPartitioner::Make(exchange, 1, kDefaultKeyGroups);
  EXPECT_TRUE(partitioner.ok()) << partitioner.status().ToString();
  partitioner_ = std::make_unique<stream::KeyPartitioner>(*std::move(partitioner));
}

OperatorHarness::~OperatorHarness() { operator_.reset(); }

Result<std::vector<stream::Batch>> OperatorHarness::FeedRaw(stream::Batch batch) {
  if (partitioner_ != nullptr) CAIRN_RETURN_IF_ERROR(partitioner_->EncodeKeys(&batch));
  CollectBatches out;
  CAIRN_RETURN_IF_ERROR(operator_->ProcessBatch(std::move(batch), &out));
  return std::move(out.batches);
}

Result<std::vector<TextChange>> OperatorHarness::Feed(stream::Batch batch) {
  CAIRN_ASSIGN_OR_RETURN(const auto batches, FeedRaw(std::move(batch)));
  return ChangesOf(batches);
}

Result<std::vector<TextChange>> OperatorHarness::EndInput() {
  CollectBatches out;
  CAIRN_RETURN_IF_ERROR(operator_->EndInput(&out));
  return ChangesOf(out.batches);
}

SavedTable OperatorHarness::Save() {
  SavedTable saved(table().descriptor().name);
  const View view = domain_->Capture();
  const Status encoded = table().EncodeBase(view, table().key_groups(), &saved);
  EXPECT_TRUE(encoded.ok()) << encoded.ToString();
  return saved;
}

Status OperatorHarness::Load(const SavedTable& saved) {
  LoadCounts counts;
  const SavedRowSpan rows = saved.span();
  CAIRN_RETURN_IF_ERROR(table().Load(rows, 1, saved.key_prefix_bytes(), &counts));
  EXPECT_EQ(counts.rows, rows.rows);
  return {};
}

std::shared_ptr<arrow::RecordBatch> BatchFromJson(const std::shared_ptr<arrow::Schema>& schema,
                                                  const std::string& rows) {
  const auto array =
      arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), rows).ValueOrDie();
  const auto& structs = static_cast<const arrow::StructArray&>(*array);
  return arrow::RecordBatch::Make(schema, structs.length(), structs.fields());
}

}  // namespace cairn::operators
