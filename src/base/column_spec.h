// SPDX-License-Identifier: Apache-2.0
//
// ColumnSpec of include/cairn/column_spec.h under the name of this module.
#pragma once

#include "cairn/column_spec.h"

namespace cairn::base {

using cairn::ColumnSpec;

}  // namespace cairn::base
