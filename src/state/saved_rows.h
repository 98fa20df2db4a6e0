// SPDX-License-Identifier: Apache-2.0
//
// The saved-row columns under the names of this module. They are defined in base, because
// src/format wraps them into Arrow arrays and neither module includes the other.
#pragma once

#include "base/saved_rows.h"

namespace cairn::state {

using base::ColumnBuffer;
using base::kSavedRowsFlushBytes;
using base::SavedRowKind;
using base::SavedRows;
using base::SavedRowSink;
using base::SavedRowSpan;

}  // namespace cairn::state
