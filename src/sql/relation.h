// SPDX-License-Identifier: Apache-2.0
//
// Relation: what a FROM item or a SELECT is while a query is compiled: a plan chain and the names
// and types of its columns.
//
// Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "sql/data_type.h"
#include "sql/expression_compiler.h"
#include "sql/plan_rewrite.h"

namespace cairn::sql {

struct RelationColumn {
  std::string qualifier;  ///< alias of the FROM item
  std::string name;
  DataTypePtr type;
  bool nullable = true;
  int index = -1;  ///< in the chain's output; -1 = the rank, before the Top-N is built
};

/// ROW_NUMBER() OVER (...) that waits for the limit in the query around it.
struct PendingRank {
  size_t column = 0;  ///< of the relation
  std::vector<int> partition;
  std::vector<stream::SortSpec> sort;
  Place place;
};

struct Relation {
  PlanChain chain;
  std::vector<RelationColumn> columns;
  bool updating = false;  ///< rows are retracted and replaced
  std::optional<PendingRank> rank;
};

/// Resolve names against the columns of one relation.
class RelationResolver final : public NameResolver {
 public:
  RelationResolver(const SourceText& text, const std::vector<RelationColumn>& columns)
      : text_(text), columns_(columns) {}

  Result<TypedExpression> ResolveColumn(const std::vector<std::string>& names,
                                        Place place) override;

  /// Find a column. The error names near misses.
  Result<size_t> FindColumn(const std::vector<std::string>& names, Place place) const;

  /// True when some column is called `name`.
  bool Has(const std::string& name) const;

 private:
  const SourceText& text_;
  const std::vector<RelationColumn>& columns_;
};

/// One column of a SELECT list, after * is spelled out.
struct Target {
  std::string name;
  const Json* node = nullptr;  ///< null = the relation's column `column`
  size_t column = 0;
  Place place;
};

/// Name a column as PostgreSQL does when there is no AS: the column's, the function's, ?column?.
std::string NameOf(const Json& node);

/// Find an aggregate call in a tree (not inside a window function); null when there is none.
const Json* FindAggregate(const Json& node);

/// Give an expression the type that it has as a column: an open NULL or string is TEXT, 256 bits of
/// a decimal become 128. An INTERVAL cannot be a column.
Result<TypedExpression> SettleColumn(const ExpressionBuilder& builder, TypedExpression value);

/// Return the node when it is a call with OVER, else null.
const Json* WindowCall(const Json& node);

}  // namespace cairn::sql
