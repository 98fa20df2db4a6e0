// SPDX-License-Identifier: Apache-2.0
//
// The command line for programs that bring their own operators.
#include "cairn/operator.h"
#include "cli/command_line.h"

namespace cairn {
inline namespace v0 {

int RunCommand(int argc, char** argv) { return cli::Main(env::PosixFileSystem(), argc, argv); }

}  // namespace v0
}  // namespace cairn
