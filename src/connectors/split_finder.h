// SPDX-License-Identifier: Apache-2.0
//
// Find the splits of one file and bring saved ones up to the file as it is now.
//
// Where a split of text begins is looked for again until something of it was read: only rows that
// were read bind the source, what is behind them may have changed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "connectors/file_split.h"
#include "connectors/source_files.h"
#include "stream/source.h"

namespace cairn::connectors {

/// The saved splits of one file by index.
using SavedSplits = std::map<uint64_t, stream::SplitProgress*>;

/// Check `saved` against the file, open again those that have more to read, and append splits that
/// are new to `fresh`. Every split that is not ended gets a position, begun or not.
///
/// Errors:   kInvalidArgument: the file was cut or replaced, grew inside its last line, or lacks a
///           column · kCorruption: a saved position cannot be read.
Status FindSplits(const SourceTable& table, const std::string& name, const SourceFile& file,
                  const SavedSplits& saved, std::vector<stream::SplitProgress>* fresh);

/// True when rows, or the header before them, were read up to the position.
inline bool Begun(const SplitPosition& position) {
  return !position.samples.empty() && position.at > position.from;
}

}  // namespace cairn::connectors
