// SPDX-License-Identifier: Apache-2.0
#include "engine/select_columns.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>

namespace cairn::engine {
namespace {

class SelectColumns final : public stream::Operator {
 public:
  SelectColumns(std::vector<int> columns, std::shared_ptr<arrow::Schema> output)
      : columns_(std::move(columns)), output_(std::move(output)) {}

  Status Open(const stream::OperatorContext&) override { return {}; }

  Status ProcessBatch(stream::Batch batch, stream::Collector* out) override {
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    arrays.reserve(columns_.size());
    for (int column : columns_) arrays.push_back(batch.rows->column(column));
    batch.rows = arrow::RecordBatch::Make(output_, batch.rows->num_rows(), std::move(arrays));
    return out->Emit(std::move(batch));
  }

 private:
  const std::vector<int> columns_;
  const std::shared_ptr<arrow::Schema> output_;
};

class SelectColumnsFactory final : public stream::OperatorFactory {
 public:
  SelectColumnsFactory(std::vector<int> columns, std::shared_ptr<arrow::Schema> output)
      : columns_(std::move(columns)), output_(std::move(output)) {}

  std::string name() const override { return "columns"; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return output_; }
  bool keyed() const override { return false; }
  bool updating() const override { return false; }
  std::unique_ptr<stream::Operator> Create() const override {
    return std::make_unique<SelectColumns>(columns_, output_);
  }
  std::string Identity() const override { return "{}"; }

 private:
  const std::vector<int> columns_;
  const std::shared_ptr<arrow::Schema> output_;
};

}  // namespace

std::unique_ptr<stream::OperatorFactory> MakeSelectColumns(std::vector<int> columns,
                                                           std::shared_ptr<arrow::Schema> output) {
  return std::make_unique<SelectColumnsFactory>(std::move(columns), std::move(output));
}

}  // namespace cairn::engine
