// SPDX-License-Identifier: Apache-2.0
#include "engine/operator_table.h"

#include <arrow/type.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace cairn {
namespace {

/// Operators of the process, by name.
struct OperatorRegistry {
  std::mutex mutex;
  std::map<std::string, engine::RegisteredOperator, std::less<>> operators;

  static OperatorRegistry& Get() {
    static OperatorRegistry registry;
    return registry;
  }
};

}  // namespace

inline namespace v0 {

Status RegisterOperator(std::string name, OperatorFactory factory, uint32_t version) {
  if (name.empty() || !factory) {
    return Status::InvalidArgument("a custom operator needs a name and a factory");
  }
  OperatorRegistry& registry = OperatorRegistry::Get();
  std::lock_guard lock(registry.mutex);
  const auto [at, added] =
      registry.operators.try_emplace(name, engine::RegisteredOperator{name, {}, version});
  if (!added) return Status::AlreadyExists("an operator \"" + name + "\" is registered already");
  at->second.factory = std::move(factory);
  return {};
}

}  // namespace v0

namespace engine {
namespace {

Result<RegisteredOperator> FindOperator(const std::string& name) {
  OperatorRegistry& registry = OperatorRegistry::Get();
  std::lock_guard lock(registry.mutex);
  const auto found = registry.operators.find(name);
  if (found != registry.operators.end()) return found->second;
  std::string known;
  for (const auto& [each, registered] : registry.operators) {
    known += (known.empty() ? "" : ", ") + each;
  }
  return Status::InvalidArgument("no operator \"" + name + "\" is registered in this program; " +
                                 (known.empty() ? std::string("it has none (the cairn command "
                                                              "itself never has: link your own)")
                                                : "it has " + known));
}

Status CheckColumns(const stream::TableDefinition& table) {
  for (const stream::ColumnDefinition& column : table.columns) {
    switch (column.type->id()) {
      case arrow::Type::INT64:
      case arrow::Type::INT32:
      case arrow::Type::DOUBLE:
      case arrow::Type::BOOL:
      case arrow::Type::STRING:
      case arrow::Type::BINARY:
      case arrow::Type::TIMESTAMP:
      case arrow::Type::DATE32:
        break;
      default:
        return Status::InvalidArgument("table " + table.name + ", column " + column.name +
                                       ": custom operators have no " +
                                       stream::SqlTypeName(*column.type) + "; use DOUBLE or TEXT");
    }
  }
  return {};
}

Result<std::vector<int>> KeyColumns(const stream::TableDefinition& input, std::string_view names) {
  std::vector<int> keys;
  while (!names.empty()) {
    const size_t comma = names.find(',');
    std::string name(names.substr(0, comma));
    names = comma == names.npos ? std::string_view() : names.substr(comma + 1);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    const auto found = std::find_if(input.columns.begin(), input.columns.end(),
                                    [&](const auto& column) { return column.name == name; });
    if (found == input.columns.end()) {
      return Status::InvalidArgument("key: table " + input.name + " has no column \"" + name +
                                     "\"");
    }
    keys.push_back(static_cast<int>(found - input.columns.begin()));
  }
  return keys;
}

}  // namespace

bool IsOperatorTable(const stream::TableDefinition& table) { return table.connector == "operator"; }

Result<OperatorTable> ReadOperatorTable(const stream::TableDefinition& table,
                                        const stream::LogicalPlan& plan) {
  std::map<std::string, std::string> options = table.options;
  const auto take = [&](const char* name) {
    const auto node = options.extract(name);
    return node.empty() ? std::string() : node.mapped();
  };
  const std::string name = take("operator");
  const std::string input = take("input");
  const std::string key = take("key");
  if (!options.empty()) {
    return Status::InvalidArgument("unknown option '" + options.begin()->first +
                                   "'; an operator table has operator, input and key");
  }
  if (name.empty() || input.empty()) {
    return Status::InvalidArgument("an operator table needs operator = 'NAME' and input = 'TABLE'");
  }
  OperatorTable made;
  CAIRN_ASSIGN_OR_RETURN(made.registered, FindOperator(name));
  const auto found = std::find_if(plan.tables.begin(), plan.tables.end(),
                                  [&](const auto& each) { return each.name == input; });
  if (found == plan.tables.end()) {
    return Status::InvalidArgument("input: there is no table \"" + input + "\"");
  }
  made.input = &*found;
  CAIRN_RETURN_IF_ERROR(CheckColumns(*made.input));
  CAIRN_RETURN_IF_ERROR(CheckColumns(table));
  CAIRN_ASSIGN_OR_RETURN(made.keys, KeyColumns(*made.input, key));
  return made;
}

}  // namespace engine
}  // namespace cairn
