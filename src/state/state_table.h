// SPDX-License-Identifier: Apache-2.0
//
// The erased table of include/cairn/state_table.h under the names of this module.
#pragma once

#include "base/column_spec.h"
#include "base/ids.h"
#include "cairn/state_table.h"
#include "state/saved_rows.h"

namespace cairn::state {

using cairn::ColumnSpec;
using cairn::LoadCounts;
using cairn::SlotDescriptor;
using cairn::SlotKind;
using cairn::StateTable;

}  // namespace cairn::state
