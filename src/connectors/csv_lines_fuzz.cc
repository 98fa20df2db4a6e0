// SPDX-License-Identifier: Apache-2.0
#include "connectors/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::connectors::FuzzLines({reinterpret_cast<const char*>(data), size}, "csv");
  return 0;
}
