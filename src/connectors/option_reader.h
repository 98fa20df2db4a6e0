// SPDX-License-Identifier: Apache-2.0
//
// OptionReader: take the options of a table's WITH list, each checked, none left over.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

/// Errors:   kInvalidArgument naming the table, the option and what it may be. The first error is
///           kept and told by Finish; until then the values taken may be defaults.
class OptionReader {
 public:
  explicit OptionReader(const stream::TableDefinition& table) : table_(table) {}

  std::string Text(const std::string& name, const std::string& otherwise);
  std::string RequiredText(const std::string& name);
  bool Bool(const std::string& name, bool otherwise);
  uint64_t Number(const std::string& name, uint64_t otherwise, uint64_t min, uint64_t max);
  /// One character; "\t" is the tab.
  char Char(const std::string& name, char otherwise);
  /// The index of the value in `values`.
  size_t Choice(const std::string& name, const std::vector<std::string>& values, size_t otherwise);

  /// Let options pass that mean something in another role of the table: one table may be written by
  /// one statement and read by the next.
  void AlsoKnown(const std::vector<std::string>& names);

  /// Report `name` with a reason.
  void Fail(const std::string& name, const std::string& reason);

  /// Tell the first error, or an option that nobody took.
  Status Finish() const;

 private:
  /// The option's value; null when it is not given. Notes that the option exists.
  const std::string* Find(const std::string& name);

  const stream::TableDefinition& table_;
  std::vector<std::string> known_;
  Status error_;
};

}  // namespace cairn::connectors
