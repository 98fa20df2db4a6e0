// SPDX-License-Identifier: Apache-2.0
//
// Parquet files as record batches, by Arrow's reader: a split is a row group, only the wanted
// columns are decoded, and types of the same family are brought to the table's exactly (a narrower
// integer, a timestamp of another unit, a decimal of another scale); a value that does not fit is
// an error. Rows cannot be skipped: a damaged file is damaged as a whole.
#pragma once

#include <memory>
#include <string>

#include "cairn/status.h"
#include "connectors/column_set.h"
#include "env/file_system.h"

namespace cairn::connectors {

/// Count the row groups of a file and check that it has the required columns, of fitting types.
///
/// Shape:    `table` = the schema of the whole table.
/// Errors:   kInvalidArgument naming file and column · kCorruption when it is no Parquet file.
Result<uint64_t> CheckParquetFile(const std::shared_ptr<const env::RandomAccessFile>& file,
                                  const std::string& path, const arrow::Schema& table);

/// Decode row group `row_group` from row `first_row` on.
Result<std::unique_ptr<SplitDecoder>> OpenParquetDecoder(
    std::shared_ptr<const env::RandomAccessFile> file, const std::string& path,
    const ColumnSet& columns, uint64_t row_group, uint64_t first_row);

}  // namespace cairn::connectors
