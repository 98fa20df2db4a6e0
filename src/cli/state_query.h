// SPDX-License-Identifier: Apache-2.0
//
// cairn state query: SQL over saved state, run as a bounded job over typed exports of its slots.
//
//   <slot>   the slot's typed table (cli/typed_slot.h), by the name that SlotTableNames gives
//   state    event_time TIMESTAMP (null), op_id, key_group BIGINT, slot, user_key TEXT,
//            key_int BIGINT, value TEXT, value_int BIGINT: all rows of all slots, undecoded
//
// Threads: one, beside those of the job.
#pragma once

#include <string>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "env/file_system.h"

namespace cairn::cli {

struct QueryOptions {
  std::string source;
  std::string materialisation_store;  ///< as OpenStateSource
  std::string sql;
};

/// Shape:    NDJSON on `out`. A query that updates (GROUP BY, Top-N) is netted to its final rows,
///           sorted; the rows of others come in the order of the state.
/// Errors:   kInvalidArgument (not one SELECT, what SQL refuses, a table that is not there: lists
///           those that are) · as OpenStateSource and engine::RunJob.
Result<ExitCode> QueryState(env::FileSystem* files, const QueryOptions& options, Output* out);

}  // namespace cairn::cli
