// SPDX-License-Identifier: Apache-2.0
//
// RowAssembler: build an output batch whose rows come partly from the input batch and partly from
// rows encoded earlier (row codec), column by column.
//
// Threads: one.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "operators/lazy_expression.h"

namespace cairn::operators {

/// Where a row comes from.
struct RowSource {
  /// Encoded row; null = row `row` of the input batch.
  const char* encoded;
  /// Of the input batch. With `encoded` set: a row that has the same key columns.
  uint32_t row;
};

/// Shape:    an encoded row holds the columns of `input` other than the key columns, in order. It
///           is trusted: what comes from a file was checked when it was loaded.
class RowAssembler {
 public:
  RowAssembler(std::shared_ptr<arrow::Schema> input, const std::vector<int>& key_columns);

  /// The columns of `sources`, in the order of the input schema.
  ///
  /// Errors:   kResourceExhausted when a text column would pass 2 GiB.
  /// Cost:     about 3 ns a fixed-width value; a text is copied once.
  Result<std::vector<std::shared_ptr<arrow::Array>>> Assemble(
      const arrow::RecordBatch& batch, const std::vector<RowSource>& sources);

 private:
  Result<std::shared_ptr<arrow::Array>> Mixed(const arrow::Field& field,
                                              const std::shared_ptr<arrow::Array>& column,
                                              const std::vector<RowSource>& sources);
  template <size_t kWidth>
  Result<std::shared_ptr<arrow::Array>> MixedFixed(const arrow::Field& field,
                                                   const arrow::ArrayData& column,
                                                   const std::vector<RowSource>& sources);
  Result<std::shared_ptr<arrow::Array>> MixedBool(const arrow::Field& field,
                                                  const arrow::ArrayData& column,
                                                  const std::vector<RowSource>& sources);
  Result<std::shared_ptr<arrow::Array>> MixedText(const arrow::Field& field,
                                                  const arrow::ArrayData& column,
                                                  const std::vector<RowSource>& sources);

  std::shared_ptr<arrow::Schema> input_;
  std::vector<bool> is_key_;
  RowSelection rows_;
  std::vector<const char*> cursors_;  // next column of each encoded row
  std::vector<std::string_view> texts_;
};

/// Copy rows of a key column. A DOUBLE takes the form in which keys are compared, so that all
/// output of one key shows one value.
Result<std::shared_ptr<arrow::Array>> TakeKeyRows(const std::shared_ptr<arrow::Array>& column,
                                                  const RowSelection& rows);

}  // namespace cairn::operators
