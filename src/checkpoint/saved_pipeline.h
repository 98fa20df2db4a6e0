// SPDX-License-Identifier: Apache-2.0
//
// The pipeline that a cut was saved for, read back from the place.
#pragma once

#include <string>

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/inspect.h"
#include "checkpoint/place.h"
#include "env/file_system.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

/// The pipeline in the place's own words, proven by the identity in the manifest. `directory` is
/// for messages.
///
/// Errors:   kCorruption when the words do not fit the identity · kUnavailable.
Result<Pipeline> PipelineOfManifest(env::ObjectStore* objects, const Place& place,
                                    const format::CheckpointManifest& manifest,
                                    const std::string& directory);
Result<Pipeline> PipelineOfCut(env::FileSystem* files, const CutReader& cut);

}  // namespace cairn::checkpoint
