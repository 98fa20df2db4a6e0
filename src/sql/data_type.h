// SPDX-License-Identifier: Apache-2.0
//
// The SQL types and their Arrow types, and how two types meet in one expression.
//
//   BIGINT int64 · INTEGER int32 · DOUBLE float64 · DECIMAL(p,s) decimal128 · TEXT utf8 ·
//   BOOLEAN bool · TIMESTAMP timestamp[us] · DATE date32 · INTERVAL duration[us] (in expressions
//   only) · NULL null (a NULL whose type is not known yet)
//
// Threads: any.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/status.h"
#include "sql/parse_tree.h"

namespace cairn::sql {

using DataTypePtr = std::shared_ptr<arrow::DataType>;

/// Print a type as SQL spells it: "BIGINT", "DECIMAL(10,2)"; the types of columns as
/// stream::SqlTypeName does.
std::string SqlTypeName(const arrow::DataType& type);

bool IsInteger(const arrow::DataType& type);  ///< BIGINT, INTEGER
bool IsDecimal(const arrow::DataType& type);  ///< also of 256 bits, inside expressions
bool IsDouble(const arrow::DataType& type);
bool IsNumeric(const arrow::DataType& type);
bool IsText(const arrow::DataType& type);
bool IsBoolean(const arrow::DataType& type);
bool IsTimestamp(const arrow::DataType& type);
bool IsDate(const arrow::DataType& type);
bool IsInterval(const arrow::DataType& type);
bool IsNull(const arrow::DataType& type);

/// Digits before and after the point of a decimal that holds every value of an exact type.
struct DecimalShape {
  int32_t precision = 0;
  int32_t scale = 0;
};
DecimalShape DecimalShapeOf(const arrow::DataType& type);

/// Return decimal128, or decimal256 when the precision is over 38.
///
/// Shape:    precision is cut at 76.
DataTypePtr WideDecimal(DecimalShape shape);

/// Return decimal128 with the precision cut at 38: a value that does not fit is an error when it
/// is computed.
DataTypePtr NarrowDecimal(DecimalShape shape);

DataTypePtr TimestampType();  ///< timestamp[us]
DataTypePtr IntervalType();   ///< duration[us]

/// Return the type in which values of `a` and `b` can be compared or stand in one column, or null
/// when there is none. `wide` lets the result be a decimal of 256 bits.
DataTypePtr CommonType(const DataTypePtr& a, const DataTypePtr& b, bool wide);

/// True when every value of `from` is one of `to`, unchanged, or when only the range of an exact
/// number is left to be checked at run time: DECIMAL into a DECIMAL of at least its scale,
/// DECIMAL(p,0) into an integer.
bool IsAssignable(const arrow::DataType& from, const arrow::DataType& to);

/// Read a type name of the parse tree.
///
/// Errors:   kInvalidArgument naming the type and, for near misses, the one to write instead.
Result<DataTypePtr> TypeFromTree(const SourceText& text, const Json& type_name, Place fallback);

/// Read the fields of INTERVAL '…' FIELD: the mask PostgreSQL's grammar gives; 0 = none.
Result<int64_t> IntervalFieldMask(const SourceText& text, const Json& type_name);

/// True when the tree's type name is INTERVAL.
bool IsIntervalTypeName(const Json& type_name);

}  // namespace cairn::sql
