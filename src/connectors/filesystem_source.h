// SPDX-License-Identifier: Apache-2.0
//
// The filesystem source: a file or the files of a directory as rows.
//
// Invariants
//  1. A reader made from saved progress returns exactly the rows that were not returned before.
//  2. A file that was cut or replaced since it was read is refused; one that grew, and new files in
//     the directory, are new input for the next run. Input that grows while it is read is taken up
//     to the size it had when the run began. Only what was read binds: the rest may change.
//  3. A last line without line feed is a row. If the file later grows, it must grow by a line feed
//     first. A row whose quote the file's end leaves open is bad, and looked at again when the file
//     has grown.
//  4. A file is known by its identity (env::FileInfo), else by its name; its contents must agree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "connectors/csv_decoder.h"
#include "connectors/file_split.h"
#include "env/file_system.h"
#include "stream/source.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

enum class FileFormat : uint8_t { kNdjson, kCsv, kParquet };

struct FilesystemSourceOptions {
  std::string identity;  ///< of the source: JSON
  std::string path;
  FileFormat format = FileFormat::kNdjson;
  CsvOptions csv;
  OnError on_error = OnError::kFail;
  uint64_t split_bytes = kDefaultSplitBytes;
};

/// Make the source of `table`, which decodes `columns` only.
Result<std::unique_ptr<stream::Source>> MakeFilesystemSource(const stream::TableDefinition& table,
                                                             const std::vector<int>& columns,
                                                             FilesystemSourceOptions options,
                                                             env::FileSystem* files);

}  // namespace cairn::connectors
