// SPDX-License-Identifier: Apache-2.0
//
// cairn/savepoint.h over any file system.
#pragma once

#include <memory>
#include <string>

#include "cairn/savepoint.h"
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

}  // namespace cairn::checkpoint
