// SPDX-License-Identifier: Apache-2.0
//
// Sources: where rows come from, and how a reader says how far it got.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"

namespace cairn::stream {

/// How far one split has been read. The split's name and its position are the connector's text.
struct SplitProgress {
  std::string split;     ///< stable across runs and parallelism, e.g. "bids.ndjson#0"
  std::string position;  ///< e.g. {"offset":1024,"rows":7}; empty = not begun
  bool ended = false;
  bool is_new = false;  ///< set by Source::Discover: not among the saved ones
  friend bool operator==(const SplitProgress&, const SplitProgress&) = default;
};

/// "12 of 32 splits done, 3 under way, 2 new": what Source::Discover found for `saved` progress.
std::string DescribeSplits(const std::vector<SplitProgress>& saved,
                           const std::vector<SplitProgress>& found);

/// Read the splits of one source subtask, one after another or interleaved.
///
/// Threads:  its subtask's only.
class SourceReader {
 public:
  virtual ~SourceReader() = default;

  /// Return the next rows; null = every split has ended. A batch has 1 row at least.
  ///
  /// Blocks:   on disk; never on input that may not come (then it would return kUnavailable).
  /// Errors:   kInvalidArgument for bad input, naming file, line and reason · kCorruption · I/O.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;

  /// Tell the progress of every split as of the rows returned so far.
  virtual std::vector<SplitProgress> Progress() const = 0;

  /// Rows skipped so far because they were malformed and the table says to skip.
  virtual uint64_t rows_skipped() const { return 0; }
};

/// One table to read: a factory of readers, shared by the subtasks.
///
/// Threads:  any.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::shared_ptr<arrow::Schema> schema() const = 0;

  /// Find the splits there are now, in a stable order, and check each against `saved` progress.
  ///
  /// Shape:    saved splits have their saved progress, new ones none and is_new; in order of event
  ///           time.
  /// Errors:   kNotFound (no such file) · kInvalidArgument (a file shrank or changed since it was
  ///           read: names it).
  virtual Result<std::vector<SplitProgress>> Discover(const std::vector<SplitProgress>& saved) = 0;

  /// Make the reader of one subtask over the splits given to it.
  virtual Result<std::unique_ptr<SourceReader>> CreateReader(std::vector<SplitProgress> splits) = 0;

  /// What of this source belongs to the pipeline's identity: JSON text without credentials.
  virtual std::string Identity() const = 0;
};

}  // namespace cairn::stream
