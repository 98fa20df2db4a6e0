// SPDX-License-Identifier: Apache-2.0
//
// The filesystem sink: exactly once by rename.
//
// Rows go to a hidden file ".staged-<writer id>-<run>-<subtask>-<n>" in the sink's directory.
// Prepare makes it durable and describes it; Commit renames it to
// "part-<checkpoint>-<subtask>-<writer id>.<ext>" and syncs the directory once. Readers take only
// names without a leading '.' or '_', so no row of an undecided checkpoint is ever seen.
//
// Invariants
//  1. A file has its final name only after Commit was called with its descriptor.
//  2. Commit is idempotent: a staged file that is gone while its final file is there was committed.
//     Both gone, or a final file of another size, is corruption.
//  3. Recover removes staged files of its own writer id only. The writer id is of one sink of one
//     deployment, so neither another job nor a fresh start of this one is touched.
//
//  4. Of one checkpoint only one deployment goes on publishing: one that goes on from another's
//     checkpoint leaves "_taken-over-<that writer id>" with its own writer id, and a sink that finds
//     its own taken over, or another's taken over by a third, is refused at Recover.
//
//  5. A run that would begin before a checkpoint whose rows are published here, by the deployment
//     that it goes on from, is refused at Recover: it would publish them again.
//
// Descriptor, JSON: {"staged": name, "final": name, "rows": n, "bytes": n}; names are relative to
// the directory, which may move.
#pragma once

#include <memory>
#include <string>

#include "cairn/status.h"
#include "connectors/filesystem_source.h"
#include "connectors/row_text.h"
#include "env/file_system.h"
#include "stream/sink.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

struct FilesystemSinkOptions {
  std::string identity;  ///< of the sink: JSON
  std::string path;
  FileFormat format = FileFormat::kNdjson;
  bool changelog = false;
  CsvDialect csv;
  bool header = true;  ///< CSV: the first row of a file names the columns
  std::string null_text;
  std::string compression = "snappy";  ///< of Parquet
};

/// Make the sink of `table`. `writer_id` names this sink of this deployment, the same after a
/// restart.
Result<std::unique_ptr<stream::Sink>> MakeFilesystemSink(const stream::TableDefinition& table,
                                                         FilesystemSinkOptions options,
                                                         const std::string& writer_id,
                                                         env::FileSystem* files);

}  // namespace cairn::connectors
