// SPDX-License-Identifier: Apache-2.0
//
// What goes into a cut and what comes out of one: plain values, with no file and no format in them.
//
// A cut is the state of all subtasks, the progress of all sources and the prepared rows of all
// sinks at one barrier.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cairn/hash.h"
#include "cairn/view.h"
#include "state/state_table.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace cairn::checkpoint {

/// One named part of a job whose change makes saved state unusable.
struct PipelineComponent {
  std::string kind;           ///< "source" | "operator" | "sink"
  std::string name;           ///< source or sink name, operator uid
  std::string definition;     ///< JSON text without credentials
  bool exactly_once = false;  ///< of a sink: rows of an undecided checkpoint are never seen
  friend bool operator==(const PipelineComponent&, const PipelineComponent&) = default;
};

/// The job a store belongs to. Parallelism is no part of it.
struct Pipeline {
  std::string job;
  std::vector<PipelineComponent> components;
};

/// How far one split of a source has been read.
struct SplitOffset {
  std::string split;
  std::string position;  ///< the connector's text; empty = not begun
  bool ended = false;
  friend bool operator==(const SplitOffset&, const SplitOffset&) = default;
};

/// Progress of one source, captured before the barrier left it.
struct SourceOffsets {
  std::string source;
  std::vector<SplitOffset> splits;  ///< any order, names unique
  bool ended = false;               ///< at the end of its input: past every later barrier
  /// Of a source with event time: its watermark (nothing = none yet) and whether it is idle.
  bool event_time = false;
  std::optional<int64_t> watermark_ms;
  bool idle = false;
  friend bool operator==(const SourceOffsets&, const SourceOffsets&) = default;
};

/// What one sink subtask prepared at one barrier.
struct PreparedPiece {
  base::CheckpointId checkpoint;  ///< of the barrier: this checkpoint's, or an earlier failed one's
  uint32_t subtask = 0;
  std::string descriptor;  ///< the sink's text or bytes
  friend bool operator==(const PreparedPiece&, const PreparedPiece&) = default;
};

/// Everything of one sink that is prepared and not yet committed.
struct PreparedSink {
  std::string sink;
  std::vector<PreparedPiece> pieces;  ///< (checkpoint, subtask) unique; saved in that order
  friend bool operator==(const PreparedSink&, const PreparedSink&) = default;
};

/// The tables of one subtask as one view sees them.
struct CapturedSubtask {
  uint32_t subtask = 0;
  /// Every table of the subtask, changed or not, in any order.
  std::vector<const state::StateTable*> tables;
  /// Open until the checkpoint is committed or given up. Empty when there is no table.
  View view;
  /// Epoch of the view of the last *committed* cut; after a restore, of a view captured right after
  /// it. Nothing = no committed cut holds this subtask's rows: write them whole.
  std::optional<uint64_t> committed_epoch;
};

/// How much of a view log is kept. Of each partition the oldest segments go, whole ones, once what
/// is left still holds what is asked for; the newest one always stays. Nothing = no bound.
struct ViewLogRetention {
  /// Rows at most so much older than the newest event time of the log stay.
  std::optional<int64_t> event_time_ms;
  std::optional<uint64_t> rows;   ///< of each partition
  std::optional<uint64_t> bytes;  ///< of each partition's objects
  friend bool operator==(const ViewLogRetention&, const ViewLogRetention&) = default;
};

/// What an append-only view is, and the rows that one subtask appended to it since the last
/// committed cut. Subtasks append to partitions of their own.
struct CapturedViewLog {
  std::string view;
  std::string generation;  ///< UUID: drawn when the view is made
  std::shared_ptr<arrow::Schema> schema;
  std::optional<std::string> event_time;  ///< name of a timestamp column, or a bigint one of ms
  uint32_t partitions = 1;
  ViewLogRetention retention;
  std::map<uint32_t, std::vector<std::shared_ptr<arrow::RecordBatch>>> appended;  ///< by partition
};

/// Everything one checkpoint saves.
struct CapturedCut {
  uint32_t parallelism = 1;
  std::vector<CapturedSubtask> subtasks;
  std::vector<SourceOffsets> sources;  ///< all of the pipeline's
  std::vector<PreparedSink> sinks;     ///< those with pieces
  /// Every view that keeps a log, with rows or without. A log that is not here ends with this cut.
  std::vector<CapturedViewLog> view_logs;
};

/// Rows of one frame or operator: what a restore must account for.
struct FrameReceipt {
  base::OperatorId operator_id;
  std::string frame;      ///< "<object>@<offset>", unique in the cut
  uint64_t expected = 0;  ///< rows the manifest promises
  uint64_t loaded = 0;    ///< rows applied to a table
  uint64_t skipped = 0;   ///< rows that another subtask owns
  uint64_t left_out = 0;  ///< rows of slots that are given up
  uint64_t bytes = 0;     ///< of the frame
};

/// Prove what one subtask loaded. Those of all subtasks go to CheckReceipts.
struct LoadReceipt {
  std::vector<FrameReceipt> frames;
  uint64_t rows = 0;   ///< sum of loaded
  uint64_t bytes = 0;  ///< read from the store
};

}  // namespace cairn::checkpoint
