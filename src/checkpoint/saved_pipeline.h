// SPDX-License-Identifier: Apache-2.0
//
// The pipeline that a cut was saved for, read back from the place.
#pragma once

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/inspect.h"
#include "env/file_system.h"

namespace cairn::checkpoint {

/// The pipeline in the place's own words, proven by the identity in the manifest.
///
/// Errors:   kCorruption when the words do not fit the identity · kUnavailable.
Result<Pipeline> PipelineOfCut(env::FileSystem* files, const CutReader& cut);

}  // namespace cairn::checkpoint
