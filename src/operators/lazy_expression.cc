// SPDX-License-Identifier: Apache-2.0
#include "operators/lazy_expression.h"

#include <arrow/array/array_base.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/exec.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>

#include <numeric>
#include <string_view>

#include "operators/arrow_status.h"

namespace cairn::operators {
namespace {

using arrow::Datum;
using arrow::compute::Expression;

Result<std::shared_ptr<arrow::Array>> AsArray(const Datum& datum, int64_t rows) {
  if (datum.is_array()) return datum.make_array();
  if (datum.is_scalar()) return FromArrow(arrow::MakeArrayFromScalar(*datum.scalar(), rows));
  return Status::Internal("expression gave " + datum.ToString());
}

bool IsTrue(const arrow::Array& truth, size_t at) {
  const auto& values = static_cast<const arrow::BooleanArray&>(truth);
  return values.IsValid(static_cast<int64_t>(at)) && values.Value(static_cast<int64_t>(at));
}

/// Branches of a conditional: condition i (none for ELSE) and its value.
struct Branch {
  const Expression* condition;
  const Expression* value;
};

/// Return the branches when `call` is CASE in one of Arrow's two forms.
std::vector<Branch> BranchesOf(const Expression::Call& call) {
  std::vector<Branch> branches;
  if (call.function_name == "if_else") {
    branches.push_back({&call.arguments[0], &call.arguments[1]});
    branches.push_back({nullptr, &call.arguments[2]});
    return branches;
  }
  if (call.function_name != "case_when") return branches;
  const Expression::Call* conditions = call.arguments[0].call();
  if (conditions == nullptr || conditions->function_name != "make_struct") return branches;
  for (size_t i = 0; i < conditions->arguments.size(); ++i) {
    branches.push_back({&conditions->arguments[i], &call.arguments[i + 1]});
  }
  if (call.arguments.size() == conditions->arguments.size() + 2) {
    branches.push_back({nullptr, &call.arguments.back()});
  }
  return branches;
}

/// if_else gives null for a null condition; CASE goes on to the next branch.
Result<Datum> EvaluateBranches(const Expression::Call& call, const std::vector<Branch>& branches,
                               const arrow::RecordBatch& batch, const RowSelection& selection) {
  const bool null_is_null = call.function_name == "if_else";
  std::vector<int64_t> positions(selection.size(), -1);  // of each row in `values`
  std::vector<std::shared_ptr<arrow::Array>> values;
  int64_t filled = 0;
  std::vector<size_t> open(selection.size());
  std::iota(open.begin(), open.end(), size_t{0});
  for (const Branch& branch : branches) {
    RowSelection rows;
    for (size_t at : open) rows.push_back(selection[at]);
    std::vector<size_t> taken;
    std::vector<size_t> rest;
    if (branch.condition != nullptr && !rows.empty()) {
      CAIRN_ASSIGN_OR_RETURN(const Datum truth, EvaluateLazily(*branch.condition, batch, rows));
      CAIRN_ASSIGN_OR_RETURN(const auto flags, AsArray(truth, static_cast<int64_t>(rows.size())));
      for (size_t i = 0; i < open.size(); ++i) {
        const bool null = flags->IsNull(static_cast<int64_t>(i));
        if (IsTrue(*flags, i)) {
          taken.push_back(open[i]);
        } else if (!(null && null_is_null)) {
          rest.push_back(open[i]);
        }
      }
    } else {
      taken = std::move(open);
    }
    open = std::move(rest);
    if (taken.empty()) continue;
    rows.clear();
    for (size_t at : taken) {
      rows.push_back(selection[at]);
      positions[at] = filled++;
    }
    CAIRN_ASSIGN_OR_RETURN(const Datum value, EvaluateLazily(*branch.value, batch, rows));
    CAIRN_ASSIGN_OR_RETURN(auto array, AsArray(value, static_cast<int64_t>(rows.size())));
    values.push_back(std::move(array));
  }
  CAIRN_ASSIGN_OR_RETURN(auto null, FromArrow(arrow::MakeArrayOfNull(call.type.GetSharedPtr(), 1)));
  values.push_back(std::move(null));
  for (int64_t& position : positions) {
    if (position < 0) position = filled;
  }
  CAIRN_ASSIGN_OR_RETURN(const auto joined, FromArrow(arrow::Concatenate(values)));
  arrow::Int64Array indices(static_cast<int64_t>(positions.size()), arrow::Buffer::Wrap(positions));
  return FromArrow(arrow::compute::Take(Datum(joined), Datum(indices.data()),
                                        arrow::compute::TakeOptions::NoBoundsCheck()));
}

/// AND and OR decide a row by its left side where they can. `decided` is the truth that ends it.
Result<Datum> EvaluateConnective(const Expression::Call& call, bool decided,
                                 const arrow::RecordBatch& batch, const RowSelection& selection) {
  CAIRN_ASSIGN_OR_RETURN(const Datum left, EvaluateLazily(call.arguments[0], batch, selection));
  const int64_t count = static_cast<int64_t>(selection.size());
  CAIRN_ASSIGN_OR_RETURN(const auto left_values, AsArray(left, count));
  const auto& truth = static_cast<const arrow::BooleanArray&>(*left_values);
  RowSelection rest;
  std::vector<int64_t> positions(selection.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    if (truth.IsValid(i) && truth.Value(i) == decided) continue;
    rest.push_back(selection[static_cast<size_t>(i)]);
    positions[static_cast<size_t>(i)] = static_cast<int64_t>(rest.size());
  }
  if (rest.empty()) return left;
  CAIRN_ASSIGN_OR_RETURN(const Datum right, EvaluateLazily(call.arguments[1], batch, rest));
  CAIRN_ASSIGN_OR_RETURN(const auto right_values,
                         AsArray(right, static_cast<int64_t>(rest.size())));
  // Position 0 stands for rows that the left side decides.
  CAIRN_ASSIGN_OR_RETURN(const auto known,
                         FromArrow(arrow::MakeArrayFromScalar(arrow::BooleanScalar(decided), 1)));
  CAIRN_ASSIGN_OR_RETURN(const auto joined, FromArrow(arrow::Concatenate({known, right_values})));
  arrow::Int64Array indices(count, arrow::Buffer::Wrap(positions));
  CAIRN_ASSIGN_OR_RETURN(const Datum spread, FromArrow(arrow::compute::Take(
                                                 Datum(joined), Datum(indices.data()),
                                                 arrow::compute::TakeOptions::NoBoundsCheck())));
  return FromArrow(arrow::compute::CallFunction(call.function_name, {left, spread}));
}

}  // namespace

Result<Datum> Evaluate(const Expression& expression, const arrow::RecordBatch& batch) {
  return FromArrow(
      arrow::compute::ExecuteScalarExpression(expression, arrow::compute::ExecBatch(batch)));
}

Result<Datum> EvaluateLazily(const Expression& expression, const arrow::RecordBatch& batch,
                             const RowSelection& selection) {
  if (const Datum* literal = expression.literal()) return *literal;
  if (const Expression::Parameter* column = expression.parameter()) {
    CAIRN_ASSIGN_OR_RETURN(auto values, TakeRows(batch.column(column->indices[0]), selection));
    return Datum(std::move(values));
  }
  const Expression::Call& call = *expression.call();
  if (call.function_name == "and_kleene") {
    return EvaluateConnective(call, false, batch, selection);
  }
  if (call.function_name == "or_kleene") return EvaluateConnective(call, true, batch, selection);
  if (const std::vector<Branch> branches = BranchesOf(call); !branches.empty()) {
    return EvaluateBranches(call, branches, batch, selection);
  }
  std::vector<Datum> arguments;
  for (const Expression& argument : call.arguments) {
    CAIRN_ASSIGN_OR_RETURN(Datum value, EvaluateLazily(argument, batch, selection));
    arguments.push_back(std::move(value));
  }
  if (selection.empty()) {
    CAIRN_ASSIGN_OR_RETURN(auto none, FromArrow(arrow::MakeEmptyArray(call.type.GetSharedPtr())));
    return Datum(std::move(none));
  }
  return FromArrow(arrow::compute::CallFunction(call.function_name, arguments, call.options.get()));
}

RowSelection SelectTrue(const Datum& truth, const RowSelection* rows, int64_t batch_rows,
                        bool by_row) {
  RowSelection selected;
  const size_t count = rows != nullptr ? rows->size() : static_cast<size_t>(batch_rows);
  const auto row_at = [rows](size_t i) {
    return rows != nullptr ? (*rows)[i] : static_cast<uint32_t>(i);
  };
  if (truth.is_scalar()) {
    const auto& flag = static_cast<const arrow::BooleanScalar&>(*truth.scalar());
    if (!flag.is_valid || !flag.value) return selected;
    selected.resize(count);
    for (size_t i = 0; i < count; ++i) selected[i] = row_at(i);
    return selected;
  }
  const arrow::ArrayData& data = *truth.array();
  const uint8_t* values = data.buffers[1]->data();
  const uint8_t* validity = data.GetNullCount() > 0 ? data.buffers[0]->data() : nullptr;
  selected.resize(count);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t row = row_at(i);
    const int64_t at = data.offset + static_cast<int64_t>(by_row ? row : i);
    unsigned bit = values[at >> 3] >> (at & 7);
    if (validity != nullptr) bit &= validity[at >> 3] >> (at & 7);
    // Store always and count conditionally: no branch to mispredict.
    selected[kept] = row;
    kept += bit & 1;
  }
  selected.resize(kept);
  return selected;
}

Result<std::shared_ptr<arrow::Array>> TakeRows(const std::shared_ptr<arrow::Array>& array,
                                               const RowSelection& selection) {
  arrow::UInt32Array indices(static_cast<int64_t>(selection.size()),
                             arrow::Buffer::Wrap(selection));
  CAIRN_ASSIGN_OR_RETURN(
      Datum taken, FromArrow(arrow::compute::Take(Datum(array), Datum(indices.data()),
                                                  arrow::compute::TakeOptions::NoBoundsCheck())));
  return taken.make_array();
}

}  // namespace cairn::operators
