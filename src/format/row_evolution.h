// SPDX-License-Identifier: Apache-2.0
//
// RowEvolution: saved rows of one list of columns as rows of another that only adds to it.
//
// Columns are matched by name. Allowed is what loses nothing and invents nothing:
//  - a new nullable column (its old rows hold null), and another order of columns;
//  - integer to bigint; decimal(p,s) to more digits at the same scale;
//  - NOT NULL to nullable.
// Refused: a column removed, a new NOT NULL column, any other type, nullable to NOT NULL.
//
// Threads: immutable once made; Convert may run in several threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/row_codec.h"

namespace cairn::format {

class RowEvolution {
 public:
  /// Errors:   kInvalidArgument, naming the first column whose change is refused.
  static Result<RowEvolution> Make(std::vector<ColumnSpec> from, std::vector<ColumnSpec> to);

  /// Append the converted row to `out`.
  ///
  /// Errors:   kCorruption as RowCodec::Split.
  Status Convert(std::string_view row, std::string* out) const;

 private:
  struct Target {
    int source = -1;  ///< column of the old row; -1 = new, null
    bool nullable = false;
    bool prefixed = false;  ///< by its length
    bool widened = false;   ///< integer to bigint
  };

  RowCodec from_;
  std::vector<Target> targets_;
};

/// "(auction bigint not null, price bigint)": for messages.
std::string DescribeColumns(const std::vector<ColumnSpec>& columns);

}  // namespace cairn::format
