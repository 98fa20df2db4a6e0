// SPDX-License-Identifier: Apache-2.0
#include "connectors/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::connectors::FuzzSplitPosition({reinterpret_cast<const char*>(data), size});
  return 0;
}
