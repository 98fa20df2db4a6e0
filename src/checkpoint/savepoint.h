// SPDX-License-Identifier: Apache-2.0
//
// cairn/savepoint.h over any file system.
#pragma once

#include <memory>
#include <string>

#include "cairn/savepoint.h"
#include "checkpoint/cut_builder.h"
#include "env/file_system.h"

namespace cairn::checkpoint {

/// As SavepointReader::Open.
Result<std::unique_ptr<SavepointReader>> OpenSavepoint(env::FileSystem* files,
                                                       const std::string& place,
                                                       uint64_t checkpoint_id);

/// As SavepointWriter::Create.
Result<std::unique_ptr<SavepointWriter>> CreateSavepoint(env::FileSystem* files,
                                                         const std::string& place,
                                                         SavepointWriterOptions options);

/// The same for a job of the caller's: `options` say which, and where it goes on.
Result<std::unique_ptr<SavepointWriter>> CreateSavepointFor(CutBuilderOptions options);

}  // namespace cairn::checkpoint
