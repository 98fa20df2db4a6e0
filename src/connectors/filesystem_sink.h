// SPDX-License-Identifier: Apache-2.0
//
// The filesystem sink: exactly once by rename.
//
// Rows go to a hidden file in the sink's directory. Prepare makes it durable and describes it;
// Commit gives it a name that is not hidden and syncs the directory once. Readers take only names
// without a leading '.' or '_', so no row of an undecided checkpoint is ever seen.
//
// Invariants
//  1. A file has its final name only after Commit was called with its descriptor.
//  2. Commit is idempotent: a staged file that is gone while its final file is there was committed.
//     Both gone, or a final file of another size, is corruption.
//  3. Recover removes staged files of earlier runs of its own writer id only. The writer id is of
//  one
//     sink of one deployment, so neither another job nor a fresh start of this one is touched; nor
//     is a run that took over from this one while it was paused.
//  4. Of one checkpoint only one deployment goes on publishing: one that goes on from another's
//     checkpoint leaves a note that it has taken over, and a sink that finds its own taken over, or
//     another's taken over by a third, is refused at Recover.
//  5. A run that would begin before a checkpoint whose rows are published here, by itself or by the
//     deployment that it goes on from, is refused at Recover: it would publish them again.
//
//  6. Of two runs of one deployment that go on at once, in a place and in a copy of it, the one
//  that
//     began later publishes.
//
// The names of files and the descriptor: connectors/output_directory.h.
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

/// Make the sink of `table`.
Result<std::unique_ptr<stream::Sink>> MakeFilesystemSink(const stream::TableDefinition& table,
                                                         FilesystemSinkOptions options,
                                                         const stream::SinkWriterId& writer,
                                                         env::FileSystem* files);

/// Make what takes over, for the writer that is called `successor`, the sink of writer `writer` in
/// the directory `path`.
std::unique_ptr<stream::SavedSink> MakeSavedFilesystemSink(const std::string& path,
                                                           const std::string& writer,
                                                           const std::string& successor,
                                                           env::FileSystem* files);

}  // namespace cairn::connectors
