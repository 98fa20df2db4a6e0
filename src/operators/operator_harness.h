// SPDX-License-Identifier: Apache-2.0
//
// For tests: run one operator outside a job, look at what it emits as rows of text, and carry its
// state to another one through saved rows.
#pragma once

#include <arrow/type_fwd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/saved_rows.h"
#include "cairn/state_domain.h"
#include "cairn/status.h"
#include "stream/batch.h"
#include "stream/exchange.h"
#include "stream/operator.h"
#include "stream/plan.h"

namespace cairn::operators {

/// A row as text, nulls as "null".
using TextRow = std::vector<std::string>;

/// A change as text: kind ("+I", …) and row.
using TextChange = std::pair<std::string, TextRow>;

/// Keep everything that is emitted.
class CollectBatches final : public stream::Collector {
 public:
  Status Emit(stream::Batch batch) override {
    batches.push_back(std::move(batch));
    return {};
  }
  std::vector<stream::Batch> batches;
};

/// Saved rows of one table, as a checkpoint would hold them.
class SavedTable final : public SavedRowSink {
 public:
  explicit SavedTable(std::string slot) : slot_(std::move(slot)) {}
  Result<SavedRows*> BeginGroup(uint32_t group) override;
  Status Flush() override { return {}; }
  SavedRowSpan span() const;
  size_t key_prefix_bytes() const { return 1 + slot_.size() + 1; }

 private:
  std::string slot_;
  SavedRows rows_;
};

std::vector<TextRow> RowsOf(const arrow::RecordBatch& batch);
std::vector<TextChange> ChangesOf(const std::vector<stream::Batch>& batches);

/// Rows that are left when all changes are applied, each with how often; none negative.
std::map<TextRow, int> Net(const std::vector<TextChange>& changes);

/// One operator of one subtask that owns all key groups.
class OperatorHarness {
 public:
  OperatorHarness(const stream::PlanNode& node, std::shared_ptr<arrow::Schema> input,
                  bool input_updates = false, TtlConfig ttl = {});
  ~OperatorHarness();

  /// Feed a batch and return what comes out. Keys are added as the exchange adds them.
  Result<std::vector<TextChange>> Feed(stream::Batch batch);
  Result<std::vector<stream::Batch>> FeedRaw(stream::Batch batch);

  /// End the input and return what comes out.
  Result<std::vector<TextChange>> EndInput();

  stream::OperatorFactory& factory() { return *factory_; }
  StateTable& table() { return *operator_->tables().front(); }
  StateDomain& domain() { return *domain_; }
  SavedTable Save();
  Status Load(const SavedTable& saved);

 private:
  std::unique_ptr<stream::OperatorFactory> factory_;
  std::unique_ptr<StateDomain> domain_;
  std::unique_ptr<stream::Operator> operator_;
  std::unique_ptr<stream::KeyPartitioner> partitioner_;
};

/// A batch from JSON: an array of arrays, one value a column.
std::shared_ptr<arrow::RecordBatch> BatchFromJson(const std::shared_ptr<arrow::Schema>& schema,
                                                  const std::string& rows);

}  // namespace cairn::operators
