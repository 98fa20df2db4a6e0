// SPDX-License-Identifier: Apache-2.0
//
// What the filesystem source reads: its table, and the files there are.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cairn/status.h"
#include "connectors/column_set.h"
#include "connectors/filesystem_source.h"
#include "env/file_system.h"

namespace cairn::connectors {

/// What source and readers share; never changes.
struct SourceTable {
  FilesystemSourceOptions options;
  std::shared_ptr<arrow::Schema> all_columns;
  ColumnSet columns;
  env::FileSystem* files;

  bool parquet() const { return options.format == FileFormat::kParquet; }
};

struct SourceFile {
  std::string path;
  std::string identity;  ///< env::FileInfo::identity
};

/// Files by name.
using FileList = std::map<std::string, SourceFile>;

/// List what the table's path is now: the file, or the files of the directory.
///
/// Errors:   kNotFound · kInvalidArgument: a name that is not valid UTF-8, which no checkpoint
/// could
///           hold.
Result<FileList> ListFiles(const SourceTable& table);

/// The last part of a path.
std::string FileNameOfPath(const std::string& path);

using InputFile = std::shared_ptr<const env::RandomAccessFile>;

/// Open a file as it is up to byte `limit`: what is appended while it is read is not seen. A file
/// that is cut while it is read is bad input, not damaged state.
Result<InputFile> OpenInput(const SourceTable& table, const std::string& path,
                            uint64_t limit = UINT64_MAX);

}  // namespace cairn::connectors
