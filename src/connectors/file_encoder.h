// SPDX-License-Identifier: Apache-2.0
//
// FileEncoder: write batches to one file in its format, front to back.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/status.h"
#include "connectors/row_text.h"
#include "env/file_system.h"
#include "stream/batch.h"

namespace cairn::connectors {

/// Threads:  one.
class FileEncoder {
 public:
  virtual ~FileEncoder() = default;

  /// Take the selected rows of `batch`.
  virtual Status Write(const stream::Batch& batch) = 0;

  /// Hand everything to the file, footer included. Nothing is written after it.
  virtual Status Finish() = 0;

  /// Bytes the file has after Finish.
  virtual uint64_t bytes() const = 0;
};

/// Make an encoder of lines; `file` outlives it.
Result<std::unique_ptr<FileEncoder>> MakeTextEncoder(const RowTextOptions& options,
                                                     std::shared_ptr<arrow::Schema> schema,
                                                     env::WritableFile* file);

/// Make an encoder of Parquet; `file` outlives it. `compression`: none, snappy, zstd, lz4 or gzip.
Result<std::unique_ptr<FileEncoder>> MakeParquetEncoder(bool changelog,
                                                        const std::string& compression,
                                                        std::shared_ptr<arrow::Schema> schema,
                                                        env::WritableFile* file);

/// Check the name of a compression and that this build of Arrow has it.
Status CheckParquetCompression(const std::string& compression);

}  // namespace cairn::connectors
