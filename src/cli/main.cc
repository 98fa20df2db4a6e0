// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"
#include "env/file_system.h"

int main(int argc, char** argv) {
  return cairn::cli::Main(cairn::env::PosixFileSystem(), argc, argv);
}
