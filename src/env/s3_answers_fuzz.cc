// SPDX-License-Identifier: Apache-2.0
#include "env/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::env::FuzzS3Answers({reinterpret_cast<const char*>(data), size});
  return 0;
}
