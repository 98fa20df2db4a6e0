// SPDX-License-Identifier: Apache-2.0
//
// Refuse a job whose places overlap: it would read its own output, or write among its checkpoints.
#pragma once

#include <string>

#include "cairn/status.h"
#include "env/file_system.h"
#include "stream/plan.h"

namespace cairn::engine {

/// Check the directories of the plan's filesystem tables against each other and against the
/// checkpoint place `place` (empty = none) and those that are there.
///
/// Errors:   kInvalidArgument: a directory is read and written, or one lies within the other; a
///           table's path is a checkpoint place or lies within one; as RefuseNestedPlace. Names
///           tables and paths.
Status CheckPlaces(const stream::LogicalPlan& plan, const std::string& place,
                   env::FileSystem* files);

}  // namespace cairn::engine
