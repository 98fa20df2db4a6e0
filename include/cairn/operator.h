// SPDX-License-Identifier: Apache-2.0
//
// Custom operators: your own code, with state, inside a job of `cairn run`. A program that links
// Cairn registers its operators by name and then is the cairn command:
//
//   class Sessions : public cairn::Operator { … };
//   int main(int argc, char** argv) {
//     cairn::RegisterOperator("sessions", [] { return std::make_unique<Sessions>(); });
//     return cairn::RunCommand(argc, argv);          // ./mycairn run job.sql
//   }
//
// A job's text reads the operator's output as a table (docs/embedding.md):
//
//   CREATE TABLE sessions (user_id BIGINT, clicks BIGINT)
//     WITH (connector = 'operator', operator = 'sessions', input = 'clicks', key = 'user_id');
//
// Rows of one key come to one subtask, in the order they were read. State and timers declared in
// Open are checkpointed, restored and rescaled with the job's own. Timers of event time need an
// input table WITH (watermark = …); at the end of the input all of them fire. Timers of processing
// time that are pending then stay so, for the next run on the checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/column_spec.h"
#include "cairn/runtime_context.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

/// Rows of the input table, by row and by column in the order of CREATE TABLE.
///
/// Errors:   a column read as another type, or a null read as a value, gives 0 or "" and fails the
///           batch after Process, naming the column.
class InputRows {
 public:
  virtual ~InputRows() = default;
  virtual size_t rows() const = 0;
  virtual const std::vector<ColumnSpec>& columns() const = 0;
  virtual bool IsNull(size_t row, size_t column) const = 0;
  /// bigint, integer, boolean (0, 1), timestamp (microseconds since 1970), date (days since 1970).
  virtual int64_t Integer(size_t row, size_t column) const = 0;
  virtual double Double(size_t row, size_t column) const = 0;
  /// text and bytes; valid until Process returns.
  virtual std::string_view Text(size_t row, size_t column) const = 0;
  /// The key columns as bytes: the key of the operator's keyed state (keyed_state<Bytes, V>).
  virtual std::string_view Key(size_t row) const = 0;
};

/// Rows of the operator's own table. Give the columns of a row in any order, then EndRow; a column
/// that was not given is null.
class OutputRows {
 public:
  virtual ~OutputRows() = default;
  virtual void SetInteger(size_t column, int64_t value) = 0;  ///< types as InputRows::Integer
  virtual void SetDouble(size_t column, double value) = 0;
  virtual void SetText(size_t column, std::string_view value) = 0;
  /// Errors:   kInvalidArgument: no such column, a value of another type, a null in a NOT NULL
  ///           column. The row is not added.
  virtual Status EndRow() = 0;
};

/// One custom operator of one subtask.
///
/// Threads:  its subtask's only. A call that throws fails the job with what it threw.
class Operator {
 public:
  virtual ~Operator() = default;

  /// Declare the state. Called once, before restore and the first rows. `context` outlives the
  /// operator.
  virtual Status Open(RuntimeContext* context) = 0;

  virtual Status Process(const InputRows& in, OutputRows* out) = 0;

  /// Send what is held back outside of the state: before each checkpoint, behind each watermark and
  /// at the end of the input. What is held back in state may stay there.
  virtual Status Flush(OutputRows* out) {
    (void)out;
    return {};
  }
};

using OperatorFactory = std::function<std::unique_ptr<Operator>()>;

/// Give the jobs of this process an operator.
///
/// Shape:    raise `version` when the operator's meaning changes: its jobs then refuse checkpoints
///           of the older one.
/// Threads:  any; register before a job that names it is built.
/// Errors:   kAlreadyExists · kInvalidArgument: an empty name or factory.
Status RegisterOperator(std::string name, OperatorFactory factory, uint32_t version = 1);

/// Be the cairn command, with the registered operators: `run`, `state`, `checkpoint`, …
///
/// Shape:    returns the exit code (docs/cli.md).
int RunCommand(int argc, char** argv);

}  // namespace v0
}  // namespace cairn
