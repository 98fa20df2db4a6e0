// SPDX-License-Identifier: Apache-2.0
//
// The saved-row columns of include/cairn/saved_rows.h under the names of this module, which
// src/format and src/state share.
#pragma once

#include "cairn/saved_rows.h"

namespace cairn::base {

using cairn::ColumnBuffer;
using cairn::kSavedRowsFlushBytes;
using cairn::SavedRowKind;
using cairn::SavedRows;
using cairn::SavedRowSink;
using cairn::SavedRowSpan;

}  // namespace cairn::base
