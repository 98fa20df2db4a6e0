// SPDX-License-Identifier: Apache-2.0
#include "operators/calc.h"

#include <arrow/array/array_base.h>
#include <arrow/array/util.h>
#include <arrow/datum.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <numeric>
#include <utility>

#include "operators/arrow_status.h"
#include "operators/lazy_expression.h"

namespace cairn::operators {
namespace {

using arrow::Datum;
using stream::Batch;
using stream::RowKind;

/// Below this share of the batch, computing and keeping only the selected rows is cheaper.
constexpr int64_t kSparseShare = 4;

bool IsSparse(const Batch& batch) {
  return batch.selection != nullptr && batch.num_rows() * kSparseShare < batch.rows->num_rows();
}

RowSelection AllRows(const Batch& batch) {
  RowSelection rows(static_cast<size_t>(batch.rows->num_rows()));
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

/// Make -D of a -U whose +U was dropped, and +I of a +U whose -U was.
void ResolveHalfPairs(const RowSelection& before, Batch* batch) {
  const RowSelection& after = *batch->selection;
  const std::vector<RowKind>& kinds = *batch->kinds;
  std::shared_ptr<std::vector<RowKind>> changed;
  const auto change = [&](uint32_t row, RowKind kind) {
    if (changed == nullptr) changed = std::make_shared<std::vector<RowKind>>(kinds);
    (*changed)[row] = kind;
  };
  size_t kept = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const bool passes = kept < after.size() && after[kept] == before[i];
    const bool pair = i + 1 < before.size() && kinds[before[i]] == RowKind::kUpdateBefore &&
                      kinds[before[i + 1]] == RowKind::kUpdateAfter;
    if (!pair) {
      kept += passes ? 1 : 0;
      continue;
    }
    kept += passes ? 1 : 0;
    const bool after_passes = kept < after.size() && after[kept] == before[i + 1];
    kept += after_passes ? 1 : 0;
    if (passes && !after_passes) change(before[i], RowKind::kDelete);
    if (!passes && after_passes) change(before[i + 1], RowKind::kInsert);
    ++i;
  }
  if (changed != nullptr) batch->kinds = std::move(changed);
}

std::shared_ptr<const std::vector<RowKind>> TakeKinds(const Batch& batch,
                                                      const RowSelection& rows) {
  if (batch.kinds == nullptr) return nullptr;
  auto kinds = std::make_shared<std::vector<RowKind>>();
  kinds->reserve(rows.size());
  for (uint32_t row : rows) kinds->push_back((*batch.kinds)[row]);
  return kinds;
}

Result<std::shared_ptr<arrow::Array>> ColumnFrom(const Datum& value, int64_t rows) {
  if (value.is_array()) return value.make_array();
  if (value.is_scalar()) return FromArrow(arrow::MakeArrayFromScalar(*value.scalar(), rows));
  return Status::Internal("expression gave " + value.ToString());
}

constexpr size_t kRowTextMost = 400;

/// "auction = 7, price = null", cut where it grows long.
std::string RowText(const arrow::RecordBatch& rows, uint32_t row) {
  std::string text;
  for (int i = 0; i < rows.num_columns() && text.size() < kRowTextMost; ++i) {
    const auto value = rows.column(i)->GetScalar(row);
    if (!text.empty()) text += ", ";
    text += rows.column_name(i) + " = " + (value.ok() ? (*value)->ToString() : "?");
  }
  if (text.size() > kRowTextMost) text.replace(kRowTextMost, std::string::npos, "...");
  return text;
}

}  // namespace

Calc::Calc(std::shared_ptr<const stream::CalcNode> node) : node_(std::move(node)) {
  for (const auto& projection : node_->projections) computes_ |= projection.call() != nullptr;
}

Status Calc::Open(const stream::OperatorContext& context) {
  uid_ = context.uid;
  return {};
}

Status Calc::ProcessBatch(Batch batch, stream::Collector* out) {
  const Batch input = batch;
  if (Status status = Compute(&batch); !status.ok())
    return WithFailingRow(input, std::move(status));
  if (batch.num_rows() == 0) return {};
  return out->Emit(std::move(batch));
}

Status Calc::Compute(Batch* batch) const {
  if (node_->filter.has_value()) {
    CAIRN_RETURN_IF_ERROR(Filter(batch).WithContext("operator " + uid_ + ": WHERE"));
  }
  if (batch->num_rows() == 0 || node_->projections.empty()) return {};
  return Project(batch).WithContext("operator " + uid_);
}

/// Kernels fail for a batch as a whole: halve the rows until the first one that fails is found.
Status Calc::WithFailingRow(const Batch& batch, Status failure) const {
  if (failure.code() != StatusCode::kInvalidArgument) return failure;
  const RowSelection rows = batch.selection != nullptr ? *batch.selection : AllRows(batch);
  const auto prefix_fails = [&](size_t count) {
    Batch prefix = batch;
    prefix.selection = std::make_shared<RowSelection>(rows.begin(), rows.begin() + count);
    return Compute(&prefix).code() == StatusCode::kInvalidArgument;
  };
  size_t passes = 0;
  size_t fails = rows.size();
  while (fails - passes > 1) {
    const size_t middle = passes + (fails - passes) / 2;
    (prefix_fails(middle) ? fails : passes) = middle;
  }
  return Status(failure.code(),
                std::string(failure.message()) + "; row: " + RowText(*batch.rows, rows[passes]));
}

Status Calc::Filter(Batch* batch) const {
  std::shared_ptr<const RowSelection> before = batch->selection;
  std::shared_ptr<RowSelection> after;
  Result<Datum> truth = Evaluate(*node_->filter, *batch->rows);
  if (truth.ok()) {
    if (truth->is_scalar()) {
      const auto& flag = static_cast<const arrow::BooleanScalar&>(*truth->scalar());
      if (flag.is_valid && flag.value) return {};
    }
    after = std::make_shared<RowSelection>(
        SelectTrue(*truth, before.get(), batch->rows->num_rows(), true));
  } else if (truth.status().code() == StatusCode::kInvalidArgument) {
    if (before == nullptr) before = std::make_shared<RowSelection>(AllRows(*batch));
    CAIRN_ASSIGN_OR_RETURN(const Datum lazy, EvaluateLazily(*node_->filter, *batch->rows, *before));
    after = std::make_shared<RowSelection>(
        SelectTrue(lazy, before.get(), batch->rows->num_rows(), false));
  } else {
    return std::move(truth).status();
  }
  if (before == nullptr && static_cast<int64_t>(after->size()) == batch->rows->num_rows()) {
    return {};
  }
  batch->selection = std::move(after);
  if (batch->kinds != nullptr) {
    ResolveHalfPairs(before != nullptr ? *before : AllRows(*batch), batch);
  }
  return {};
}

Status Calc::Project(Batch* batch) const {
  bool failed = computes_ && IsSparse(*batch);
  if (!failed) CAIRN_RETURN_IF_ERROR(ProjectWhole(batch, &failed));
  if (failed) CAIRN_RETURN_IF_ERROR(ProjectSelected(batch));
  batch->keys = nullptr;  // they named rows by the input's columns
  return {};
}

Status Calc::ProjectWhole(Batch* batch, bool* failed) const {
  const int64_t rows = batch->rows->num_rows();
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& projection : node_->projections) {
    if (const auto* column = projection.parameter()) {
      columns.push_back(batch->rows->column(column->indices[0]));
      continue;
    }
    Result<Datum> value = Evaluate(projection, *batch->rows);
    if (!value.ok() && value.status().code() == StatusCode::kInvalidArgument) {
      *failed = true;
      return {};
    }
    if (!value.ok()) return std::move(value).status();
    CAIRN_ASSIGN_OR_RETURN(auto column, ColumnFrom(*value, rows));
    columns.push_back(std::move(column));
  }
  batch->rows = arrow::RecordBatch::Make(node_->output, rows, std::move(columns));
  return {};
}

Status Calc::ProjectSelected(Batch* batch) const {
  std::shared_ptr<const RowSelection> selection = batch->selection;
  if (selection == nullptr) selection = std::make_shared<RowSelection>(AllRows(*batch));
  const int64_t rows = static_cast<int64_t>(selection->size());
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (size_t i = 0; i < node_->projections.size(); ++i) {
    Result<Datum> value = EvaluateLazily(node_->projections[i], *batch->rows, *selection);
    if (!value.ok()) {
      return value.status().WithContext("column '" +
                                        node_->output->field(static_cast<int>(i))->name() + "'");
    }
    CAIRN_ASSIGN_OR_RETURN(auto column, ColumnFrom(*value, rows));
    columns.push_back(std::move(column));
  }
  batch->kinds = TakeKinds(*batch, *selection);
  batch->rows = arrow::RecordBatch::Make(node_->output, rows, std::move(columns));
  batch->selection = nullptr;
  return {};
}

}  // namespace cairn::operators
