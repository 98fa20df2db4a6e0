// SPDX-License-Identifier: Apache-2.0
//
// cairn state export: saved state as files that others open.
//
//   arrow-stream   the interchange snapshot: op_id, key_bytes, value_bytes as an Arrow IPC stream
//   arrow, parquet op_id, key_group, slot, user_key, value_bytes
//   … --typed      one file a slot: named, decoded columns (cli/typed_slot.h)
//
// Invariants
//  1. Nothing appears under its name before all input was read, checked and written.
//  2. Rows ascend by stored key within an operator, so equal states export equal bytes.
//
// Threads: one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/state_source.h"
#include "cli/table_file.h"
#include "env/file_system.h"
#include "format/canonical_stream.h"
#include "format/object.h"

namespace cairn::cli {

/// Metadata key of exported tables: the job's number of key groups.
inline constexpr std::string_view kKeyGroupsMetadataKey = "cairn.key_groups";

struct ExportOptions {
  std::string source;
  std::string materialisation_store;  ///< as OpenStateSource
  std::string op;
  std::string slot;
  std::string format = "parquet";  ///< arrow | parquet | arrow-stream
  bool typed = false;
  uint32_t split = 0;  ///< of arrow-stream: a snapshot for each of so many subtasks; 0 = one
  std::string output;  ///< file, or directory for several typed slots; empty = standard output
};

struct ExportTotals {
  uint64_t rows = 0;   ///< saved rows
  uint64_t bytes = 0;  ///< written
};

Result<ExitCode> ExportState(env::FileSystem* files, const ExportOptions& options);

/// Write slot `slot` of `source` as one typed table.
Result<ExportTotals> WriteTypedSlot(const StateSource& source, size_t slot, TableFormat format,
                                    format::ByteSink* sink);

/// Write the chosen slots as one canonical stream: all of them, or the keyed rows of `groups` and
/// all operator state, which goes to every subtask.
///
/// Errors:   kInvalidArgument for a job of more than 128 key groups, whose keys the format cannot
///           hold.
Result<ExportTotals> WriteCanonicalStream(const StateSource& source,
                                          const std::vector<size_t>& slots, format::ByteSink* sink,
                                          std::optional<KeyGroupRange> groups = std::nullopt,
                                          std::optional<format::SnapshotPart> part = std::nullopt);

/// Write the chosen slots as one table of opaque rows.
Result<ExportTotals> WriteOpaqueTable(const StateSource& source, const std::vector<size_t>& slots,
                                      TableFormat format, format::ByteSink* sink);

/// A name for each slot that is unique and fit for a file or an SQL table: the slot's own, or
/// "<uid>_<slot>" where several operators have a slot of that name.
std::vector<std::string> SlotTableNames(const std::vector<SlotDescriptor>& slots);

}  // namespace cairn::cli
