// SPDX-License-Identifier: Apache-2.0
//
// OptionReader: take the options of a table's WITH list, each checked, none left over.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
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
  /// Required; without slashes at its end.
  std::string Path(const std::string& name);
  bool Bool(const std::string& name, bool otherwise);
  uint64_t Number(const std::string& name, uint64_t otherwise, uint64_t min, uint64_t max);
  /// One character; "\t" is the tab.
  char Char(const std::string& name, char otherwise);
  /// The index of the value in `values`.
  size_t Choice(const std::string& name, const std::vector<std::string>& values, size_t otherwise);

  /// Let options pass that mean something in another role of the table: one table may be written by
  /// one statement and read by the next.
  void AlsoKnown(const std::vector<std::string>& names);

  /// Leave options out of Identity(): a run may go on with another value of theirs.
  void MayChange(const std::vector<std::string>& names);

  /// Make something of the table that is no option part of Identity().
  void Note(const std::string& name, const std::string& value) { taken_[name] = value; }

  /// The connector and every option that was taken, as it was understood, defaults included: JSON.
  /// An option is part of it unless MayChange names it, so that none can be forgotten.
  std::string Identity() const;

  /// Report `name` with a reason.
  void Fail(const std::string& name, const std::string& reason);

  /// Tell the first error, or an option that nobody took.
  Status Finish() const;

 private:
  /// The option's value; null when it is not given. Notes that the option exists.
  const std::string* Find(const std::string& name);

  const stream::TableDefinition& table_;
  std::vector<std::string> known_;
  std::map<std::string, std::string> taken_;  ///< values in one spelling
  std::set<std::string> may_change_;
  Status error_;
};

}  // namespace cairn::connectors
