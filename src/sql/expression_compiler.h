// SPDX-License-Identifier: Apache-2.0
//
// ExpressionCompiler: parse tree of a scalar expression → TypedExpression.
//
// Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "sql/expression_builder.h"
#include "sql/parse_tree.h"

namespace cairn::sql {

/// Say what names mean where an expression stands.
class NameResolver {
 public:
  virtual ~NameResolver() = default;

  /// Resolve a column, `names` being its parts ("t", "price").
  virtual Result<TypedExpression> ResolveColumn(const std::vector<std::string>& names,
                                                Place place) = 0;

  /// Take over a whole node (an aggregate call, a grouping expression), or leave it.
  virtual Result<std::optional<TypedExpression>> ResolveNode(const Json& node) {
    (void)node;
    return std::optional<TypedExpression>();
  }
};

class ExpressionCompiler {
 public:
  ExpressionCompiler(const SourceText& text, NameResolver* names)
      : text_(text), builder_(text), names_(names) {}

  Result<TypedExpression> Compile(const Json& node);

  /// Compile a condition: BOOLEAN or an error that names `where` ("WHERE").
  Result<TypedExpression> CompileCondition(const Json& node, std::string_view where);

  ExpressionBuilder& builder() { return builder_; }

 private:
  Result<TypedExpression> CompileNode(const Json& wrapper);
  Result<TypedExpression> CompileConstant(const Json& body, Place place);
  Result<TypedExpression> CompileOperator(const Json& body, Place place);
  Result<TypedExpression> CompileBinary(const std::string& op, const Json& body, Place place);
  Result<TypedExpression> CompileIn(const Json& body, bool negated, Place place);
  Result<TypedExpression> CompileBetween(const Json& body, bool negated, bool symmetric,
                                         Place place);
  Result<TypedExpression> CompileLike(const Json& body, bool ignore_case, Place place);
  Result<TypedExpression> CompileNullIf(const Json& body, Place place);
  Result<TypedExpression> CompileLogic(const Json& body, Place place);
  Result<TypedExpression> CompileBooleanTest(const Json& body, Place place);
  Result<TypedExpression> CompileCase(const Json& body, Place place);
  Result<TypedExpression> CompileCoalesce(const Json& body, Place place);
  Result<TypedExpression> CompileExtreme(const Json& body, Place place);
  Result<TypedExpression> CompileCast(const Json& body, Place place);
  Result<TypedExpression> CompileFunctionCall(const Json& body, Place place);
  Result<std::vector<TypedExpression>> CompileList(const Json& list);
  Result<TypedExpression> CompileInBranch(const Json& node);
  Result<TypedExpression> CoerceInBranch(TypedExpression value, const DataTypePtr& type);

  const SourceText& text_;
  ExpressionBuilder builder_;
  NameResolver* names_;
  int depth_ = 0;
};

/// Call a SQL function by name.
///
/// Errors:   kInvalidArgument: no such function, or not for these arguments.
Result<TypedExpression> CompileFunction(const ExpressionBuilder& builder, const std::string& name,
                                        std::vector<TypedExpression> arguments, Place place);

/// value LIKE pattern, for a constant pattern.
Result<TypedExpression> CompileLikePattern(const ExpressionBuilder& builder, TypedExpression value,
                                           const std::string& pattern, std::string_view escape,
                                           bool ignore_case, Place place);

/// True for count, sum, min, max, avg.
bool IsAggregateFunction(std::string_view name);

}  // namespace cairn::sql
