// SPDX-License-Identifier: Apache-2.0
//
// ExpressionBuilder: SQL's operators, casts and types on top of Arrow's compute functions.
//
// Arrow's own implicit casts are never relied on: every argument gets exactly the type that SQL
// says, so what an expression means does not depend on Arrow's promotion rules. Calls on constants
// are computed at once; their errors carry a place in the text.
//
// A branch of CASE or COALESCE that a row does not take must not fail on that row. The operator
// that runs the plan sees to it for if_else, case_when, and_kleene and or_kleene; so everything
// that branches is built of these, and inside a branch a constant that fails is left for the run.
//
// Threads: one.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "sql/data_type.h"
#include "sql/text.h"

namespace cairn::sql {

/// How far the type of a constant is still open.
enum class LiteralKind : uint8_t {
  kNone,    ///< no constant, or one whose type is settled
  kNumber,  ///< takes the numeric type beside it when its value fits
  kString,  ///< 'text' without a type: takes the type beside it
  kNull,
};

/// An expression with its SQL type.
struct TypedExpression {
  arrow::compute::Expression expr;  ///< not bound; columns by index
  DataTypePtr type;
  bool nullable = true;
  LiteralKind literal = LiteralKind::kNone;
  std::string literal_text;  ///< of kNumber and kString
  Place place;
  bool fallible = false;  ///< can fail on a row
  int size = 1;           ///< calls in the expression, repeated parts counted each time
  int depth = 1;          ///< of nested calls

  bool constant() const { return expr.literal() != nullptr; }
};

enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

class ExpressionBuilder {
 public:
  explicit ExpressionBuilder(const SourceText& text) : text_(text) {}

  TypedExpression Column(int index, DataTypePtr type, bool nullable, Place place) const;
  Result<TypedExpression> Number(std::string literal, Place place) const;
  TypedExpression String(std::string value, Place place) const;
  TypedExpression Boolean(bool value, Place place) const;
  TypedExpression Integer(int64_t value, Place place) const;
  TypedExpression Null(DataTypePtr type, Place place) const;  ///< type NULL = still open
  /// INTERVAL '…' [FIELD]; `field_mask` is PostgreSQL's, 0 = none.
  Result<TypedExpression> Interval(std::string_view value, int64_t field_mask, Place place) const;

  /// CAST(value AS type), as explicit as SQL lets it be.
  Result<TypedExpression> Cast(TypedExpression value, const DataTypePtr& type, Place place) const;

  /// Bring a value to a type that CommonTypeOf gave, or that a sink column has.
  Result<TypedExpression> Coerce(TypedExpression value, const DataTypePtr& type) const;

  /// Find the type in which all values can stand; an error names two that cannot meet.
  Result<DataTypePtr> CommonTypeOf(std::span<const TypedExpression> values, std::string_view where,
                                   Place place, bool wide) const;

  /// left op right for op in + - * / %.
  Result<TypedExpression> Arithmetic(char op, TypedExpression left, TypedExpression right,
                                     Place place) const;
  Result<TypedExpression> Negate(TypedExpression value, Place place) const;
  Result<TypedExpression> Compare(Comparison comparison, TypedExpression left,
                                  TypedExpression right, Place place) const;
  /// IS DISTINCT FROM, or its negation.
  Result<TypedExpression> Distinct(bool distinct, TypedExpression left, TypedExpression right,
                                   Place place) const;
  /// Three-valued AND / OR over any number of conditions.
  Result<TypedExpression> Combine(bool conjunction, std::vector<TypedExpression> conditions,
                                  Place place) const;
  Result<TypedExpression> Not(TypedExpression condition, Place place) const;
  Result<TypedExpression> IsNull(TypedExpression value, Place place) const;
  /// A condition with NULL turned into `value_for_null`.
  Result<TypedExpression> NullAs(bool value_for_null, TypedExpression condition, Place place) const;
  /// `then` where the condition is true, else `otherwise` (also where it is NULL). One type.
  Result<TypedExpression> IfElse(TypedExpression condition, TypedExpression then,
                                 TypedExpression otherwise, Place place) const;
  /// value IN (constants), three-valued. All of one type; constants may be NULL.
  Result<TypedExpression> InConstants(TypedExpression value,
                                      std::span<const TypedExpression> constants,
                                      Place place) const;

  /// Require BOOLEAN; NULL becomes a BOOLEAN NULL.
  Result<TypedExpression> Condition(TypedExpression value, std::string_view where) const;

  struct CallTraits {
    bool fallible = false;         ///< can fail on a row
    std::optional<bool> nullable;  ///< default: when an argument is
    std::shared_ptr<arrow::compute::FunctionOptions> options;
  };
  /// Call a compute function whose result has type `type`.
  Result<TypedExpression> Call(const std::string& function, std::vector<TypedExpression> arguments,
                               DataTypePtr type, Place place, CallTraits traits) const;
  Result<TypedExpression> Call(const std::string& function, std::vector<TypedExpression> arguments,
                               DataTypePtr type, Place place) const {
    return Call(function, std::move(arguments), std::move(type), place, CallTraits());
  }

  /// Enter and leave a branch that not every row takes.
  void EnterBranch() { ++branches_; }
  void LeaveBranch() { --branches_; }

  const SourceText& text() const { return text_; }

 private:
  Result<TypedExpression> ArrowCast(TypedExpression value, const DataTypePtr& type, bool fallible,
                                    Place place) const;
  Result<TypedExpression> ParseLiteral(const TypedExpression& value, const DataTypePtr& type) const;
  Result<TypedExpression> CastToText(TypedExpression value, Place place) const;
  Result<TypedExpression> CastFromText(TypedExpression value, const DataTypePtr& type,
                                       Place place) const;
  Result<TypedExpression> CastNumber(TypedExpression value, const DataTypePtr& type,
                                     Place place) const;
  Result<TypedExpression> CastToDecimal(TypedExpression value, const DataTypePtr& type,
                                        Place place) const;
  Result<TypedExpression> RoundDecimal(TypedExpression value, int32_t scale, Place place) const;
  Result<TypedExpression> DecimalArithmetic(char op, TypedExpression left, TypedExpression right,
                                            Place place) const;
  Result<TypedExpression> TimeArithmetic(char op, TypedExpression left, TypedExpression right,
                                         Place place) const;
  Result<TypedExpression> DateArithmetic(char op, TypedExpression left, TypedExpression right,
                                         Place place) const;
  Result<TypedExpression> NullIfZero(TypedExpression divisor, Place place) const;
  Status CheckCall(const std::string& function, std::span<const TypedExpression> arguments,
                   const CallTraits& traits, const TypedExpression& result) const;
  Status NoOperator(std::string_view op, const TypedExpression& left, const TypedExpression& right,
                    Place place) const;

  const SourceText& text_;
  int branches_ = 0;  ///< entered and not left
};

}  // namespace cairn::sql
