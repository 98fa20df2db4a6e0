// SPDX-License-Identifier: Apache-2.0
//
// The compute functions that SQL needs and Arrow does not have. Their names start with "cairn_".
//
// Threads: any.
#pragma once

#include "cairn/status.h"

namespace cairn::sql {

/// Return the first argument; fail when it holds a NULL.
///
/// Shape:    (any type [rows], utf8: name of the column that must not be NULL)
inline constexpr const char* kRequireNotNull = "cairn_require_not_null";

/// Print decimals with all digits of their scale, never with an exponent.
///
/// Shape:    (decimal128 [rows], null?) -> utf8 [rows]
inline constexpr const char* kDecimalToText = "cairn_decimal_to_text";

/// Set up Arrow's compute module and register the functions above, once in a process.
///
/// Errors:   kUnsupportedFormat when the Arrow library lacks a function that SQL needs.
Status RegisterKernels();

}  // namespace cairn::sql
