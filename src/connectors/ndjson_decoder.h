// SPDX-License-Identifier: Apache-2.0
//
// NDJSON files as record batches: one JSON object a line.
//
// JsonTokens finds the tokens of a whole block (and checks UTF-8 and strings); the decoder walks
// them straight into the columns. Integers and decimals are exact. A key that the
// table does not name is passed over; of a key given twice the last value counts; blank lines are
// no rows. A value must have its column's JSON type: numbers for BIGINT, INTEGER, DOUBLE; strings
// for TEXT, DATE, TIMESTAMP; either for DECIMAL; "NaN", "Infinity", "-Infinity" for DOUBLE too.
#pragma once

#include <memory>
#include <string>

#include "cairn/status.h"
#include "connectors/column_set.h"
#include "env/file_system.h"

namespace cairn::connectors {

/// Where the first row begins: behind a byte order mark, if there is one.
Result<uint64_t> FirstNdjsonRow(const env::RandomAccessFile& file);

/// Check that every required column is a key of some row of the file. An empty file passes.
///
/// Cost:     reads the first block; the whole file only when a column is not found there.
/// Errors:   kInvalidArgument naming file and column.
Status CheckNdjsonKeys(const std::shared_ptr<const env::RandomAccessFile>& file,
                       const std::string& path, const ColumnSet& columns);

/// Decode the lines that start in [offset, end) of a file; `offset` is the start of a line.
Result<std::unique_ptr<SplitDecoder>> OpenNdjsonDecoder(
    std::shared_ptr<const env::RandomAccessFile> file, const std::string& path, OnError on_error,
    const ColumnSet& columns, uint64_t offset, uint64_t end);

}  // namespace cairn::connectors
