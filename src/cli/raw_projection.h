// SPDX-License-Identifier: Apache-2.0
//
// The raw projection: all rows of all slots in one table of plain columns, for queries over state
// whose slots say nothing of their types.
//
//   event_time timestamp? (always null)  op_id int64  key_group int64  slot utf8  user_key utf8
//   key_int int64?  value utf8  value_int int64?
//
// Opaque bytes are text where printable, else 0x and hex; the …_int columns hold those of exactly 8
// bytes as a little-endian number. op_id is the id's bits as a signed number.
//
// Threads: one.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

#include "cairn/status.h"
#include "cli/state_source.h"
#include "format/object.h"

namespace cairn::cli {

std::shared_ptr<arrow::Schema> RawProjectionSchema();

/// Write the projection as Parquet.
Status WriteRawProjection(const StateSource& source, format::ByteSink* sink);

}  // namespace cairn::cli
