// SPDX-License-Identifier: Apache-2.0
//
// The command line: verbs, their options and help, and the way from a failure to an exit code.
//
// Threads: the main thread, once.
#pragma once

#include "env/file_system.h"

namespace cairn::cli {

/// Parse, run and report. Results go to standard output; every message to standard error.
int Main(env::FileSystem* files, int argc, const char* const* argv);

}  // namespace cairn::cli
