// SPDX-License-Identifier: Apache-2.0
#include "sql/kernels.h"

#include <arrow/array/array_base.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/function.h>
#include <arrow/compute/initialize.h>
#include <arrow/compute/kernel.h>
#include <arrow/compute/registry.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::sql {
namespace {

namespace compute = arrow::compute;

compute::ScalarKernel MakeKernel(std::vector<compute::InputType> inputs, compute::OutputType output,
                                 compute::ArrayKernelExec exec) {
  compute::ScalarKernel kernel(std::move(inputs), std::move(output), exec);
  kernel.null_handling = compute::NullHandling::COMPUTED_NO_PREALLOCATE;
  kernel.mem_allocation = compute::MemAllocation::NO_PREALLOCATE;
  return kernel;
}

arrow::Result<std::shared_ptr<arrow::ArrayData>> ToArrayData(const compute::ExecValue& value,
                                                             int64_t length) {
  if (value.is_array()) return value.array.ToArrayData();
  ARROW_ASSIGN_OR_RAISE(auto array, arrow::MakeArrayFromScalar(*value.scalar, length));
  return array->data();
}

arrow::Status RequireNotNull(compute::KernelContext*, const compute::ExecSpan& input,
                             compute::ExecResult* out) {
  ARROW_ASSIGN_OR_RAISE(auto values, ToArrayData(input[0], input.length));
  if (values->GetNullCount() > 0) {
    std::string column = "a column";
    if (input[1].is_scalar()) {
      column = "column \"" + input[1].scalar->ToString() + "\"";
    } else if (input[1].array.length > 0) {
      const auto names = arrow::MakeArray(input[1].array.ToArrayData());
      ARROW_ASSIGN_OR_RAISE(auto name, names->GetScalar(0));
      column = "column \"" + name->ToString() + "\"";
    }
    return arrow::Status::Invalid(column, " is declared NOT NULL, but a row has NULL for it");
  }
  out->value = std::move(values);
  return arrow::Status::OK();
}

std::string PlainDecimal(const arrow::Decimal128& value, int32_t scale) {
  std::string digits = value.ToIntegerString();
  if (scale <= 0) return digits;
  const bool negative = digits.front() == '-';
  if (negative) digits.erase(0, 1);
  const auto places = static_cast<size_t>(scale);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  digits.insert(digits.size() - places, 1, '.');
  return negative ? "-" + digits : digits;
}

arrow::Status DecimalToText(compute::KernelContext* context, const compute::ExecSpan& input,
                            compute::ExecResult* out) {
  ARROW_ASSIGN_OR_RAISE(auto values, ToArrayData(input[0], input.length));
  const int32_t scale = static_cast<const arrow::DecimalType&>(*values->type).scale();
  const auto* raw = values->GetValues<uint8_t>(1, values->offset * 16);
  arrow::StringBuilder builder(context->memory_pool());
  ARROW_RETURN_NOT_OK(builder.Reserve(input.length));
  for (int64_t row = 0; row < input.length; ++row) {
    if (values->IsNull(row)) {
      ARROW_RETURN_NOT_OK(builder.AppendNull());
    } else {
      ARROW_RETURN_NOT_OK(builder.Append(PlainDecimal(arrow::Decimal128(raw + row * 16), scale)));
    }
  }
  std::shared_ptr<arrow::Array> array;
  ARROW_RETURN_NOT_OK(builder.Finish(&array));
  out->value = array->data();
  return arrow::Status::OK();
}

arrow::Status Register() {
  ARROW_RETURN_NOT_OK(compute::Initialize());
  compute::FunctionRegistry* registry = compute::GetFunctionRegistry();

  auto require = std::make_shared<compute::ScalarFunction>(
      kRequireNotNull, compute::Arity::Binary(),
      compute::FunctionDoc{
          "Fail on NULL", "Return the values; fail when one is NULL.", {"values", "column"}});
  ARROW_RETURN_NOT_OK(require->AddKernel(MakeKernel(
      {compute::InputType(), compute::InputType(arrow::utf8())},
      compute::OutputType([](compute::KernelContext*, const std::vector<arrow::TypeHolder>& types)
                              -> arrow::Result<arrow::TypeHolder> { return types[0]; }),
      RequireNotNull)));
  ARROW_RETURN_NOT_OK(registry->AddFunction(std::move(require), /*allow_overwrite=*/true));

  auto to_text = std::make_shared<compute::ScalarFunction>(
      kDecimalToText, compute::Arity::Unary(),
      compute::FunctionDoc{"Print decimals", "Print decimals without an exponent.", {"values"}});
  ARROW_RETURN_NOT_OK(
      to_text->AddKernel(MakeKernel({compute::InputType(arrow::Type::DECIMAL128)},
                                    compute::OutputType(arrow::utf8()), DecimalToText)));
  return registry->AddFunction(std::move(to_text), /*allow_overwrite=*/true);
}

}  // namespace

Status RegisterKernels() {
  static const Status registered = [] {
    if (const arrow::Status status = Register(); !status.ok()) {
      return Status::Internal("cannot set up Arrow's compute functions: " + status.ToString());
    }
    if (!compute::GetFunctionRegistry()->GetFunction("remainder").ok()) {
      return Status::UnsupportedFormat(
          "this Arrow library has no \"remainder\" function: build with a newer Arrow");
    }
    return Status();
  }();
  return registered;
}

}  // namespace cairn::sql
