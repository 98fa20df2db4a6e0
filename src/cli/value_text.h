// SPDX-License-Identifier: Apache-2.0
//
// Typed values to and from text: JSON for the listings, plain text and JSON for keys on the command
// line. Integers and decimals are exact; dates and times are spelled as NDJSON sinks spell them.
//
// Threads: pure functions.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/column_spec.h"
#include "cairn/status.h"

namespace cairn::cli {

/// Append a JSON string. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);

/// Append value `row` of `array` as JSON.
///
/// Shape:    bigint, integer, decimal: number · double: number, or "NaN", "Infinity", "-Infinity" ·
///           boolean · timestamp, date, text: string · bytes: string, as PrintableBytes.
void AppendJsonValue(const arrow::Array& array, int64_t row, std::string* out);

/// Append {"a":1,"b":"x"} of the columns given.
void AppendJsonRow(const std::vector<std::string>& names,
                   const std::vector<std::shared_ptr<arrow::Array>>& columns, int64_t row,
                   std::string* out);

/// Opaque bytes for people: the text itself when it is printable ASCII or UTF-8 without control
/// characters, else 0x and lower-case hex. Text that begins with "0x" is printed as hex too.
std::string PrintableBytes(std::string_view bytes);

/// Read PrintableBytes back.
///
/// Errors:   kInvalidArgument for an odd or wrong digit behind 0x.
Result<std::string> ParseBytesText(std::string_view text);

/// Encode KEY as the user key of a slot with `columns`: a JSON array with one element a column, or,
/// for a key of one column, the plain value. No columns: the bytes, as ParseBytesText, plain or as
/// the one string of a JSON array.
///
/// Errors:   kInvalidArgument, naming the column and what is wrong.
Result<std::string> EncodeKeyArgument(std::string_view text,
                                      const std::vector<ColumnSpec>& columns);

}  // namespace cairn::cli
