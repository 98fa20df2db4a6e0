// SPDX-License-Identifier: Apache-2.0
//
// CSV files as record batches.
//
// A header row names the columns, in any order; without one they are the table's. An empty unquoted
// value is NULL, or the text given as `null`. Values of other types than TEXT may be quoted and
// padded with blanks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "connectors/block_reader.h"
#include "connectors/column_set.h"
#include "connectors/csv_scanner.h"
#include "env/file_system.h"

namespace cairn::connectors {

struct CsvOptions {
  CsvDialect dialect;
  bool header = true;
  std::string null_text;  ///< unquoted text that means NULL
  OnError on_error = OnError::kFail;
};

/// What the first row of a file says.
struct CsvHeader {
  std::vector<std::string> names;  ///< of the file's columns, in order
  uint64_t first_row = 0;          ///< offset of the first row of values
  bool empty_file = false;
};

/// Read the header and check that the required columns are there, each once.
///
/// Errors:   kInvalidArgument naming file and column.
Result<CsvHeader> ReadCsvHeader(const std::shared_ptr<const env::RandomAccessFile>& file,
                                const std::string& path, const CsvOptions& options,
                                const ColumnSet& columns);

/// Decode the rows that start in [offset, end) of a file; `offset` is the start of a row.
Result<std::unique_ptr<SplitDecoder>> OpenCsvDecoder(
    std::shared_ptr<const env::RandomAccessFile> file, const std::string& path,
    const CsvOptions& options, const CsvHeader& header, const ColumnSet& columns, uint64_t offset,
    uint64_t end);

}  // namespace cairn::connectors
