// SPDX-License-Identifier: Apache-2.0
//
// QueryCompiler: parse tree of a SELECT → Relation.
//
// What is supported: one table or subquery in FROM, WHERE, GROUP BY, HAVING, DISTINCT, and
// ROW_NUMBER() OVER (...) limited by the WHERE of the query around it (Top-N). All else is refused
// with its place.
//
// Threads: one.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cairn/status.h"
#include "sql/relation.h"
#include "stream/plan.h"

namespace cairn::sql {

using Catalog = std::map<std::string, stream::TableDefinition>;

/// A SELECT before its list is computed: the types of its constants are still open.
struct Selection {
  Relation from;
  std::vector<Target> targets;
  std::vector<TypedExpression> outputs;  ///< one a target; over the columns of `from`'s chain
  bool distinct = false;
};

class QueryCompiler {
 public:
  QueryCompiler(const SourceText& text, const Catalog& catalog) : text_(text), catalog_(catalog) {}

  /// Compile a SELECT whose last step, computing its list, is left to the caller.
  ///
  /// Errors:   kInvalidArgument with a place, also for a ROW_NUMBER() that nothing limits.
  Result<Selection> Select(const Json& select, Place place);

  /// Compute the list of a selection: the columns of the relation are then its outputs.
  Result<Relation> Project(Selection selection, const std::string& qualifier);

 private:
  Result<Relation> CompileFrom(const Json& select, Place place);
  Result<Relation> CompileTable(const Json& range, Place place);
  Result<Relation> CompileSubquery(const Json& range, Place place);
  Result<Relation> CompileSubquerySelect(const Json& select, Place place,
                                         const std::string& qualifier);
  Status RenameColumns(const Json& alias, Place place, Relation* relation) const;
  Status ApplyWhere(const Json* where, Relation* relation);
  Status ApplyFilter(const std::vector<const Json*>& conditions, std::string_view where,
                     Place place, NameResolver* names, Relation* relation);
  Result<std::vector<Target>> ExpandTargets(const Json& list, const Relation& relation);
  Result<Selection> SelectPlain(Relation from, std::vector<Target> targets);
  Result<Selection> SelectGrouped(const Json& select, Relation from, std::vector<Target> targets,
                                  Place place);
  Result<Relation> SelectRanked(Relation from, std::vector<Target> targets,
                                const std::string& qualifier);
  Status ApplyRank(const std::vector<const Json*>& conditions, Relation* relation,
                   std::vector<const Json*>* rest);

  class Grouping;

  const SourceText& text_;
  const Catalog& catalog_;
  int depth_ = 0;
};

/// Append the conditions that a tree joins by AND.
void SplitConjunction(const Json& node, std::vector<const Json*>* out);

/// Build a Top-N from a pending rank: at most `limit` rows a partition.
void AddTopN(int64_t limit, Relation* relation);

}  // namespace cairn::sql
